//! What an assessor is asked and what of its answer is believed: transcript, prompts, answers, settings.
//!
//! Nothing here asks anybody; the daemon does. What a program printed goes into a prompt as bounded, quoted data, and
//! what comes back is checked before it has a type: a [`Decision`] that exists may be acted on.

mod answer;
mod clean;
pub mod corpus;
mod prompt;
mod settings;
mod transcript;

pub use answer::{
    AnswerMisfit, Decision, Injection, MAX_ANSWER, MAX_INJECTION, ModelAnswer, NextStepAnswer,
};
pub use clean::{cleaned, one_line};
pub use prompt::{DoneCheck, Prompt, QuoteFence, Situation};
pub use settings::WatchSettings;
pub use transcript::{EntryRole, Transcript, TranscriptEntry};
