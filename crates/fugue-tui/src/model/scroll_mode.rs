//! Scroll mode: moving through the text of a pane, searching, selecting and copying.

use std::time::Instant;

use fugue_api::{
    PaneId, ToolCall,
    attach::AttachRequest,
    input_encoding::KeyEvent,
    keys::KeyCode,
    tools::{ReadMode, ReadPane, ReadPaneReply},
    wire::Request,
};

use super::{
    AttachModel, MessageTone, ModelEffect, is_ctrl,
    requests::RequestPurpose,
    scroll::{self, ScrollPosition, ScrollSource, ScrollView, SearchDirection},
};

/// The text that was copied last.
#[derive(Default)]
pub struct CopyBuffer(pub String);

/// The limit of a copy: most terminals accept no more through OSC 52, and some much less.
const MAX_COPIED_BYTES: usize = 1024 * 1024;

impl AttachModel {
    pub fn is_scrolling(&self) -> bool {
        self.focused_view()
            .is_some_and(|view| view.scroll.is_some())
    }

    pub(super) fn scroll_mut(&mut self, pane: PaneId) -> Option<&mut ScrollView> {
        self.views.get_mut(&pane)?.scroll.as_mut()
    }

    pub(super) fn start_scroll(&mut self, now: Instant, effects: &mut Vec<ModelEffect>) {
        if let Some(pane) = self.shown_focus() {
            self.scroll_in(pane, effects);
        }
        if !self.is_scrolling() {
            self.show_message("the pane has no frame yet", MessageTone::Plain, now);
        }
    }

    /// Opens the scroll view of a pane, if it is not open.
    pub(super) fn scroll_in(&mut self, pane: PaneId, effects: &mut Vec<ModelEffect>) {
        let areas = self.areas();
        let Some(tile) = self.tile(pane) else {
            return;
        };
        let area = areas.inside(tile.place);
        let Some(view) = self.views.get_mut(&pane).filter(|view| view.number > 0) else {
            return;
        };
        if view.scroll.is_none() {
            view.scroll = Some(if view.modes.alternate {
                // The alternate screen has no scrollback.
                let cursor = ScrollPosition {
                    line: u64::from(view.cursor.row),
                    col: 0,
                };
                ScrollView::screen(&view.rows, area.cols, cursor)
            } else {
                ScrollView::text(view.top_line, area.rows, area.cols)
            });
        }
        self.fetch_lines(pane, effects);
    }

    pub(super) fn stop_scroll(&mut self, pane: PaneId, effects: &mut Vec<ModelEffect>) {
        if let Some(view) = self.views.get_mut(&pane) {
            view.scroll = None;
        }
        let is = |why: &RequestPurpose| {
            *why == RequestPurpose::Lines(pane) || *why == RequestPurpose::Grep(pane)
        };
        effects.extend(self.requests.cancel(is));
    }

    pub(super) fn fetch_lines(&mut self, pane: PaneId, effects: &mut Vec<ModelEffect>) {
        let missing = self
            .scroll_mut(pane)
            .and_then(|scroll| scroll.missing_from());
        if let Some(from) = missing
            && !self
                .requests
                .is_open(|why| *why == RequestPurpose::Lines(pane))
        {
            let most = scroll::FETCH_LINES;
            let request = AttachRequest::ReadLines { pane, from, most };
            effects.push(
                self.requests
                    .send_attach(RequestPurpose::Lines(pane), request),
            );
        }
    }

