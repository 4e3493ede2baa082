//! The agent in a worker's pane: reports its idleness and its questions to core, and types messages into it.

use std::time::{Duration, Instant};

use fugue_api::{
    EventId,
    pane_state::{PaneState, StateSource},
    tools::{PasteMode, SendInput},
};
use fugue_core::{
    PaneEvent, TurnEnd, TypingOutcome,
    pane_machine::{AgentIdle, IdleView, InputOrigin},
    typing::without_controls,
};
use fugue_holder::wire::ForegroundProbe;

use super::Pane;

impl Pane {
    fn with_idle_view<T>(&self, f: impl FnOnce(&IdleView<'_>) -> T) -> T {
        let idle_threshold_ms = self.context.daemon.settings().idle_threshold_ms();
        f(&IdleView {
            now: Instant::now(),
            last_output: self.last_output,
            activity: self.activity(),
            is_connected: self.connection.is_connected(),
            is_known_agent: self.screen_patterns().is_some(),
            idle_threshold: Duration::from_millis(idle_threshold_ms),
            is_person_typing: &|| self.is_person_typing(),
            screen: &|| self.agent_screen(),
        })
    }

    pub(super) fn update_idle<T>(
        &mut self,
        f: impl FnOnce(&mut AgentIdle, &IdleView<'_>) -> T,
    ) -> T {
        let mut idle = std::mem::take(&mut self.idle);
        let result = self.with_idle_view(|view| f(&mut idle, view));
        self.idle = idle;
        result
    }

    pub(super) async fn await_idle(&mut self, turn_end: TurnEnd) {
        self.idle.start_wait(turn_end, Instant::now());
        self.check_idle().await;
    }

    /// Reports to core when the agent has become idle, or takes longer.
    pub(super) async fn check_idle(&mut self) {
        if let Some(state) = self.update_idle(AgentIdle::on_timer) {
            self.context.emit(PaneEvent::IdleReport(state)).await;
        }
    }

    pub(super) async fn type_message(&mut self, event: EventId, text: String) {
        if self.connection.is_gone() {
            return self.message_typed(event, TypingOutcome::Refused).await;
        }
        let waits = self.with_idle_view(|view| match self.idle.is_idle(view) {
            true => None,
            false => Some(TypingOutcome::Waits(self.idle.obstacle(view))),
        });
        if let Some(waits) = waits {
            return self.message_typed(event, waits).await;
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&event.0.to_le_bytes());
        key[8..].copy_from_slice(b"message ");
        let args = SendInput {
            pane_id: self.context.record.id.to_string(),
            input: Some(without_controls(&text)),
            keys: Vec::new(),
            submit: true,
            paste: PasteMode::Auto,
            force: false,
        };
        self.inputs.enqueue(args, key, InputOrigin::Message(event));
        self.advance_inputs();
    }

    async fn message_typed(&self, event: EventId, how: TypingOutcome) {
        self.context
            .emit(PaneEvent::MessageTyped { event, how })
            .await;
    }

    /// Reports the outcomes of messages and injections since the last turn of the loop.
    pub(super) async fn report_inputs(&mut self) {
        for mut event in self.inputs.take_events() {
            if let PaneEvent::MessageTyped {
                how: TypingOutcome::Waits(why),
                ..
            } = &mut event
            {
                match why {
                    Some(why) => self.idle.on_refusal(self.activity(), why.clone()),
                    // A draft, which may end without output or typing: no refusal is recorded.
                    None => *why = self.with_idle_view(|view| self.idle.obstacle(view)),
                }
            }
            self.context.emit(event).await;
        }
    }

    /// The agent has been quiet: reports whether it waits for a person.
    pub(super) async fn check_question(&mut self, probe: &ForegroundProbe) {
        let state = self.state(probe);
        let question = match state.state {
            PaneState::NeedsInput => Some((state.prompt.unwrap_or_default(), state.by)),
            PaneState::Running | PaneState::Idle | PaneState::Exited | PaneState::Closed => {
                let dialog = self.agent_screen().dialog;
                dialog.map(|question| (question, StateSource::Screen))
            }
        };
        let change = self.update_idle(|idle, view| idle.on_quiet(question, view));
        if let Some(at) = change.probe_at {
            self.probing.schedule(at);
        }
        if let Some(question) = change.changed {
            self.context
                .emit(PaneEvent::AttentionChanged(question))
                .await;
        }
    }
}
