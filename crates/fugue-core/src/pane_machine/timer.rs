//! The timers of a pane's task.

/// The timers of a pane's task. The task waits for the earliest deadline and then handles every timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneTimer {
    /// Fires after 100 ms without output, or when a viewer is due for a newer state: probe the foreground process.
    Probe,
    /// Fires when the screen has settled after typed input, when its redraw takes too long, or when an input that waits
    /// for a person's draft is checked again or refused.
    Input,
    /// Fires when an expect checks output that has settled, or compares the screen again.
    Expect,
    /// Fires when a woken shell has not taken a step in time, or an interrupted step gets the next stronger signal.
    Pipeline,
    /// Fires when an agent may have become idle, or when the waiting sender is informed that the agent is not idle.
    AgentIdle,
    /// Fires when the screen of an agent is looked at: after output, and when what it shows has stood for long enough.
    AgentLook,
    /// Fires when the pane has been quiet for as long as a watcher requested: probe before reporting.
    Quiet,
    /// Fires when a postponed frame is due: after a redraw, a paced interval or the idle threshold. Frames are made in
    /// every turn of the task's loop, so the timer only wakes the loop.
    Frame,
    /// Fires when the backend has not answered a probe in time: pending calls are answered without the backend.
    ProbeTimeout,
    /// Fires when the backend has not closed the pane in time: the recorded processes are ended without the backend.
    CloseTimeout,
}

impl PaneTimer {
    /// Every timer, in the order in which due timers are handled.
    pub const ALL: [Self; 10] = [
        Self::Probe,
        Self::Input,
        Self::Expect,
        Self::Pipeline,
        Self::AgentIdle,
        Self::AgentLook,
        Self::Quiet,
        Self::Frame,
        Self::ProbeTimeout,
        Self::CloseTimeout,
    ];
}
