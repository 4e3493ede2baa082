//! The connection to a pane's backend: whether the backend can be reached, when a lost backend is tried again, and
//! until when callers wait for the backend.
//!
//! A lost connection never means that the child died. Attempts are repeated until one of them reaches the backend or
//! proves that holder and child are gone.

use std::time::{Duration, Instant};

/// A holder answers a probe in milliseconds, also on a busy machine. A holder that takes longer is stopped, or waits for a
/// disk.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// No event reports that fds, memory or disk space are available again, so attempts are repeated after a pause.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// A living holder answers within milliseconds. Callers of a pane whose holder takes longer are answered without the
/// holder.
const FIRST_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(300);

/// The state of the connection to a pane's backend.
#[derive(Debug)]
pub struct BackendConnection {
    state: ConnectionState,
    /// When the backend must have answered the oldest probe.
    probe_deadline: Option<Instant>,
}

#[derive(Debug)]
enum ConnectionState {
    Connected,
    /// Connected, and a probe was not answered in time.
    Silent,
    Reconnecting {
        /// Why the last attempt failed, or why the connection was lost.
        why: String,
        /// The pause before the attempt that is under way.
        pause: Duration,
        /// Until then callers wait for the attempt instead of being refused.
        grace_deadline: Option<Instant>,
    },
    Gone,
}

/// Whether a call can use the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability<'a> {
    Connected,
    /// The backend is connected and has not answered in time.
    Silent,
    /// The connection is lost, for this reason, and is tried again.
    Reconnecting(&'a str),
    /// The pane has no backend any more.
    Gone,
}

/// Whether a pane is being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneGoal {
    Keep,
    Close,
}

/// How an attempt to reach the backend begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptStart {
    /// After this pause, or as soon as a child without a holder has ended.
    AfterPause(Duration),
    /// After the recorded processes of the pane, the holder included, were ended with this grace, and then the pause.
    AfterReap { grace: Duration, pause: Duration },
}

/// The attempt that follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPlan {
    pub start: AttemptStart,
    /// The attempt before failed for another reason, so the new reason is logged.
    pub is_new_reason: bool,
}

impl BackendConnection {
    pub fn connected() -> Self {
        Self::from(ConnectionState::Connected)
    }

    /// The pane has ended, and only its files are left.
    pub fn gone() -> Self {
        Self::from(ConnectionState::Gone)
    }

    /// The backend of an earlier daemon is looked for.
    pub fn adopting(now: Instant) -> Self {
        Self::from(ConnectionState::Reconnecting {
            why: "the search has begun".into(),
            pause: FIRST_PAUSE,
            grace_deadline: Some(now + FIRST_ATTEMPT_TIMEOUT),
        })
    }

    fn from(state: ConnectionState) -> Self {
        Self {
            state,
            probe_deadline: None,
        }
    }

