use std::process::ExitCode;

use fugue_api::{
    Error,
    panes::{SendInput, SubmitResult},
};

use crate::{cli::Desk, verbs};

/// Type into a pane.
#[derive(clap::Args)]
pub struct Send {
    #[command(flatten)]
    input: SendInput,
}

impl Send {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let wanted_enter = self.input.submit;
        let sent = verbs::call(desk, self.input).await?;
        if desk.out.is_json() {
            desk.out.document(&sent)?;
            return Ok(ExitCode::SUCCESS);
        }
        if sent.pending_bytes > 0 {
            desk.out.note(&format!(
                "{} bytes wait: the program does not read",
                sent.pending_bytes
            ));
        }
        match sent.submitted {
            SubmitResult::No if wanted_enter => desk
                .out
                .note("Enter was pressed, and the text is still where it was typed"),
            SubmitResult::Unknown if wanted_enter => desk
                .out
                .note("Enter was pressed; whether it was taken cannot be seen"),
            SubmitResult::Yes | SubmitResult::No | SubmitResult::Unknown => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}
