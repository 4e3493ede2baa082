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

use crate::cli::Desk;

/// What agents' hooks call: turns their payload into news for whoever spawned them.
///
/// It never fails and never prints: an agent must not notice.
#[derive(clap::Args)]
pub struct Hook {
    /// The agent whose hook it is, such as claude.
    agent: String,
    /// The payload; default from stdin.
    payload: Option<String>,
}

// The agent waits for us. A daemon that takes longer has what it needs.
const PATIENCE: Duration = Duration::from_millis(900);
const LONGEST_PAYLOAD: u64 = 16 * 1024 * 1024;

impl Hook {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let _ = timeout(PATIENCE, self.tell(desk)).await;
        Ok(ExitCode::SUCCESS)
    }

    async fn tell(self, desk: &Desk) -> Option<()> {
        let agent = agents::built_in(&self.agent)?;
        let payload = match self.payload {
            Some(payload) => payload.into_bytes(),
            None => tokio::task::spawn_blocking(payload).await.ok()??,
        };
        let news = match hook::read_bytes(agent, &payload) {
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
        if !desk.who_is_worker {
            return None;
        }
        let key = new_key().ok()?;
        if news.is_kept() {
            // What cannot be kept can still be told.
            let _ = spool::keep(&desk.paths, desk.client.who(), key, news.clone());
        }
        let told = desk
            .client
            .ask_running_as(key, Request::Hook { news })
            .await;
        told.ok()?.map(|_| ())
    }
}

fn payload() -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin.take(LONGEST_PAYLOAD).read_to_end(&mut text).ok()?;
    Some(text)
}
