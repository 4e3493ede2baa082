//! Drafts: a line that a person has begun and not sent.
//!
//! The tracker combines typed bytes with the contents of the screen. The screen counts more than the bytes: a key may have
//! been read by a program that has ended since.

use std::time::{Duration, Instant};

use fugue_term::ShellState;

/// The origin of typed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypingSource {
    /// A person's own keys.
    Person,
    /// A tool call, a message or a watcher.
    Program,
}

/// Unsent text where typed text would appear, if the screen has a place for typed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownDraft {
    /// The input box of an agent is empty.
    BoxEmpty,
    /// The input box of an agent holds a text, and nothing else is printed in the box.
    BoxFilled,
    /// No text follows a shell's prompt.
    PromptEmpty,
    /// A text follows a shell's prompt, where background programs print as well.
    PromptFilled,
}

/// The state of the pane that decides about a draft.
pub struct DraftView<'a> {
    pub now: Instant,
    /// The offset up to which output has been read.
    pub offset: u64,
    pub shell: ShellState,
    pub shown: &'a dyn Fn() -> Option<ShownDraft>,
}

/// The text that was typed last, as far as its bytes show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DraftState {
    /// Nothing was typed, or the text was sent.
    #[default]
    None,
    Begun(TypingSource),
    /// An earlier daemon may have typed a text.
    Inherited,
}

/// Tracks the typed bytes of a pane and decides whether the pane has a draft.
#[derive(Debug, Default)]
pub struct DraftTracker {
    state: DraftState,
    typed_count: u64,
    last_typed: Option<Instant>,
    /// The output offset when the last bytes were typed.
    offset_when_typed: u64,
    /// When a person last pressed C-c, and the state of the shell then.
    interruption: Option<(Instant, ShellState)>,
}

/// A terminal that echoes typed text does so within this time, also over a slow link inside the pane.
const ECHO_TIMEOUT: Duration = Duration::from_millis(500);
/// Enter, and the keys that discard a line (C-c, C-u).
const LINE_ENDS: [u8; 4] = [b'\r', b'\n', INTERRUPT, 0x15];
const INTERRUPT: u8 = 0x03;
const ESCAPE: u8 = 0x1b;

impl DraftTracker {
    /// A tracker for a pane into which an earlier daemon may have typed.
    pub fn inherited() -> Self {
        Self {
            state: DraftState::Inherited,
            ..Self::default()
        }
    }

    /// How often something was typed.
    pub fn typed_count(&self) -> u64 {
        self.typed_count
    }

    pub fn last_typed(&self) -> Option<Instant> {
        self.last_typed
    }

    /// Whether the last typed text came through fugue and was not sent.
    pub fn is_begun_here(&self) -> bool {
        matches!(self.state, DraftState::Begun(_))
    }

    /// Records typed bytes: a text without Enter is a draft. Returns false for reports of mouse and focus, which are not
    /// typed by anybody and change nothing.
    pub fn record_typing(
        &mut self,
        source: TypingSource,
        bytes: &[u8],
        view: &DraftView<'_>,
    ) -> bool {
        if is_report(bytes) {
            return false;
        }
        // A line that a person began stays a person's draft, also after a forced input was typed into the line.
        let source = if self.has_person_draft(view) {
            TypingSource::Person
        } else {
            source
        };
        self.typed_count += 1;
        self.last_typed = Some(view.now);
        self.offset_when_typed = view.offset;
        if let Some(last) = bytes.last() {
            if *last == INTERRUPT && source == TypingSource::Person {
                self.interruption = Some((view.now, view.shell));
            }
            // A shell keeps its line at Escape, and a shell in vi mode uses Escape constantly: where the screen shows the
            // line, the screen decides.
            let over = LINE_ENDS.contains(last) || *last == ESCAPE && (view.shown)().is_none();
            self.state = if over {
                DraftState::None
            } else {
                DraftState::Begun(source)
            };
        }
        true
    }

    /// Forgets the last typed bytes, because their line was not begun through fugue.
    pub fn disown_line(&mut self) {
        self.state = DraftState::None;
    }

    /// Whether a text stands in the pane that was begun and not sent.
    pub fn has_draft(&self, view: &DraftView<'_>) -> bool {
        if self.echo_deadline(view).is_some() {
            return true;
        }
        match (self.state, (view.shown)()) {
            (_, Some(ShownDraft::BoxFilled)) => true,
            (_, Some(ShownDraft::BoxEmpty)) => false,
            // Text at the prompt was printed by a background program.
            (DraftState::None, Some(ShownDraft::PromptEmpty | ShownDraft::PromptFilled) | None) => {
                false
            }
            (DraftState::Begun(_) | DraftState::Inherited, Some(ShownDraft::PromptFilled)) => true,
            (DraftState::Begun(_) | DraftState::Inherited, Some(ShownDraft::PromptEmpty)) => false,
            (DraftState::Begun(_), None) => true,
            (DraftState::Inherited, None) => false,
        }
    }

