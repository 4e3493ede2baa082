//! What an agent's hook tells, in our words. A payload that means nothing to us is [`HookEvent::Nothing`], never an error:
//! the agent must not notice.
//!
//! None of the agents tells that a person refused a permission or interrupted a turn, and Codex does not tell that a
//! request to its model failed. Those are seen on the screen: a box, and no work.

use serde_json::Value;

use super::Vendor;

/// What a hook of an agent's told us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A turn began: somebody gave it a prompt.
    PromptGiven,
    /// A turn ended, with the agent's last words.
    TurnEnded {
        message: String,
    },
    /// A turn ended because the model could not be asked.
    TurnFailed {
        message: String,
    },
    /// It shows a question and waits for a person.
    NeedsInput {
        prompt: String,
    },
    /// It has waited for a person for a while. Says less than the question did, if that was told.
    StillNeedsInput {
        prompt: String,
    },
    /// A tool ran, so that the question before it was answered.
    InputNoLongerNeeded,
    /// The agent is about to leave.
    SessionEnded,
    Nothing,
}

/// Reads one payload as it came.
pub fn read_bytes(vendor: Vendor, payload: &[u8]) -> HookEvent {
    let text = String::from_utf8_lossy(payload);
    let payload = serde_json::from_str(&text)
        .or_else(|_| serde_json::from_str(&replace_lone_surrogates(&text)));
    match payload {
        Ok(payload) => read(vendor, &payload),
        Err(_) => HookEvent::Nothing,
    }
}

/// Replaces escapes of half a surrogate pair by the replacement character. JavaScript writes them for text that was cut in
/// the middle of a character, and `serde_json` refuses the whole payload for them.
fn replace_lone_surrogates(json: &str) -> String {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(escape) = json[at..].find('\\').map(|found| at + found) {
        out.push_str(&json[at..escape]);
        at = match (unit(escape), unit(escape + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => escape + 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push('\u{fffd}');
                at = escape + 6;
                continue;
            }
            (Some(_), _) => escape + 6,
            (None, _) => {
                let escaped = json[escape + 1..].chars().next();
                escape + 1 + escaped.map_or(0, char::len_utf8)
            }
        };
        out.push_str(&json[escape..at]);
    }
    out + &json[at..]
}

/// Reads one payload.
pub fn read(vendor: Vendor, payload: &Value) -> HookEvent {
    let event = text(payload, "hook_event_name");
    match vendor {
        Vendor::Claude => claude(event, payload),
        Vendor::Codex => codex(event, payload),
        Vendor::Gemini => gemini(event, payload),
    }
}

fn claude(event: &str, payload: &Value) -> HookEvent {
    match event {
        "UserPromptSubmit" => HookEvent::PromptGiven,
        "Stop" => HookEvent::TurnEnded {
            message: text(payload, "last_assistant_message").to_owned(),
        },
        "StopFailure" => HookEvent::TurnFailed {
            message: text(payload, "last_assistant_message").to_owned(),
        },
        "PermissionRequest" => HookEvent::NeedsInput {
            prompt: tool_question(payload),
        },
        // Of the others, one comes after a minute at an empty box.
        "Notification" => match text(payload, "notification_type") {
            "permission_prompt" | "elicitation_dialog" => HookEvent::StillNeedsInput {
                prompt: text(payload, "message").to_owned(),
            },
            _ => HookEvent::Nothing,
        },
        "PostToolUse" | "PostToolUseFailure" => HookEvent::InputNoLongerNeeded,
        "SessionEnd" => session_end(payload),
        _ => HookEvent::Nothing,
    }
}

fn codex(event: &str, payload: &Value) -> HookEvent {
    match event {
        "UserPromptSubmit" => HookEvent::PromptGiven,
        "Stop" => HookEvent::TurnEnded {
            message: text(payload, "last_assistant_message").to_owned(),
        },
        "PermissionRequest" => HookEvent::NeedsInput {
            prompt: tool_question(payload),
        },
        "PostToolUse" => HookEvent::InputNoLongerNeeded,
        "SessionEnd" => session_end(payload),
        // What `notify` gives, for a user who has set it to call us.
        "" if text(payload, "type") == "agent-turn-complete" => HookEvent::TurnEnded {
            message: text(payload, "last-assistant-message").to_owned(),
        },
        _ => HookEvent::Nothing,
    }
}

