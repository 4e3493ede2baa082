//! Frames: which viewer gets a frame, when, and with which rows.
//!
//! A frame is made when a viewer has requested one and the screen differs from the viewer's last frame. A viewer that
//! reads slowly therefore costs next to nothing and skips intermediate screens. Only a viewer that requests several frames
//! at once can have several frames on the way.

use std::time::{Duration, Instant};

use fugue_api::attach::{ClientId, FrameCursor, FrameHead};

/// The viewers of one pane. `R` is the handle that a frame is sent to.
#[derive(Debug)]
pub struct FrameScheduler<R> {
    /// The viewer with the oldest request first.
    viewers: Vec<PaneViewer<R>>,
    /// The number of the last frame. Frame numbers begin with the daemon's epoch, so that frames of two daemons differ.
    number: u64,
    /// When the program began a redraw that is not complete (mode 2026).
    redraw_since: Option<Instant>,
    /// When a frame has to be considered again without output.
    deadline: Option<Instant>,
}

/// A viewer's request for the difference to a frame.
#[derive(Debug)]
pub struct ViewerRequest<R> {
    /// The number of the frame that the viewer has.
    pub seen: u64,
    /// How many more frames may follow without another request.
    pub more: u32,
    pub reply_to: R,
}

#[derive(Debug)]
struct PaneViewer<R> {
    client: ClientId,
    /// The last frame; `None` for a new viewer.
    last: Option<FrameContents>,
    /// The row hashes of the last frame.
    rows: Vec<u64>,
    /// The output offset of the last comparison.
    offset: u64,
    sent_at: Option<Instant>,
    request: Option<ViewerRequest<R>>,
}

/// A frame without its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameContents {
    pub number: u64,
    pub cursor: FrameCursor,
    pub top_line: u64,
    pub head: FrameHead,
}

/// A frame to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct FramePlan {
    pub number: u64,
    /// The frame replaces the viewer's screen; rows that it does not contain are blank.
    pub whole: bool,
    /// The rows that differ, counted from 0.
    pub rows: Vec<u16>,
    pub cursor: FrameCursor,
    pub top_line: u64,
    /// `None`: as in the last frame.
    pub head: Option<FrameHead>,
}

/// The recipient of a frame.
#[derive(Debug, PartialEq)]
pub enum FrameRecipient<'a, R> {
    /// The request's last frame.
    Last(R),
    /// More frames may follow to the same request.
    More(&'a R),
}

/// The state of the pane in one turn of its task.
pub struct FrameView<'a> {
    pub now: Instant,
    pub epoch: u64,
    pub end: FrameEnd,
    /// The offset up to which output has been read.
    pub offset: u64,
    /// Output waits to be read.
    pub has_unread_output: bool,
    /// The last read was full: the program prints faster than the pane reads.
    pub is_flooding: bool,
    pub last_typed: Option<Instant>,
    pub last_output: Instant,
    /// The pane's state changes to idle when nothing is printed for longer than this.
    pub idle_threshold: Duration,
    pub contents: &'a dyn Fn() -> FrameContents,
    /// The version of every row of the screen.
    pub rows: &'a dyn Fn() -> Vec<u64>,
}

/// Whether the pane has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    Running,
    Ended,
    /// The process has ended, and the shell may be started again for the next step of a pipeline.
    MayRestart,
}

/// Whether the program is in the middle of a synchronized redraw (mode 2026).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedrawState {
    Complete,
    Incomplete,
}

