//! What an attached client knows and decides.
//!
//! It is handed what was heard from the person's terminal and from the daemon, with the time, and gives what is to be
//! asked and done. It does no I/O; the picture is made from it in `draw`.

mod answers;
mod asks;
mod commands;
mod copying;
mod picker;
mod places;
mod pointer;
mod scroll;
mod stale;
mod typing;
mod view;

#[cfg(test)]
pub mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use fugue_api::{
    Error, PaneId, SessionName, ToolCall,
    attach::{AttachRequest, ClientId, LayoutChange, SessionLayout, ViewerRole},
    overview::{Overview, PaneRow},
    pane_state::PaneState,
    tools::{CreatePane, GetStatus, PaneSize},
    wire::{IdempotencyKey, Request, Response},
};

pub use asks::Ticket;
pub use copying::Copied;
pub use picker::Picker;
pub use places::Places;
pub use scroll::{Direction, Scroll, hits};
pub use stale::Stale;
pub use view::View;

use super::{clean, input::Heard, keys::Press};
use asks::{Asks, Why};
use pointer::Held;
use typing::Typing;

/// What happened.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most inputs are answers")]
pub enum Input {
    Heard(Heard),
    /// The person's terminal has another size.
    Resized(PaneSize),
    Answered(Ticket, Result<Response, Error>),
    /// The connection ended under our questions.
    Lost(Gone),
    /// A daemon is there again.
    Back,
    /// A moment that was asked for by [`Model::wakes_at`].
    Tick,
}

/// How the daemon went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It died: another one is started at once.
    Died,
    /// Somebody stopped it: another one is waited for, or started by a key.
    Stopped,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Ask {
        ticket: Ticket,
        key: IdempotencyKey,
        ask: Request,
    },
    /// Nobody waits for that answer any more.
    Forget(Ticket),
    /// To the person's clipboard.
    Copy(String),
    /// Draw everything again, whatever the screen shows.
    Repaint,
    /// A daemon is wanted, also if there is none.
    Launch,
    Leave(Leave),
}

/// Why it is over.
#[derive(Clone, Debug, PartialEq)]
pub enum Leave {
    Detached,
    /// The session has no pane any more.
    Empty,
    Refused(Error),
}

/// Whether the daemon can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    Down(Gone),
}

/// What the next key is for.
pub enum Mode {
    /// The pane, or looking back over it.
    Pane,
    /// A command: the prefix was pressed.
    Prefix,
    /// Whether the pane is to be closed.
    Close(PaneId),
    Picker(Picker),
    /// The help, from this row on.
    Help(u16),
}

/// What is said in the status line for a while.
pub struct Message {
    pub text: String,
    pub tone: Tone,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Bad,
}

pub struct Model {
    pub me: ClientId,
    pub role: ViewerRole,
    pub size: PaneSize,
    pub session: SessionName,
    asks: Asks,
    pub arrangement: Option<SessionLayout>,
    pub views: BTreeMap<PaneId, View>,
    pub focus: Option<PaneId>,
    before: Option<PaneId>,
    /// A pane that is looked at in all of the room, beside the session's own: one that has ended.
    pub peek: Option<PaneId>,
    pub facts: Overview,
    facts_version: u64,
    facts_asked: Option<Instant>,
    facts_due: Option<Instant>,
    pub commands: BTreeMap<PaneId, String>,
    pub mode: Mode,
    /// Whether a person wants it; `None`: where there is room.
    sidebar: Option<bool>,
    pub message: Option<Message>,
    pub link: Link,
    typing: BTreeMap<PaneId, Typing>,
    pasting: Option<PaneId>,
    copied: Copied,
    held: Option<Held>,
    terminal_has_focus: bool,
    /// A pane is being made, and gets the focus when it is there.
    making: bool,
    /// The room that the daemon knows.
    fitted: PaneSize,
    /// Until then an edge can be pushed again without the prefix.
    again_until: Option<Instant>,
    /// When panes that could not be shown are asked for again.
    look_again_at: Option<Instant>,
    stale: Stale,
}

