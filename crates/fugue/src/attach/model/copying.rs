//! Looking back, searching, selecting and copying.

use std::time::Instant;

use fugue_api::{
    PaneId, ToolCall,
    attach::AttachRequest,
    tools::{ReadMode, ReadPane, ReadPaneReply},
    wire::Request,
};

use super::{
    Effect, Model, Tone,
    asks::Why,
    is_ctrl,
    scroll::{self, Direction, Place, Scroll, Source},
};
use crate::attach::keys::{Code, Press};

/// What was copied last.
#[derive(Default)]
pub struct Copied(pub String);

// What fits into a clipboard by way of a terminal; most take no more, and some much less.
const MOST_COPIED: usize = 1024 * 1024;

impl Model {
    pub fn is_scrolling(&self) -> bool {
        self.focused_view()
            .is_some_and(|view| view.scroll.is_some())
    }

    pub(super) fn scroll_mut(&mut self, pane: PaneId) -> Option<&mut Scroll> {
        self.views.get_mut(&pane)?.scroll.as_mut()
    }

    pub(super) fn start_scroll(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if let Some(pane) = self.shown_focus() {
            self.scroll_in(pane, effects);
        }
        if !self.is_scrolling() {
            self.say("nothing is shown yet", Tone::Plain, now);
        }
    }

    /// Looks back in a pane, if that is not done already.
    pub(super) fn scroll_in(&mut self, pane: PaneId, effects: &mut Vec<Effect>) {
        let places = self.places();
        let Some(tile) = self.tile(pane) else {
            return;
        };
        let area = places.inside(tile.place);
        let Some(view) = self.views.get_mut(&pane).filter(|view| view.number > 0) else {
            return;
        };
        if view.scroll.is_none() {
            view.scroll = Some(if view.modes.alternate {
                // A full-screen program has no text but its screen.
                let cursor = Place {
                    line: u64::from(view.cursor.row),
                    col: 0,
                };
                Scroll::screen(&view.rows, area.cols, cursor)
            } else {
                Scroll::text(view.top_line, area.rows, area.cols)
            });
        }
        self.fetch_lines(pane, effects);
    }

    pub(super) fn stop_scroll(&mut self, pane: PaneId, effects: &mut Vec<Effect>) {
        if let Some(view) = self.views.get_mut(&pane) {
            view.scroll = None;
        }
        let is = |why: &Why| *why == Why::Lines(pane) || *why == Why::Grep(pane);
        effects.extend(self.asks.forget(is));
    }

    pub(super) fn fetch_lines(&mut self, pane: PaneId, effects: &mut Vec<Effect>) {
        let wants = self.scroll_mut(pane).and_then(|scroll| scroll.wants());
        if let Some(from) = wants
            && !self.asks.is_open(|why| *why == Why::Lines(pane))
        {
            let most = scroll::AT_ONCE;
            let look = AttachRequest::Lines { pane, from, most };
            effects.push(self.asks.look(Why::Lines(pane), look));
        }
    }

    pub(super) fn page(&mut self, by: i64, effects: &mut Vec<Effect>) {
        let Some(pane) = self.shown_focus() else {
            return;
        };
        if let Some(scroll) = self.scroll_mut(pane) {
            scroll.roll(by * scroll.page());
        }
        self.fetch_lines(pane, effects);
    }

    pub(super) fn type_into_prompt(&mut self, text: &str) {
        let pane = self.shown_focus();
        let scroll = pane.and_then(|pane| self.scroll_mut(pane));
        if let Some((_, typed)) = scroll.and_then(|scroll| scroll.prompt.as_mut())
            && typed.len() + text.len() < 1000
        {
            typed.push_str(&crate::attach::clean::line(text));
        }
    }

    pub(super) fn scroll_key(&mut self, press: &Press, now: Instant, effects: &mut Vec<Effect>) {
        let Some(pane) = self.shown_focus() else {
            return;
        };
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        scroll.by_wheel = false;
        if scroll.prompt.is_some() {
            self.prompt_key(pane, press, now, effects);
            return self.fetch_lines(pane, effects);
        }
        let page = scroll.page();
        match press.code {
            Code::Up => scroll.go(-1),
            Code::Down => scroll.go(1),
            Code::Left => scroll.go_across(-1),
            Code::Right => scroll.go_across(1),
            Code::PageUp => scroll.roll(-page),
            Code::PageDown => scroll.roll(page),
            Code::Home => scroll.go_to_line_start(),
            Code::End => scroll.go_to_line_end(),
            Code::Enter => return self.copy_selected(pane, now, effects),
            Code::Escape if scroll.anchor.is_some() => scroll.anchor = None,
            Code::Escape => return self.stop_scroll(pane, effects),
            _ if is_ctrl(press, 'c') => return self.stop_scroll(pane, effects),
            _ if is_ctrl(press, 'u') => scroll.roll(-page / 2),
            _ if is_ctrl(press, 'd') => scroll.roll(page / 2),
            _ if is_ctrl(press, 'f') => scroll.roll(page),
            _ => match press.typed() {
                Some('q') => return self.stop_scroll(pane, effects),
                Some('k') => scroll.go(-1),
                Some('j') => scroll.go(1),
                Some('h') => scroll.go_across(-1),
                Some('l') => scroll.go_across(1),
                Some('g') => scroll.go_to_top(),
                Some('G') => scroll.go_to_bottom(),
                Some('0') => scroll.go_to_line_start(),
                Some('$') => scroll.go_to_line_end(),
                Some('v' | ' ') => scroll.select(),
                Some('y') => return self.copy_selected(pane, now, effects),
                Some('/') => scroll.prompt = Some((Direction::Forward, String::new())),
                Some('?') => scroll.prompt = Some((Direction::Back, String::new())),
                Some(c @ ('n' | 'N')) => self.next_hit(pane, c, now),
                _ => {}
            },
        }
        self.fetch_lines(pane, effects);
    }

