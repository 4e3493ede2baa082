//! The state machine of an attached client.
//!
//! `step` takes an input (a terminal event, a response, a tick) with the time and returns effects. The model does no I/O; `draw`
//! renders it.

mod commands;
mod damage;
mod geometry;
mod picker;
mod pointer;
mod requests;
mod responses;
mod scroll;
mod scroll_mode;
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
    input_encoding::{KeyEvent, Modifiers},
    keys::KeyCode,
    overview::{Overview, PaneRow},
    pane_state::PaneState,
    tools::{CreatePane, GetStatus, PaneSize},
    wire::{IdempotencyKey, Request, Response},
};

pub use damage::ScreenDamage;
pub use geometry::ScreenAreas;
pub use picker::PanePicker;
pub use requests::RequestTicket;
pub use scroll::{ScrollView, SearchDirection, find_matches};
pub use scroll_mode::CopyBuffer;
pub use view::PaneView;

use super::{clean, input::InputEvent};
use pointer::MouseGrab;
use requests::{OpenRequests, RequestPurpose};
use typing::InputQueue;

/// An input of the model: an event of the host terminal, of the daemon connection, or of the clock.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most inputs are responses")]
pub enum ModelInput {
    Terminal(InputEvent),
    /// The host terminal has a new size.
    Resized(PaneSize),
    Response(RequestTicket, Result<Response, Error>),
    /// The connection was lost while requests were open.
    Disconnected(DaemonLoss),
    /// A daemon accepts requests again.
    Reconnected,
    /// The deadline of [`AttachModel::next_deadline`] has passed.
    Tick,
}

/// Why the daemon connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonLoss {
    /// The daemon died: the client starts another at once.
    Died,
    /// A person stopped the daemon: the client waits for the next daemon, and a key press starts one.
    Stopped,
}

/// An effect that the event loop performs for the model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEffect {
    Request {
        ticket: RequestTicket,
        key: IdempotencyKey,
        request: Request,
    },
    /// Drops a request whose response is not needed any more.
    CancelRequest(RequestTicket),
    /// Copies to the person's clipboard.
    Copy(String),
    /// Draws the whole screen, without a comparison with the last screen.
    Repaint,
    /// Connects to a daemon, and starts one where none runs.
    StartDaemon,
    Leave(LeaveReason),
}

/// Why the client detaches.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaveReason {
    Detached,
    /// The session has no panes left.
    Empty,
    Refused(Error),
}

/// The state of the daemon connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    Up,
    Down(DaemonLoss),
}

/// What the next key applies to.
pub enum InputMode {
    /// The pane in focus, or its scroll view.
    Pane,
    /// A command: the prefix key was pressed.
    Prefix,
    /// The confirmation before this pane is closed.
    Close(PaneId),
    Picker(PanePicker),
    /// The help, scrolled to this row.
    Help(u16),
}

/// A message in the status line, shown for [`MESSAGE_TIMEOUT`].
pub struct StatusMessage {
    pub text: String,
    pub tone: MessageTone,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageTone {
    Plain,
    Bad,
}

/// The state of an attached client.
pub struct AttachModel {
    pub me: ClientId,
    pub role: ViewerRole,
    pub size: PaneSize,
    pub session: SessionName,
    requests: OpenRequests,
    pub layout: Option<SessionLayout>,
    pub views: BTreeMap<PaneId, PaneView>,
    pub focus: Option<PaneId>,
    previous_focus: Option<PaneId>,
    /// An ended pane that is shown in the whole pane area instead of the session's layout.
    pub peek: Option<PaneId>,
    pub overview: Overview,
    overview_version: u64,
    overview_requested_at: Option<Instant>,
    overview_due: Option<Instant>,
    pub commands: BTreeMap<PaneId, String>,
    pub mode: InputMode,
    /// Whether the person switched the sidebar on or off; `None` shows it if the screen is wide enough.
    sidebar: Option<bool>,
    pub message: Option<StatusMessage>,
    pub connection: ConnectionState,
    input_queues: BTreeMap<PaneId, InputQueue>,
    /// The pane that receives the paste in progress.
    paste_target: Option<PaneId>,
    copy_buffer: CopyBuffer,
    mouse_grab: Option<MouseGrab>,
    terminal_has_focus: bool,
    /// A `create_pane` call is open; the new pane gets the focus.
    creating_pane: bool,
    /// The size of the pane area that was last sent to the daemon.
    sent_size: PaneSize,
    /// Until then an edge can be moved again without the prefix.
    repeat_until: Option<Instant>,
    /// When frames of panes that could not be shown are requested again.
    retry_views_at: Option<Instant>,
    damage: ScreenDamage,
}

/// How long a message stays: long enough to be read.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an edge can be moved again without the prefix: long enough to press the key a second time.
const REPEAT_TIMEOUT: Duration = Duration::from_millis(600);
/// A shell that is being restarted has its first frame after about this time.
const VIEW_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The minimum interval between overview requests: a run with hundreds of steps changes the overview hundreds of times a second.
const OVERVIEW_INTERVAL: Duration = Duration::from_millis(150);

impl AttachModel {
    pub fn new(base: u64, role: ViewerRole, session: SessionName, size: PaneSize) -> Self {
        Self {
            me: ClientId(base),
            role,
            size,
            session,
            requests: OpenRequests::new(base),
            layout: None,
            views: BTreeMap::new(),
            focus: None,
            previous_focus: None,
            peek: None,
            overview: Overview::default(),
            overview_version: 0,
            overview_requested_at: None,
            overview_due: None,
            commands: BTreeMap::new(),
            mode: InputMode::Pane,
            sidebar: None,
            message: None,
            connection: ConnectionState::Up,
            input_queues: BTreeMap::new(),
            paste_target: None,
            copy_buffer: CopyBuffer::default(),
            mouse_grab: None,
            terminal_has_focus: true,
            creating_pane: false,
            sent_size: PaneSize { rows: 0, cols: 0 },
            repeat_until: None,
            retry_views_at: None,
            damage: ScreenDamage::All,
        }
    }

