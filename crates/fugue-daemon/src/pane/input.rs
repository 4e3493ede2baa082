//! Typing into a pane: performs the steps of the [`InputQueue`](fugue_core::pane_machine::InputQueue).

mod person_keys;

use std::time::Instant;

use fugue_api::{ToolReply, wire::Response};
use fugue_core::{
    pane_machine::{AckResult, InputAck, InputGate, InputScreen, InputStep, InputTarget},
    typing::{AgentInputBox, InputModes},
};
use fugue_holder::wire::{
    ForegroundProbe, InputKind, InputMessage, InputOutcome, InputState, ToHolder,
};

use super::{Pane, requests::ProbeReason};

impl Pane {
    /// Probes and types until the queue waits for something.
    pub(super) fn advance_inputs(&mut self) {
        self.answer_inputs();
        loop {
            let gate = match self.inputs.needs_gate() && self.next_input_waits() {
                true => InputGate::DraftInTheWay {
                    refuse_at: Instant::now() + self.context.daemon.settings().draft_wait(),
                    recheck_at: self.draft_recheck_at(),
                },
                false => InputGate::Open,
            };
            match self.inputs.next_step(gate, Instant::now()) {
                InputStep::Nothing => return,
                InputStep::Probe => self.probe(ProbeReason::Input),
                InputStep::Type { key, bytes } => {
                    let Some(backend) = self.backend.as_mut() else {
                        return;
                    };
                    let seq = backend.next_seq();
                    self.inputs.typed(seq, Instant::now());
                    self.send(&ToHolder::Input(InputMessage {
                        seq,
                        key,
                        kind: InputKind::Typed,
                        bytes,
                    }));
                }
            }
        }
    }

    /// Answers the `send_input` calls that are complete.
    pub(super) fn answer_inputs(&mut self) {
        for reply in self.inputs.take_replies() {
            reply.call.answer(reply.outcome.map(|reply| Response::Tool {
                reply: ToolReply::SendInput(reply),
            }));
        }
    }

    pub(super) fn input_acknowledged(&mut self, state: &InputState) {
        let ack = InputAck {
            seq: state.seq,
            written: u64::from(state.written),
            total: u64::from(state.total),
            result: match state.outcome {
                InputOutcome::Written => AckResult::Written,
                InputOutcome::Pending => AckResult::Pending,
                InputOutcome::Duplicate => AckResult::Duplicate,
                InputOutcome::Lost => AckResult::Lost,
            },
        };
        let screen = self.input_screen();
        self.inputs.on_ack(&ack, &screen);
        self.answer_inputs();
        self.answer_keys(state);
        self.advance_inputs();
    }

    /// Whether the input that is next, or about to be typed, waits for a person. Keys without text are meant for the line
    /// that stands there, so a draft that did not pass through fugue does not hold them. At a dialog a person's keys may have
    /// moved the choice: keys of others are typed there, and Enter is refused because of the dialog.
    pub(super) fn next_input_waits(&self) -> bool {
        let Some(args) = self.inputs.next_args().filter(|args| !args.force) else {
            return false;
        };
        let is_text = args.submit || args.input.is_some();
        let is_plain_text = args.input.is_some() && !args.presses_enter();
        match self.is_person_typing() {
            true => is_plain_text || !self.shows_dialog(),
            false => is_text && self.shows_foreign_draft(),
        }
    }

    /// Whether a dialog has the keyboard, by the last probe.
    fn shows_dialog(&self) -> bool {
        let probe = self.viewer_state.probe.as_ref();
        probe.is_some_and(|probe| matches!(self.target(probe), InputTarget::Dialog(_)))
    }

    /// The notice for viewers while an input waits for a person.
    pub(super) fn hold_notice(&self) -> Option<String> {
        let pane = self.context.record.id;
        let notice =
            || format!("{pane}: input from an agent waits until your line is sent or deleted");
        self.inputs.is_held().then(notice)
    }

    /// The part of the screen where typed text appears; empty while no input depends on the screen.
    pub(super) fn input_screen(&self) -> InputScreen {
        if !self.inputs.follows_screen() {
            return InputScreen::default();
        }
        let screen = self.follower.terminal.screen();
        let row = screen.cursor().0;
        let near_cursor = screen
            .rows()
            .take(row + 1)
            .skip(row.saturating_sub(1))
            .collect::<Vec<_>>()
            .join("\n");
        InputScreen {
            near_cursor,
            agent_box: self.any_agent_screen().input_box(),
        }
    }

    pub(super) fn input_modes(&self, probe: &ForegroundProbe) -> InputModes {
        let modes = self.follower.terminal.modes();
        InputModes {
            line_mode: probe.canonical,
            bracketed_paste: modes.bracketed_paste,
            application_cursor: modes.app_cursor,
            agent_box: matches!(
                self.any_agent_screen().input_box(),
                AgentInputBox::Empty | AgentInputBox::Filled
            ),
        }
    }
}