    fn next_hit(&mut self, pane: PaneId, key: char, now: Instant) {
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        let Some(find) = &scroll.find else {
            return self.say("nothing was searched for; / searches", Tone::Plain, now);
        };
        let direction = if key == 'n' {
            find.direction
        } else {
            find.direction.turned()
        };
        if !scroll.next(direction) {
            self.say("not found", Tone::Plain, now);
        }
    }

    fn prompt_key(&mut self, pane: PaneId, press: &Press, now: Instant, effects: &mut Vec<Effect>) {
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        let Some((direction, text)) = &mut scroll.prompt else {
            return;
        };
        match press.code {
            Code::Escape => scroll.prompt = None,
            Code::Backspace => {
                if text.pop().is_none() {
                    scroll.prompt = None;
                }
            }
            Code::Enter => {
                let (direction, mut text) = (*direction, std::mem::take(text));
                scroll.prompt = None;
                if text.is_empty() {
                    // The same once more.
                    let before = scroll.find.as_ref().map(|find| find.what.clone());
                    text = before.unwrap_or_default();
                }
                if !text.is_empty() {
                    self.search(pane, text, direction, now, effects);
                }
            }
            _ if is_ctrl(press, 'c') || is_ctrl(press, 'g') => scroll.prompt = None,
            _ if is_ctrl(press, 'u') => text.clear(),
            _ => {
                if let Some(c) = press.typed() {
                    self.type_into_prompt(c.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    fn search(
        &mut self,
        pane: PaneId,
        what: String,
        direction: Direction,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        let grep = scroll::pattern(&what);
        if !scroll.search(what, direction) {
            if scroll.count().is_none_or(|(_, all)| all == 0) {
                self.say("not found", Tone::Plain, now);
            }
            return;
        }
        effects.extend(self.asks.forget(|why| *why == Why::Grep(pane)));
        let call = ToolCall::from(ReadPane {
            pane_id: pane.to_string(),
            // So many hits are enough for anybody; the latest are told.
            lines: 10_000,
            since: None,
            mode: ReadMode::Text,
            max_output_chars: 4_000_000,
            grep: Some(grep),
        });
        effects.push(self.asks.ask(Why::Grep(pane), Request::Tool { call }));
    }

    /// The numbers of the lines stand before them, counted from 1.
    pub(super) fn found(
        &mut self,
        pane: PaneId,
        text: &ReadPaneReply,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let lines: Vec<u64> = text
            .text
            .lines()
            .filter_map(|line| line.split_once(':')?.0.parse::<u64>().ok()?.checked_sub(1))
            .collect();
        let none = lines.is_empty();
        let more = text.omitted_lines > 0;
        if let Some(scroll) = self.scroll_mut(pane) {
            scroll.found(lines, more);
        }
        if none {
            self.say("not found", Tone::Plain, now);
        }
        self.fetch_lines(pane, effects);
    }

    /// Copies what is selected, or the cursor's line, and goes back to the pane.
    pub(super) fn copy_selected(&mut self, pane: PaneId, now: Instant, effects: &mut Vec<Effect>) {
        let text = self.scroll_mut(pane).map(|scroll| scroll.copy());
        self.stop_scroll(pane, effects);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.copy(text, now, effects);
        }
    }

    pub(super) fn copy(&mut self, mut text: String, now: Instant, effects: &mut Vec<Effect>) {
        let count = text.chars().count();
        let whole = text.len() <= MOST_COPIED;
        if !whole {
            let mut end = MOST_COPIED;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        let cut = if whole { "" } else { ", cut to a megabyte" };
        let said = match count {
            1 => "1 character copied".to_owned(),
            count => format!("{count} characters copied{cut}"),
        };
        self.say(said, Tone::Plain, now);
        effects.push(Effect::Copy(text.clone()));
        self.copied = Copied(text);
    }

    pub(super) fn paste_copied(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.copied.0.is_empty() {
            return self.say("nothing was copied yet; C-b [ selects", Tone::Plain, now);
        }
        let text = self.copied.0.clone();
        self.paste(&text, now, effects);
    }

    /// The wheel over a pane whose program does not want it.
    pub(super) fn wheel(&mut self, pane: PaneId, rows: i64, effects: &mut Vec<Effect>) {
        let scrolling = self.scroll_mut(pane).is_some();
        if !scrolling {
            if rows > 0 {
                return;
            }
            self.scroll_in(pane, effects);
            if let Some(scroll) = self.scroll_mut(pane) {
                scroll.by_wheel = true;
            }
        }
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        scroll.roll(rows);
        let over = rows > 0
            && scroll.by_wheel
            && scroll.anchor.is_none()
            && scroll.source == Source::Text
            && scroll.is_at_bottom();
        if over {
            return self.stop_scroll(pane, effects);
        }
        self.fetch_lines(pane, effects);
    }
}
