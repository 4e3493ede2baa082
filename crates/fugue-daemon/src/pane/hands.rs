//! How a pane types.

use fugue_core::typing::{AgentInputBox, InputModes};
use fugue_holder::wire::{self, ForegroundProbe, InputKind, ToHolder};
use tokio::time::Instant;

use super::{
    Pane,
    answers::ProbeReason,
    sending::{Gate, Sight, Step},
};
use crate::agents::screen::{self, Input};

impl Pane {
    pub(super) fn go_on_sending(&mut self) {
        loop {
            let gate = match self.sending.wants_in() && self.next_input_waits() {
                true => Gate::Shut {
                    until: Instant::now() + self.seat.house.settings.draft_wait(),
                    look_at: self.person_moves_on(),
                },
                false => Gate::Open,
            };
            match self.sending.next_step(&gate) {
                Step::Nothing => return,
                Step::Probe => self.probe(ProbeReason::Sending),
                Step::Type { key, bytes } => {
                    let Some(keeper) = self.keeper.as_mut() else {
                        return;
                    };
                    let seq = keeper.next_seq();
                    self.sending.typed(seq);
                    self.tell(&ToHolder::Input(wire::InputMessage {
                        seq,
                        key,
                        kind: InputKind::Typed,
                        bytes,
                    }));
                }
            }
        }
    }

    /// Whether the input that is next, or about to be typed, waits for a person. Keys are meant for what is there, also for a
    /// line that nobody is known to have begun.
    pub(super) fn next_input_waits(&self) -> bool {
        let Some(args) = self.sending.next_args().filter(|args| !args.force) else {
            return false;
        };
        let is_text = args.submit || args.input.is_some();
        self.person_comes_first() || is_text && self.shows_a_strangers_draft()
    }

    /// What those who look on are told of input that waits.
    pub(super) fn held(&self) -> Option<String> {
        let pane = self.seat.record.id;
        let held = || format!("{pane}: input from an agent waits until you press Enter");
        self.sending.is_held().then(held)
    }

    /// What stands where typed text would stand.
    pub(super) fn seen(&self) -> Sight {
        if !self.sending.watches() {
            return Sight::default();
        }
        let screen = self.follower.terminal.screen();
        let row = screen.cursor().0;
        let near_cursor = screen
            .rows()
            .take(row + 1)
            .skip(row.saturating_sub(1))
            .collect::<Vec<_>>()
            .join("\n");
        Sight {
            near_cursor,
            agent_box: self.agent_box(),
        }
    }

    fn agent_box(&self) -> AgentInputBox {
        let screen = self.follower.terminal.screen();
        let look = screen::look_at_any(&screen);
        match (look.dialog, look.input) {
            (Some(_), _) => AgentInputBox::Dialog,
            (None, Input::Empty) => AgentInputBox::Empty,
            (None, Input::Draft) => AgentInputBox::Filled,
            (None, Input::Unknown) => AgentInputBox::Absent,
        }
    }

    pub(super) fn manners(&self, probe: &ForegroundProbe) -> InputModes {
        let modes = self.follower.terminal.modes();
        InputModes {
            line_mode: probe.canonical,
            bracketed_paste: modes.bracketed_paste,
            application_cursor: modes.app_cursor,
            agent_box: matches!(
                self.agent_box(),
                AgentInputBox::Empty | AgentInputBox::Filled
            ),
        }
    }
}
