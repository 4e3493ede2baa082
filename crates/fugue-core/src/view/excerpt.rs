//! Excerpts of the output of a command: short outputs whole, of long ones the last lines, and of a failure also the first lines
//! that mention an error. A long line is shown once, and a message of a compiler at two places at most.
//!
//! `bench/outputs.py` measures on real outputs of common tools how often an excerpt has the lines that explain a failure.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::LazyLock,
};

use regex::Regex;

use super::{BoundedText, GAP, GAP_CHARS, LineEnd};

/// Whether an output explains a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRelevance {
    Success,
    /// A success of a run that then failed and whose failure is shown: a short output whole, of a long one nothing.
    SuccessBeforeFailure,
    Failure,
}

impl OutputRelevance {
    /// The limit of an excerpt in characters. A larger excerpt of a failure has the deciding lines more often, but costs more
    /// than the additional call that it saves.
    fn max_chars(self) -> usize {
        match self {
            Self::Success | Self::SuccessBeforeFailure => 120,
            Self::Failure => 700,
        }
    }
}

// Up to this share of the excerpt of a failure is for lines that mention an error.
const ERROR_SHARE: (usize, usize) = (3, 5);
// Tools print the place or the reason of an error after its first line.
const LINES_AFTER_ERROR: usize = 2;
static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = r"(?i)\berror\b|\w(error|exception)\b|\bexception\b|\bfail(ed|ure|ures|s|ing)?\b|\bpanicked\b|\bpanic:|\bfatal\b|\bundefined\b|\bnot ok\b|✗|✖|✕|×|●|\*\*\*|^E  |^CONFLICT";
    Regex::new(words).ok()
});

// Shorter lines are often parts of a drawing, such as the brackets of a difference.
const MIN_REPEATED_CHARS: usize = 20;
// Compilers print the same message for every place that has the same mistake.
const MAX_PLACES: usize = 2;

/// `src/a.ts(94,7): error TS2345: …`, `src/a.c:3:1: error: …`: the message after the place.
static MESSAGE_AT_PLACE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\s*\S*[:(]\d+(?:[:,]\d+)?\)?:?\s+(\S.*)$").ok());

fn message_at_place(line: &str) -> Option<&str> {
    let message = MESSAGE_AT_PLACE.as_ref()?.captures(line)?.get(1)?;
    (message.as_str().chars().count() >= MIN_REPEATED_CHARS).then_some(message.as_str())
}

fn mentions_error(line: &str) -> bool {
    ERROR.as_ref().is_some_and(|words| words.is_match(line))
}

/// A line and its number in the output, from 0.
type NumberedLine = (usize, String);

/// The lines of an output that an excerpt can contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    relevance: OutputRelevance,
    max_chars: usize,
    /// The first lines that mention an error, each with the lines after it.
    errors: Vec<NumberedLine>,
    tail: Vec<NumberedLine>,
    lines: usize,
    chars: usize,
}

impl Excerpt {
    /// The length of the excerpt without a further limit.
    pub fn chars(&self) -> usize {
        self.chars.min(self.max_chars)
    }

    /// The excerpt within a further limit. Lines are whole, except for a last line that is longer than the limit.
    pub fn bound(&self, most: usize) -> BoundedText {
        let most = most.min(self.max_chars);
        if self.relevance == OutputRelevance::SuccessBeforeFailure && self.chars > most {
            return BoundedText {
                omitted_lines: self.lines as u64,
                ..BoundedText::default()
            };
        }
        let tail = self.tail_within(most);
        let first_error = self.errors.first().map(|(number, _)| *number);
        let tail_start = tail.first().map_or(self.lines, |(number, _)| *number);
        let kept = match first_error {
            Some(error) if error < tail_start => {
                let (errors, used) = self.errors_within(most * ERROR_SHARE.0 / ERROR_SHARE.1);
                let tail = self.tail_within(most.saturating_sub(used + GAP_CHARS));
                let tail_start = tail.first().map_or(self.lines, |(number, _)| *number);
                let before = errors.iter().filter(|(number, _)| *number < tail_start);
                before.chain(tail).collect()
            }
            Some(_) | None => tail.iter().collect::<Vec<_>>(),
        };
        self.join(&self.without_noise(kept), most)
    }

