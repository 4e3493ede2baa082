//! Sends keys and pastes to panes: in order, one request at a time per pane.

use std::time::Instant;

use fugue_api::{
    PaneId,
    attach::{AttachRequest, ViewerRole},
    input_encoding::{self, KeyEvent, PASTE_END, PASTE_START},
};

use super::{AttachModel, ConnectionState, MessageTone, ModelEffect, requests::RequestPurpose};
use crate::input::InputEvent;

#[derive(Default)]
pub struct InputQueue {
    /// Bytes that are sent after the open request.
    waiting: Vec<u8>,
    request_open: bool,
}

/// The limit per request, so that a long paste does not delay the responses to other requests.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// The limit of queued input for a program that does not read.
const MAX_QUEUED_INPUT: usize = 8 * 1024 * 1024;

impl AttachModel {
    /// Passes a key on to the pane in focus.
    pub(super) fn pass_key(
        &mut self,
        press: &KeyEvent,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let Some(pane) = self.input_target(now) else {
            return;
        };
        let modes = self.views.get(&pane).map(|view| view.modes);
        let bytes = input_encoding::encode_key(press, &modes.unwrap_or_default());
        self.type_into(pane, &bytes, now, effects);
    }

    /// The pane that receives input; if none does, a message gives the reason.
    fn input_target(&mut self, now: Instant) -> Option<PaneId> {
        let pane = self.shown_focus()?;
        if self.role == ViewerRole::ReadOnly {
            self.show_message(
                "read-only: keys do not reach the pane",
                MessageTone::Plain,
                now,
            );
            return None;
        }
        if self.views.get(&pane).is_some_and(|view| view.ended) {
            let text = format!("{pane} has ended; C-b w goes elsewhere, C-b x closes it");
            self.show_message(text, MessageTone::Plain, now);
            return None;
        }
        Some(pane)
    }

    pub(super) fn pass_unknown(
        &mut self,
        bytes: &[u8],
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        if let Some(pane) = self.input_target(now) {
            self.type_into(pane, bytes, now, effects);
        }
    }

    /// Passes a part of a paste on to the pane that was in focus at its start.
    pub(super) fn pass_paste(
        &mut self,
        event: InputEvent,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        match event {
            InputEvent::PasteStart => {
                self.paste_target = self.input_target(now);
                if let Some(pane) = self
                    .paste_target
                    .filter(|pane| self.has_bracketed_paste(*pane))
                {
                    self.type_into(pane, PASTE_START, now, effects);
                }
            }
            InputEvent::PasteChunk(bytes) => {
                if let Some(pane) = self.paste_target {
                    self.type_into(
                        pane,
                        &input_encoding::remove_paste_end(&bytes),
                        now,
                        effects,
                    );
                }
            }
            InputEvent::PasteEnd => {
                let pane = self.paste_target.take();
                if let Some(pane) = pane.filter(|pane| self.has_bracketed_paste(*pane)) {
                    self.type_into(pane, PASTE_END, now, effects);
                }
            }
            InputEvent::Key(_)
            | InputEvent::Mouse(_)
            | InputEvent::Focus(_)
            | InputEvent::KittySupported
            | InputEvent::DeviceAttributes
            | InputEvent::Unknown(_) => {}
        }
    }

    /// Pastes a text. A line break becomes the carriage return that Enter sends.
    pub(super) fn paste(&mut self, text: &str, now: Instant, effects: &mut Vec<ModelEffect>) {
        for piece in [
            InputEvent::PasteStart,
            InputEvent::PasteChunk(text.replace("\r\n", "\r").replace('\n', "\r").into()),
            InputEvent::PasteEnd,
        ] {
            self.pass_paste(piece, now, effects);
        }
    }

    fn has_bracketed_paste(&self, pane: PaneId) -> bool {
        let view = self.views.get(&pane);
        view.is_some_and(|view| view.modes.bracketed_paste)
    }

    /// Sends a focus event to the program in the focused pane, if it has requested focus events.
    pub(super) fn send_focus_event(&mut self, has: bool, effects: &mut Vec<ModelEffect>) {
        let Some(pane) = self
            .shown_focus()
            .filter(|_| self.role == ViewerRole::Interactive)
        else {
            return;
        };
        let wants = self
            .views
            .get(&pane)
            .is_some_and(|view| view.modes.focus && !view.ended);
        if wants && self.terminal_has_focus {
            let bytes: &[u8] = if has { b"\x1b[I" } else { b"\x1b[O" };
            self.queue(pane, bytes, effects);
        }
    }

    pub(super) fn type_into(
        &mut self,
        pane: PaneId,
        bytes: &[u8],
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        if bytes.is_empty() {
            return;
        }
        let waiting = self
            .input_queues
            .get(&pane)
            .map_or(0, |typing| typing.waiting.len());
        if waiting + bytes.len() > MAX_QUEUED_INPUT {
            return self.show_message(
                format!("{pane} does not read its input; the rest was dropped"),
                MessageTone::Bad,
                now,
            );
        }
        self.queue(pane, bytes, effects);
        if self.connection != ConnectionState::Up {
            self.show_message("reconnecting; input is queued", MessageTone::Plain, now);
        }
    }

    fn queue(&mut self, pane: PaneId, bytes: &[u8], effects: &mut Vec<ModelEffect>) {
        self.input_queues
            .entry(pane)
            .or_default()
            .waiting
            .extend_from_slice(bytes);
        self.send_next_input(pane, effects);
    }

    /// The open request was answered: sends the next bytes.
    pub(super) fn input_sent(&mut self, pane: PaneId, effects: &mut Vec<ModelEffect>) {
        if let Some(typing) = self.input_queues.get_mut(&pane) {
            typing.request_open = false;
        }
        self.send_next_input(pane, effects);
    }

    fn send_next_input(&mut self, pane: PaneId, effects: &mut Vec<ModelEffect>) {
        let Some(typing) = self.input_queues.get_mut(&pane) else {
            return;
        };
        if typing.request_open {
            return;
        }
        if typing.waiting.is_empty() {
            self.input_queues.remove(&pane);
            return;
        }
        typing.request_open = true;
        let rest = typing
            .waiting
            .split_off(typing.waiting.len().min(MAX_REQUEST_BYTES));
        let bytes = std::mem::replace(&mut typing.waiting, rest);
        let client = self.me;
        let request = AttachRequest::Type {
            client,
            pane,
            bytes,
        };
        effects.push(
            self.requests
                .send_attach(RequestPurpose::Type(pane), request),
        );
    }
}
