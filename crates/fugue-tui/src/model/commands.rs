//! Key bindings: prefix commands, and keys in the picker and the help.

use std::time::Instant;

use fugue_api::{
    PaneId, ToolCall,
    attach::{LayoutChange, SplitSide, ViewerRole},
    input_encoding::{KeyEvent, KeyEventKind, Modifiers},
    keys::KeyCode,
    tools::ClosePane,
    wire::Request,
};

use super::{
    AttachModel, ConnectionState, DaemonLoss, InputMode, LeaveReason, MessageTone, ModelEffect,
    PanePicker, REPEAT_TIMEOUT, is_ctrl, requests::RequestPurpose,
};
use crate::{draw::HELP_ROWS, input::InputEvent};

impl AttachModel {
    pub(super) fn handle_input(
        &mut self,
        event: InputEvent,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        if self.connection == ConnectionState::Down(DaemonLoss::Stopped)
            && matches!(&event, InputEvent::Key(press) if press.kind != KeyEventKind::Release && !is_ctrl(press, 'b'))
            && matches!(self.mode, InputMode::Pane)
        {
            // The key is queued until the daemon runs.
            self.connection = ConnectionState::Down(DaemonLoss::Died);
            effects.push(ModelEffect::StartDaemon);
        }
        match event {
            InputEvent::Key(press) => self.key(press, now, effects),
            InputEvent::Mouse(mouse) => self.mouse(mouse, now, effects),
            InputEvent::Focus(has) => {
                if has {
                    self.terminal_has_focus = true;
                    self.send_focus_event(true, effects);
                } else {
                    self.send_focus_event(false, effects);
                    self.terminal_has_focus = false;
                }
            }
            InputEvent::Unknown(bytes) => {
                if matches!(self.mode, InputMode::Pane) && !self.is_scrolling() {
                    self.pass_unknown(&bytes, now, effects);
                }
            }
            paste @ (InputEvent::PasteStart | InputEvent::PasteChunk(_) | InputEvent::PasteEnd) => {
                self.pasted(paste, now, effects);
            }
            InputEvent::KittySupported | InputEvent::DeviceAttributes => {}
        }
    }

    fn pasted(&mut self, paste: InputEvent, now: Instant, effects: &mut Vec<ModelEffect>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let scrolling = self.is_scrolling();
        match (&mut self.mode, &paste) {
            (InputMode::Picker(picker), InputEvent::PasteChunk(bytes)) => {
                picker.type_text(&text(bytes))
            }
            (InputMode::Pane, InputEvent::PasteChunk(bytes)) if scrolling => {
                self.type_into_prompt(&text(bytes));
            }
            (InputMode::Pane | InputMode::Prefix, _) if !scrolling => {
                self.mode = InputMode::Pane;
                self.pass_paste(paste, now, effects);
            }
            (
                InputMode::Pane
                | InputMode::Prefix
                | InputMode::Close(_)
                | InputMode::Picker(_)
                | InputMode::Help(_),
                _,
            ) => {}
        }
    }

    fn key(&mut self, press: KeyEvent, now: Instant, effects: &mut Vec<ModelEffect>) {
        // Only a pane's program uses key releases.
        if press.kind == KeyEventKind::Release {
            if matches!(self.mode, InputMode::Pane)
                && !self.is_scrolling()
                && self.role == ViewerRole::Interactive
                && self.focused_view().is_some_and(|view| !view.ended)
            {
                self.pass_key(&press, now, effects);
            }
            return;
        }
        // A modifier key alone is not a command.
        let alone = matches!(
            press.code,
            KeyCode::Numbered(57_358..=57_360 | 57_441..=57_454)
        );
        if !alone {
            // The next key dismisses the message.
            self.message = None;
        }
        match &mut self.mode {
            InputMode::Pane => {
                if is_ctrl(&press, 'b') {
                    self.mode = InputMode::Prefix;
                } else if self.repeat_until.is_some() && self.push(&press, now, effects) {
                    // The edge was moved again without the prefix.
                } else if self.is_scrolling() {
                    if !alone {
                        self.scroll_key(&press, now, effects);
                    }
                } else if !(alone && self.role == ViewerRole::ReadOnly) {
                    self.repeat_until = None;
                    self.pass_key(&press, now, effects);
                }
            }
            _ if alone => {}
            InputMode::Prefix => {
                self.mode = InputMode::Pane;
                self.command(&press, now, effects);
            }
            InputMode::Close(pane) => {
                let pane = *pane;
                self.mode = InputMode::Pane;
                if press.typed_char() == Some('y') {
                    let call = ToolCall::from(ClosePane {
                        pane_id: pane.to_string(),
                        grace_ms: ClosePane::grace_ms(),
                    });
                    effects.push(
                        self.requests
                            .send(RequestPurpose::Close(pane), Request::Tool { call }),
                    );
                    if self.peek == Some(pane) {
                        self.unpeek(effects);
                    }
                }
            }
            InputMode::Picker(_) => self.picker_key(&press, now, effects),
            InputMode::Help(top) => {
                let most = HELP_ROWS.saturating_sub(1);
                match press.code {
                    KeyCode::Up | KeyCode::Char('k') => *top = top.saturating_sub(1),
                    KeyCode::Down | KeyCode::Char('j') => *top = (*top + 1).min(most),
                    KeyCode::PageUp => *top = top.saturating_sub(10),
                    KeyCode::PageDown | KeyCode::Char(' ') => *top = (*top + 10).min(most),
                    KeyCode::Home => *top = 0,
                    KeyCode::End => *top = most,
                    _ => self.mode = InputMode::Pane,
                }
            }
        }
    }