    /// Returns the first requests; `pane` gets the focus.
    pub fn start(
        &mut self,
        pane: Option<PaneId>,
        overview: Overview,
        now: Instant,
    ) -> Vec<ModelEffect> {
        self.set_overview(overview);
        self.focus = pane;
        let mut effects = Vec::new();
        if pane.is_some_and(|pane| self.has_ended(pane)) {
            self.peek = pane;
        }
        if self.peek.is_none() || self.session_lives() {
            self.attach_session(&mut effects);
        } else {
            self.update_view_requests(&mut effects);
        }
        self.request_overview(now, &mut effects);
        effects
    }

    pub fn step(&mut self, input: ModelInput, now: Instant) -> Vec<ModelEffect> {
        let mut effects = Vec::new();
        let mut damage = ScreenDamage::All;
        match input {
            ModelInput::Terminal(event) => {
                let plain = self.is_plain_input(&event);
                self.handle_input(event, now, &mut effects);
                if plain && self.shows_only_panes() {
                    damage = ScreenDamage::None;
                }
            }
            ModelInput::Resized(size) => {
                self.size = size;
                self.fit(&mut effects);
                effects.push(ModelEffect::Repaint);
            }
            ModelInput::Response(ticket, answer) => {
                if let Some(why) = self.requests.close(ticket) {
                    match answer {
                        Ok(answer) => damage = self.handle_response(why, answer, now, &mut effects),
                        Err(error) => self.handle_error(why, error, now, &mut effects),
                    }
                }
            }
            ModelInput::Disconnected(gone) => {
                if self.connection == ConnectionState::Up {
                    self.connection = ConnectionState::Down(gone);
                }
            }
            ModelInput::Reconnected => {
                self.connection = ConnectionState::Up;
                self.message = None;
                self.overview_version = 0;
                effects.extend(self.requests.resend());
                self.retry_views(&mut effects);
            }
            ModelInput::Tick => {}
        }
        if self
            .message
            .as_ref()
            .is_some_and(|message| message.until <= now)
        {
            self.message = None;
            damage = ScreenDamage::All;
        }
        if self.repeat_until.is_some_and(|until| until <= now) {
            self.repeat_until = None;
            damage = ScreenDamage::All;
        }
        if self.overview_due.is_some_and(|due| due <= now) {
            self.request_overview(now, &mut effects);
        }
        if self.retry_views_at.is_some_and(|at| at <= now) {
            self.retry_views_at = None;
            self.retry_views(&mut effects);
        }
        // Without a connection, requests stay open and are sent by `resend` after the reconnect.
        if self.connection != ConnectionState::Up {
            effects.retain(|effect| !matches!(effect, ModelEffect::Request { .. }));
        }
        self.damage = std::mem::take(&mut self.damage).merge(damage);
        effects
    }