fn gemini(event: &str, payload: &Value) -> HookEvent {
    match event {
        "BeforeAgent" => HookEvent::PromptGiven,
        "AfterAgent" => match text(payload, "prompt_response") {
            // Its words for a request that failed.
            message @ "[no response text]" => HookEvent::TurnFailed {
                message: message.to_owned(),
            },
            message => HookEvent::TurnEnded {
                message: message.to_owned(),
            },
        },
        "Notification" if text(payload, "notification_type") == "ToolPermission" => {
            HookEvent::NeedsInput {
                prompt: gemini_question(payload),
            }
        }
        "AfterTool" => HookEvent::InputNoLongerNeeded,
        "SessionEnd" => session_end(payload),
        _ => HookEvent::Nothing,
    }
}

/// A cleared conversation is a session's end too, and the agent stays.
fn session_end(payload: &Value) -> HookEvent {
    match text(payload, "reason") {
        "clear" | "resume" => HookEvent::Nothing,
        _ => HookEvent::SessionEnded,
    }
}

/// `Bash: rm -rf x`.
fn tool_question(payload: &Value) -> String {
    let input = &payload["tool_input"];
    if let Some(asked) = input["questions"][0]["question"].as_str() {
        return short(asked);
    }
    let tool = payload["tool_name"].as_str().unwrap_or("a tool");
    match said(
        input,
        &[
            "command",
            "file_path",
            "path",
            "url",
            "query",
            "description",
        ],
    ) {
        Some(said) => short(&format!("{tool}: {said}")),
        None if input.as_object().is_none_or(serde_json::Map::is_empty) => tool.to_owned(),
        None => short(&format!("{tool}: {input}")),
    }
}

fn gemini_question(payload: &Value) -> String {
    let details = &payload["details"];
    let title = details["title"].as_str();
    let title = title.map(|title| title.trim_start_matches("Confirm "));
    match (
        title,
        said(
            details,
            &["command", "fileName", "filePath", "toolName", "prompt"],
        ),
    ) {
        (Some(title), Some(said)) => short(&format!("{title}: {said}")),
        (Some(title), None) => short(title),
        (None, _) => short(text(payload, "message")),
    }
}

fn said<'a>(fields: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| fields[*name].as_str())
}

fn text<'a>(payload: &'a Value, field: &str) -> &'a str {
    payload[field].as_str().unwrap_or_default()
}

