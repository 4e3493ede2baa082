//! A watcher's pane: reports quiet to core, and queues an injection after a check. The input queue checks drafts and the target
//! again.

use std::time::Instant;

use fugue_api::{
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{PasteMode, ReadMode, ReadPane, SendInput},
};
use fugue_core::{
    InjectionOutcome, PaneActivity, PaneEvent, QuietPane,
    pane_machine::{
        InjectionRequest, InjectionView, InputOrigin, QuietDecision, QuietRequest, QuietView,
    },
};
use fugue_holder::wire::ForegroundProbe;

use super::{Pane, requests::ProbeReason};
use crate::reading::{self, ReadOutcome, RecentText};

/// The limit of a report's text. The text is cut again where a prompt quotes it.
const MAX_TAIL_CHARS: u32 = 60_000;

impl Pane {
    pub(super) fn await_quiet(&mut self, request: QuietRequest) {
        self.quiet
            .start(request, self.last_activity(), Instant::now());
    }

    /// Ends a watcher's wait and cancels its injections that have not begun to be typed.
    pub(super) fn forget_quiet(&mut self, watcher: u64) {
        self.quiet.cancel(watcher);
        self.probes.retain(
            |_, reason| !matches!(reason, ProbeReason::Inject(inject) if inject.watcher == watcher),
        );
        self.inputs.cancel_watcher(watcher);
    }

    /// The last output or typing.
    pub(super) fn last_activity(&self) -> Instant {
        let typed = self.draft.last_typed().unwrap_or(self.last_output);
        self.last_output.max(typed)
    }

    /// The foreground process has been probed for a watcher.
    pub(super) async fn report_quiet(&mut self, probe: &ForegroundProbe) {
        let mut quiet = std::mem::take(&mut self.quiet);
        let decision = quiet.on_probe(&QuietView {
            now: Instant::now(),
            last_activity: self.last_activity(),
            needs_person: &|| self.needs_person(probe),
            has_draft: &|| self.has_draft(),
            target: &|| self.target(probe),
        });
        self.quiet = quiet;
        match decision {
            QuietDecision::Wait => {}
            QuietDecision::Hold(request, why) => {
                let how = InjectionOutcome::Held(why.to_owned());
                self.injected(request.watcher, request.step, how).await;
            }
            QuietDecision::Refuse(request, why) => {
                let how = InjectionOutcome::Refused(why);
                self.injected(request.watcher, request.step, how).await;
            }
            QuietDecision::Report(request) => {
                let seen = QuietPane {
                    tail: self.tail(request.lines),
                    idle_ms: self.idle_ms(),
                    place: self.activity(),
                };
                let (watcher, step) = (request.watcher, request.step);
                let event = PaneEvent::Quiet {
                    watcher,
                    step,
                    seen,
                };
                self.context.emit(event).await;
            }
        }
    }

    /// The end of the text, or the screen of a full-screen program.
    fn tail(&mut self, lines: usize) -> String {
        let terminal = &self.follower.terminal;
        let mode = if terminal.screen().is_alternate() {
            ReadMode::Screen
        } else {
            ReadMode::Text
        };
        let args = ReadPane {
            pane_id: String::new(),
            lines: u32::try_from(lines.max(1)).unwrap_or(u32::MAX),
            since: None,
            mode,
            max_output_chars: MAX_TAIL_CHARS,
            grep: None,
        };
        let state = SourcedState::new(PaneState::Idle, StateSource::Silence);
        let mut text = RecentText {
            terminal,
            gaps: &[],
            tail: None,
        };
        match reading::read(&mut text, &mut self.follower.log, &args, &state) {
            Ok(ReadOutcome::Done(read)) => read.text,
            Ok(ReadOutcome::NeedsMore(_)) | Err(_) => String::new(),
        }
    }

    pub(super) fn activity(&self) -> PaneActivity {
        PaneActivity {
            printed: self.follower.terminal.end().offset.0,
            typed: self.draft.typed_count(),
        }
    }

    pub(super) async fn inject(&mut self, inject: InjectionRequest) {
        if !self.connection.is_connected() {
            return self
                .injected(inject.watcher, inject.step, InjectionOutcome::NotNow)
                .await;
        }
        self.probe(ProbeReason::Inject(inject));
    }

    /// The foreground process has been probed for an injection: the line is typed if nothing has changed.
    pub(super) async fn type_injection(
        &mut self,
        inject: InjectionRequest,
        probe: &ForegroundProbe,
    ) {
        let view = InjectionView {
            activity: self.activity(),
            has_unread_output: self.has_unread_output,
            needs_person: &|| self.needs_person(probe),
            has_draft: &|| self.has_draft(),
            target: &|| self.target(probe),
        };
        if let Some(how) = view.obstacle(&inject.seen) {
            return self.injected(inject.watcher, inject.step, how).await;
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&inject.watcher.to_le_bytes());
        key[8..].copy_from_slice(&(inject.step | 1 << 63).to_le_bytes());
        let args = SendInput {
            pane_id: self.context.record.id.to_string(),
            input: Some(inject.line.as_str().to_owned()),
            keys: Vec::new(),
            submit: inject.enter,
            paste: PasteMode::Auto,
            force: false,
        };
        let origin = InputOrigin::Injection {
            watcher: inject.watcher,
            step: inject.step,
            enter: inject.enter,
        };
        self.inputs.enqueue(args, key, origin);
        self.advance_inputs();
    }

    async fn injected(&self, watcher: u64, step: u64, how: InjectionOutcome) {
        let event = PaneEvent::Injected { watcher, step, how };
        self.context.emit(event).await;
    }
}
