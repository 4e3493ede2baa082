//! The viewers of a pane: makes the frames that the [`FrameScheduler`](fugue_core::pane_machine::FrameScheduler) plans.

use std::time::{Duration, Instant};

use fugue_api::{
    Error, ErrorKind,
    attach::{AttachResponse, ClientId, Frame, FrameHead},
    pane_state::{PaneState, SourcedState, StateSource},
    wire::Response,
};
use fugue_core::pane_machine::{
    AgentSight, DroppedRequests, FrameContents, FrameEnd, FramePlan, FrameRecipient, FrameView,
    ProbeInterest, ProbeSchedule, ProbeView, ViewerRequest,
};
use fugue_holder::wire::ForegroundProbe;
use fugue_term::Terminal;

use super::{Pane, launch};
use crate::{
    archive,
    frame::{self, LineRange},
    pending_calls::Responder,
    whole,
};

/// A request for the difference to a frame that the viewer has.
pub type FrameRequest = ViewerRequest<Responder>;

/// What viewers are shown besides the screen.
#[derive(Default)]
pub(super) struct ViewerState {
    /// The state that the agent in the pane has reported.
    pub agent_state: Option<SourcedState>,
    /// The last probe of the foreground process.
    pub probe: Option<ForegroundProbe>,
    /// The offset at which the log begins, and the oldest line that the files have then.
    oldest_line: Option<(u64, u64)>,
}

impl Pane {
    pub(super) fn request_frame(&mut self, client: ClientId, request: FrameRequest) {
        let dropped = self.frames.request(client, request);
        refuse(dropped);
        self.probe_for_viewers();
    }

    /// Whether a viewer waits for a frame whose connection is open.
    pub(super) fn is_watched(&self) -> bool {
        self.frames
            .is_watched(|responder: &Responder| !responder.is_gone())
    }

    /// Whether viewers follow the state of the pane.
    pub(super) fn viewer_interest(&self) -> ProbeInterest {
        match self.is_watched() {
            true => ProbeInterest::Followed,
            false => ProbeInterest::None,
        }
    }

