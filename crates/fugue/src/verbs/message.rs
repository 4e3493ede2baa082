use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{DeliveryStatus, MessageDelivery, SendMessage},
};

use crate::{cli::CliContext, verbs};

/// Leave a message for a worker, or for whoever spawned this one.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue message --to fix-bug-claude 'the API changed' --type")]
pub struct MessageArgs {
    /// A worker's id, or a session's; default whoever spawned this worker.
    #[arg(long, value_name = "W")]
    to: Option<String>,
    /// What to say.
    body: String,
    /// Type it into the worker's pane when that is idle.
    #[arg(long = "type")]
    typed: bool,
}

impl MessageArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let deliver = if self.typed {
            MessageDelivery::Type
        } else {
            MessageDelivery::Inbox
        };
        let message = SendMessage {
            to: self.to,
            body: self.body,
            deliver,
        };
        let sent = verbs::call(cx, message).await?;
        if cx.out.is_json() {
            cx.out.document(&sent)?;
            return Ok(ExitCode::SUCCESS);
        }
        cx.out.line(sent.event_id.to_string())?;
        if let Some(reason) = &sent.reason {
            cx.out.note(reason);
            return Ok(ExitCode::SUCCESS);
        }
        match (deliver, sent.delivered) {
            (MessageDelivery::Type, DeliveryStatus::Queued) => cx
                .out
                .note("it is typed when the pane is idle and nobody types there"),
            (_, DeliveryStatus::Typed) => cx
                .out
                .note("it was typed; whether it was taken cannot be seen"),
            (_, DeliveryStatus::Queued | DeliveryStatus::Submitted) => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}