    /// The next time at which `step` needs a [`ModelInput::Tick`].
    pub fn next_deadline(&self) -> Option<Instant> {
        let moments = [
            self.message.as_ref().map(|message| message.until),
            self.repeat_until,
            self.overview_due,
            self.retry_views_at,
        ];
        moments.into_iter().flatten().min()
    }

    /// Whether the screen shows ages, which change without an input.
    pub fn shows_ages(&self) -> bool {
        self.areas().sidebar.is_some() || matches!(self.mode, InputMode::Picker(_))
    }

    pub fn show_message(&mut self, text: impl Into<String>, tone: MessageTone, now: Instant) {
        self.message = Some(StatusMessage {
            text: clean::line(&text.into()),
            tone,
            until: now + MESSAGE_TIMEOUT,
        });
    }

    /// The kitty keyboard flags that the program in the focused pane has set.
    pub fn keyboard(&self) -> u8 {
        let modes = self.focused_view().map(|view| view.modes);
        modes.map_or(0, |modes| modes.keyboard)
    }

    /// Whether a visible program has requested mouse motion events.
    pub fn wants_motion(&self) -> bool {
        let all = self.views.values();
        all.into_iter()
            .any(|view| view.modes.mouse == fugue_api::attach::FrameMouseMode::Motion)
    }

    pub fn focused_view(&self) -> Option<&PaneView> {
        self.views.get(&self.shown_focus()?)
    }

    /// The pane that receives keys.
    pub fn shown_focus(&self) -> Option<PaneId> {
        self.peek.or(self.focus)
    }

    pub fn row(&self, pane: PaneId) -> Option<&PaneRow> {
        self.overview.panes.iter().find(|row| row.pane_id == pane)
    }

    fn has_ended(&self, pane: PaneId) -> bool {
        let state = self.row(pane).map(|row| row.state.state);
        matches!(state, Some(PaneState::Exited | PaneState::Closed))
    }

    fn session_lives(&self) -> bool {
        let mut panes = self.overview.panes.iter();
        panes.any(|row| {
            row.session == self.session
                && !matches!(row.state.state, PaneState::Exited | PaneState::Closed)
        })
    }

    // Sessions and views.

    /// Attaches to the session and requests its layout and frames.
    fn attach_session(&mut self, effects: &mut Vec<ModelEffect>) {
        self.sent_size = self.areas().room_size();
        let (client, session) = (self.me, self.session.clone());
        let request = AttachRequest::JoinSession {
            client,
            session: session.clone(),
            viewport: self.sent_size,
            role: self.role,
        };
        effects.push(self.requests.send_attach(RequestPurpose::Attend, request));
        let request = AttachRequest::GetLayout { session, seen: 0 };
        effects.push(self.requests.send_attach(RequestPurpose::Layout, request));
        self.update_view_requests(effects);
    }

    /// Focuses a pane: in this session, in another one, or an ended pane on its own.
    fn go_to(&mut self, pane: PaneId, now: Instant, effects: &mut Vec<ModelEffect>) {
        let Some(row) = self.row(pane).cloned() else {
            return self.show_message(
                format!("{pane} does not exist any more"),
                MessageTone::Bad,
                now,
            );
        };
        if self.has_ended(pane) {
            self.peek = Some(pane);
            return self.update_view_requests(effects);
        }
        self.peek = None;
        if row.session == self.session && self.layout.is_some() {
            // A pane that is hidden by a zoomed one is zoomed instead.
            let arrangement = self.layout.as_ref();
            let hidden = arrangement
                .and_then(|arrangement| arrangement.zoomed)
                .is_some_and(|zoomed| zoomed != pane);
            if hidden && self.role == ViewerRole::Interactive {
                self.change_layout(LayoutChange::Zoom { pane: Some(pane) }, effects);
            }
            self.set_focus(pane, effects);
            return self.update_view_requests(effects);
        }
        effects.extend(self.requests.cancel(|why| {
            matches!(
                why,
                RequestPurpose::Attend
                    | RequestPurpose::Layout
                    | RequestPurpose::View(_)
                    | RequestPurpose::Lines(_)
                    | RequestPurpose::Grep(_)
            )
        }));
        // A new client id, so that late responses for the other session are not taken for this one.
        self.me = ClientId(self.me.0.wrapping_add(1));
        self.session = row.session;
        self.layout = None;
        self.views.clear();
        self.previous_focus = None;
        self.focus = Some(pane);
        self.attach_session(effects);
    }

