use fugue_client::spool::SpooledReport;

use crate::agents::{
    Vendor,
    hook::{self, HookEvent, MAX_QUESTION_CHARS},
};

/// Any bytes as a hook's payload, or as news that were kept in a file. A payload is understood or means nothing; questions
/// are short; an agent's words are a part of what it said; news survive their file.
///
/// The first byte says whose hook it is, or that the rest is such a file.
pub fn hooks(bytes: &[u8]) {
    let [whose, payload @ ..] = bytes else { return };
    let Some(vendor) = Vendor::ALL.get(usize::from(*whose % 4)) else {
        return kept(payload);
    };
    match hook::read_bytes(*vendor, payload) {
        HookEvent::NeedsInput { prompt } | HookEvent::StillNeedsInput { prompt } => {
            assert!(prompt.chars().count() <= MAX_QUESTION_CHARS + 1);
        }
        // A byte that is no text becomes a character of three bytes.
        HookEvent::TurnEnded { message } | HookEvent::TurnFailed { message } => {
            assert!(message.len() <= 3 * payload.len());
        }
        HookEvent::PromptGiven
        | HookEvent::InputNoLongerNeeded
        | HookEvent::SessionEnded
        | HookEvent::Nothing => {}
    }
}

fn kept(file: &[u8]) {
    let Ok(news) = SpooledReport::parse(file) else {
        return;
    };
    let written = serde_json::to_vec(&news).expect("news are JSON");
    let again = SpooledReport::parse(&written).expect("what was written can be read");
    assert_eq!(again, news);
}
