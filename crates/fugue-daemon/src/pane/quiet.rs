//! A watched pane: when it has been quiet, and typing a line only if nothing has happened since.

use std::time::Duration;

use fugue_api::panes::{
    PaneState, PasteMode, ReadMode, ReadPane, SendInput, SourcedState, StateSource,
};
use fugue_core::{InjectionOutcome, PaneActivity, PaneEvent, QuietPane, assess::Injection};
use fugue_holder::wire::ForegroundProbe;
use fugue_term::ShellState;
use tokio::time::Instant;

use super::{Pane, answers::ProbeReason, sending::Asker, target::Target};
use crate::{
    agents::screen::Input,
    reading::{self, Reading, RecentText},
};

/// What a watcher wants to hear.
#[derive(Clone, Copy)]
pub struct Quiet {
    pub watcher: u64,
    pub step: u64,
    pub quiet: Duration,
    pub lines: usize,
}

/// A line that waits for a last look.
pub struct Inject {
    pub watcher: u64,
    pub step: u64,
    pub line: Injection,
    pub enter: bool,
    pub seen: PaneActivity,
}

/// What is known of the text that was typed last.
#[derive(Clone, Copy)]
pub(super) enum Draft {
    /// Nothing was typed, or it was sent.
    None,
    Begun(Hand),
    /// It was typed under the daemon before.
    Untold,
}

/// What is seen of a text that was not sent.
enum Seen {
    /// In the box of an agent, where nothing else is.
    InABox(bool),
    /// Behind a shell's prompt, where programs in the background print too.
    AtAPrompt(bool),
}

/// Who types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hand {
    /// With keys of their own.
    Person,
    /// By a tool, a message or a watcher.
    Program,
}

// A terminal that shows what was typed shows it by then, also over a slow link inside the pane.
const ECHO: Duration = Duration::from_millis(500);
// What a model reads of a pane is cut again where it is quoted.
const TAIL_CHARS: u32 = 60_000;

impl Pane {
    pub(super) fn await_quiet(&mut self, quiet: Quiet) {
        self.quiet = Some(quiet);
        self.quiet_look = Some(Instant::now().max(self.last_moved() + quiet.quiet));
    }

    pub(super) fn forget_quiet(&mut self, watcher: u64) {
        if self.quiet.is_some_and(|quiet| quiet.watcher == watcher) {
            self.quiet = None;
            self.quiet_look = None;
        }
        // A line that waits for its last look, or behind another input, is wanted by nobody any more.
        self.probes.retain(
            |_, asked| !matches!(asked, ProbeReason::Inject(inject) if inject.watcher == watcher),
        );
        self.sending.forget_watcher(watcher);
    }

    /// Something was printed or typed: the next look is when it has been quiet again.
    pub(super) fn quiet_output(&mut self) {
        if let Some(quiet) = self.quiet {
            self.quiet_look = Some(self.last_moved() + quiet.quiet);
        }
    }

    pub(super) fn last_moved(&self) -> Instant {
        let typed = self.last_typed.unwrap_or(self.last_output);
        self.last_output.max(typed)
    }

    pub(super) fn quiet_time(&mut self) {
        self.quiet_look = None;
        self.probe(ProbeReason::Watcher);
    }

    /// Nothing happened for long enough, if that is still so. A pane that waits for a person does not rest, and neither
    /// does one in which somebody has begun a line: what ends either is typed, and then it is looked at again. At an agent's
    /// dialog the watcher is told so.
    pub(super) async fn looked_for_watcher(&mut self, probe: &ForegroundProbe) {
        let Some(quiet) = self.quiet else {
            return;
        };
        if self.last_moved().elapsed() < quiet.quiet {
            return self.quiet_output();
        }
        if !quiet.quiet.is_zero() {
            if let Some(why) = self.waits_for_a_person(probe) {
                let how = InjectionOutcome::Held(why.to_owned());
                return self.injected(quiet.watcher, quiet.step, how).await;
            }
            // Whatever a model would say, nothing may be typed.
            let target = self.target(probe);
            if let (Target::Dialog(_), Some(why)) = (&target, target.obstacle()) {
                self.quiet = None;
                let how = InjectionOutcome::Refused(why);
                return self.injected(quiet.watcher, quiet.step, how).await;
            }
        }
        self.quiet = None;
        let tail = self.tail(quiet.lines);
        let seen = QuietPane {
            tail,
            idle_ms: self.idle_ms(),
            place: self.place(),
        };
        self.seat
            .say(PaneEvent::Quiet {
                watcher: quiet.watcher,
                step: quiet.step,
                seen,
            })
            .await;
    }

