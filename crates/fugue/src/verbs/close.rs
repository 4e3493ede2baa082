use std::process::ExitCode;

use fugue_api::{Error, tools::ClosePane};

use crate::cli::CliContext;

/// End panes and all their processes.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue close build p7")]
pub struct CloseArgs {
    /// Pane ids or names.
    #[arg(value_name = "PANE", required = true)]
    panes: Vec<String>,
    #[command(flatten)]
    close: ClosePane,
}

impl CloseArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        // Concurrently, because each call may take the whole grace period.
        let closing: Vec<_> = self
            .panes
            .into_iter()
            .map(|pane_id| {
                let client = cx.client.clone();
                let args = ClosePane {
                    pane_id,
                    ..self.close.clone()
                };
                tokio::spawn(async move { fugue_api::Handle::call(&client, args.into()).await })
            })
            .collect();
        let single = closing.len() == 1;
        let mut closed = Vec::new();
        let mut worst = 0;
        for one in closing {
            let outcome = match one.await {
                Ok(outcome) => outcome.and_then(|handed| handed.reply.read_as::<ClosePane>()),
                Err(error) => Err(Error::new(
                    fugue_api::ErrorKind::Internal,
                    error.to_string(),
                )),
            };
            match outcome {
                Ok(pane) => closed.push(pane),
                Err(error) if single => return Err(error),
                Err(error) => {
                    cx.out.error(&error);
                    worst = worst.max(error.exit_code());
                }
            }
        }
        if cx.out.is_json() {
            match (single, closed.as_slice()) {
                (true, [pane]) => cx.out.document(pane)?,
                (_, all) => cx.out.document(&all)?,
            }
        } else {
            for pane in &closed {
                let how = match (&pane.exit_code, &pane.signal) {
                    (Some(code), _) => format!("exit {code}"),
                    (None, Some(signal)) => signal.clone(),
                    (None, None) => "exit unknown".into(),
                };
                let note = pane
                    .note
                    .as_ref()
                    .map(|note| format!("; {note}"))
                    .unwrap_or_default();
                cx.out
                    .note(&format!("{} closed ({how}{note})", pane.pane_id));
            }
        }
        Ok(ExitCode::from(worst))
    }
}
