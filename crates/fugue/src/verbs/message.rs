use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{DeliveryStatus, MessageDelivery, SendMessage},
};

use crate::{cli::CliContext, verbs};

/// Send a message to a worker, or to the lead of this worker.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue message --to fix-bug-claude 'the API changed' --type")]
pub struct MessageArgs {
    #[command(flatten)]
    message: SendMessage,
}

impl MessageArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let deliver = self.message.deliver;
        let sent = verbs::call(cx, self.message).await?;
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
                .note("queued: it is typed when the pane is idle and no person is typing there"),
            (_, DeliveryStatus::Typed) => cx
                .out
                .note("typed; whether the program accepted it cannot be seen"),
            (_, DeliveryStatus::Queued | DeliveryStatus::Submitted) => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}
