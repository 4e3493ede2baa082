//! Those who look at a pane: each is given what is different from what it has, when it asks and something is.
//!
//! A frame is made when it is asked for, from the screen as it is then. Only who asks for several at once, on a line, can
//! have as many of them waiting; so a viewer that reads slowly costs next to nothing and misses only what nobody could have
//! read.

use std::time::{Duration, Instant};

use fugue_api::{
    Error, ErrorKind,
    attach::{AttachResponse, ClientId, Frame, FrameCursor, FrameHead},
    panes::{PaneState, SourcedState, StateSource},
    wire::Response,
};
use fugue_holder::wire::ForegroundProbe;
use fugue_term::Terminal;

use super::{Pane, QUIET, launch};
use crate::{
    archive,
    desk::Responder,
    frame::{self, LineRange},
    whole,
};

#[derive(Default)]
pub(super) struct Viewing {
    /// Who asked longest ago comes first.
    viewers: Vec<Viewer>,
    /// The number that was given last. It begins with the daemon's epoch, so that no frame of another's passes for ours.
    number: u64,
    /// What the agent in the pane says of itself.
    says: Option<SourcedState>,
    /// Who reads the terminal, as it was when somebody last looked.
    probe: Option<ForegroundProbe>,
    /// Something was printed or typed since.
    stale: Option<Instant>,
    /// The program is in the middle of a redraw, since then.
    redrawing: Option<Instant>,
    /// When to look again, whatever happens.
    look_at: Option<Instant>,
    /// The oldest line in the files, for as long as the log begins there.
    oldest: Option<(u64, u64)>,
}

struct Viewer {
    client: ClientId,
    /// The frame that it was given last; a new one has none.
    has: Option<Given>,
    rows: Vec<u64>,
    /// How much had been printed by then.
    offset: u64,
    given_at: Option<Instant>,
    asks: Option<FrameRequest>,
}

/// What one who looks asks for: what is different from the frame with this number.
pub struct FrameRequest {
    pub seen: u64,
    /// So many more frames are wanted behind it.
    pub more: u32,
    pub responder: Responder,
}

impl FrameRequest {
    pub fn once(seen: u64, responder: Responder) -> Self {
        Self {
            seen,
            more: 0,
            responder,
        }
    }

    /// Gives it, and what is asked for then.
    fn give(self, frame: Frame) -> Option<Self> {
        let number = frame.number;
        let answer = Ok(Response::Looked {
            found: AttachResponse::Frame {
                frame: Box::new(frame),
            },
        });
        let Some(more) = self.more.checked_sub(1) else {
            self.responder.answer(answer);
            return None;
        };
        self.responder.answer_and_go_on(answer);
        Some(Self {
            seen: number,
            more,
            ..self
        })
    }
}

/// A frame without its rows.
#[derive(Clone)]
struct Given {
    number: u64,
    cursor: FrameCursor,
    top_line: u64,
    head: FrameHead,
}

// More eyes than this on one pane are left behind, and get the whole screen when they ask again.
const MOST_VIEWERS: usize = 32;
// A program that is killed in the middle of a redraw must not hide what comes after it.
const REDRAW: Duration = Duration::from_millis(100);
// As many frames as a screen shows, while a program prints faster than anybody reads: making more would slow it down.
const PACE: Duration = Duration::from_millis(16);
// Somebody who types is shown what comes of it as it comes, for so long.
const ECHO: Duration = Duration::from_millis(100);

impl Viewing {
    pub fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// Somebody waits for what comes next.
    pub fn is_watched(&self) -> bool {
        let asks = self
            .viewers
            .iter()
            .filter_map(|viewer| viewer.asks.as_ref());
        asks.into_iter().any(|asks| !asks.responder.is_gone())
    }

    fn is_awaited(&self) -> bool {
        self.viewers.iter().any(|viewer| viewer.asks.is_some())
    }

    /// Somebody has looked at who reads the terminal.
    pub fn probed(&mut self, probe: &ForegroundProbe) {
        self.probe = Some(probe.clone());
        self.stale = None;
    }

    /// Something was printed or typed, after which that may be otherwise.
    pub fn moved(&mut self, now: Instant) {
        self.stale.get_or_insert(now);
    }

    pub fn printed(&mut self, terminal: &Terminal, now: Instant) {
        self.moved(now);
        match terminal.modes().synchronized {
            true => _ = self.redrawing.get_or_insert(now),
            false => self.redrawing = None,
        }
    }
}

