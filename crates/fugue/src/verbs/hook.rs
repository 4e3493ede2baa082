use std::{io::Read, process::ExitCode, time::Duration};

use fugue_api::{
    Error,
    wire::{HookReport, Request},
};
use fugue_client::{client::new_key, spool};
use fugue_daemon::agents::{
    self,
    hook::{self, HookEvent},
};
use tokio::time::timeout;

use crate::cli::CliContext;

/// Report an event of an agent's hook to the daemon; called by agents.
///
/// Prints nothing and always exits 0, so that the agent is not disturbed.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue hook claude      (as the command of a hook, which gets the payload on stdin)"
)]
pub struct HookArgs {
    /// The agent whose hook it is, such as claude.
    agent: String,
    /// The payload of the hook; default from stdin.
    payload: Option<String>,
}

// The agent waits for the hook. After this time the daemon has received the report, or the spool holds it.
const HOOK_TIMEOUT: Duration = Duration::from_millis(900);
const MAX_PAYLOAD_BYTES: u64 = 16 * 1024 * 1024;

impl HookArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let _ = timeout(HOOK_TIMEOUT, self.report(cx)).await;
        Ok(ExitCode::SUCCESS)
    }

    async fn report(self, cx: &CliContext) -> Option<()> {
        let agent = agents::built_in(&self.agent)?;
        let payload = match self.payload {
            Some(payload) => payload.into_bytes(),
            None => tokio::task::spawn_blocking(read_payload).await.ok()??,
        };
        let report = match hook::read_bytes(agent, &payload) {
            HookEvent::PromptGiven => HookReport::PromptGiven,
            HookEvent::TurnEnded { message } => HookReport::TurnEnded { message },
            HookEvent::TurnFailed { message } => HookReport::TurnFailed { message },
            HookEvent::TurnPaused { message, resume_at } => {
                HookReport::TurnPaused { message, resume_at }
            }
            HookEvent::BackgroundWork => HookReport::BackgroundWork,
            HookEvent::NeedsInput { prompt, kind }
            | HookEvent::StillNeedsInput { prompt, kind } => {
                HookReport::NeedsInput { prompt, kind }
            }
            HookEvent::InputNoLongerNeeded => HookReport::InputNoLongerNeeded,
            // The end of the process is reported by its holder.
            HookEvent::SessionEnded | HookEvent::Nothing => return None,
        };
        // Agents that fugue has not spawned have no inbox to report to.
        if !cx.is_worker {
            return None;
        }
        let key = new_key().ok()?;
        if report.is_kept() {
            // A report that cannot be spooled is still sent.
            let _ = spool::store_report(&cx.paths, cx.client.identity(), key, report.clone());
        }
        let response = cx
            .client
            .ask_running_with_key(key, Request::Hook { report })
            .await;
        response.ok()?.map(|_| ())
    }
}

fn read_payload() -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin.take(MAX_PAYLOAD_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}
