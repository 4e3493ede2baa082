use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{SendInput, SubmitResult},
};

use crate::{cli::CliContext, verbs};

/// Type into a pane.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  fugue send sh 'ls | wc -l' --enter\n  fugue send editor ':wq' -k Enter"
)]
pub struct SendArgs {
    #[command(flatten)]
    input: SendInput,
}

impl SendArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let submit = self.input.submit;
        let sent = verbs::call(cx, self.input).await?;
        if cx.out.is_json() {
            cx.out.document(&sent)?;
            return Ok(ExitCode::SUCCESS);
        }
        if sent.pending_bytes > 0 {
            cx.out.note(&format!(
                "{} bytes are queued: the program does not read",
                sent.pending_bytes
            ));
        }
        match sent.submitted {
            SubmitResult::No if submit => cx
                .out
                .note("Enter was pressed, but the text is still in the input line"),
            SubmitResult::Unknown if submit => cx
                .out
                .note("Enter was pressed; whether the program accepted it is unknown"),
            SubmitResult::Yes | SubmitResult::No | SubmitResult::Unknown => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}
