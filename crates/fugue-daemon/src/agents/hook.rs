//! Hook payloads of agents, translated into [`HookEvent`]s. A payload that is not recognised becomes [`HookEvent::Nothing`],
//! never an error, because a failing hook would show in the agent.
//!
//! No agent runs a hook when a person refuses a permission or interrupts a turn, and Codex runs none when a model request
//! fails. The screen shows these cases: an input box and no work.

use fugue_api::pane_state::AttentionKind;
use serde_json::Value;

use super::{AgentDriver, screen::resume_time};

/// The meaning of a hook payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A turn began with a prompt.
    PromptGiven,
    /// A turn ended, with the agent's last message.
    TurnEnded {
        message: String,
    },
    /// A turn ended because a request to the model failed. The message is empty if the payload does not have the error.
    TurnFailed {
        message: String,
    },
    /// A turn ended at a usage limit.
    TurnPaused {
        message: String,
        /// When the limit ends, in the agent's words.
        resume_at: Option<String>,
    },
    /// The agent has stopped, and work in the background starts it again.
    BackgroundWork,
    /// The agent shows a question and waits for a person.
    NeedsInput {
        prompt: String,
        kind: AttentionKind,
    },
    /// The agent still waits for a person. The text has less detail than that of `NeedsInput`, if that was reported.
    StillNeedsInput {
        prompt: String,
        kind: AttentionKind,
    },
    /// A tool ran: the question before the tool call was answered.
    InputNoLongerNeeded,
    /// The agent is about to exit.
    SessionEnded,
    Nothing,
}

/// Translates an agent's payload. `event` is the field `hook_event_name`, empty if the field is missing.
pub type HookReader = fn(event: &str, payload: &Value) -> HookEvent;

/// Translates the bytes of a payload.
pub fn read_bytes(agent: &dyn AgentDriver, payload: &[u8]) -> HookEvent {
    let text = String::from_utf8_lossy(payload);
    let payload = serde_json::from_str(&text)
        .or_else(|_| serde_json::from_str(&replace_lone_surrogates(&text)));
    match payload {
        Ok(payload) => read(agent, &payload),
        Err(_) => HookEvent::Nothing,
    }
}

/// Replaces escapes of half a surrogate pair by the replacement character. JavaScript writes such escapes for text that was
/// cut in the middle of a character, and `serde_json` rejects the whole payload then.
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

/// Translates a payload.
pub fn read(agent: &dyn AgentDriver, payload: &Value) -> HookEvent {
    let read = agent.hook_reader();
    read.map_or(HookEvent::Nothing, |read| {
        read(text(payload, "hook_event_name"), payload)
    })
}

/// The event of a `SessionEnd` hook. A cleared or resumed conversation ends a session too, but the agent does not exit.
pub(super) fn session_end(payload: &Value) -> HookEvent {
    match text(payload, "reason") {
        "clear" | "resume" => HookEvent::Nothing,
        _ => HookEvent::SessionEnded,
    }
}

/// A permission request: its tool and the main argument, as in `Bash: rm -rf x`, or the question that a tool asks.
pub(super) fn tool_request(payload: &Value) -> HookEvent {
    let kind = match text(payload, "tool_name") {
        "AskUserQuestion" | "ask_user_question" => AttentionKind::Question,
        "ExitPlanMode" | "exit_plan_mode" => AttentionKind::Plan,
        _ => AttentionKind::Permission,
    };
    let prompt = tool_question(payload);
    HookEvent::NeedsInput { prompt, kind }
}

fn tool_question(payload: &Value) -> String {
    let input = &payload["tool_input"];
    if let Some(asked) = input["questions"][0]["question"].as_str() {
        return short(asked);
    }
    let tool = payload["tool_name"].as_str().unwrap_or("a tool");
    match first_text(
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
        Some(argument) => short(&format!("{tool}: {argument}")),
        None if input.as_object().is_none_or(serde_json::Map::is_empty) => tool.to_owned(),
        None => short(&format!("{tool}: {input}")),
    }
}

/// The event of a `Stop` hook. While background work runs, the agent only pauses.
pub(super) fn turn_end(payload: &Value) -> HookEvent {
    let tasks = payload["background_tasks"].as_array();
    match tasks.is_some_and(|tasks| !tasks.is_empty()) {
        true => HookEvent::BackgroundWork,
        false => HookEvent::TurnEnded {
            message: text(payload, "last_assistant_message").to_owned(),
        },
    }
}

/// The event of a `StopFailure` hook, with the most detailed of its texts. A usage limit is no failure.
pub(super) fn turn_failure(payload: &Value, details: &[&str]) -> HookEvent {
    let texts = details.iter().map(|field| text(payload, field));
    let message = texts
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default()
        .to_owned();
    match text(payload, "error") {
        "rate_limit" => HookEvent::TurnPaused {
            resume_at: resume_time(&message),
            message,
        },
        _ => HookEvent::TurnFailed { message },
    }
}

/// The first of these fields that holds a text.
pub(super) fn first_text<'a>(fields: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| fields[*name].as_str())
}

/// The text of a field; empty where the payload has none.
pub(super) fn text<'a>(payload: &'a Value, field: &str) -> &'a str {
    payload[field].as_str().unwrap_or_default()
}

/// The limit of a question's text; the pane shows the whole. A question that is cut has one more character, `…`.
pub const MAX_QUESTION_CHARS: usize = 400;

/// Cuts a question after [`MAX_QUESTION_CHARS`].
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_QUESTION_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agents::{AGENTS, built_in};

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
        let claude = built_in("claude").unwrap();
        let stop = br#"{"hook_event_name": "Stop", "last_assistant_message": "done \ud83d"}"#;
        assert_ne!(read_bytes(claude, stop), HookEvent::Nothing);
    }

    #[test]
    fn an_unknown_payload_is_nothing() {
        for agent in AGENTS {
            for payload in [
                json!(null),
                json!([]),
                json!({}),
                json!({"hook_event_name": 3}),
                json!({"hook_event_name": "SessionStart"}),
            ] {
                assert_eq!(
                    read(*agent, &payload),
                    HookEvent::Nothing,
                    "{agent:?} {payload}"
                );
            }
        }
    }
}

/// Helpers of the agents' own tests.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    pub(crate) fn check(agent: &dyn AgentDriver, payload: &Value, expected: &HookEvent) {
        assert_eq!(read(agent, payload), *expected, "{payload}");
    }

    pub(crate) fn needs(prompt: &str) -> HookEvent {
        asks(prompt, AttentionKind::Permission)
    }

    pub(crate) fn asks(prompt: &str, kind: AttentionKind) -> HookEvent {
        let prompt = prompt.to_owned();
        HookEvent::NeedsInput { prompt, kind }
    }

    pub(crate) fn ended(message: &str) -> HookEvent {
        HookEvent::TurnEnded {
            message: message.to_owned(),
        }
    }
}
