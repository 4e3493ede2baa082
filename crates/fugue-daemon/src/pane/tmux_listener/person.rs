//! Recognizes a draft in a pane of a person's own tmux, whose keys do not pass through fugue: tmux reports the time of each
//! client's last key, and a typed line is echoed without a newline.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fugue_holder::{probe_path, wire::ToDaemon};
use tokio::time::Instant;

use super::{QueryPurpose, TmuxBackend, text};
use crate::tmux::control::quote;

/// The times of output that decide whether a person has begun a line.
#[derive(Default)]
pub(super) struct PersonKeys {
    /// The time of the last newline, since the Unix epoch, as in tmux's `client_activity`.
    line_ended: Duration,
    printed: Duration,
    drafts: bool,
    /// Ids of probes that wait for tmux's list of clients.
    probes: Vec<u64>,
    answer_by: Option<Instant>,
}

// A prompt follows the end of a line within this time; later output is an echo.
const PROMPT: Duration = Duration::from_millis(300);
// Probes are answered without the clients if tmux is busy or stopped for longer.
const CLIENTS_TIMEOUT: Duration = Duration::from_millis(500);

impl PersonKeys {
    /// Output is received from now on. tmux counts whole seconds, so keys of the present second may belong to a new draft.
    pub(super) fn on_attach(&mut self) {
        self.line_ended = now().saturating_sub(Duration::from_secs(1));
        self.printed = self.line_ended;
    }

    pub(super) fn printed(&mut self, bytes: &[u8]) {
        self.printed = now();
        if bytes.contains(&b'\n') {
            self.line_ended = self.printed;
        }
    }

    pub(super) fn answer_by(&self) -> Option<Instant> {
        self.answer_by
    }

    /// `used` is the time of the last key of a client that shows this pane, in whole seconds.
    fn has_drafted(&self, used: Option<u64>) -> bool {
        let echoed = self.printed.saturating_sub(self.line_ended) > PROMPT;
        used.is_some_and(|used| echoed && used > self.line_ended.as_secs())
    }
}

impl TmuxBackend {
    /// Probes the foreground process after a query of tmux's clients.
    pub(super) fn probe(&mut self, id: u64) {
        self.person.probes.push(id);
        if self.person.answer_by.is_some() {
            return;
        }
        self.person.answer_by = Some(Instant::now() + CLIENTS_TIMEOUT);
        let what = quote(b"#{client_control_mode} #{pane_id} #{client_activity}");
        self.send_query(QueryPurpose::Clients, &[&format!("list-clients -F {what}")]);
    }

    pub(super) fn update_draft(&mut self, answers: &[Vec<u8>]) {
        let said = answers.first().map(|body| text(body)).unwrap_or_default();
        let used = said
            .lines()
            .filter_map(|line| {
                let parts: Vec<&str> = line.split(' ').collect();
                let [control, pane, used] = parts[..] else {
                    return None;
                };
                let shows_it = control == "0" && pane == self.tmux.id;
                used.parse().ok().filter(|_| shows_it)
            })
            .max();
        let drafts = self.person.has_drafted(used);
        if drafts != self.person.drafts {
            self.person.drafts = drafts;
            // The keys are unknown. A space stands for a draft that was begun, a carriage return for its end.
            let bytes = if drafts {
                b" ".to_vec()
            } else {
                b"\r".to_vec()
            };
            self.messages.push_back(ToDaemon::ViewKeys { bytes });
        }
        self.answer_probes();
    }

    pub(super) fn answer_probes(&mut self) {
        self.person.answer_by = None;
        for id in std::mem::take(&mut self.person.probes) {
            let probe = probe_path(&self.terminal, self.leader.pid);
            self.messages.push_back(ToDaemon::Probed { id, probe });
        }
    }
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_begun_where_something_is_echoed_after_a_key_and_not_ended() {
        let person = |line_ended: u64, printed: u64| PersonKeys {
            line_ended: Duration::from_millis(line_ended),
            printed: Duration::from_millis(printed),
            ..PersonKeys::default()
        };
        // A prompt, and then keys that were echoed.
        assert!(person(10_100, 12_300).has_drafted(Some(12)));
        // Later keys that print nothing change nothing.
        assert!(person(10_100, 12_300).has_drafted(Some(99)));
        // Enter, a newline, a prompt.
        assert!(!person(10_900, 11_000).has_drafted(Some(10)));
        // Somebody scrolls, or comes from another window.
        assert!(!person(10_100, 10_150).has_drafted(Some(15)));
        // A program goes on without a person.
        assert!(!person(10_100, 12_300).has_drafted(Some(9)));
        assert!(!person(10_100, 12_300).has_drafted(None));
    }
}