/// Requests that were dropped, each with the reason.
pub type DroppedRequests<R> = Vec<(R, &'static str)>;

/// The limit of viewers per pane. The viewer with the oldest request is dropped and gets a whole frame at its next request.
const MAX_VIEWERS: usize = 32;
/// The longest redraw that frames wait for. A program may be killed in the middle of a redraw.
const REDRAW_TIMEOUT: Duration = Duration::from_millis(100);
/// 60 frames per second, while a program prints faster than a person reads: more frames would slow the program down.
const FRAME_INTERVAL: Duration = Duration::from_millis(16);
/// After a key, frames are sent without pacing for this long, so that the echo appears at once.
const ECHO_WINDOW: Duration = Duration::from_millis(100);

impl<R> Default for FrameScheduler<R> {
    fn default() -> Self {
        Self {
            viewers: Vec::new(),
            number: 0,
            redraw_since: None,
            deadline: None,
        }
    }
}

impl<R> FrameScheduler<R> {
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether a viewer waits for a frame whose connection is open.
    pub fn is_watched(&self, is_open: impl Fn(&R) -> bool) -> bool {
        let requests = self
            .viewers
            .iter()
            .filter_map(|viewer| viewer.request.as_ref());
        requests
            .into_iter()
            .any(|request| is_open(&request.reply_to))
    }

    fn has_requests(&self) -> bool {
        self.viewers.iter().any(|viewer| viewer.request.is_some())
    }

    /// Something was printed.
    pub fn on_output(&mut self, redraw: RedrawState, now: Instant) {
        match redraw {
            RedrawState::Incomplete => _ = self.redraw_since.get_or_insert(now),
            RedrawState::Complete => self.redraw_since = None,
        }
    }

    /// Adds a request. An older request of the same client is dropped.
    pub fn request(&mut self, client: ClientId, request: ViewerRequest<R>) -> DroppedRequests<R> {
        let mut dropped = Vec::new();
        let known = self
            .viewers
            .iter()
            .position(|viewer| viewer.client == client);
        let mut viewer = match known {
            Some(index) => self.viewers.remove(index),
            None => PaneViewer::new(client),
        };
        dropped.extend(viewer.drop_request("the same client asks again"));
        viewer.request = Some(request);
        if self.viewers.len() == MAX_VIEWERS {
            let mut oldest = self.viewers.remove(0);
            dropped.extend(oldest.drop_request("too many look at this pane"));
        }
        self.viewers.push(viewer);
        dropped
    }

    /// Sends a frame to every viewer that has requested one and whose screen differs. Returns the dropped requests, and
    /// whether a viewer that was sent a frame waits for the next one.
    pub fn send_frames(
        &mut self,
        view: &FrameView<'_>,
        mut send: impl FnMut(FrameRecipient<'_, R>, FramePlan),
    ) -> (DroppedRequests<R>, bool) {
        self.deadline = None;
        if !self.has_requests() {
            return (Vec::new(), false);
        }
        if view.end == FrameEnd::MayRestart {
            let why = "its shell has ended, and may be started again";
            let viewers = self.viewers.iter_mut();
            let dropped = viewers.filter_map(|viewer| viewer.drop_request(why));
            return (dropped.collect(), false);
        }
        let has_ended = view.end == FrameEnd::Ended;
        if let Some(over) = self.redraw_since.map(|since| since + REDRAW_TIMEOUT)
            && view.now < over
            && !has_ended
        {
            self.deadline = Some(over);
            return (Vec::new(), false);
        }
        let is_paced = view.has_unread_output && !view.is_echo_due() && !has_ended;
        let mut screen = CurrentScreen::default();
        let mut goes_on = false;
        for viewer in &mut self.viewers {
            let Some(request) = viewer.request.take() else {
                continue;
            };
            let next = viewer.sent_at.map(|at| at + FRAME_INTERVAL);
            if let Some(next) = next.filter(|next| is_paced && view.now < *next) {
                viewer.request = Some(request);
                self.deadline = earlier(self.deadline, next);
                continue;
            }
            let Some(plan) = viewer.plan(&request, view, &mut screen, &mut self.number) else {
                viewer.request = Some(request);
                continue;
            };
            viewer.request = request.send(plan, &mut send).filter(|_| !has_ended);
            goes_on |= viewer.request.is_some();
        }
        // The state changes to idle without output.
        let idle_at = view.last_output + view.idle_threshold + Duration::from_millis(1);
        if self.has_requests() && !has_ended && view.now < idle_at {
            self.deadline = earlier(self.deadline, idle_at);
        }
        (Vec::new(), goes_on)
    }
}

fn earlier(known: Option<Instant>, at: Instant) -> Option<Instant> {
    Some(known.map_or(at, |known| known.min(at)))
}

impl FrameView<'_> {
    /// Whether a key was typed a moment ago whose echo is shown without pacing.
    fn is_echo_due(&self) -> bool {
        let is_recent = |at: Instant| self.now < at + ECHO_WINDOW;
        self.last_typed.is_some_and(is_recent) && !self.is_flooding
    }
}

/// The screen of this turn, read when the first viewer needs it.
#[derive(Default)]
struct CurrentScreen {
    contents: Option<FrameContents>,
    rows: Option<Vec<u64>>,
}

impl<R> PaneViewer<R> {
    fn new(client: ClientId) -> Self {
        Self {
            client,
            last: None,
            rows: Vec::new(),
            offset: 0,
            sent_at: None,
            request: None,
        }
    }

    fn drop_request(&mut self, why: &'static str) -> Option<(R, &'static str)> {
        let request = self.request.take()?;
        Some((request.reply_to, why))
    }

    /// The viewer's next frame. `None`: its last frame is still right.
    fn plan(
        &mut self,
        request: &ViewerRequest<R>,
        view: &FrameView<'_>,
        screen: &mut CurrentScreen,
        number: &mut u64,
    ) -> Option<FramePlan> {
        let current = screen.contents.get_or_insert_with(view.contents);
        let known = self.last.take().filter(|last| {
            let is_known = last.number == request.seen && last.head.size == current.head.size;
            is_known && view.end == FrameEnd::Running
        });
        let is_same_head = known
            .as_ref()
            .is_some_and(|known| known.head == current.head);
        let is_same = is_same_head
            && known.as_ref().is_some_and(|known| {
                (known.cursor, known.top_line) == (current.cursor, current.top_line)
            });
        if is_same && self.offset == view.offset {
            self.last = known;
            return None;
        }
        let rows = screen.rows.get_or_insert_with(view.rows);
        let differs = |(row, version): &(usize, &u64)| {
            known.is_none() || self.rows.get(*row) != Some(*version)
        };
        let different: Vec<u16> = rows
            .iter()
            .enumerate()
            .filter(differs)
            .filter_map(|(row, _)| u16::try_from(row).ok())
            .collect();
        self.offset = view.offset;
        if is_same && different.is_empty() {
            self.last = known;
            return None;
        }
        *number += 1;
        current.number = (view.epoch << 32) + *number;
        let whole = known.is_none();
        self.last = Some(match known.filter(|_| is_same_head) {
            // The old head is reused instead of a copy.
            Some(known) => FrameContents {
                head: known.head,
                ..*current
            },
            None => current.clone(),
        });
        self.rows.clone_from(rows);
        self.sent_at = Some(view.now);
        Some(FramePlan {
            number: current.number,
            whole,
            rows: different,
            cursor: current.cursor,
            top_line: current.top_line,
            head: (!is_same_head).then(|| current.head.clone()),
        })
    }
}

impl<R> ViewerRequest<R> {
    /// A request for one frame.
    pub fn once(seen: u64, reply_to: R) -> Self {
        Self {
            seen,
            more: 0,
            reply_to,
        }
    }

    /// Sends a frame, and returns the request for the next one.
    fn send(
        self,
        plan: FramePlan,
        send: &mut impl FnMut(FrameRecipient<'_, R>, FramePlan),
    ) -> Option<Self> {
        let seen = plan.number;
        let Some(more) = self.more.checked_sub(1) else {
            send(FrameRecipient::Last(self.reply_to), plan);
            return None;
        };
        send(FrameRecipient::More(&self.reply_to), plan);
        Some(Self { seen, more, ..self })
    }
}

#[cfg(test)]
mod tests {
    use fugue_api::{
        attach::FrameModes,
        pane_state::{PaneState, SourcedState, StateSource},
        tools::PaneSize,
    };

    use super::{super::test_clock::at, *};

    /// A pane with three rows, whose viewers are letters.
    struct Script {
        frames: FrameScheduler<char>,
        rows: Vec<u64>,
        offset: u64,
        cursor: FrameCursor,
        end: FrameEnd,
        has_unread_output: bool,
        is_flooding: bool,
        last_typed: Option<Instant>,
        last_output: u64,
    }

    impl Script {
        fn new() -> Self {
            Self {
                frames: FrameScheduler::default(),
                rows: vec![1, 2, 3],
                offset: 10,
                cursor: FrameCursor::default(),
                end: FrameEnd::Running,
                has_unread_output: false,
                is_flooding: false,
                last_typed: None,
                last_output: 0,
            }
        }

        fn asks(&mut self, viewer: char, seen: u64, more: u32) -> DroppedRequests<char> {
            let request = ViewerRequest {
                seen,
                more,
                reply_to: viewer,
            };
            let client = ClientId(u64::from(u32::from(viewer)));
            self.frames.request(client, request)
        }

        fn prints(&mut self, row: usize, ms: u64) {
            self.rows[row] += 10;
            self.offset += 1;
            self.last_output = ms;
        }

        /// The frames of one turn: the viewer and the rows.
        fn turn(&mut self, ms: u64) -> Vec<(char, FramePlan)> {
            let contents = || FrameContents {
                number: 0,
                cursor: self.cursor,
                top_line: 0,
                head: FrameHead {
                    size: PaneSize { rows: 3, cols: 10 },
                    modes: FrameModes::default(),
                    title: String::new(),
                    state: SourcedState::new(PaneState::Running, StateSource::Silence),
                    held: None,
                    ended: self.end == FrameEnd::Ended,
                },
            };
            let view = FrameView {
                now: at(ms),
                epoch: 1,
                end: self.end,
                offset: self.offset,
                has_unread_output: self.has_unread_output,
                is_flooding: self.is_flooding,
                last_typed: self.last_typed,
                last_output: at(self.last_output),
                idle_threshold: Duration::from_secs(5),
                contents: &contents,
                rows: &|| self.rows.clone(),
            };
            let mut sent = Vec::new();
            self.frames.send_frames(&view, |to, plan| {
                let viewer = match to {
                    FrameRecipient::Last(viewer) => viewer,
                    FrameRecipient::More(viewer) => *viewer,
                };
                sent.push((viewer, plan));
            });
            sent
        }

        /// The only frame of one turn.
        fn frame(&mut self, ms: u64) -> FramePlan {
            let mut sent = self.turn(ms);
            assert_eq!(sent.len(), 1, "{sent:?}");
            sent.remove(0).1
        }
    }

    #[test]
    fn the_first_frame_is_whole_and_the_next_one_has_the_rows_that_differ() {
        let mut pane = Script::new();
        pane.asks('a', 0, 0);
        let first = pane.frame(0);
        assert!(first.whole && first.head.is_some());
        assert_eq!(first.rows, [0, 1, 2]);
        pane.asks('a', first.number, 0);
        assert_eq!(pane.turn(1), [], "nothing differs");
        assert_eq!(pane.frames.deadline(), Some(at(5001)), "idle by then");
        pane.prints(1, 20);
        let second = pane.frame(20);
        assert!(!second.whole && second.head.is_none());
        assert_eq!(second.rows, [1]);
        assert!(second.number > first.number);
        pane.prints(2, 30);
        assert_eq!(pane.turn(30), [], "not requested");
    }

    #[test]
    fn a_viewer_with_another_frame_gets_a_whole_one() {
        let mut pane = Script::new();
        pane.asks('a', 0, 0);
        pane.frame(0);
        pane.asks('a', 12_345, 0);
        assert!(pane.frame(1).whole);
    }

    #[test]
    fn a_moved_cursor_is_a_frame_without_rows() {
        let mut pane = Script::new();
        pane.asks('a', 0, 1);
        pane.frame(0);
        pane.cursor.col = 4;
        let moved = pane.frame(1);
        assert_eq!((moved.rows.len(), moved.cursor.col), (0, 4));
    }

    #[test]
    fn a_request_for_several_frames_is_used_up() {
        let mut pane = Script::new();
        pane.asks('a', 0, 1);
        for ms in [0, 1] {
            pane.prints(0, ms);
            pane.frame(ms);
        }
        pane.prints(0, 2);
        assert_eq!(pane.turn(2), []);
    }

    #[test]
    fn while_output_waits_frames_are_paced_except_for_an_echo() {
        let mut pane = Script::new();
        pane.asks('a', 0, 9);
        pane.frame(0);
        pane.has_unread_output = true;
        pane.prints(0, 5);
        assert_eq!(pane.turn(5), []);
        assert_eq!(pane.frames.deadline(), Some(at(16)));
        pane.last_typed = Some(at(6));
        assert_eq!(pane.frame(7).rows, [0], "the echo of a key");
        pane.is_flooding = true;
        pane.prints(0, 8);
        assert_eq!(pane.turn(8), [], "in a flood no echo is found");
        assert_eq!(pane.frame(23).rows, [0]);
    }

    #[test]
    fn a_redraw_is_shown_when_it_is_complete_or_after_100_ms() {
        let mut pane = Script::new();
        pane.asks('a', 0, 9);
        pane.frames.on_output(RedrawState::Incomplete, at(0));
        pane.frames.on_output(RedrawState::Incomplete, at(90));
        assert_eq!(pane.turn(90), []);
        assert_eq!(pane.frames.deadline(), Some(at(100)));
        assert!(pane.frame(100).whole);
        pane.prints(0, 200);
        pane.frames.on_output(RedrawState::Complete, at(200));
        assert_eq!(pane.frame(200).rows, [0]);
    }

    #[test]
    fn dropped_requests_have_a_reason() {
        let mut pane = Script::new();
        assert_eq!(pane.asks('a', 0, 0), []);
        assert_eq!(pane.asks('a', 0, 0), [('a', "the same client asks again")]);
        for viewer in 0..31 {
            let viewer = char::from_u32(0x100 + viewer).unwrap();
            assert_eq!(pane.asks(viewer, 0, 0), []);
        }
        assert_eq!(pane.asks('z', 0, 0), [('a', "too many look at this pane")]);
        assert!(pane.frames.is_watched(|viewer| *viewer == 'z'));
        assert!(!pane.frames.is_watched(|_| false));
    }

    #[test]
    fn the_last_frame_of_an_ended_pane_is_whole_and_ends_the_request() {
        let mut pane = Script::new();
        pane.asks('a', 0, 9);
        pane.frame(0);
        pane.end = FrameEnd::Ended;
        let last = pane.frame(1);
        assert!(last.whole && last.head.is_some_and(|head| head.ended));
        assert_eq!(pane.turn(2), []);
    }

    #[test]
    fn a_shell_that_may_be_started_again_has_no_last_frame() {
        let mut pane = Script::new();
        pane.asks('a', 0, 9);
        pane.end = FrameEnd::MayRestart;
        assert_eq!(pane.turn(0), []);
        assert!(!pane.frames.is_watched(|_| true));
    }
}