    /// The lines without those that are repeated and without empty ones at the beginning, unless all lines of the output are
    /// kept.
    fn without_noise<'a>(&self, mut kept: Vec<&'a NumberedLine>) -> Vec<&'a NumberedLine> {
        if kept.len() == self.lines {
            return kept;
        }
        let empty = kept.iter().take_while(|(_, line)| line.is_empty());
        let empty = empty.count();
        if empty < kept.len() {
            kept.drain(..empty);
        }
        let mut lines: HashSet<&str> = HashSet::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        kept.retain(|(_, line)| {
            let is_new = line.trim().chars().count() < MIN_REPEATED_CHARS || lines.insert(line);
            let place = message_at_place(line).map(|message| {
                let places = places.entry(message).or_default();
                *places += 1;
                *places
            });
            is_new && place.is_none_or(|place| place <= MAX_PLACES)
        });
        kept
    }

    fn join(&self, kept: &[&NumberedLine], most: usize) -> BoundedText {
        if kept.iter().all(|(_, line)| line.is_empty()) {
            return self.end_of_last_line(kept.len(), most);
        }
        let mut text = String::new();
        let mut next = None;
        for (number, line) in kept {
            if let Some(next) = next {
                text.push('\n');
                if next != *number {
                    text.push_str(GAP);
                    text.push('\n');
                }
            }
            text.push_str(line);
            next = Some(number + 1);
        }
        BoundedText {
            text,
            lines: kept.len() as u64,
            omitted_lines: (self.lines - kept.len()) as u64,
            // Whole lines are counted as such.
            omitted_chars: 0,
        }
    }

    /// The last line with text, after which `blank` empty ones follow: its end if it is longer than the limit.
    fn end_of_last_line(&self, blank: usize, most: usize) -> BoundedText {
        let last = self.tail.iter().rev().nth(blank);
        let end = LineEnd::of(last.map_or("", |(_, line)| line), most);
        let lines = usize::from(!end.text.is_empty());
        let chars = end.text.chars().count() - end.mark_chars;
        BoundedText {
            lines: lines as u64,
            omitted_lines: (self.lines - lines) as u64,
            omitted_chars: (self.chars - chars) as u64,
            text: end.text,
        }
    }

    /// The last lines that fit.
    fn tail_within(&self, most: usize) -> &[NumberedLine] {
        let mut used = 0;
        let fitting = self.tail.iter().rev().take_while(|(_, line)| {
            used += line.chars().count() + 1;
            // No newline follows the last line.
            used <= most + 1
        });
        let start = self.tail.len() - fitting.count();
        &self.tail[start..]
    }

    /// The first lines that mention an error, as many as fit, and the characters that they need.
    fn errors_within(&self, most: usize) -> (&[NumberedLine], usize) {
        let mut used = 0;
        let mut previous = None;
        let mut count = 0;
        for (number, line) in &self.errors {
            let follows = previous.is_some_and(|previous: usize| previous + 1 == *number);
            let cost = line.chars().count() + 1 + if follows { 0 } else { GAP_CHARS };
            if used + cost > most {
                break;
            }
            used += cost;
            count += 1;
            previous = Some(*number);
        }
        (&self.errors[..count], used)
    }
}

/// Builds an [`Excerpt`] line by line, in memory that is proportional to the excerpt.
pub struct ExcerptBuilder {
    relevance: OutputRelevance,
    max_chars: usize,
    errors: Vec<NumberedLine>,
    error_chars: usize,
    /// Lines up to this number belong to the last error.
    error_until: usize,
    tail: VecDeque<NumberedLine>,
    tail_chars: usize,
    lines: usize,
    chars: usize,
}