    /// Sends the size of the pane area to the daemon, if it has changed.
    fn fit(&mut self, effects: &mut Vec<ModelEffect>) {
        let viewport = self.areas().room_size();
        if viewport != self.sent_size {
            self.sent_size = viewport;
            self.requests.set_attend_size(viewport);
            let client = self.me;
            effects.extend(self.requests.cancel(|why| *why == RequestPurpose::Fit));
            effects.push(self.requests.send_attach(
                RequestPurpose::Fit,
                AttachRequest::SetSize { client, viewport },
            ));
        }
        self.fit_scrolls();
    }

    fn fit_scrolls(&mut self) {
        let areas = self.areas();
        for tile in self.tiles() {
            let area = areas.inside(tile.place);
            if let Some(view) = self.views.get_mut(&tile.pane)
                && let Some(scroll) = &mut view.scroll
            {
                scroll.fit(area.rows, area.cols);
            }
        }
    }

    /// Keeps exactly one frame request open for every visible pane, and cancels those of other panes.
    fn update_view_requests(&mut self, effects: &mut Vec<ModelEffect>) {
        let shown: Vec<PaneId> = self.tiles().iter().map(|tile| tile.pane).collect();
        effects.extend(self.requests.cancel(|why| match why {
            RequestPurpose::View(pane)
            | RequestPurpose::Lines(pane)
            | RequestPurpose::Grep(pane) => !shown.contains(pane),
            _ => false,
        }));
        self.views.retain(|pane, _| shown.contains(pane));
        for pane in shown {
            let view = self.views.entry(pane).or_default();
            let seen = view.number;
            let over = (view.ended && seen > 0) || view.error.is_some();
            if !over
                && !self
                    .requests
                    .is_open(|why| *why == RequestPurpose::View(pane))
            {
                let client = self.me;
                let request = AttachRequest::GetFrame { client, pane, seen };
                effects.push(
                    self.requests
                        .send_attach(RequestPurpose::View(pane), request),
                );
            }
            if !self.commands.contains_key(&pane)
                && !self
                    .requests
                    .is_open(|why| *why == RequestPurpose::PaneCommand(pane))
            {
                effects.push(self.status(pane, RequestPurpose::PaneCommand(pane)));
            }
        }
    }

    fn status(&mut self, pane: PaneId, why: RequestPurpose) -> ModelEffect {
        let call = ToolCall::from(GetStatus {
            pane_id: Some(pane.to_string()),
        });
        self.requests.send(why, Request::Tool { call })
    }

    fn change_layout(&mut self, change: LayoutChange, effects: &mut Vec<ModelEffect>) {
        let session = self.session.clone();
        let request = AttachRequest::ChangeLayout { session, change };
        effects.push(
            self.requests
                .send_attach(RequestPurpose::ErrorOnly, request),
        );
    }

    fn set_focus(&mut self, pane: PaneId, effects: &mut Vec<ModelEffect>) {
        if self.focus == Some(pane) {
            return;
        }
        self.send_focus_event(false, effects);
        self.previous_focus = self.focus;
        self.focus = Some(pane);
        self.send_focus_event(true, effects);
    }

    // The overview, for sidebar and titles.

    /// Requests the overview, at most once per [`OVERVIEW_INTERVAL`].
    fn request_overview(&mut self, now: Instant, effects: &mut Vec<ModelEffect>) {
        self.overview_due = None;
        if self
            .requests
            .is_open(|why| *why == RequestPurpose::Overview)
        {
            return;
        }
        let early = self
            .overview_requested_at
            .map(|asked| asked + OVERVIEW_INTERVAL);
        if let Some(due) = early.filter(|due| *due > now) {
            self.overview_due = Some(due);
            return;
        }
        self.overview_requested_at = Some(now);
        effects.push(
            self.requests
                .send(RequestPurpose::Overview, Request::Overview),
        );
    }

    fn set_overview(&mut self, overview: Overview) {
        self.overview = overview;
        let known = &self.overview.panes;
        self.commands
            .retain(|pane, _| known.iter().any(|row| row.pane_id == *pane));
        if let InputMode::Picker(picker) = &mut self.mode {
            picker.take(&self.overview);
        }
    }
}

/// The arguments for an interactive shell in this session.
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
        ready: None,
        timeout_ms: CreatePane::timeout_ms(),
        run_id: None,
    }
}

/// Whether a key is this letter with Ctrl.
fn is_ctrl(press: &KeyEvent, letter: char) -> bool {
    press.code == KeyCode::Char(letter) && press.mods.held() == Modifiers::CTRL
}
