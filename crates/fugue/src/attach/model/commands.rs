//! Keys: what the prefix and a letter do, and what keys mean in the lists.

use std::time::Instant;

use fugue_api::{
    PaneId, ToolCall,
    attach::{LayoutChange, SplitSide, ViewerRole},
    tools::ClosePane,
    wire::Request,
};

use super::{AGAIN, Effect, Gone, Leave, Link, Mode, Model, Picker, Tone, asks::Why, is_ctrl};
use crate::attach::{
    draw::HELP_ROWS,
    input::Heard,
    keys::{Code, Event, Mods, Press},
};

impl Model {
    pub(super) fn heard(&mut self, heard: Heard, now: Instant, effects: &mut Vec<Effect>) {
        if self.link == Link::Down(Gone::Stopped)
            && matches!(&heard, Heard::Key(press) if press.event != Event::Release && !is_ctrl(press, 'b'))
            && matches!(self.mode, Mode::Pane)
        {
            // A person wants it back; the key waits until it is.
            self.link = Link::Down(Gone::Died);
            effects.push(Effect::Launch);
        }
        match heard {
            Heard::Key(press) => self.key(press, now, effects),
            Heard::Mouse(mouse) => self.mouse(mouse, now, effects),
            Heard::Focus(has) => {
                if has {
                    self.terminal_has_focus = true;
                    self.tell_focus(true, effects);
                } else {
                    self.tell_focus(false, effects);
                    self.terminal_has_focus = false;
                }
            }
            Heard::Unknown(bytes) => {
                if matches!(self.mode, Mode::Pane) && !self.is_scrolling() {
                    self.pass_unknown(&bytes, now, effects);
                }
            }
            paste @ (Heard::PasteBegins | Heard::Pasted(_) | Heard::PasteEnds) => {
                self.pasted(paste, now, effects);
            }
            Heard::SpeaksKitty | Heard::Told => {}
        }
    }

    fn pasted(&mut self, paste: Heard, now: Instant, effects: &mut Vec<Effect>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let scrolling = self.is_scrolling();
        match (&mut self.mode, &paste) {
            (Mode::Picker(picker), Heard::Pasted(bytes)) => picker.type_text(&text(bytes)),
            (Mode::Pane, Heard::Pasted(bytes)) if scrolling => {
                self.type_into_prompt(&text(bytes));
            }
            (Mode::Pane | Mode::Prefix, _) if !scrolling => {
                self.mode = Mode::Pane;
                self.pass_paste(paste, now, effects);
            }
            (Mode::Pane | Mode::Prefix | Mode::Close(_) | Mode::Picker(_) | Mode::Help(_), _) => {}
        }
    }

    fn key(&mut self, press: Press, now: Instant, effects: &mut Vec<Effect>) {
        // Only a pane's program may want to know of a key that is let go.
        if press.event == Event::Release {
            if matches!(self.mode, Mode::Pane)
                && !self.is_scrolling()
                && self.role == ViewerRole::Interactive
                && self.focused_view().is_some_and(|view| !view.ended)
            {
                self.pass_key(&press, now, effects);
            }
            return;
        }
        // A modifier by itself is no answer to anything.
        let alone = matches!(press.code, Code::Other(57_358..=57_360 | 57_441..=57_454));
        if !alone {
            // Whoever goes on has read it.
            self.message = None;
        }
        match &mut self.mode {
            Mode::Pane => {
                if is_ctrl(&press, 'b') {
                    self.mode = Mode::Prefix;
                } else if self.again_until.is_some() && self.push(&press, now, effects) {
                    // Pushed once more.
                } else if self.is_scrolling() {
                    if !alone {
                        self.scroll_key(&press, now, effects);
                    }
                } else if !(alone && self.role == ViewerRole::ReadOnly) {
                    self.again_until = None;
                    self.pass_key(&press, now, effects);
                }
            }
            _ if alone => {}
            Mode::Prefix => {
                self.mode = Mode::Pane;
                self.command(&press, now, effects);
            }
            Mode::Close(pane) => {
                let pane = *pane;
                self.mode = Mode::Pane;
                if press.typed() == Some('y') {
                    let call = ToolCall::from(ClosePane {
                        pane_id: pane.to_string(),
                        grace_ms: ClosePane::grace_ms(),
                    });
                    effects.push(self.asks.ask(Why::Close(pane), Request::Tool { call }));
                    if self.peek == Some(pane) {
                        self.unpeek(effects);
                    }
                }
            }
            Mode::Picker(_) => self.picker_key(&press, now, effects),
            Mode::Help(top) => {
                let most = HELP_ROWS.saturating_sub(1);
                match press.code {
                    Code::Up | Code::Char('k') => *top = top.saturating_sub(1),
                    Code::Down | Code::Char('j') => *top = (*top + 1).min(most),
                    Code::PageUp => *top = top.saturating_sub(10),
                    Code::PageDown | Code::Char(' ') => *top = (*top + 10).min(most),
                    Code::Home => *top = 0,
                    Code::End => *top = most,
                    _ => self.mode = Mode::Pane,
                }
            }
        }
    }

