//! The end of a pane: its child exits, its last output is read, and a closed pane's processes are ended.

use std::time::{Duration, Instant};

/// The limit for a holder to close a pane, beyond the grace and the time that killed processes have.
const CLOSE_MARGIN: Duration = Duration::from_secs(2);

/// The exit of the child. `E` is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaneExit<E> {
    pub status: E,
    /// The offset at which the child's output ends.
    pub output_end: u64,
}

/// The state of the pane that decides about its end.
#[derive(Clone, Copy, Debug)]
pub struct EndView {
    /// The offset up to which output has been read.
    pub offset: u64,
    pub has_unread_output: bool,
    /// The pane is being closed.
    pub is_closing: bool,
    /// The backend is connected or being reconnected.
    pub has_backend: bool,
    /// The pane's end was reported before.
    pub is_reported: bool,
}

/// The way of a pane from its child's exit to its end.
#[derive(Debug)]
pub struct PaneLifecycle<E> {
    /// The child has exited, and the exit is not recorded yet, because its output waits for space on the disk.
    pending_exit: Option<PaneExit<E>>,
    exit: Option<PaneExit<E>>,
    /// The backend has ended every process of the pane.
    is_reaped: bool,
    /// When the backend must have closed the pane.
    close_deadline: Option<Instant>,
}

impl<E> Default for PaneLifecycle<E> {
    fn default() -> Self {
        Self {
            pending_exit: None,
            exit: None,
            is_reaped: false,
            close_deadline: None,
        }
    }
}

impl<E: Copy> PaneLifecycle<E> {
    pub fn on_pending_exit(&mut self, exit: PaneExit<E>) {
        self.pending_exit = Some(exit);
    }

    pub fn on_exit(&mut self, exit: PaneExit<E>) {
        self.exit = Some(exit);
    }

    pub fn pending_exit(&self) -> Option<PaneExit<E>> {
        self.pending_exit
    }

    pub fn exit(&self) -> Option<PaneExit<E>> {
        self.exit
    }

    /// The exit status, recorded or not.
    pub fn exit_status(&self) -> Option<E> {
        self.exit.or(self.pending_exit).map(|exit| exit.status)
    }

    /// Whether the backend has ended every process of the pane.
    pub fn is_reaped(&self) -> bool {
        self.is_reaped
    }

    /// The backend was requested to close the pane.
    pub fn on_close(&mut self, grace: Duration, kill_wait: Duration, now: Instant) {
        self.close_deadline = Some(now + grace + kill_wait + CLOSE_MARGIN);
    }

    /// No backend answers for the close: the recorded processes are ended without it, or nothing is recorded.
    pub fn clear_close_deadline(&mut self) {
        self.close_deadline = None;
    }

    /// The backend has closed the pane.
    pub fn on_closed(&mut self) {
        self.is_reaped = true;
        self.close_deadline = None;
    }

    pub fn close_deadline(&self) -> Option<Instant> {
        self.close_deadline
    }

    /// The exit that is to be reported now: all output has been read, and no close is under way.
    pub fn reportable_exit(&self, view: EndView) -> Option<PaneExit<E>> {
        let exit = self.exit?;
        let is_read = view.offset >= exit.output_end || !view.has_unread_output;
        let is_being_closed = view.is_closing && !self.is_reaped && view.has_backend;
        (!view.is_reported && is_read && !is_being_closed).then_some(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::test_clock::at, *};

    const EXIT: PaneExit<i32> = PaneExit {
        status: 3,
        output_end: 100,
    };
    const READ: EndView = EndView {
        offset: 100,
        has_unread_output: true,
        is_closing: false,
        has_backend: true,
        is_reported: false,
    };

    #[test]
    fn an_exit_is_reported_once_when_its_output_has_been_read() {
        let mut pane = PaneLifecycle::default();
        assert_eq!(pane.reportable_exit(READ), None);
        pane.on_exit(EXIT);
        let behind = EndView { offset: 99, ..READ };
        assert_eq!(pane.reportable_exit(behind), None);
        let lost = EndView {
            has_unread_output: false,
            ..behind
        };
        assert_eq!(pane.reportable_exit(lost), Some(EXIT), "the rest is lost");
        assert_eq!(pane.reportable_exit(READ), Some(EXIT));
        let reported = EndView {
            is_reported: true,
            ..READ
        };
        assert_eq!(pane.reportable_exit(reported), None);
    }

    #[test]
    fn a_pending_exit_has_a_status_and_is_not_reported() {
        let mut pane = PaneLifecycle::default();
        assert_eq!(pane.exit_status(), None);
        pane.on_pending_exit(EXIT);
        assert_eq!(pane.exit_status(), Some(3));
        assert_eq!(pane.reportable_exit(READ), None);
    }

    #[test]
    fn a_closed_pane_ends_when_its_processes_have_ended() {
        let closing = EndView {
            is_closing: true,
            ..READ
        };
        let mut pane = PaneLifecycle::default();
        pane.on_exit(EXIT);
        let second = Duration::from_secs(1);
        pane.on_close(second, second, at(0));
        assert_eq!(pane.close_deadline(), Some(at(4000)));
        assert_eq!(pane.reportable_exit(closing), None);
        let alone = EndView {
            has_backend: false,
            ..closing
        };
        assert_eq!(pane.reportable_exit(alone), Some(EXIT));
        pane.on_closed();
        assert_eq!(pane.close_deadline(), None);
        assert_eq!(pane.reportable_exit(closing), Some(EXIT));
    }
}
