//! The prompts for an assessor and the checks of its answers: transcript, prompts, answers, settings.
//!
//! Nothing here contacts an assessor; the daemon does. Printed text goes into a prompt as bounded, quoted data, and
//! an answer is checked before it has a type: a [`Decision`] that exists may be acted on.

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