    /// Whether a person's draft stands in the pane. A tool's unsent text does not count.
    fn has_person_draft(&self, view: &DraftView<'_>) -> bool {
        self.state == DraftState::Begun(TypingSource::Person) && self.has_draft(view)
    }

    /// Whether input of others has to wait for a person.
    pub fn is_person_typing(&self, view: &DraftView<'_>) -> bool {
        self.has_person_draft(view) || self.interruption_deadline(view).is_some()
    }

    /// When `is_person_typing` may change without output or typing.
    pub fn recheck_at(&self, view: &DraftView<'_>) -> Option<Instant> {
        self.echo_deadline(view)
            .or_else(|| self.interruption_deadline(view))
    }

    /// The end of the time in which a person's last key may still be echoed. Until then the screen is out of date.
    fn echo_deadline(&self, view: &DraftView<'_>) -> Option<Instant> {
        let deadline = self.last_typed? + ECHO_TIMEOUT;
        let is_echoed = view.offset > self.offset_when_typed;
        let is_awaited = self.state == DraftState::Begun(TypingSource::Person) && !is_echoed;
        (is_awaited && view.now < deadline).then_some(deadline)
    }

    /// The end of the time after a person's C-c in which nothing is typed. A shell discards input that arrives before its
    /// next prompt, and other programs take a while to react.
    fn interruption_deadline(&self, view: &DraftView<'_>) -> Option<Instant> {
        let (at, shell_then) = self.interruption?;
        let has_new_prompt = match (view.shell, shell_then) {
            (ShellState::AtPrompt { since }, ShellState::AtPrompt { since: before }) => {
                since != before
            }
            (ShellState::AtPrompt { .. }, _) => true,
            (
                ShellState::Unknown | ShellState::Prompting { .. } | ShellState::Running { .. },
                _,
            ) => false,
        };
        let deadline = at + ECHO_TIMEOUT;
        (!has_new_prompt && view.now < deadline).then_some(deadline)
    }
}

/// Whether bytes contain a report of focus, after which programs draw their screens again.
pub fn reports_focus(bytes: &[u8]) -> bool {
    let is_report = |bytes: &[u8]| matches!(bytes, b"\x1b[I" | b"\x1b[O");
    bytes.windows(3).any(is_report)
}

