//! What an agent's hook tells, in our words. A payload that means nothing to us is [`News::Nothing`], never an error:
//! the agent must not notice.

use serde_json::Value;

use super::Vendor;

/// What a hook of an agent's told us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A turn began: somebody gave it a prompt.
    PromptGiven,
    /// A turn ended, with the agent's last words.
    TurnEnded {
        message: String,
    },
    /// It shows a question and waits for a person.
    NeedsInput {
        prompt: String,
    },
    /// It works again: a tool ran, so that the question before it was answered.
    InputNoLongerNeeded,
    /// The agent is about to leave.
    SessionEnded,
    Nothing,
}

/// Reads one payload.
pub fn read(vendor: Vendor, payload: &Value) -> News {
    let event = payload["hook_event_name"].as_str().unwrap_or_default();
    let text = |field: &str| payload[field].as_str().unwrap_or_default().to_owned();
    match (vendor, event) {
        (Vendor::Claude | Vendor::Codex, "UserPromptSubmit") | (Vendor::Gemini, "BeforeAgent") => {
            News::PromptGiven
        }
        (Vendor::Claude | Vendor::Codex, "Stop") => News::TurnEnded {
            message: text("last_assistant_message"),
        },
        (Vendor::Gemini, "AfterAgent") => News::TurnEnded {
            message: text("prompt_response"),
        },
        (Vendor::Claude | Vendor::Codex, "PermissionRequest") => News::NeedsInput {
            prompt: question(&payload["tool_name"], &payload["tool_input"]),
        },
        (_, "Notification") => News::NeedsInput {
            prompt: text("message"),
        },
        (_, "PostToolUse" | "AfterTool") => News::InputNoLongerNeeded,
        (_, "SessionEnd") => News::SessionEnded,
        _ => News::Nothing,
    }
}

/// `Bash: rm -rf x`.
fn question(tool: &Value, input: &Value) -> String {
    let tool = tool.as_str().unwrap_or("a tool");
    let said = ["command", "file_path", "url", "path", "query"]
        .into_iter()
        .find_map(|field| input[field].as_str());
    match said {
        Some(said) => format!("{tool}: {said}"),
        None if input.as_object().is_none_or(serde_json::Map::is_empty) => tool.to_owned(),
        None => format!("{tool}: {input}"),
    }
}