/// As much as a person reads of a question; the whole is in the pane. A question that is cut ends with one character more.
pub const MAX_QUESTION_CHARS: usize = 400;

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_QUESTION_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(vendor: Vendor, payload: Value, expected: HookEvent) {
        assert_eq!(read(vendor, &payload), expected, "{payload}");
    }

    #[test]
    fn half_a_character_does_not_lose_a_payload() {
        for (written, wanted) in [
            (r"cut \ud83d", "cut \u{fffd}"),
            (r"\ude00 begins", "\u{fffd} begins"),
            (
                r"\ud83d\ude00 whole, \ud83d half",
                "\u{1f600} whole, \u{fffd} half",
            ),
            (r"\\ud83d is text, \ud83d", r"\ud83d is text, \u{fffd}"),
        ] {
            let wanted = wanted.replace("\\u{fffd}", "\u{fffd}");
            let json = format!("\"{written}\"");
            assert!(serde_json::from_str::<String>(&json).is_err(), "{json}");
            let read: String = serde_json::from_str(&replace_lone_surrogates(&json)).unwrap();
            assert_eq!(read, wanted);
        }
        let stop = br#"{"hook_event_name": "Stop", "last_assistant_message": "done \ud83d"}"#;
        assert_ne!(read_bytes(Vendor::Claude, stop), HookEvent::Nothing);
    }

    fn needs(prompt: &str) -> HookEvent {
        HookEvent::NeedsInput {
            prompt: prompt.to_owned(),
        }
    }

    fn ended(message: &str) -> HookEvent {
        HookEvent::TurnEnded {
            message: message.to_owned(),
        }
    }

    // Payloads as the agents gave them, without the ids.

    #[test]
    fn claude_code_is_understood() {
        let check = |payload, expected| check(Vendor::Claude, payload, expected);
        check(
            json!({"hook_event_name": "UserPromptSubmit", "prompt": "x"}),
            HookEvent::PromptGiven,
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "Bash",
                "tool_input": {"command": "touch made.txt", "description": "make a file"}, "permission_suggestions": []}),
            needs("Bash: touch made.txt"),
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "mcp__fugue__get_status", "tool_input": {}}),
            needs("mcp__fugue__get_status"),
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "AskUserQuestion",
                "tool_input": {"questions": [{"question": "Which colour?", "header": "Colour", "options": []}]}}),
            needs("Which colour?"),
        );
        check(
            json!({"hook_event_name": "Notification", "message": "Claude needs your permission",
                "notification_type": "permission_prompt"}),
            HookEvent::StillNeedsInput {
                prompt: "Claude needs your permission".to_owned(),
            },
        );
        check(
            json!({"hook_event_name": "Notification", "message": "Claude is waiting for your input",
                "notification_type": "idle_prompt"}),
            HookEvent::Nothing,
        );
        for event in ["PostToolUse", "PostToolUseFailure"] {
            check(
                json!({"hook_event_name": event, "tool_name": "Bash"}),
                HookEvent::InputNoLongerNeeded,
            );
        }
        check(
            json!({"hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "done",
                "background_tasks": []}),
            ended("done"),
        );
        check(
            json!({"hook_event_name": "StopFailure", "error": "unknown",
                "last_assistant_message": "API Error: 400 the model is unwell"}),
            HookEvent::TurnFailed {
                message: "API Error: 400 the model is unwell".to_owned(),
            },
        );
        check(
            json!({"hook_event_name": "SessionEnd", "reason": "clear"}),
            HookEvent::Nothing,
        );
        check(
            json!({"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"}),
            HookEvent::SessionEnded,
        );
    }

    #[test]
    fn codex_is_understood() {
        let check = |payload, expected| check(Vendor::Codex, payload, expected);
        check(
            json!({"hook_event_name": "UserPromptSubmit", "turn_id": "t", "prompt": "x"}),
            HookEvent::PromptGiven,
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "Bash",
                "tool_input": {"command": "touch made.txt", "description": "may I make a file?"}}),
            needs("Bash: touch made.txt"),
        );
        check(
            json!({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": ""}),
            HookEvent::InputNoLongerNeeded,
        );
        check(
            json!({"hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "done"}),
            ended("done"),
        );
        check(
            json!({"type": "agent-turn-complete", "last-assistant-message": "done"}),
            ended("done"),
        );
    }

    #[test]
    fn gemini_is_understood() {
        let check = |payload, expected| check(Vendor::Gemini, payload, expected);
        check(
            json!({"hook_event_name": "BeforeAgent", "prompt": "x"}),
            HookEvent::PromptGiven,
        );
        check(
            json!({"hook_event_name": "Notification", "notification_type": "ToolPermission",
                "message": "Tool Confirm Shell Command requires execution",
                "details": {"type": "exec", "title": "Confirm Shell Command", "command": "touch made.txt"}}),
            needs("Shell Command: touch made.txt"),
        );
        check(
            json!({"hook_event_name": "Notification", "notification_type": "ToolPermission",
                "message": "Tool requires confirmation", "details": {"type": "ask_user", "title": "Ask User"}}),
            needs("Ask User"),
        );
        check(
            json!({"hook_event_name": "AfterTool", "tool_name": "run_shell_command"}),
            HookEvent::InputNoLongerNeeded,
        );
        check(
            json!({"hook_event_name": "AfterAgent", "prompt": "x", "prompt_response": "done", "stop_hook_active": false}),
            ended("done"),
        );
        check(
            json!({"hook_event_name": "AfterAgent", "prompt": "x", "prompt_response": "[no response text]"}),
            HookEvent::TurnFailed {
                message: "[no response text]".to_owned(),
            },
        );
    }

    #[test]
    fn what_means_nothing_is_nothing() {
        for vendor in Vendor::ALL {
            for payload in [
                json!(null),
                json!([]),
                json!({}),
                json!({"hook_event_name": 3}),
            ] {
                check(vendor, payload, HookEvent::Nothing);
            }
            check(
                vendor,
                json!({"hook_event_name": "SessionStart"}),
                HookEvent::Nothing,
            );
        }
    }
}
