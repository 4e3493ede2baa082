//! A person's keys and pastes on their way to a pane: in their order, one call at a time.

use std::time::Instant;

use fugue_api::{
    PaneId,
    attach::{AttachRequest, ViewerRole},
};

use super::{Effect, Link, Model, Tone, asks::Why};
use crate::{input::Heard, keys::Press};

#[derive(Default)]
pub struct Typing {
    /// What waits behind the call that is under way.
    waits: Vec<u8>,
    under_way: bool,
}

// One call carries no more, so that a long paste does not keep other calls' answers waiting.
const AT_ONCE: usize = 64 * 1024;
// What a person may have typed or pasted ahead of a program that does not read.
const MOST_WAITING: usize = 8 * 1024 * 1024;

const PASTE_END: &[u8] = b"\x1b[201~";

impl Model {
    /// Passes a key on to the pane in focus.
    pub(super) fn pass_key(&mut self, press: &Press, now: Instant, effects: &mut Vec<Effect>) {
        let Some(pane) = self.typed_into(now) else {
            return;
        };
        let modes = self.views.get(&pane).map(|view| view.modes);
        let bytes = crate::keys::encode(press, &modes.unwrap_or_default());
        self.type_into(pane, &bytes, now, effects);
    }

    /// The pane that takes what is typed, or a word why none does.
    fn typed_into(&mut self, now: Instant) -> Option<PaneId> {
        let pane = self.shown_focus()?;
        if self.role == ViewerRole::ReadOnly {
            self.say("read-only: keys do not reach the pane", Tone::Plain, now);
            return None;
        }
        if self.views.get(&pane).is_some_and(|view| view.ended) {
            let text = format!("{pane} has ended; C-b w goes elsewhere, C-b x closes it");
            self.say(text, Tone::Plain, now);
            return None;
        }
        Some(pane)
    }

    pub(super) fn pass_unknown(&mut self, bytes: &[u8], now: Instant, effects: &mut Vec<Effect>) {
        if let Some(pane) = self.typed_into(now) {
            self.type_into(pane, bytes, now, effects);
        }
    }

    /// A piece of a paste from the person's terminal.
    pub(super) fn pass_paste(&mut self, heard: Heard, now: Instant, effects: &mut Vec<Effect>) {
        match heard {
            Heard::PasteBegins => {
                self.pasting = self.typed_into(now);
                if let Some(pane) = self.pasting.filter(|pane| self.wants_brackets(*pane)) {
                    self.type_into(pane, b"\x1b[200~", now, effects);
                }
            }
            Heard::Pasted(bytes) => {
                if let Some(pane) = self.pasting {
                    self.type_into(pane, &without_end(&bytes), now, effects);
                }
            }
            Heard::PasteEnds => {
                let pane = self.pasting.take();
                if let Some(pane) = pane.filter(|pane| self.wants_brackets(*pane)) {
                    self.type_into(pane, PASTE_END, now, effects);
                }
            }
            Heard::Key(_)
            | Heard::Mouse(_)
            | Heard::Focus(_)
            | Heard::SpeaksKitty
            | Heard::Told
            | Heard::Unknown(_) => {}
        }
    }

    /// A whole text as one paste. A new line is what the Enter key types.
    pub(super) fn paste(&mut self, text: &str, now: Instant, effects: &mut Vec<Effect>) {
        for piece in [
            Heard::PasteBegins,
            Heard::Pasted(text.replace("\r\n", "\r").replace('\n', "\r").into()),
            Heard::PasteEnds,
        ] {
            self.pass_paste(piece, now, effects);
        }
    }

    fn wants_brackets(&self, pane: PaneId) -> bool {
        let view = self.views.get(&pane);
        view.is_some_and(|view| view.modes.bracketed_paste)
    }

    /// Tells the pane in focus that it has the terminal's attention, or has lost it.
    pub(super) fn tell_focus(&mut self, has: bool, effects: &mut Vec<Effect>) {
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
        effects: &mut Vec<Effect>,
    ) {
        if bytes.is_empty() {
            return;
        }
        let waiting = self
            .typing
            .get(&pane)
            .map_or(0, |typing| typing.waits.len());
        if waiting + bytes.len() > MOST_WAITING {
            return self.say(
                format!("{pane} does not read what is typed; the rest is dropped"),
                Tone::Bad,
                now,
            );
        }
        self.queue(pane, bytes, effects);
        if self.link != Link::Up {
            self.say("reconnecting; what is typed waits", Tone::Plain, now);
        }
    }

    fn queue(&mut self, pane: PaneId, bytes: &[u8], effects: &mut Vec<Effect>) {
        self.typing
            .entry(pane)
            .or_default()
            .waits
            .extend_from_slice(bytes);
        self.hand_over(pane, effects);
    }

    /// The terminal has taken what was under way.
    pub(super) fn typed(&mut self, pane: PaneId, effects: &mut Vec<Effect>) {
        if let Some(typing) = self.typing.get_mut(&pane) {
            typing.under_way = false;
        }
        self.hand_over(pane, effects);
    }

    fn hand_over(&mut self, pane: PaneId, effects: &mut Vec<Effect>) {
        let Some(typing) = self.typing.get_mut(&pane) else {
            return;
        };
        if typing.under_way {
            return;
        }
        if typing.waits.is_empty() {
            self.typing.remove(&pane);
            return;
        }
        typing.under_way = true;
        let rest = typing.waits.split_off(typing.waits.len().min(AT_ONCE));
        let bytes = std::mem::replace(&mut typing.waits, rest);
        let client = self.me;
        let look = AttachRequest::Type {
            client,
            pane,
            bytes,
        };
        effects.push(self.asks.look(Why::Type(pane), look));
    }
}

/// A paste cannot end itself before its end.
fn without_end(bytes: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(bytes.len());
    for byte in bytes {
        kept.push(*byte);
        if kept.ends_with(PASTE_END) {
            kept.truncate(kept.len() - PASTE_END.len());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_end_of_a_paste_is_left_in_it() {
        let inner = b"a\x1b[201~b\x1b[20\x1b[201~1~c";
        assert_eq!(super::without_end(inner), b"abc");
    }
}