/// Whether bytes are only reports of mouse and focus.
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
    use fugue_term::{Offset, TextCursor};

    use super::{super::test_clock::at, *};

    fn prompt(offset: u64) -> ShellState {
        ShellState::AtPrompt {
            since: TextCursor {
                offset: Offset(offset),
                ..TextCursor::default()
            },
        }
    }

    /// One pane: a clock, an output offset, a shell and the visible draft.
    struct Script {
        draft: DraftTracker,
        ms: u64,
        offset: u64,
        shell: ShellState,
        shown: Option<ShownDraft>,
    }

    impl Script {
        fn new(shell: ShellState, shown: Option<ShownDraft>) -> Self {
            Self {
                draft: DraftTracker::default(),
                ms: 0,
                offset: 10,
                shell,
                shown,
            }
        }

        fn with<T>(&mut self, f: impl FnOnce(&mut DraftTracker, &DraftView<'_>) -> T) -> T {
            let shown = self.shown;
            let view = DraftView {
                now: at(self.ms),
                offset: self.offset,
                shell: self.shell,
                shown: &|| shown,
            };
            f(&mut self.draft, &view)
        }

        fn types(&mut self, source: TypingSource, bytes: &[u8]) -> bool {
            self.with(|draft, view| draft.record_typing(source, bytes, view))
        }

        fn echoes(&mut self, shown: Option<ShownDraft>) {
            self.offset += 1;
            self.shown = shown;
        }

        fn has_draft(&mut self) -> bool {
            self.with(|draft, view| draft.has_draft(view))
        }

        fn person_is_typing(&mut self) -> bool {
            self.with(|draft, view| draft.is_person_typing(view))
        }
    }

    #[test]
    fn a_persons_key_is_a_draft_until_enter() {
        let mut pane = Script::new(prompt(5), Some(ShownDraft::PromptEmpty));
        assert!(!pane.person_is_typing());
        pane.types(TypingSource::Person, b"l");
        assert!(pane.person_is_typing(), "before the echo");
        pane.echoes(Some(ShownDraft::PromptFilled));
        pane.ms = 60_000;
        assert!(pane.person_is_typing(), "for as long as the text stands");
        pane.types(TypingSource::Person, b"s\r");
        assert!(!pane.person_is_typing());
        assert_eq!(pane.draft.typed_count(), 2);
    }

    #[test]
    fn a_key_without_echo_counts_for_half_a_second_at_a_prompt() {
        let mut pane = Script::new(prompt(5), Some(ShownDraft::PromptEmpty));
        pane.types(TypingSource::Person, b"x");
        let recheck = pane.with(|draft, view| draft.recheck_at(view));
        assert_eq!(recheck, Some(at(500)));
        pane.ms = 499;
        assert!(pane.has_draft());
        pane.ms = 500;
        assert!(!pane.has_draft(), "the prompt is empty");
        assert_eq!(pane.with(|draft, view| draft.recheck_at(view)), None);
    }

    #[test]
    fn the_screen_decides_where_it_shows_the_line() {
        use DraftState::{Begun, Inherited, None as Nothing};
        use ShownDraft::{BoxEmpty, BoxFilled, PromptEmpty, PromptFilled};
        let person = Begun(TypingSource::Person);
        let program = Begun(TypingSource::Program);
        for (state, shown, expected) in [
            (Nothing, Some(BoxFilled), true),
            (Nothing, Some(BoxEmpty), false),
            (Nothing, Some(PromptFilled), false),
            (Nothing, None, false),
            (person, Some(BoxEmpty), false),
            (person, Some(PromptFilled), true),
            (person, Some(PromptEmpty), false),
            (person, None, true),
            (program, None, true),
            (Inherited, Some(PromptFilled), true),
            (Inherited, Some(PromptEmpty), false),
            (Inherited, None, false),
        ] {
            let mut pane = Script::new(ShellState::Unknown, shown);
            pane.draft.state = state;
            assert_eq!(pane.has_draft(), expected, "{state:?} {shown:?}");
        }
    }

    #[test]
    fn a_tools_unsent_text_keeps_nobody_waiting() {
        let mut pane = Script::new(ShellState::Unknown, None);
        pane.types(TypingSource::Program, b"half a line");
        assert!(pane.has_draft() && !pane.person_is_typing());
    }

    #[test]
    fn a_forced_input_into_a_persons_line_leaves_it_theirs() {
        let mut pane = Script::new(ShellState::Unknown, None);
        pane.types(TypingSource::Person, b"rm ");
        pane.types(TypingSource::Program, b"file");
        assert!(pane.person_is_typing());
    }

    #[test]
    fn a_tools_key_in_a_line_from_elsewhere_leaves_the_line_foreign() {
        let mut pane = Script::new(ShellState::Unknown, Some(ShownDraft::BoxFilled));
        pane.types(TypingSource::Program, b"\x7f");
        assert!(pane.draft.is_begun_here(), "as if the line were the tool's");
        pane.draft.disown_line();
        assert!(!pane.draft.is_begun_here());
        assert_eq!(pane.draft.typed_count(), 1, "the key still counts");
        pane.echoes(Some(ShownDraft::BoxFilled));
        assert!(pane.has_draft(), "the box shows the line");
        assert!(!pane.person_is_typing(), "no key of a person passed here");
        pane.echoes(Some(ShownDraft::BoxEmpty));
        assert!(!pane.has_draft());
    }

    #[test]
    fn escape_ends_a_line_only_where_the_line_is_not_visible() {
        for (shown, expected) in [(None, false), (Some(ShownDraft::PromptFilled), true)] {
            let mut pane = Script::new(prompt(5), shown);
            pane.types(TypingSource::Person, b"x");
            pane.echoes(shown);
            pane.types(TypingSource::Person, b"\x1b");
            pane.echoes(shown);
            assert_eq!(pane.person_is_typing(), expected, "{shown:?}");
        }
    }

    #[test]
    fn after_an_interruption_others_wait_for_the_next_prompt_or_half_a_second() {
        let mut pane = Script::new(prompt(5), Some(ShownDraft::PromptEmpty));
        pane.types(TypingSource::Person, b"\x03");
        pane.ms = 100;
        assert!(pane.person_is_typing(), "the same prompt");
        pane.shell = prompt(20);
        assert!(!pane.person_is_typing(), "a new prompt");
        pane.shell = ShellState::Unknown;
        assert!(pane.person_is_typing());
        pane.ms = 500;
        assert!(!pane.person_is_typing(), "no longer than half a second");
    }

    #[test]
    fn reports_are_not_typing() {
        let mut pane = Script::new(ShellState::Unknown, None);
        assert!(!pane.types(TypingSource::Person, b"\x1b[I"));
        assert_eq!(pane.draft.typed_count(), 0);
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