impl ExcerptBuilder {
    pub fn new(relevance: OutputRelevance) -> Self {
        Self::with_limit(relevance, relevance.max_chars())
    }

    /// For excerpts of another length, which `bench/outputs.py` compares.
    pub fn with_limit(relevance: OutputRelevance, max_chars: usize) -> Self {
        Self {
            relevance,
            max_chars,
            errors: Vec::new(),
            error_chars: 0,
            error_until: 0,
            tail: VecDeque::new(),
            tail_chars: 0,
            lines: 0,
            chars: 0,
        }
    }

    /// Adds a line without its newline.
    pub fn push(&mut self, line: &str) {
        let most = self.max_chars;
        let number = self.lines;
        let chars = line.chars().count();
        self.chars += chars + usize::from(number > 0);
        self.lines += 1;
        if self.relevance == OutputRelevance::Failure && self.error_chars <= most {
            self.push_error(number, line, chars);
        }
        // Of a line that is longer than the excerpt only the end can be needed.
        let kept: String = line.chars().skip(chars.saturating_sub(most + 1)).collect();
        self.tail_chars += kept.chars().count() + 1;
        self.tail.push_back((number, kept));
        while let Some((_, first)) = self.tail.front() {
            let rest = self.tail_chars - first.chars().count() - 1;
            if self.tail.len() == 1 || rest < most {
                break;
            }
            self.tail_chars = rest;
            self.tail.pop_front();
        }
    }

    fn push_error(&mut self, number: usize, line: &str, chars: usize) {
        let is_repeated = || self.errors.iter().any(|(_, known)| known == line);
        if mentions_error(line) && !is_repeated() {
            self.error_until = number + LINES_AFTER_ERROR + 1;
        }
        if number < self.error_until {
            self.error_chars += chars + 1;
            // A line that can never fit ends the list.
            if chars <= self.max_chars {
                self.errors.push((number, line.to_owned()));
            }
        }
    }

