//! How a pane types.

use fugue_core::typing::Manners;
use fugue_hold::wire::{Input, InputKind, Probe, ToHolder};

use super::{Pane, answers::Asked, sending::Step};
use crate::agents::screen;

impl Pane {
    pub(super) fn go_on_sending(&mut self) {
        loop {
            match self.sending.next_step() {
                Step::Nothing => return,
                Step::Probe => self.probe(Asked::Sending),
                Step::Type { key, bytes } => {
                    let Some(keeper) = self.keeper.as_mut() else {
                        return;
                    };
                    let seq = keeper.next_seq();
                    self.sending.typed(seq);
                    self.tell(&ToHolder::Input(Input {
                        seq,
                        key,
                        kind: InputKind::Typed,
                        bytes,
                    }));
                }
            }
        }
    }

    /// What stands where typed text would stand: the cursor's row and the one above, for a box that wraps.
    pub(super) fn seen(&self) -> String {
        if !self.sending.watches() {
            return String::new();
        }
        let screen = self.follower.terminal.screen();
        let row = screen.cursor().0;
        screen
            .rows()
            .take(row + 1)
            .skip(row.saturating_sub(1))
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub(super) fn manners(&self, probe: &Probe) -> Manners {
        let modes = self.follower.terminal.modes();
        Manners {
            line_mode: probe.canonical,
            bracketed_paste: modes.bracketed_paste,
            application_cursor: modes.app_cursor,
            agent_box: screen::box_of(&self.follower.terminal.screen()).is_some(),
        }
    }
}
