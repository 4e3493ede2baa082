use std::process::ExitCode;

use fugue_api::{Error, Handle, tools::CancelRun};

use crate::{cli::CliContext, runs};

/// End a run and the commands that it started, and print its result.
///
/// Exit codes: 0, also if the run had ended before. A call that waits for the cancelled run has exit code 1.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue cancel r-4kd      (`fugue ls` lists the runs)")]
pub struct CancelArgs {
    #[command(flatten)]
    cancel: CancelRun,
}

impl CancelArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let run = self.cancel.run_id.clone();
        let delivery = cx.client.call(self.cancel.into()).await?;
        let reply = delivery.reply.read_as::<CancelRun>()?;
        if cx.out.is_json() {
            cx.out.document(&reply)?;
        } else {
            runs::print_result(cx, &reply.run)?;
            if reply.already_ended {
                cx.out.note(&format!("run {run} had ended before"));
            }
        }
        // The result is acked after it was printed.
        if let Some(ack) = delivery.ack {
            ack.complete().await;
        }
        Ok(ExitCode::SUCCESS)
    }
}