    fn picker_key(&mut self, press: &Press, now: Instant, effects: &mut Vec<Effect>) {
        let Mode::Picker(picker) = &mut self.mode else {
            return;
        };
        match press.code {
            Code::Escape => self.mode = Mode::Pane,
            Code::Enter => {
                let picked = picker.picked();
                self.mode = Mode::Pane;
                if let Some(pane) = picked {
                    self.go_to(pane, now, effects);
                }
            }
            Code::Up => picker.go(-1),
            Code::Down => picker.go(1),
            Code::PageUp => picker.go(-10),
            Code::PageDown => picker.go(10),
            Code::Home => picker.go(i64::from(i32::MIN)),
            Code::End => picker.go(i64::from(i32::MAX)),
            Code::Backspace => picker.erase(),
            _ if is_ctrl(press, 'c') || is_ctrl(press, 'g') => self.mode = Mode::Pane,
            _ if is_ctrl(press, 'p') => picker.go(-1),
            _ if is_ctrl(press, 'n') => picker.go(1),
            _ if is_ctrl(press, 'u') => {
                picker.filter.clear();
                picker.chosen = 0;
            }
            _ => {
                if let Some(c) = press.typed() {
                    picker.type_text(c.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    /// What stands behind the prefix.
    fn command(&mut self, press: &Press, now: Instant, effects: &mut Vec<Effect>) {
        if is_ctrl(press, 'b') {
            return self.pass_key(press, now, effects);
        }
        if self.push(press, now, effects) {
            return;
        }
        let side = match press.code {
            Code::Up => Some(SplitSide::Above),
            Code::Down => Some(SplitSide::Below),
            Code::Left => Some(SplitSide::Left),
            Code::Right => Some(SplitSide::Right),
            _ => None,
        };
        if let Some(side) = side.filter(|_| press.mods.held() == Mods::NONE) {
            let next = self.focus.and_then(|pane| self.neighbour(pane, side));
            return self.focus_on(next, effects);
        }
        if press.code == Code::PageUp {
            self.start_scroll(now, effects);
            return self.page(-1, effects);
        }
        let Some(c) = press.typed() else {
            // Escape and the like: nothing was meant.
            return;
        };
        match c {
            'd' => effects.push(Effect::Leave(Leave::Detached)),
            '%' => self.split(SplitSide::Right, now, effects),
            '"' => self.split(SplitSide::Below, now, effects),
            'c' => {
                if self.may_change(now) {
                    self.peek = None;
                    self.unzoom(effects);
                    let of = self.focus;
                    // It starts where the pane in focus is.
                    match of {
                        Some(of) => self.new_pane_at(of, effects),
                        None => {
                            let key = self.asks.key();
                            self.create(key, None, effects);
                        }
                    }
                }
            }
            'z' => self.zoom(now, effects),
            'x' => {
                if let Some(pane) = self.shown_focus().filter(|_| self.may_change(now)) {
                    self.mode = Mode::Close(pane);
                }
            }
            'w' | 's' => {
                let picker = Picker::new(&self.facts, self.shown_focus());
                self.mode = Mode::Picker(picker);
                self.ask_facts(now, effects);
            }
            'o' => self.focus_step(1, effects),
            ';' => self.focus_on(self.before, effects),
            '{' => self.swap(-1, now, effects),
            '}' => self.swap(1, now, effects),
            ' ' => {
                if self.may_change(now) {
                    self.unzoom(effects);
                    self.arrange(LayoutChange::Tiled, effects);
                }
            }
            '[' => self.start_scroll(now, effects),
            ']' => self.paste_copied(now, effects),
            'b' => {
                self.sidebar = Some(self.places().sidebar.is_none());
                self.fit(effects);
            }
            'r' => effects.push(Effect::Repaint),
            '?' => self.mode = Mode::Help(0),
            'q' if self.peek.is_some() => self.unpeek(effects),
            other => {
                let text = format!("C-b {other} means nothing; C-b ? tells what there is");
                self.say(text, Tone::Plain, now);
            }
        }
    }

    /// Whether this client may change anything; if not, that is said.
    fn may_change(&mut self, now: Instant) -> bool {
        if self.role == ViewerRole::ReadOnly {
            self.say(
                "read-only: nothing can be changed from here",
                Tone::Plain,
                now,
            );
        }
        self.role == ViewerRole::Interactive
    }

    /// Back to the session from an ended pane; if it has none any more, this is over.
    pub(super) fn unpeek(&mut self, effects: &mut Vec<Effect>) {
        self.peek = None;
        if !self.asks.is_open(|why| *why == Why::Attend) {
            effects.push(Effect::Leave(Leave::Empty));
        }
        self.watch(effects);
    }

    fn push(&mut self, press: &Press, now: Instant, effects: &mut Vec<Effect>) -> bool {
        let side = match press.code {
            Code::Up => SplitSide::Above,
            Code::Down => SplitSide::Below,
            Code::Left => SplitSide::Left,
            Code::Right => SplitSide::Right,
            _ => return false,
        };
        if press.mods.held() != Mods::CTRL {
            return false;
        }
        let Some(pane) = self.focus.filter(|_| self.may_change(now)) else {
            return true;
        };
        // The edge that lies there goes outwards; at the screen's edge the other one follows.
        let behind = self.lies_at_edge(pane, side);
        let change = match behind {
            false => LayoutChange::Push { pane, side, by: 1 },
            true => LayoutChange::Push {
                pane,
                side: opposite(side),
                by: -1,
            },
        };
        self.arrange(change, effects);
        self.again_until = Some(now + AGAIN);
        true
    }

    fn lies_at_edge(&self, pane: PaneId, side: SplitSide) -> bool {
        let (Some(tile), Some(arrangement)) = (self.tile(pane), &self.arrangement) else {
            return false;
        };
        let (place, room) = (tile.place, arrangement.room);
        match side {
            SplitSide::Left => place.col == 0,
            SplitSide::Right => place.col + place.cols >= room.cols,
            SplitSide::Above => place.row == 0,
            SplitSide::Below => place.row + place.rows >= room.rows,
        }
    }

    fn split(&mut self, side: SplitSide, now: Instant, effects: &mut Vec<Effect>) {
        let Some(of) = self.focus.filter(|_| self.may_change(now)) else {
            return;
        };
        self.peek = None;
        self.unzoom(effects);
        effects.push(self.status(of, Why::Whereabouts { of, side }));
    }

    /// A pane wherever the daemon puts it: beside the largest, which is where there is most room.
    fn new_pane_at(&mut self, of: PaneId, effects: &mut Vec<Effect>) {
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
        effects.push(self.status(of, Why::Whereabouts { of, side }));
    }

    fn unzoom(&mut self, effects: &mut Vec<Effect>) {
        let zoomed = self.arrangement.as_ref().and_then(|all| all.zoomed);
        if zoomed.is_some() {
            self.arrange(LayoutChange::Zoom { pane: None }, effects);
        }
    }

    fn zoom(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.peek.is_some() || !self.may_change(now) {
            return;
        }
        let zoomed = self.arrangement.as_ref().and_then(|all| all.zoomed);
        let pane = match zoomed {
            Some(_) => None,
            None => self.focus,
        };
        self.arrange(LayoutChange::Zoom { pane }, effects);
    }

    fn swap(&mut self, by: i64, now: Instant, effects: &mut Vec<Effect>) {
        let (Some(one), Some(other)) = (self.focus, self.step_from_focus(by)) else {
            return;
        };
        if one != other && self.may_change(now) {
            self.arrange(LayoutChange::Swap { one, other }, effects);
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

    fn focus_step(&mut self, by: i64, effects: &mut Vec<Effect>) {
        self.focus_on(self.step_from_focus(by), effects);
    }

    fn focus_on(&mut self, pane: Option<PaneId>, effects: &mut Vec<Effect>) {
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
