//! Requests to an assessor: a model behind one of four APIs, or a command.
//!
//! An assessment makes at most two requests: an answer that does not match the schema is sent back once with the error, and a
//! request that failed temporarily is repeated once. A dropped future leaves neither a connection nor a process. Keys,
//! directories and variables are the caller's, never the daemon's own.

mod choice;
mod command;
mod http;
mod provider;
mod proxy;

use std::{ffi::OsString, io, path::PathBuf, time::Duration};

use fugue_core::assess::{AnswerMisfit, ModelAnswer, Prompt};
use fugue_holder::spawn::ProcessExit;

pub use choice::Assessor;
use choice::AssessorKind;
pub(crate) use command::{CapturedProgram, ErrorOutput, MARK, describe_exit};

/// Returns the checked answer of an assessor. The time limit covers both requests.
pub async fn assess<A: ModelAnswer>(
    assessor: &Assessor,
    prompt: &Prompt<A>,
) -> Result<A, AssessError> {
    let limit = assessor.limit;
    let answer = tokio::time::timeout(limit, in_two_tries(assessor, prompt)).await;
    answer.unwrap_or(Err(AssessError::TimedOut { limit }))
}

/// Runs a watcher's command in a login shell and returns its exit code, a description of its end, and the end of its output.
/// A dropped future leaves no process.
pub async fn run(
    line: &str,
    cwd: PathBuf,
    env: Vec<(OsString, OsString)>,
) -> io::Result<(Option<i32>, String, String)> {
    let command = command::AssessorCommand {
        line: line.to_owned(),
        cwd,
        env,
    };
    let (ending, output) = command.run().await?;
    let code = match ending {
        ProcessExit::Code(code) => Some(code),
        ProcessExit::Signal { .. } | ProcessExit::Unknown => None,
    };
    Ok((code, describe_exit(ending), output))
}

/// Why an assessment failed. The text is shown to people and models, so it is short and holds no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssessError {
    #[error("the assessor gave no answer within {} s", .limit.as_secs_f64())]
    TimedOut { limit: Duration },
    #[error("the assessor cannot be reached: {0}")]
    Unreachable(String),
    #[error("the assessor answered {status}: {said}")]
    Refused { status: u16, said: String },
    #[error("the provider's response has not the format of its API: {0}")]
    Garbled(String),
    #[error("the assessor's command {ending}: {said}")]
    Failed { ending: String, said: String },
    #[error("the assessor answered twice what cannot be used: {0}")]
    Unfit(AnswerMisfit),
}

impl AssessError {
    /// Whether an immediate second request may succeed. A refusal because of the prompt would be repeated.
    fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Garbled(_) => true,
            Self::Refused { status, .. } => *status >= 500,
            Self::TimedOut { .. } | Self::Failed { .. } | Self::Unfit(_) => false,
        }
    }
}

async fn in_two_tries<A: ModelAnswer>(
    assessor: &Assessor,
    prompt: &Prompt<A>,
) -> Result<A, AssessError> {
    let second = match ask(assessor, prompt).await {
        Ok(text) => match A::parse(&text) {
            Ok(answer) => return Ok(answer),
            Err(misfit) => ask(assessor, &prompt.corrected(&text, &misfit)).await,
        },
        Err(error) if error.may_pass() => ask(assessor, prompt).await,
        Err(error) => return Err(error),
    };
    A::parse(&second?).map_err(AssessError::Unfit)
}

async fn ask<A: ModelAnswer>(
    assessor: &Assessor,
    prompt: &Prompt<A>,
) -> Result<String, AssessError> {
    match &assessor.who {
        AssessorKind::Provider(provider) => provider.ask(prompt).await,
        AssessorKind::Command(command) => command.ask(prompt.text()).await,
    }
}