    fn picker_key(&mut self, press: &KeyEvent, now: Instant, effects: &mut Vec<ModelEffect>) {
        let InputMode::Picker(picker) = &mut self.mode else {
            return;
        };
        match press.code {
            KeyCode::Escape => self.mode = InputMode::Pane,
            KeyCode::Enter => {
                let picked = picker.picked();
                self.mode = InputMode::Pane;
                if let Some(pane) = picked {
                    self.go_to(pane, now, effects);
                }
            }
            KeyCode::Up => picker.go(-1),
            KeyCode::Down => picker.go(1),
            KeyCode::PageUp => picker.go(-10),
            KeyCode::PageDown => picker.go(10),
            KeyCode::Home => picker.go(i64::from(i32::MIN)),
            KeyCode::End => picker.go(i64::from(i32::MAX)),
            KeyCode::Backspace => picker.erase(),
            _ if is_ctrl(press, 'c') || is_ctrl(press, 'g') => self.mode = InputMode::Pane,
            _ if is_ctrl(press, 'p') => picker.go(-1),
            _ if is_ctrl(press, 'n') => picker.go(1),
            _ if is_ctrl(press, 'u') => {
                picker.filter.clear();
                picker.chosen = 0;
            }
            _ => {
                if let Some(c) = press.typed_char() {
                    picker.type_text(c.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    /// Executes the command of the key after the prefix.
    fn command(&mut self, press: &KeyEvent, now: Instant, effects: &mut Vec<ModelEffect>) {
        if is_ctrl(press, 'b') {
            return self.pass_key(press, now, effects);
        }
        if self.push(press, now, effects) {
            return;
        }
        if let Some(side) = arrow_side(press, Modifiers::NONE) {
            let next = self.focus.and_then(|pane| self.neighbour(pane, side));
            return self.focus_on(next, effects);
        }
        if press.code == KeyCode::PageUp {
            self.start_scroll(now, effects);
            return self.page(-1, effects);
        }
        let Some(c) = press.typed_char() else {
            // Escape and other keys without a character cancel the prefix.
            return;
        };
        match c {
            'd' => effects.push(ModelEffect::Leave(LeaveReason::Detached)),
            '%' => self.split(SplitSide::Right, now, effects),
            '"' => self.split(SplitSide::Below, now, effects),
            'c' => {
                if self.may_change(now) {
                    self.peek = None;
                    self.unzoom(effects);
                    // The new shell starts in the directory of the pane in focus.
                    match self.focus {
                        Some(of) => self.new_pane_at(of, effects),
                        None => {
                            let key = self.requests.new_key();
                            self.create(key, None, effects);
                        }
                    }
                }
            }
            'z' => self.zoom(now, effects),
            'x' => {
                if let Some(pane) = self.shown_focus().filter(|_| self.may_change(now)) {
                    self.mode = InputMode::Close(pane);
                }
            }
            'w' | 's' => {
                let picker = PanePicker::new(&self.overview, self.shown_focus());
                self.mode = InputMode::Picker(picker);
                self.request_overview(now, effects);
            }
            'o' => self.focus_step(1, effects),
            ';' => self.focus_on(self.previous_focus, effects),
            '{' => self.swap(-1, now, effects),
            '}' => self.swap(1, now, effects),
            ' ' => {
                if self.may_change(now) {
                    self.unzoom(effects);
                    self.change_layout(LayoutChange::Tiled, effects);
                }
            }
            '[' => self.start_scroll(now, effects),
            ']' => self.paste_copied(now, effects),
            'b' => {
                self.sidebar = Some(self.areas().sidebar.is_none());
                self.fit(effects);
            }
            'r' => effects.push(ModelEffect::Repaint),
            '?' => self.mode = InputMode::Help(0),
            'q' if self.peek.is_some() => self.unpeek(effects),
            other => {
                let text = format!("C-b {other} is not bound; C-b ? lists the keys");
                self.show_message(text, MessageTone::Plain, now);
            }
        }
    }

    /// Whether this client may change the session; a read-only one shows a message.
    fn may_change(&mut self, now: Instant) -> bool {
        if self.role == ViewerRole::ReadOnly {
            self.show_message(
                "read-only: nothing can be changed from here",
                MessageTone::Plain,
                now,
            );
        }
        self.role == ViewerRole::Interactive
    }

    /// Returns from an ended pane to the session; detaches if the session has no panes left.
    pub(super) fn unpeek(&mut self, effects: &mut Vec<ModelEffect>) {
        self.peek = None;
        if !self.requests.is_open(|why| *why == RequestPurpose::Attend) {
            effects.push(ModelEffect::Leave(LeaveReason::Empty));
        }
        self.update_view_requests(effects);
    }

    fn push(&mut self, press: &KeyEvent, now: Instant, effects: &mut Vec<ModelEffect>) -> bool {
        let Some(side) = arrow_side(press, Modifiers::CTRL) else {
            return false;
        };
        let Some(pane) = self.focus.filter(|_| self.may_change(now)) else {
            return true;
        };
        // The edge on that side moves outwards; at the screen's edge the opposite edge moves instead.
        let at_edge = self.lies_at_edge(pane, side);
        let change = match at_edge {
            false => LayoutChange::MoveEdge { pane, side, by: 1 },
            true => LayoutChange::MoveEdge {
                pane,
                side: opposite(side),
                by: -1,
            },
        };
        self.change_layout(change, effects);
        self.repeat_until = Some(now + REPEAT_TIMEOUT);
        true
    }

    fn lies_at_edge(&self, pane: PaneId, side: SplitSide) -> bool {
        let (Some(tile), Some(arrangement)) = (self.tile(pane), &self.layout) else {
            return false;
        };
        let (place, room) = (tile.place, arrangement.viewport);
        match side {
            SplitSide::Left => place.col == 0,
            SplitSide::Right => place.col + place.cols >= room.cols,
            SplitSide::Above => place.row == 0,
            SplitSide::Below => place.row + place.rows >= room.rows,
        }
    }

    fn split(&mut self, side: SplitSide, now: Instant, effects: &mut Vec<ModelEffect>) {
        let Some(of) = self.focus.filter(|_| self.may_change(now)) else {
            return;
        };
        self.peek = None;
        self.unzoom(effects);
        effects.push(self.status(of, RequestPurpose::SplitCwd { of, side }));
    }

    /// Opens a pane by splitting the largest tile.
    fn new_pane_at(&mut self, of: PaneId, effects: &mut Vec<ModelEffect>) {
        let tiles = self.tiles();
        let largest = tiles
            .iter()
            .max_by_key(|tile| u32::from(tile.place.rows) * 2 * u32::from(tile.place.cols));
        let (of, place) = largest.map_or((of, None), |tile| (tile.pane, Some(tile.place)));
        // A cell is about twice as high as wide.
        let side = match place {
            Some(place) if place.cols > 2 * place.rows => SplitSide::Right,
            _ => SplitSide::Below,
        };
        effects.push(self.status(of, RequestPurpose::SplitCwd { of, side }));
    }

    fn unzoom(&mut self, effects: &mut Vec<ModelEffect>) {
        let zoomed = self.layout.as_ref().and_then(|all| all.zoomed);
        if zoomed.is_some() {
            self.change_layout(LayoutChange::Zoom { pane: None }, effects);
        }
    }

    fn zoom(&mut self, now: Instant, effects: &mut Vec<ModelEffect>) {
        if self.peek.is_some() || !self.may_change(now) {
            return;
        }
        let zoomed = self.layout.as_ref().and_then(|all| all.zoomed);
        let pane = match zoomed {
            Some(_) => None,
            None => self.focus,
        };
        self.change_layout(LayoutChange::Zoom { pane }, effects);
    }

    fn swap(&mut self, by: i64, now: Instant, effects: &mut Vec<ModelEffect>) {
        let (Some(one), Some(other)) = (self.focus, self.step_from_focus(by)) else {
            return;
        };
        if one != other && self.may_change(now) {
            self.change_layout(LayoutChange::Swap { one, other }, effects);
        }
    }

    fn step_from_focus(&self, by: i64) -> Option<PaneId> {
        let tiles = self.tiles();
        let at = tiles
            .iter()
            .position(|tile| Some(tile.pane) == self.focus)?;
        let next = (at as i64 + by).rem_euclid(tiles.len() as i64);
        Some(tiles[next as usize].pane)
    }

    fn focus_step(&mut self, by: i64, effects: &mut Vec<ModelEffect>) {
        self.focus_on(self.step_from_focus(by), effects);
    }

    fn focus_on(&mut self, pane: Option<PaneId>, effects: &mut Vec<ModelEffect>) {
        if self.peek.is_some() {
            return self.unpeek(effects);
        }
        if let Some(pane) = pane.filter(|pane| self.tile(*pane).is_some()) {
            self.set_focus(pane, effects);
        }
    }
}

fn opposite(side: SplitSide) -> SplitSide {
    match side {
        SplitSide::Left => SplitSide::Right,
        SplitSide::Right => SplitSide::Left,
        SplitSide::Above => SplitSide::Below,
        SplitSide::Below => SplitSide::Above,
    }
}

/// The side that an arrow key with exactly these modifiers points to.
fn arrow_side(press: &KeyEvent, mods: Modifiers) -> Option<SplitSide> {
    let side = match press.code {
        KeyCode::Up => SplitSide::Above,
        KeyCode::Down => SplitSide::Below,
        KeyCode::Left => SplitSide::Left,
        KeyCode::Right => SplitSide::Right,
        _ => return None,
    };
    (press.mods.held() == mods).then_some(side)
}
