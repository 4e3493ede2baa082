//! The agent in a pane: recognises one that a person has started, reports what it shows and when it is idle to core, and
//! types messages into it.

use std::time::{Duration, Instant};

use fugue_api::{
    EventId,
    pane_state::{AgentState, AgentStatus, PaneState, SourcedState},
    tools::{PasteMode, SendInput},
};
use fugue_core::{
    ObservedAgent, PaneEvent, TurnEnd, TypingOutcome,
    pane_machine::{AgentDialog, AgentIdle, AgentSight, IdleView, InputOrigin},
    typing::without_controls,
};
use fugue_holder::wire::ForegroundProbe;

use super::{LiveState, Pane};
use crate::agents::{self, screen};

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

    /// The agent in the pane: a worker's, or one that a person has started.
    fn agent_name(&self) -> Option<&str> {
        self.context.record.agent.as_deref().or(self.found_agent)
    }

    pub(super) fn has_agent(&self) -> bool {
        self.agent_name().is_some()
    }

    /// Recognises an agent that a person has started, or its end.
    pub(super) async fn find_agent(&mut self, probe: &ForegroundProbe) {
        if self.context.record.agent.is_some() {
            return;
        }
        let found = agents::agent_of_process(&probe.foreground_comm, probe.foreground);
        if std::mem::replace(&mut self.found_agent, found) == found {
            return;
        }
        self.idle = AgentIdle::default();
        match found {
            Some(_) => self.idle.plan_look(Instant::now()),
            None => self.report_sight(AgentSight::Unrecognized).await,
        }
    }

    /// What the agent shows at this moment.
    fn seen(&self) -> AgentSight {
        let is_valid = self.probing.is_probe_valid(Instant::now());
        let probe = self.viewer_state.probe.as_ref().filter(|_| is_valid);
        let state = probe.map(|probe| self.state(probe));
        match state {
            Some(state) if state.state == PaneState::NeedsInput => AgentSight::Asks {
                dialog: AgentDialog::unknown(state.prompt.unwrap_or_default().trim()),
                by: state.by,
            },
            Some(_) | None => AgentSight::of_screen(&self.agent_screen(), || {
                screen::notice(&self.follower.terminal.screen())
            }),
        }
    }

    /// Looks at the screen and reports a sight that counts.
    pub(super) async fn look_at_agent(&mut self) {
        let seen = self.seen();
        if let Some(sight) = self.update_idle(|idle, view| idle.on_look(seen, view)) {
            self.report_sight(sight).await;
        }
    }

    async fn report_sight(&self, sight: AgentSight) {
        let name = self.agent_name().map(str::to_owned);
        self.context
            .emit(PaneEvent::AgentObserved(ObservedAgent { name, sight }))
            .await;
    }

    /// The state of a pane in which a person has started an agent, and the agent. `None` for all other panes: the agent of a
    /// worker is known to core.
    pub(super) fn found_agent_state(&self, state: &SourcedState) -> Option<LiveState> {
        let name = self.found_agent?;
        let sight = match self.idle.sight() {
            AgentSight::Unrecognized => {
                self.with_idle_view(|view| self.idle.single_look(self.seen(), view))
            }
            AgentSight::Working | AgentSight::Asks { .. } | AgentSight::Idle { .. } => {
                self.idle.sight().clone()
            }
        };
        let by_silence = || match state.state {
            PaneState::Idle => AgentState::Idle,
            PaneState::Running | PaneState::NeedsInput | PaneState::Exited | PaneState::Closed => {
                AgentState::Working
            }
        };
        let agent = sight
            .status(name, self.context.record.id)
            .unwrap_or_else(|| AgentStatus::new(name, by_silence(), state.by));
        let state = match sight {
            AgentSight::Asks { dialog, by } => SourcedState {
                prompt: Some(dialog.question),
                ..SourcedState::new(PaneState::NeedsInput, by)
            },
            AgentSight::Unrecognized | AgentSight::Working | AgentSight::Idle { .. } => {
                state.clone()
            }
        };
        Some(LiveState {
            state,
            agent: Some(agent),
        })
    }
}