    fn with_probe_view<T>(&self, f: impl FnOnce(&ProbeView<'_>) -> T) -> T {
        f(&ProbeView {
            now: Instant::now(),
            last_output: self.last_output,
            last_activity: self.last_activity(),
            is_connected: self.connection.is_connected(),
            state: &|| self.shown_state(),
        })
    }

    /// Schedules a probe for a viewer that waits for a frame.
    fn probe_for_viewers(&mut self) {
        if self.probing.deadline().is_none() {
            let next = self.with_probe_view(|view| self.probing.next_for_viewer(view));
            self.probing.schedule_if_idle(next);
        }
    }

    /// Schedules the next probe of a silent program for viewers.
    pub(super) fn probe_again_for_viewers(&mut self) {
        if self.is_watched() && self.probing.deadline().is_none() {
            let next = self.with_probe_view(ProbeSchedule::next_while_silent);
            self.probing.schedule_if_idle(next);
        }
    }

    /// Sends the frames that are due.
    pub(super) fn send_frames(&mut self) {
        let end = match (self.is_end_reported(), &self.steps) {
            (false, _) => FrameEnd::Running,
            (true, Some(_)) => FrameEnd::MayRestart,
            (true, None) => FrameEnd::Ended,
        };
        let settings = self.context.daemon.settings();
        let mut frames = std::mem::take(&mut self.frames);
        let terminal = &self.follower.terminal;
        let view = FrameView {
            now: Instant::now(),
            epoch: self.context.daemon.epoch,
            end,
            offset: terminal.offset().0,
            has_unread_output: self.has_unread_output,
            is_flooding: self.is_flooding,
            last_typed: self.draft.last_typed(),
            last_output: self.last_output,
            idle_threshold: Duration::from_millis(settings.idle_threshold_ms()),
            contents: &|| self.frame_contents(end),
            rows: &|| terminal.screen().row_hashes().collect(),
        };
        let (dropped, goes_on) = frames.send_frames(&view, |recipient, plan| {
            let response = Ok(Response::Attach {
                response: AttachResponse::Frame {
                    frame: Box::new(planned_frame(plan, terminal)),
                },
            });
            match recipient {
                FrameRecipient::Last(responder) => responder.answer(response),
                FrameRecipient::More(responder) => responder.answer_and_go_on(response),
            }
        });
        self.frames = frames;
        refuse(dropped);
        if goes_on {
            self.probe_for_viewers();
        }
    }

    /// The frame of this moment, without number and rows.
    fn frame_contents(&self, end: FrameEnd) -> FrameContents {
        let terminal = &self.follower.terminal;
        // The text of a prompt is on the screen.
        let state = SourcedState {
            prompt: None,
            ..self.shown_state()
        };
        FrameContents {
            number: 0,
            cursor: frame::cursor(terminal),
            top_line: terminal.top_line().0,
            head: FrameHead {
                held: self.hold_notice(),
                ended: end == FrameEnd::Ended,
                ..frame::head(terminal, state)
            },
        }
    }

    /// The state that `get_status` would return, as far as it is known without a new probe.
    fn shown_state(&self) -> SourcedState {
        if let Some(exit) = self.lifecycle.exit().filter(|_| self.is_end_reported()) {
            let exit = launch::exit(exit.status);
            let state = match self.context.record.closing {
                true => PaneState::Closed,
                false => PaneState::Exited,
            };
            return SourcedState {
                exit_code: exit.code(),
                signal: exit.signal(),
                ..SourcedState::new(state, StateSource::Exit)
            };
        }
        if let Some(state) = &self.viewer_state.agent_state {
            return state.clone();
        }
        if let AgentSight::Asks { by, .. } = self.idle.sight() {
            return SourcedState::new(PaneState::NeedsInput, *by);
        }
        let is_valid = self.probing.is_probe_valid(Instant::now());
        let probe = self.viewer_state.probe.as_ref().filter(|_| is_valid);
        let unknown = ForegroundProbe {
            foreground: 0,
            canonical: false,
            echo: false,
            reader: None,
            unreadable: false,
            leader_in_fg: false,
            child_comm: String::new(),
            foreground_comm: String::new(),
        };
        self.state(probe.unwrap_or(&unknown))
    }

    /// Answers with lines of the text, from memory if they are there.
    pub(super) fn lines(&mut self, from: u64, most: u32, responder: Responder) {
        let oldest = self.oldest_line();
        let terminal = &self.follower.terminal;
        let range = LineRange::new(terminal, oldest, from, most);
        if let Some(lines) = frame::lines(terminal, range) {
            return responder.answer(Ok(Response::Attach {
                response: AttachResponse::Lines { lines },
            }));
        }
        // Reading a long log takes a while, and other panes live on this thread.
        let record = Box::new(self.context.record.clone());
        let lines = archive::lines(record, from, most, self.context.daemon.clone());
        whole::answer_later(responder, lines);
    }

    /// The oldest line that the files still have. Checkpoints contain it, so no output has to be read for it.
    fn oldest_line(&mut self) -> u64 {
        let kept = self.follower.terminal.first_kept().0;
        let Some(first) = self.follower.log.first_offset().ok().filter(|_| kept > 0) else {
            return kept;
        };
        match self.viewer_state.oldest_line {
            Some((at, line)) if at == first => line,
            Some(_) | None => {
                let line = archive::oldest_line(&self.context.record, &self.context.daemon);
                let line = line.unwrap_or(kept).min(kept);
                self.viewer_state.oldest_line = Some((first, line));
                line
            }
        }
    }
}

fn planned_frame(plan: FramePlan, terminal: &Terminal) -> Frame {
    let screen = terminal.screen();
    let rows = plan.rows.iter().map(|row| frame::row(&screen, *row));
    Frame {
        number: plan.number,
        whole: plan.whole,
        // Rows that a whole frame does not contain are blank.
        rows: rows
            .filter(|row| !plan.whole || !row.1.is_empty())
            .collect(),
        cursor: plan.cursor,
        offset: terminal.offset().0,
        top_line: plan.top_line,
        head: plan.head,
    }
}

fn refuse(dropped: DroppedRequests<Responder>) {
    for (responder, why) in dropped {
        responder.answer(Err(
            Error::new(ErrorKind::Unavailable, why).hint("ask again")
        ));
    }
}