    pub fn reachability(&self) -> Reachability<'_> {
        match &self.state {
            ConnectionState::Connected => Reachability::Connected,
            ConnectionState::Silent => Reachability::Silent,
            ConnectionState::Reconnecting { why, .. } => Reachability::Reconnecting(why),
            ConnectionState::Gone => Reachability::Gone,
        }
    }

    /// Whether the backend is connected, including a silent backend.
    pub fn is_connected(&self) -> bool {
        matches!(
            self.state,
            ConnectionState::Connected | ConnectionState::Silent
        )
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.state, ConnectionState::Gone)
    }

    /// Whether output may be read now. Replies to a program's terminal queries are sent through the backend, so reading
    /// waits for a connection that is tried again. No program of an ended pane waits for a reply.
    pub fn allows_reading(&self) -> bool {
        !matches!(self.state, ConnectionState::Reconnecting { .. })
    }

    /// The time until which callers wait for the first attempt: a dead holder is replaced within milliseconds, so that no
    /// call is refused. Returned once per lost connection.
    pub fn take_grace_deadline(&mut self) -> Option<Instant> {
        match &mut self.state {
            ConnectionState::Reconnecting { grace_deadline, .. } => grace_deadline.take(),
            ConnectionState::Connected | ConnectionState::Silent | ConnectionState::Gone => None,
        }
    }

    /// The connection is lost. The first attempt begins at once.
    pub fn on_lost(&mut self, why: String, now: Instant) {
        self.state = ConnectionState::Reconnecting {
            why,
            pause: FIRST_PAUSE,
            grace_deadline: Some(now + FIRST_ATTEMPT_TIMEOUT),
        };
    }

    /// An attempt has reached the backend.
    pub fn on_answered(&mut self) {
        self.state = ConnectionState::Connected;
    }

    /// Nothing is left to connect to: the end of the child is known.
    pub fn on_gone(&mut self) {
        *self = Self::gone();
    }

    /// An attempt has failed without a proof of death.
    pub fn on_failed(&mut self, why: &str, goal: PaneGoal) -> RetryPlan {
        let (is_new_reason, pause) = match &self.state {
            ConnectionState::Reconnecting {
                why: before, pause, ..
            } => (before != why, (*pause * 2).min(MAX_PAUSE)),
            ConnectionState::Connected | ConnectionState::Silent | ConnectionState::Gone => {
                (true, FIRST_PAUSE)
            }
        };
        self.state = ConnectionState::Reconnecting {
            why: why.to_owned(),
            pause,
            grace_deadline: None,
        };
        let start = match goal {
            PaneGoal::Keep => AttemptStart::AfterPause(pause),
            PaneGoal::Close => AttemptStart::AfterReap {
                grace: Duration::ZERO,
                pause: pause.saturating_sub(FIRST_PAUSE),
            },
        };
        RetryPlan {
            start,
            is_new_reason,
        }
    }

    /// The pane is to be closed and its backend does not do it: the recorded processes are ended instead, and an attempt
    /// proves their end. The reason of the last failed attempt stays.
    pub fn on_close_without_backend(&mut self, grace: Duration) -> AttemptStart {
        let why = match &mut self.state {
            ConnectionState::Reconnecting { why, .. } => std::mem::take(why),
            ConnectionState::Connected | ConnectionState::Silent | ConnectionState::Gone => {
                "it did not close the pane".into()
            }
        };
        self.state = ConnectionState::Reconnecting {
            why,
            pause: FIRST_PAUSE,
            grace_deadline: None,
        };
        AttemptStart::AfterReap {
            grace,
            pause: Duration::ZERO,
        }
    }

    pub fn probe_deadline(&self) -> Option<Instant> {
        self.probe_deadline
    }

    /// A probe was sent. A backend that is silent already gets no new deadline.
    pub fn on_probe_sent(&mut self, now: Instant) {
        match self.state {
            ConnectionState::Silent => {}
            ConnectionState::Connected
            | ConnectionState::Reconnecting { .. }
            | ConnectionState::Gone => self.expect_answer(now),
        }
    }

    /// Probes wait for a backend that has been reconnected or has just answered another probe.
    pub fn expect_answer(&mut self, now: Instant) {
        self.probe_deadline.get_or_insert(now + PROBE_TIMEOUT);
    }

    /// A probe was answered; `expect_answer` follows if more are pending.
    pub fn on_answer(&mut self) {
        self.probe_deadline = None;
    }

    /// The backend has sent a message of any kind.
    pub fn on_message(&mut self) {
        if let ConnectionState::Silent = self.state {
            self.state = ConnectionState::Connected;
        }
    }

    /// The probe deadline has passed. Returns whether a connected backend is silent now.
    pub fn on_probe_timeout(&mut self) -> bool {
        self.probe_deadline = None;
        let is_silent = self.is_connected();
        if is_silent {
            self.state = ConnectionState::Silent;
        }
        is_silent
    }
}

#[cfg(test)]
mod tests {
    use super::{super::test_clock::at, *};