// How long a message stays, and how long a push may be repeated: long enough to read, and to press a key again.
const MESSAGE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(600);
// A shell that is started again is there by then.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
// The sidebar needs no more than that; a run with hundreds of steps must not be told of hundreds of times a second.
const FACTS_APART: Duration = Duration::from_millis(150);

impl Model {
    pub fn new(base: u64, role: ViewerRole, session: SessionName, size: PaneSize) -> Self {
        Self {
            me: ClientId(base),
            role,
            size,
            session,
            asks: Asks::new(base),
            arrangement: None,
            views: BTreeMap::new(),
            focus: None,
            before: None,
            peek: None,
            facts: Overview::default(),
            facts_version: 0,
            facts_asked: None,
            facts_due: None,
            commands: BTreeMap::new(),
            mode: Mode::Pane,
            sidebar: None,
            message: None,
            link: Link::Up,
            typing: BTreeMap::new(),
            pasting: None,
            copied: Copied::default(),
            held: None,
            terminal_has_focus: true,
            making: false,
            fitted: PaneSize { rows: 0, cols: 0 },
            again_until: None,
            look_again_at: None,
            stale: Stale::All,
        }
    }

    /// The first questions; `pane` is where the person wants to be.
    pub fn start(&mut self, pane: Option<PaneId>, facts: Overview, now: Instant) -> Vec<Effect> {
        self.take_facts(facts);
        self.focus = pane;
        let mut effects = Vec::new();
        if pane.is_some_and(|pane| self.has_ended(pane)) {
            self.peek = pane;
        }
        if self.peek.is_none() || self.session_lives() {
            self.attend(&mut effects);
        } else {
            self.watch(&mut effects);
        }
        self.ask_facts(now, &mut effects);
        effects
    }

