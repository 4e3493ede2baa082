use std::{io::Read, process::ExitCode, time::Duration};

use fugue_api::{
    Error,
    wire::{HookReport, Request},
};
use fugue_client::{client::new_key, spool};
use fugue_daemon::agents::{
    Vendor,
    hook::{self, HookEvent},
};
use tokio::time::timeout;

use crate::cli::CliContext;

/// What agents' hooks call: turns their payload into news for whoever spawned them.
///
/// It never fails and never prints: an agent must not notice.
#[derive(clap::Args)]
pub struct HookArgs {
    /// claude, codex or gemini.
    agent: String,
    /// The payload; default from stdin.
    payload: Option<String>,
}

// The agent waits for us. A daemon that takes longer has what it needs.
const PATIENCE: Duration = Duration::from_millis(900);
const LONGEST_PAYLOAD: u64 = 16 * 1024 * 1024;

impl HookArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let _ = timeout(PATIENCE, self.tell(cx)).await;
        Ok(ExitCode::SUCCESS)
    }

    async fn tell(self, cx: &CliContext) -> Option<()> {
        let vendor = Vendor::named(&self.agent)?;
        let payload = match self.payload {
            Some(payload) => payload.into_bytes(),
            None => tokio::task::spawn_blocking(payload).await.ok()??,
        };
        let news = match hook::read_bytes(vendor, &payload) {
            HookEvent::PromptGiven => HookReport::PromptGiven,
            HookEvent::TurnEnded { message } => HookReport::TurnEnded { message },
            HookEvent::TurnFailed { message } => HookReport::TurnFailed { message },
            HookEvent::NeedsInput { prompt } | HookEvent::StillNeedsInput { prompt } => {
                HookReport::NeedsInput { prompt }
            }
            HookEvent::InputNoLongerNeeded => HookReport::InputNoLongerNeeded,
            // How the process ends is for the kernel to tell.
            HookEvent::SessionEnded | HookEvent::Nothing => return None,
        };
        // An agent that is nobody's worker has nobody to tell.
        if !cx.who_is_worker {
            return None;
        }
        let key = new_key().ok()?;
        if news.is_kept() {
            // What cannot be kept can still be told.
            let _ = spool::keep(&cx.paths, cx.client.who(), key, news.clone());
        }
        let told = cx.client.ask_running_as(key, Request::Hook { news }).await;
        told.ok()?.map(|_| ())
    }
}

fn payload() -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin.take(LONGEST_PAYLOAD).read_to_end(&mut text).ok()?;
    Some(text)
}