    fn after(ms: u64) -> AttemptStart {
        AttemptStart::AfterPause(Duration::from_millis(ms))
    }

    fn reap(grace: u64, pause: u64) -> AttemptStart {
        AttemptStart::AfterReap {
            grace: Duration::from_millis(grace),
            pause: Duration::from_millis(pause),
        }
    }

    #[test]
    fn callers_wait_once_for_the_first_attempt() {
        let mut connection = BackendConnection::connected();
        assert_eq!(connection.take_grace_deadline(), None);
        connection.on_lost("reset".into(), at(1000));
        assert_eq!(
            connection.reachability(),
            Reachability::Reconnecting("reset")
        );
        assert!(!connection.allows_reading());
        assert_eq!(connection.take_grace_deadline(), Some(at(1300)));
        assert_eq!(connection.take_grace_deadline(), None);
        connection.on_failed("reset", PaneGoal::Keep);
        assert_eq!(connection.take_grace_deadline(), None, "only the first");
        connection.on_answered();
        assert_eq!(connection.reachability(), Reachability::Connected);
        assert!(connection.allows_reading());
    }

    #[test]
    fn attempts_are_repeated_with_growing_pauses_and_each_new_reason_is_logged_once() {
        let mut connection = BackendConnection::adopting(at(0));
        let retry = |connection: &mut BackendConnection, why| {
            let plan = connection.on_failed(why, PaneGoal::Keep);
            (plan.start, plan.is_new_reason)
        };
        assert_eq!(retry(&mut connection, "no fds"), (after(100), true));
        assert_eq!(retry(&mut connection, "no fds"), (after(200), false));
        assert_eq!(retry(&mut connection, "no answer"), (after(400), true));
        for _ in 0..4 {
            connection.on_failed("no answer", PaneGoal::Keep);
        }
        assert_eq!(retry(&mut connection, "no answer"), (after(5000), false));
        connection.on_answered();
        connection.on_lost("reset".into(), at(9000));
        assert_eq!(retry(&mut connection, "reset"), (after(100), false));
    }

    #[test]
    fn a_closing_pane_ends_its_processes_before_each_attempt() {
        let mut connection = BackendConnection::connected();
        let grace = Duration::from_millis(700);
        assert_eq!(connection.on_close_without_backend(grace), reap(700, 0));
        assert_eq!(
            connection.reachability(),
            Reachability::Reconnecting("it did not close the pane")
        );
        let plan = connection.on_failed("no answer", PaneGoal::Close);
        assert_eq!(plan.start, reap(0, 50));
        assert_eq!(connection.on_close_without_backend(grace), reap(700, 0));
        assert_eq!(
            connection.reachability(),
            Reachability::Reconnecting("no answer"),
            "the reason stays"
        );
        connection.on_gone();
        assert!(connection.is_gone());
        assert!(connection.allows_reading());
    }

    #[test]
    fn a_backend_is_silent_from_its_first_late_answer_to_its_next_message() {
        let mut connection = BackendConnection::connected();
        connection.on_probe_sent(at(0));
        connection.on_probe_sent(at(500));
        assert_eq!(
            connection.probe_deadline(),
            Some(at(2000)),
            "the oldest probe"
        );
        assert!(connection.on_probe_timeout());
        assert_eq!(connection.reachability(), Reachability::Silent);
        assert!(connection.is_connected());
        connection.on_probe_sent(at(2500));
        assert_eq!(connection.probe_deadline(), None);
        connection.on_message();
        connection.on_answer();
        assert_eq!(connection.reachability(), Reachability::Connected);
        connection.expect_answer(at(3000));
        assert_eq!(connection.probe_deadline(), Some(at(5000)));
        connection.on_lost("reset".into(), at(3100));
        assert!(!connection.on_probe_timeout(), "lost is more than silent");
        connection.on_message();
        assert_eq!(
            connection.reachability(),
            Reachability::Reconnecting("reset")
        );
    }
}