    pub fn finish(self) -> Excerpt {
        Excerpt {
            relevance: self.relevance,
            max_chars: self.max_chars,
            errors: self.errors,
            tail: self.tail.into(),
            lines: self.lines,
            chars: self.chars,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, relevance: OutputRelevance) -> BoundedText {
        let mut builder = ExcerptBuilder::new(relevance);
        text.lines().for_each(|line| builder.push(line));
        builder.finish().bound(usize::MAX)
    }

    #[test]
    fn a_short_output_is_whole() {
        for text in ["", "one", "one\n\ntwo", &"x".repeat(120)] {
            let whole = excerpt(text, OutputRelevance::Success);
            assert_eq!(whole.text, text);
            assert_eq!((whole.omitted_lines, whole.omitted_chars), (0, 0));
        }
        let text = "x".repeat(700);
        assert_eq!(excerpt(&text, OutputRelevance::Failure).text, text);
    }

    #[test]
    fn of_a_long_success_the_last_lines_are_kept() {
        let text: String = (1..=500).map(|n| format!("test {n} ... ok\n")).collect();
        let found = excerpt(&text, OutputRelevance::Success);
        assert!(found.text.ends_with("test 500 ... ok"));
        assert!(found.text.chars().count() <= 120);
        assert_eq!(found.lines + found.omitted_lines, 500);
        assert!(
            found
                .text
                .lines()
                .all(|line| text.lines().any(|all| all == line))
        );
    }

    #[test]
    fn of_a_failure_the_first_errors_and_the_last_lines_are_kept() {
        let mut lines: Vec<String> = (1..=300).map(|n| format!("compiling part {n}")).collect();
        lines[40] = "src/a.c:3:1: error: unknown type name `in`".into();
        lines[41] = "    in main() {".into();
        lines[42] = "    ^~".into();
        let found = excerpt(&lines.join("\n"), OutputRelevance::Failure);
        assert!(
            found.text.starts_with(
                "src/a.c:3:1: error: unknown type name `in`\n    in main() {\n    ^~\n…\ncompiling part"
            ),
            "{}",
            found.text
        );
        assert!(found.text.ends_with("compiling part 300"));
        assert!(found.text.chars().count() <= 700);
        assert_eq!(found.lines + found.omitted_lines, 300);
    }

    #[test]
    fn the_last_lines_stay_also_where_they_mention_an_error() {
        let mut lines: Vec<String> = (1..=300).map(|n| format!("test {n}")).collect();
        lines[9] = "test 10 failed".into();
        lines[299] = "1 test failed".into();
        let found = excerpt(&lines.join("\n"), OutputRelevance::Failure);
        assert!(
            found
                .text
                .starts_with("test 10 failed\ntest 11\ntest 12\n…\n")
        );
        assert!(
            found.text.ends_with("test 299\n1 test failed"),
            "{}",
            found.text
        );
    }

    #[test]
    fn an_error_among_the_last_lines_is_not_repeated() {
        let mut text: String = (1..=300).map(|n| format!("line {n}\n")).collect();
        text.push_str("error: it broke\nbye");
        let found = excerpt(&text, OutputRelevance::Failure);
        assert_eq!(found.text.matches("error: it broke").count(), 1);
        assert!(!found.text.contains(GAP), "{}", found.text);
    }

    #[test]
    fn a_long_line_is_shown_once_and_a_message_at_two_places() {
        let file = |n: u32| format!("src/file{n}.ts({n},7): error TS2345: this is not that");
        let reason = "  Type 'undefined' is not assignable.";
        let bracket = "  }";
        let mut lines = vec!["y".repeat(700)];
        for n in 1..=4 {
            lines.extend([file(n), reason.to_owned(), bracket.to_owned()]);
        }
        let found = excerpt(&lines.join("\n"), OutputRelevance::Failure);
        let wanted = [
            &file(1),
            reason,
            bracket,
            &file(2),
            "…",
            bracket,
            "…",
            bracket,
            "…",
            bracket,
        ];
        assert_eq!(found.text, wanted.join("\n"));
        assert_eq!((found.lines, found.omitted_lines), (7, 6));
        // An output that fits is not shortened.
        let whole = lines[1..].join("\n");
        assert_eq!(excerpt(&whole, OutputRelevance::Failure).text, whole);
    }

    #[test]
    fn a_success_before_a_failure_is_whole_or_left_out() {
        let of = |text: &str| excerpt(text, OutputRelevance::SuccessBeforeFailure);
        assert_eq!(of("all\ngood").text, "all\ngood");
        let long: String = (1..=50).map(|n| format!("line {n}\n")).collect();
        let found = of(&long);
        assert_eq!(
            (found.text.as_str(), found.lines, found.omitted_lines),
            ("", 0, 50)
        );
    }

    #[test]
    fn one_endless_line_is_cut_to_its_end() {
        let found = excerpt(&"€".repeat(5000), OutputRelevance::Failure);
        assert_eq!(found.text.chars().count(), 700);
        assert!(found.text.starts_with('…') && found.text.ends_with('€'));
        assert_eq!((found.lines, found.omitted_lines), (1, 0));
        assert_eq!(found.omitted_chars, 4301);
    }

    #[test]
    fn a_further_limit_is_kept_and_everything_is_counted() {
        let text: String = (1..=90).map(|n| format!("error {n} is here\n")).collect();
        let mut builder = ExcerptBuilder::new(OutputRelevance::Failure);
        text.lines().for_each(|line| builder.push(line));
        let excerpt = builder.finish();
        for most in 0..800 {
            let found = excerpt.bound(most);
            assert!(found.text.chars().count() <= most, "{most}: {}", found.text);
            assert_eq!(found.lines + found.omitted_lines, 90, "{most}");
        }
    }

    #[test]
    fn memory_follows_the_excerpt_and_not_the_output() {
        let mut builder = ExcerptBuilder::new(OutputRelevance::Failure);
        for n in 0..200_000 {
            builder.push(&format!("error {n}"));
        }
        assert!(builder.errors.len() < 200 && builder.tail.len() < 200);
    }
}
