use fugue_client::spool::SpooledReport;

use crate::agents::{
    AGENTS,
    hook::{self, HookEvent, MAX_QUESTION_CHARS},
};

/// Any bytes as a hook's payload, or as a spooled report. A payload is recognised or is `Nothing`; questions are short; a
/// message is no longer than its payload; a spooled report is equal after it was written and parsed again.
///
/// The first byte chooses the agent, or a spooled report.
pub fn hooks(bytes: &[u8]) {
    let [first, payload @ ..] = bytes else { return };
    let Some(agent) = AGENTS.get(usize::from(*first) % (AGENTS.len() + 1)) else {
        return check_spooled(payload);
    };
    match hook::read_bytes(*agent, payload) {
        HookEvent::NeedsInput { prompt, .. } | HookEvent::StillNeedsInput { prompt, .. } => {
            assert!(prompt.chars().count() <= MAX_QUESTION_CHARS + 1);
        }
        // A byte that is no UTF-8 becomes a character of three bytes.
        HookEvent::TurnEnded { message }
        | HookEvent::TurnFailed { message }
        | HookEvent::TurnPaused { message, .. } => {
            assert!(message.len() <= 3 * payload.len());
        }
        HookEvent::PromptGiven
        | HookEvent::BackgroundWork
        | HookEvent::InputNoLongerNeeded
        | HookEvent::SessionEnded
        | HookEvent::Nothing => {}
    }
}

fn check_spooled(file: &[u8]) {
    let Ok(report) = SpooledReport::parse(file) else {
        return;
    };
    let written = serde_json::to_vec(&report).expect("a report is JSON");
    let again = SpooledReport::parse(&written).expect("a written report can be parsed");
    assert_eq!(again, report);
}