    pub(super) fn page(&mut self, by: i64, effects: &mut Vec<ModelEffect>) {
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
            typed.push_str(&crate::clean::line(text));
        }
    }

    pub(super) fn scroll_key(
        &mut self,
        press: &KeyEvent,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
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
            KeyCode::Up => scroll.go(-1),
            KeyCode::Down => scroll.go(1),
            KeyCode::Left => scroll.go_across(-1),
            KeyCode::Right => scroll.go_across(1),
            KeyCode::PageUp => scroll.roll(-page),
            KeyCode::PageDown => scroll.roll(page),
            KeyCode::Home => scroll.go_to_line_start(),
            KeyCode::End => scroll.go_to_line_end(),
            KeyCode::Enter => return self.copy_selected(pane, now, effects),
            KeyCode::Escape if scroll.anchor.is_some() => scroll.anchor = None,
            KeyCode::Escape => return self.stop_scroll(pane, effects),
            _ if is_ctrl(press, 'c') => return self.stop_scroll(pane, effects),
            _ if is_ctrl(press, 'u') => scroll.roll(-page / 2),
            _ if is_ctrl(press, 'd') => scroll.roll(page / 2),
            _ if is_ctrl(press, 'f') => scroll.roll(page),
            _ => match press.typed_char() {
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
                Some('/') => scroll.prompt = Some((SearchDirection::Forward, String::new())),
                Some('?') => scroll.prompt = Some((SearchDirection::Back, String::new())),
                Some(c @ ('n' | 'N')) => self.next_match(pane, c, now),
                _ => {}
            },
        }
        self.fetch_lines(pane, effects);
    }

    fn next_match(&mut self, pane: PaneId, key: char, now: Instant) {
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        let Some(find) = &scroll.find else {
            return self.show_message("no search yet; / starts one", MessageTone::Plain, now);
        };
        let direction = if key == 'n' {
            find.direction
        } else {
            find.direction.reversed()
        };
        if !scroll.next(direction) {
            self.show_message("not found", MessageTone::Plain, now);
        }
    }

    fn prompt_key(
        &mut self,
        pane: PaneId,
        press: &KeyEvent,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        let Some((direction, text)) = &mut scroll.prompt else {
            return;
        };
        match press.code {
            KeyCode::Escape => scroll.prompt = None,
            KeyCode::Backspace => {
                if text.pop().is_none() {
                    scroll.prompt = None;
                }
            }
            KeyCode::Enter => {
                let (direction, mut text) = (*direction, std::mem::take(text));
                scroll.prompt = None;
                if text.is_empty() {
                    // An empty prompt repeats the last search.
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
                if let Some(c) = press.typed_char() {
                    self.type_into_prompt(c.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    fn search(
        &mut self,
        pane: PaneId,
        what: String,
        direction: SearchDirection,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let Some(scroll) = self.scroll_mut(pane) else {
            return;
        };
        let grep = scroll::grep_pattern(&what);
        if !scroll.search(what, direction) {
            if scroll.count().is_none_or(|(_, all)| all == 0) {
                self.show_message("not found", MessageTone::Plain, now);
            }
            return;
        }
        effects.extend(
            self.requests
                .cancel(|why| *why == RequestPurpose::Grep(pane)),
        );
        let call = ToolCall::from(ReadPane {
            pane_id: pane.to_string(),
            // The latest matches; earlier ones are left out.
            lines: 10_000,
            since: None,
            mode: ReadMode::Text,
            max_output_chars: 4_000_000,
            grep: Some(grep),
        });
        effects.push(
            self.requests
                .send(RequestPurpose::Grep(pane), Request::Tool { call }),
        );
    }

    /// Applies the result of a grep, whose lines start with their numbers, counted from 1.
    pub(super) fn found(
        &mut self,
        pane: PaneId,
        text: &ReadPaneReply,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
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
            self.show_message("not found", MessageTone::Plain, now);
        }
        self.fetch_lines(pane, effects);
    }

    /// Copies the selection, or the cursor's line, and closes the scroll view.
    pub(super) fn copy_selected(
        &mut self,
        pane: PaneId,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let text = self.scroll_mut(pane).map(|scroll| scroll.copy());
        self.stop_scroll(pane, effects);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.copy(text, now, effects);
        }
    }

    pub(super) fn copy(&mut self, mut text: String, now: Instant, effects: &mut Vec<ModelEffect>) {
        let count = text.chars().count();
        let whole = text.len() <= MAX_COPIED_BYTES;
        if !whole {
            let mut end = MAX_COPIED_BYTES;
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
        self.show_message(said, MessageTone::Plain, now);
        effects.push(ModelEffect::Copy(text.clone()));
        self.copy_buffer = CopyBuffer(text);
    }

    pub(super) fn paste_copied(&mut self, now: Instant, effects: &mut Vec<ModelEffect>) {
        if self.copy_buffer.0.is_empty() {
            return self.show_message(
                "nothing was copied yet; C-b [ starts a selection",
                MessageTone::Plain,
                now,
            );
        }
        let text = self.copy_buffer.0.clone();
        self.paste(&text, now, effects);
    }

    /// Scrolls with the wheel, in a pane whose program has not requested mouse events.
    pub(super) fn wheel(&mut self, pane: PaneId, rows: i64, effects: &mut Vec<ModelEffect>) {
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
            && scroll.source == ScrollSource::Text
            && scroll.is_at_bottom();
        if over {
            return self.stop_scroll(pane, effects);
        }
        self.fetch_lines(pane, effects);
    }
}