impl Pane {
    pub(super) fn view(&mut self, client: ClientId, asks: FrameRequest) {
        let viewing = &mut self.viewing;
        let place = viewing
            .viewers
            .iter()
            .position(|viewer| viewer.client == client);
        let mut viewer = match place {
            Some(place) => viewing.viewers.remove(place),
            None => Viewer {
                client,
                has: None,
                rows: Vec::new(),
                offset: 0,
                given_at: None,
                asks: None,
            },
        };
        viewer.is_left_behind("the same client asks again");
        viewer.asks = Some(asks);
        if viewing.viewers.len() == MOST_VIEWERS {
            viewing
                .viewers
                .remove(0)
                .is_left_behind("too many look at this pane");
        }
        viewing.viewers.push(viewer);
        self.look_when_quiet();
    }

    /// Whoever looks wants to know who reads the terminal; once, and again whenever it has been quiet.
    fn look_when_quiet(&mut self) {
        if self.look_at.is_none() {
            self.look_at = match (&self.viewing.probe, self.viewing.stale) {
                (None, _) => Some(Instant::now()),
                (Some(_), Some(moved)) => Some(self.last_output.max(moved) + QUIET),
                (Some(_), None) => self.next_look(),
            };
        }
    }

    /// A program that begins to wait for input says nothing. As long as nothing is known but its silence, it is looked at
    /// again for those who look, each time after twice as long.
    pub(super) fn look_later(&mut self) {
        if self.viewing.is_watched() && self.look_at.is_none() {
            self.look_at = self.next_look();
        }
    }

    fn next_look(&self) -> Option<Instant> {
        let state = self.state_shown();
        let unknown = state.by == StateSource::Silence || state.state == PaneState::Running;
        let silent = self.last_activity().elapsed().max(QUIET);
        (unknown && self.keeper.is_some()).then(|| Instant::now() + silent)
    }

    /// Its process has ended, and nobody here knows whether another takes its place.
    fn view_elsewhere(&mut self) {
        for viewer in &mut self.viewing.viewers {
            viewer.is_left_behind("its shell has ended, and may be started again");
        }
    }

    pub(super) fn agent_says(&mut self, says: Option<SourcedState>) {
        self.viewing.says = says;
    }

    /// Gives everybody who asks what is different by now.
    pub(super) fn show(&mut self) {
        self.viewing.look_at = None;
        if !self.viewing.is_awaited() {
            return;
        }
        let now = Instant::now();
        let ended = self.is_told();
        if ended && self.steps.is_some() {
            return self.view_elsewhere();
        }
        if let Some(over) = self.viewing.redrawing.map(|since| since + REDRAW)
            && now < over
            && !ended
        {
            self.viewing.look_at = Some(over);
            return;
        }
        let floods = self.more_to_read && !self.echoes(now);
        let mut viewers = std::mem::take(&mut self.viewing.viewers);
        let mut seen_now: Option<(Given, Option<Vec<u64>>)> = None;
        let mut goes_on = false;
        for viewer in &mut viewers {
            let Some(asks) = viewer.asks.take() else {
                continue;
            };
            let paced = floods && !ended;
            let next = viewer.given_at.map(|at| at + PACE);
            if let Some(next) = next.filter(|next| paced && now < *next) {
                viewer.asks = Some(asks);
                self.look_no_later_than(next);
                continue;
            }
            let (now_is, rows) = seen_now.get_or_insert_with(|| (self.given(ended), None));
            let known = viewer.has.take().filter(|has| {
                has.number == asks.seen && has.head.size == now_is.head.size && !ended
            });
            let offset = self.follower.terminal.offset().0;
            let (same_place, same_head) = known.as_ref().map_or((false, false), |known| {
                let place = (known.cursor, known.top_line) == (now_is.cursor, now_is.top_line);
                (place, known.head == now_is.head)
            });
            let same = same_place && same_head;
            if same && viewer.offset == offset {
                viewer.has = known;
                viewer.asks = Some(asks);
                continue;
            }
            let rows =
                rows.get_or_insert_with(|| self.follower.terminal.screen().known_by().collect());
            let screen = self.follower.terminal.screen();
            let differs = |(row, by): (usize, &u64)| match &known {
                Some(_) => viewer.rows.get(row) != Some(by),
                None => true,
            };
            let different: Vec<u16> = rows
                .iter()
                .enumerate()
                .filter(|row| differs(*row))
                .filter_map(|(row, _)| u16::try_from(row).ok())
                .collect();
            viewer.offset = offset;
            if same && different.is_empty() {
                viewer.has = known;
                viewer.asks = Some(asks);
                continue;
            }
            let whole = known.is_none();
            self.viewing.number += 1;
            now_is.number = (self.seat.house.epoch << 32) + self.viewing.number;
            viewer.has = Some(match known.filter(|_| same_head) {
                Some(known) => Given {
                    head: known.head,
                    ..*now_is
                },
                None => now_is.clone(),
            });
            viewer.rows.clone_from(rows);
            viewer.given_at = Some(now);
            let different = different.into_iter().map(|row| frame::row(&screen, row));
            let frame = Frame {
                number: now_is.number,
                whole,
                // What a whole frame does not speak of is blank.
                rows: different
                    .filter(|row| !whole || !row.1.is_empty())
                    .collect(),
                cursor: now_is.cursor,
                offset,
                top_line: now_is.top_line,
                head: (!same_head).then(|| now_is.head.clone()),
            };
            // There is no more behind the last.
            viewer.asks = asks.give(frame).filter(|_| !ended);
            goes_on |= viewer.asks.is_some();
        }
        let awaited = viewers.iter().any(|viewer| viewer.asks.is_some());
        self.viewing.viewers = viewers;
        if goes_on {
            self.look_when_quiet();
        }
        // A program that falls silent is idle from some moment on, without a word.
        let idle = Duration::from_millis(self.seat.house.settings.idle_threshold_ms() + 1);
        let idle_at = self.last_output + idle;
        if awaited && !ended && now < idle_at {
            self.look_no_later_than(idle_at);
        }
    }