    pub fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut stale = Stale::All;
        match input {
            Input::Heard(heard) => {
                let typing = self.is_typing(&heard);
                self.heard(heard, now, &mut effects);
                if typing && self.is_at_rest() {
                    stale = Stale::Nothing;
                }
            }
            Input::Resized(size) => {
                self.size = size;
                self.fit(&mut effects);
                effects.push(Effect::Repaint);
            }
            Input::Answered(ticket, answer) => {
                if let Some(why) = self.asks.close(ticket) {
                    match answer {
                        Ok(answer) => stale = self.answered(why, answer, now, &mut effects),
                        Err(error) => self.refused(why, error, now, &mut effects),
                    }
                }
            }
            Input::Lost(gone) => {
                if self.link == Link::Up {
                    self.link = Link::Down(gone);
                }
            }
            Input::Back => {
                self.link = Link::Up;
                self.message = None;
                self.facts_version = 0;
                effects.extend(self.asks.again());
                self.look_again(&mut effects);
            }
            Input::Tick => {}
        }
        if self
            .message
            .as_ref()
            .is_some_and(|message| message.until <= now)
        {
            self.message = None;
            stale = Stale::All;
        }
        if self.again_until.is_some_and(|until| until <= now) {
            self.again_until = None;
            stale = Stale::All;
        }
        if self.facts_due.is_some_and(|due| due <= now) {
            self.ask_facts(now, &mut effects);
        }
        if self.look_again_at.is_some_and(|at| at <= now) {
            self.look_again_at = None;
            self.look_again(&mut effects);
        }
        // While there is no daemon, questions wait until there is one.
        if self.link != Link::Up {
            effects.retain(|effect| !matches!(effect, Effect::Ask { .. }));
        }
        self.stale = std::mem::take(&mut self.stale).and(stale);
        effects
    }

    /// When something changes by itself.
    pub fn wakes_at(&self) -> Option<Instant> {
        let moments = [
            self.message.as_ref().map(|message| message.until),
            self.again_until,
            self.facts_due,
            self.look_again_at,
        ];
        moments.into_iter().flatten().min()
    }

    /// Whether ages are in sight, which go on by themselves.
    pub fn shows_ages(&self) -> bool {
        self.places().sidebar.is_some() || matches!(self.mode, Mode::Picker(_))
    }

    pub fn say(&mut self, text: impl Into<String>, tone: Tone, now: Instant) {
        self.message = Some(Message {
            text: clean::line(&text.into()),
            tone,
            until: now + MESSAGE,
        });
    }

    /// The flags that the person's keyboard should have for the pane in focus.
    pub fn keyboard(&self) -> u8 {
        let modes = self.focused_view().map(|view| view.modes);
        modes.map_or(0, |modes| modes.keyboard)
    }

    /// Whether every move of the mouse is of interest to somebody.
    pub fn wants_motion(&self) -> bool {
        let all = self.views.values();
        all.into_iter()
            .any(|view| view.modes.mouse == fugue_api::attach::FrameMouseMode::Motion)
    }

    pub fn focused_view(&self) -> Option<&View> {
        self.views.get(&self.shown_focus()?)
    }

    /// The pane that keys go to.
    pub fn shown_focus(&self) -> Option<PaneId> {
        self.peek.or(self.focus)
    }

    pub fn row(&self, pane: PaneId) -> Option<&PaneRow> {
        self.facts.panes.iter().find(|row| row.pane_id == pane)
    }

    fn has_ended(&self, pane: PaneId) -> bool {
        let state = self.row(pane).map(|row| row.state.state);
        matches!(state, Some(PaneState::Exited | PaneState::Closed))
    }

    fn session_lives(&self) -> bool {
        let mut panes = self.facts.panes.iter();
        panes.any(|row| {
            row.session == self.session
                && !matches!(row.state.state, PaneState::Exited | PaneState::Closed)
        })
    }

    // Attending.

    fn attend(&mut self, effects: &mut Vec<Effect>) {
        self.fitted = self.places().room_size();
        let (client, session) = (self.me, self.session.clone());
        let look = AttachRequest::Attend {
            client,
            session: session.clone(),
            room: self.fitted,
            role: self.role,
        };
        effects.push(self.asks.look(Why::Attend, look));
        let look = AttachRequest::Arrangement { session, seen: 0 };
        effects.push(self.asks.look(Why::Arrangement, look));
        self.watch(effects);
    }

    /// Goes to another session, or to an ended pane of one.
    fn go_to(&mut self, pane: PaneId, now: Instant, effects: &mut Vec<Effect>) {
        let Some(row) = self.row(pane).cloned() else {
            return self.say(format!("{pane} is not there any more"), Tone::Bad, now);
        };
        if self.has_ended(pane) {
            self.peek = Some(pane);
            return self.watch(effects);
        }
        self.peek = None;
        if row.session == self.session && self.arrangement.is_some() {
            // A pane behind a zoomed one comes to the front.
            let arrangement = self.arrangement.as_ref();
            let hidden = arrangement
                .and_then(|arrangement| arrangement.zoomed)
                .is_some_and(|zoomed| zoomed != pane);
            if hidden && self.role == ViewerRole::Interactive {
                self.arrange(LayoutChange::Zoom { pane: Some(pane) }, effects);
            }
            self.set_focus(pane, effects);
            return self.watch(effects);
        }
        effects.extend(self.asks.forget(|why| {
            matches!(
                why,
                Why::Attend | Why::Arrangement | Why::View(_) | Why::Lines(_) | Why::Grep(_)
            )
        }));
        // The one who looked at the other session is gone; whatever is still under way for it is not ours.
        self.me = ClientId(self.me.0.wrapping_add(1));
        self.session = row.session;
        self.arrangement = None;
        self.views.clear();
        self.before = None;
        self.focus = Some(pane);
        self.attend(effects);
    }

    /// The daemon learns how much room there is, if that has changed.
    fn fit(&mut self, effects: &mut Vec<Effect>) {
        let room = self.places().room_size();
        if room != self.fitted {
            self.fitted = room;
            self.asks.refit(room);
            let client = self.me;
            effects.extend(self.asks.forget(|why| *why == Why::Fit));
            effects.push(
                self.asks
                    .look(Why::Fit, AttachRequest::Fit { client, room }),
            );
        }
        self.fit_scrolls();
    }

    fn fit_scrolls(&mut self) {
        let places = self.places();
        for tile in self.tiles() {
            let area = places.inside(tile.place);
            if let Some(view) = self.views.get_mut(&tile.pane)
                && let Some(scroll) = &mut view.scroll
            {
                scroll.fit(area.rows, area.cols);
            }
        }
    }

    /// One open question about every pane in sight, and about no other.
    fn watch(&mut self, effects: &mut Vec<Effect>) {
        let shown: Vec<PaneId> = self.tiles().iter().map(|tile| tile.pane).collect();
        effects.extend(self.asks.forget(|why| match why {
            Why::View(pane) | Why::Lines(pane) | Why::Grep(pane) => !shown.contains(pane),
            _ => false,
        }));
        self.views.retain(|pane, _| shown.contains(pane));
        for pane in shown {
            let view = self.views.entry(pane).or_default();
            let seen = view.number;
            let over = (view.ended && seen > 0) || view.trouble.is_some();
            if !over && !self.asks.is_open(|why| *why == Why::View(pane)) {
                let client = self.me;
                let look = AttachRequest::View { client, pane, seen };
                effects.push(self.asks.look(Why::View(pane), look));
            }
            if !self.commands.contains_key(&pane)
                && !self.asks.is_open(|why| *why == Why::Learn(pane))
            {
                effects.push(self.status(pane, Why::Learn(pane)));
            }
        }
    }

    fn status(&mut self, pane: PaneId, why: Why) -> Effect {
        let call = ToolCall::from(GetStatus {
            pane_id: Some(pane.to_string()),
        });
        self.asks.ask(why, Request::Tool { call })
    }

    fn arrange(&mut self, change: LayoutChange, effects: &mut Vec<Effect>) {
        let session = self.session.clone();
        let look = AttachRequest::Arrange { session, change };
        effects.push(self.asks.look(Why::Nothing, look));
    }

    fn set_focus(&mut self, pane: PaneId, effects: &mut Vec<Effect>) {
        if self.focus == Some(pane) {
            return;
        }
        self.tell_focus(false, effects);
        self.before = self.focus;
        self.focus = Some(pane);
        self.tell_focus(true, effects);
    }

    // Facts for sidebar and titles.

    fn ask_facts(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        self.facts_due = None;
        if self.asks.is_open(|why| *why == Why::Everything) {
            return;
        }
        let early = self.facts_asked.map(|asked| asked + FACTS_APART);
        if let Some(due) = early.filter(|due| *due > now) {
            self.facts_due = Some(due);
            return;
        }
        self.facts_asked = Some(now);
        effects.push(self.asks.ask(Why::Everything, Request::Overview));
    }

    fn take_facts(&mut self, facts: Overview) {
        self.facts = facts;
        let known = &self.facts.panes;
        self.commands
            .retain(|pane, _| known.iter().any(|row| row.pane_id == *pane));
        if let Mode::Picker(picker) = &mut self.mode {
            picker.take(&self.facts);
        }
    }
}

/// An interactive shell of this session.
pub fn new_shell(session: &SessionName, cwd: Option<String>, size: PaneSize) -> CreatePane {
    CreatePane {
        command: None,
        cwd,
        name: None,
        session: Some(session.0.clone()),
        env: Default::default(),
        rows: size.rows.clamp(2, 1000),
        cols: size.cols.clamp(2, 1000),
        backend: None,
        shell: None,
    }
}

/// Whether a key is this letter with control.
fn is_ctrl(press: &Press, letter: char) -> bool {
    press.code == super::keys::Code::Char(letter) && press.mods.held() == super::keys::Mods::CTRL
}