    /// Why a watcher's line would be in a person's way, whatever it says.
    fn waits_for_a_person(&self, probe: &ForegroundProbe) -> Option<&'static str> {
        if self.asks_a_person(probe) {
            Some("its program waits for a person's answer")
        } else if self.drafted() {
            Some("somebody has begun a line in it and not sent it")
        } else {
            None
        }
    }

    /// What a person would see: the end of the text, or the screen of a full-screen program.
    fn tail(&mut self, lines: usize) -> String {
        let terminal = &self.follower.terminal;
        let mode = if terminal.screen().alternate() {
            ReadMode::Screen
        } else {
            ReadMode::Text
        };
        let args = ReadPane {
            pane_id: String::new(),
            lines: u32::try_from(lines.max(1)).unwrap_or(u32::MAX),
            since: None,
            mode,
            max_output_chars: TAIL_CHARS,
            grep: None,
        };
        let state = SourcedState::new(PaneState::Idle, StateSource::Silence);
        let mut text = RecentText {
            terminal,
            gaps: &[],
            tail: None,
        };
        match reading::read(&mut text, &mut self.follower.log, &args, &state) {
            Ok(Reading::Done(read)) => read.text,
            Ok(Reading::NeedsMore(_)) | Err(_) => String::new(),
        }
    }

    pub(super) fn place(&self) -> PaneActivity {
        PaneActivity {
            printed: self.follower.terminal.end().offset.0,
            typed: self.typed,
        }
    }

    pub(super) async fn inject(&mut self, inject: Inject) {
        if self.keeper.is_none() {
            return self
                .injected(inject.watcher, inject.step, InjectionOutcome::NotNow)
                .await;
        }
        self.probe(ProbeReason::Inject(inject));
    }

    /// The last look before a line is typed.
    pub(super) async fn looked_before_typing(&mut self, inject: Inject, probe: &ForegroundProbe) {
        let moved = self.place() != inject.seen || self.more_to_read;
        let how = if moved || self.drafted() || self.asks_a_person(probe) {
            Some(InjectionOutcome::NotNow)
        } else {
            self.target(probe).obstacle().map(InjectionOutcome::Refused)
        };
        if let Some(how) = how {
            return self.injected(inject.watcher, inject.step, how).await;
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&inject.watcher.to_le_bytes());
        key[8..].copy_from_slice(&(inject.step | 1 << 63).to_le_bytes());
        let args = SendInput {
            pane_id: self.seat.record.id.to_string(),
            input: Some(inject.line.as_str().to_owned()),
            keys: Vec::new(),
            submit: inject.enter,
            paste: PasteMode::Auto,
            force: false,
        };
        let asker = Asker::Watcher {
            watcher: inject.watcher,
            step: inject.step,
            enter: inject.enter,
        };
        self.sending.enqueue(args, key, asker);
        self.go_on_sending();
    }

    pub(super) async fn injected(&self, watcher: u64, step: u64, how: InjectionOutcome) {
        let fact = PaneEvent::Injected { watcher, step, how };
        self.seat.say(fact).await;
    }

    /// Whether a text stands there that somebody has begun and not sent. What the screen shows of it counts more than what
    /// was typed: a key may have been taken by a program that is gone.
    pub(super) fn drafted(&self) -> bool {
        if self.echo_due().is_some() {
            return true;
        }
        match (self.draft, self.draft_seen()) {
            (_, Some(Seen::InABox(shown))) => shown,
            // What is shown there was printed by somebody else.
            (Draft::None, _) => false,
            (Draft::Begun(_) | Draft::Untold, Some(Seen::AtAPrompt(shown))) => shown,
            (Draft::Begun(_), None) => true,
            (Draft::Untold, None) => false,
        }
    }

    /// Whether some text stands where it would be typed, if that can be seen.
    fn draft_seen(&self) -> Option<Seen> {
        let terminal = &self.follower.terminal;
        match self.look().input {
            Input::Draft => return Some(Seen::InABox(true)),
            Input::Empty => return Some(Seen::InABox(false)),
            Input::Unknown => {}
        }
        match terminal.prompt() {
            ShellState::AtPrompt { since } => {
                let typed = terminal
                    .lines_between(since, terminal.end(), usize::MAX)
                    .lines;
                let shown = typed.iter().any(|line| !line.text.trim().is_empty());
                Some(Seen::AtAPrompt(shown))
            }
            ShellState::Unknown | ShellState::Prompting { .. } | ShellState::Running { .. } => None,
        }
    }

    /// Whether a person is at it, so that others do not type now.
    pub(super) fn person_comes_first(&self) -> bool {
        self.drafted_by_a_person() || self.interruption_due().is_some()
    }

    /// When to look again whether that is still so, if nothing happens until then.
    pub(super) fn person_moves_on(&self) -> Option<Instant> {
        self.echo_due().or_else(|| self.interruption_due())
    }

    /// A person has interrupted something a moment ago. A shell throws away what comes before its next prompt, and other
    /// programs take a while to notice.
    fn interruption_due(&self) -> Option<Instant> {
        let (at, then) = self.interrupted?;
        let next = match (self.follower.terminal.prompt(), then) {
            (ShellState::AtPrompt { since }, ShellState::AtPrompt { since: before }) => {
                since != before
            }
            (ShellState::AtPrompt { .. }, _) => true,
            _ => false,
        };
        Some(at + ECHO).filter(|due| !next && Instant::now() < *due)
    }

    /// Whether an agent's box holds a text that was not typed by way of fugue: a person's keys in tmux are not seen.
    pub(super) fn shows_a_strangers_draft(&self) -> bool {
        let typed_here = matches!(self.draft, Draft::Begun(_)) || self.sending.left_a_text();
        let is_tmux = self.seat.record.tmux.is_some();
        is_tmux && !typed_here && self.look().input == Input::Draft
    }

    /// The same of a person: what a tool typed and did not send is the tool's own affair.
    fn drafted_by_a_person(&self) -> bool {
        matches!(self.draft, Draft::Begun(Hand::Person)) && self.drafted()
    }

    /// A person has typed a moment ago and nothing was printed since: until then, what is shown is not what is there.
    fn echo_due(&self) -> Option<Instant> {
        let due = self.last_typed? + ECHO;
        let printed = self.follower.terminal.offset().0 > self.typed_at;
        let awaited = matches!(self.draft, Draft::Begun(Hand::Person)) && !printed;
        Some(due).filter(|due| awaited && Instant::now() < *due)
    }

    /// Somebody types: a text without Enter is a draft that nobody else may touch.
    pub(super) fn somebody_typed(&mut self, hand: Hand, bytes: &[u8]) {
        // Enter, and the keys that throw a line away.
        const ENDS_A_LINE: [u8; 4] = [b'\r', b'\n', 0x03, 0x15];
        const ESCAPE: u8 = 0x1b;
        if is_report(bytes) {
            return;
        }
        // A line that a person began stays theirs, whatever is forced into it.
        let hand = if self.drafted_by_a_person() {
            Hand::Person
        } else {
            hand
        };
        self.typed += 1;
        self.last_typed = Some(Instant::now());
        self.typed_at = self.follower.terminal.offset().0;
        if let Some(last) = bytes.last() {
            if *last == 0x03 && hand == Hand::Person {
                let now = Instant::now();
                self.interrupted = Some((now, self.follower.terminal.prompt()));
            }
            // A shell keeps its line when Escape is pressed, and one in vi mode is all Escapes: where the line is seen,
            // what is seen decides.
            let over = ENDS_A_LINE.contains(last) || *last == ESCAPE && self.draft_seen().is_none();
            self.draft = if over {
                Draft::None
            } else {
                Draft::Begun(hand)
            };
        }
        self.quiet_output();
    }
}

/// What a terminal says of mouse and focus, which nobody has typed.
fn is_report(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix(b"\x1b[") else {
            return false;
        };
        let length = match after {
            [b'I' | b'O', ..] => 1,
            [b'M', _, _, _, ..] => 4,
            [b'<', report @ ..] => {
                let numbers = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
                let end = report.iter().position(|byte| !numbers(byte));
                match end.map(|end| (end, report[end])) {
                    Some((end, b'M' | b'm')) => end + 2,
                    Some(_) | None => return false,
                }
            }
            _ => return false,
        };
        rest = &after[length..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_report;

    #[test]
    fn a_mouse_types_nothing() {
        for report in [
            "\x1b[I",
            "\x1b[O",
            "\x1b[<0;10;5M\x1b[<0;10;5m",
            "\x1b[M #!",
        ] {
            assert!(is_report(report.as_bytes()), "{report:?}");
        }
        for keys in [
            "a",
            "\x1b",
            "\x1b[A",
            "\x1b[Ia",
            "\x1b[<",
            "\x1b[M",
            "\x1b[200~x\x1b[201~",
        ] {
            assert!(!is_report(keys.as_bytes()), "{keys:?}");
        }
    }
}