    /// Somebody has just typed, and waits for what comes of it.
    fn echoes(&self, now: Instant) -> bool {
        let typed = self.draft.last_typed().is_some_and(|at| now < at + ECHO);
        typed && !self.floods
    }

    fn look_no_later_than(&mut self, at: Instant) {
        let known = self.viewing.look_at.unwrap_or(at);
        self.viewing.look_at = Some(at.min(known));
    }

    /// What is to be given now, but for its number.
    fn given(&self, ended: bool) -> Given {
        let terminal = &self.follower.terminal;
        // What it asks is on the screen.
        let state = SourcedState {
            prompt: None,
            ..self.state_shown()
        };
        Given {
            number: 0,
            cursor: frame::cursor(terminal),
            top_line: terminal.top_line().0,
            head: FrameHead {
                held: self.hold_notice(),
                ended,
                ..frame::head(terminal, state)
            },
        }
    }

    /// What `get_status` would say, as far as it is known without a look at who reads the terminal.
    fn state_shown(&self) -> SourcedState {
        if let Some((ending, _)) = self.exited.filter(|_| self.is_told()) {
            let exit = launch::exit(ending);
            let state = match self.seat.record.closing {
                true => PaneState::Closed,
                false => PaneState::Exited,
            };
            return SourcedState {
                exit_code: exit.code(),
                signal: exit.signal(),
                ..SourcedState::new(state, StateSource::Exit)
            };
        }
        if let Some(says) = &self.viewing.says {
            return says.clone();
        }
        // A look is believed a little longer than until the next one, so that a key pressed at a prompt is not told as two
        // changes of state.
        let stale = self.viewing.stale.map(|since| since.elapsed() > 2 * QUIET);
        let probe = self.viewing.probe.as_ref().filter(|_| stale != Some(true));
        let nothing = ForegroundProbe {
            foreground: 0,
            canonical: false,
            echo: false,
            reader: None,
            unreadable: false,
            leader_in_fg: false,
            child_comm: String::new(),
            foreground_comm: String::new(),
        };
        self.state(probe.unwrap_or(&nothing))
    }

    /// Lines of the text, from memory if they are there.
    pub(super) fn lines(&mut self, from: u64, most: u32, responder: Responder) {
        let oldest = self.oldest_line();
        let terminal = &self.follower.terminal;
        let range = LineRange::of(terminal, oldest, from, most);
        if let Some(lines) = frame::lines(terminal, range) {
            return responder.answer(Ok(Response::Looked {
                found: AttachResponse::Lines { lines },
            }));
        }
        // Reading a long log back takes a while, and other panes live on this thread.
        let record = Box::new(self.seat.record.clone());
        let lines = archive::lines(record, from, most, self.seat.house.clone());
        whole::answer_later(responder, lines);
    }

    /// The first line that some file still has. A checkpoint knows it, so that nothing need be read back for it.
    fn oldest_line(&mut self) -> u64 {
        let kept = self.follower.terminal.first_kept().0;
        let Some(first) = self.follower.log.first().ok().filter(|_| kept > 0) else {
            return kept;
        };
        match self.viewing.oldest {
            Some((at, line)) if at == first => line,
            Some(_) | None => {
                let line = archive::oldest_line(&self.seat.record, &self.seat.house);
                let line = line.unwrap_or(kept).min(kept);
                self.viewing.oldest = Some((first, line));
                line
            }
        }
    }
}

impl Viewer {
    fn is_left_behind(&mut self, why: &str) {
        if let Some(asks) = self.asks.take() {
            asks.responder.answer(Err(
                Error::new(ErrorKind::Unavailable, why).hint("ask again")
            ));
        }
    }
}
