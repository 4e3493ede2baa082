//! Bounded excerpts of a pane's text, with notes about the omitted parts.

mod clip;
mod excerpt;

pub use clip::{Clip, ClipBuilder, ClipInput, LastLines};
pub use excerpt::{Excerpt, ExcerptBuilder, OutputRelevance};

use fugue_api::Error;
pub use regex::Regex as LineFilter;
use regex::{Regex, RegexBuilder};

/// A text within a limit, and the size of the omitted part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundedText {
    pub text: String,
    /// Lines that are in `text`, whole or cut.
    pub lines: u64,
    pub omitted_lines: u64,
    pub omitted_chars: u64,
}

/// Joins lines to at most `most` characters. Whole lines are omitted from the middle: the head shows the command and gets a
/// quarter, the tail shows the outcome and gets the rest.
pub fn bound<L: AsRef<str>>(lines: &[L], most: usize) -> BoundedText {
    let total = joined_chars(lines);
    if total <= most {
        return whole(lines);
    }
    let lines = lines.iter().map(AsRef::as_ref);
    ends(lines.clone(), lines.clone().rev(), lines.len(), total, most)
}

/// A text of at most `most` characters, and the number of characters omitted from the middle.
pub fn shortened(text: &str, most: usize) -> (String, u64) {
    let lines: Vec<&str> = text.lines().collect();
    let bounded = bound(&lines, most);
    (bounded.text, bounded.omitted_chars)
}

fn joined_chars<L: AsRef<str>>(lines: &[L]) -> usize {
    lines
        .iter()
        .map(|line| line.as_ref().chars().count() + 1)
        .sum::<usize>()
        .saturating_sub(1)
}

fn whole<L: AsRef<str>>(lines: &[L]) -> BoundedText {
    let text = lines
        .iter()
        .map(AsRef::as_ref)
        .collect::<Vec<_>>()
        .join("\n");
    BoundedText {
        text,
        lines: lines.len() as u64,
        ..BoundedText::default()
    }
}

/// Both ends of a text of `count` lines and `total` characters that is too long. Lines are whole, except for a last line that
/// is longer than the limit.
fn ends<'a>(
    from_start: impl Iterator<Item = &'a str>,
    mut from_end: impl Iterator<Item = &'a str> + Clone,
    count: usize,
    total: usize,
    most: usize,
) -> BoundedText {
    let mut parts = fitting_lines(from_start, most / 4);
    let head_chars = joined_chars(&parts);
    let before_tail = match parts.len() {
        0 => 0,
        _ => head_chars + 1 + GAP_CHARS,
    };
    let room = most.saturating_sub(before_tail);
    let mut tail = fitting_lines(from_end.clone(), room);
    let mut cut = LineEnd::default();
    if tail.iter().all(|line| line.is_empty()) {
        cut = LineEnd::of(from_end.nth(tail.len()).unwrap_or_default(), room);
        tail = Vec::from_iter((!cut.text.is_empty()).then_some(cut.text.as_str()));
    }
    let kept = parts.len() + tail.len();
    let kept_chars = head_chars + joined_chars(&tail) - cut.mark_chars;
    if !parts.is_empty() && kept < count {
        parts.push(GAP);
    }
    parts.extend(tail.iter().rev());
    BoundedText {
        text: parts.join("\n"),
        lines: kept as u64,
        omitted_lines: (count - kept) as u64,
        omitted_chars: total.saturating_sub(kept_chars) as u64,
    }
}

/// The line that stands for omitted lines between two kept ones, and the mark at the start of a cut line.
const GAP: &str = "…";
/// The length of [`GAP`] with its newline.
const GAP_CHARS: usize = 2;

/// The first lines that fit into `room` characters with the newlines between them.
fn fitting_lines<'a>(lines: impl Iterator<Item = &'a str>, room: usize) -> Vec<&'a str> {
    let mut used = 0;
    let fits = |line: &&str| {
        used += line.chars().count() + 1;
        // No newline follows the last line.
        room > 0 && used <= room + 1
    };
    lines.take_while(fits).collect()
}

/// The last line of an excerpt: whole, or the end of it after a mark.
#[derive(Default)]
struct LineEnd {
    text: String,
    /// The length of the mark, 0 for a whole line.
    mark_chars: usize,
}

impl LineEnd {
    /// As much of a line as `room` has place for; nothing if that is no more than the mark.
    fn of(line: &str, room: usize) -> Self {
        let chars = line.chars().count();
        if chars <= room {
            return Self {
                text: line.to_owned(),
                mark_chars: 0,
            };
        }
        if room < GAP_CHARS {
            return Self::default();
        }
        let end = line.chars().skip(chars + 1 - room);
        Self {
            text: GAP.chars().chain(end).collect(),
            mark_chars: 1,
        }
    }
}

/// How a bounded text is chosen from a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAmount {
    /// The head and the tail, as much as the reply has room for.
    Ends,
    Excerpt(OutputRelevance),
}

/// The output of one part of a result, from which a bounded text is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartClip {
    Ends(Clip),
    Excerpt(Excerpt),
}

impl PartClip {
    /// How many characters the part has use for.
    pub fn chars(&self) -> usize {
        match self {
            Self::Ends(clip) => clip.chars(),
            Self::Excerpt(excerpt) => excerpt.chars(),
        }
    }

    pub fn bound(&self, most: usize) -> BoundedText {
        match self {
            Self::Ends(clip) => clip.bound(most),
            Self::Excerpt(excerpt) => excerpt.bound(most),
        }
    }
}

/// Builds a [`PartClip`] line by line.
pub enum PartClipBuilder {
    Ends(ClipBuilder),
    Excerpt(ExcerptBuilder),
}

impl PartClipBuilder {
    /// For bounds up to `most`.
    pub fn new(amount: TextAmount, most: usize) -> Self {
        match amount {
            TextAmount::Ends => Self::Ends(ClipBuilder::new(most)),
            TextAmount::Excerpt(relevance) => Self::Excerpt(ExcerptBuilder::new(relevance)),
        }
    }

    /// Adds a line without its newline.
    pub fn push(&mut self, line: &str) {
        match self {
            Self::Ends(builder) => builder.push(line),
            Self::Excerpt(builder) => builder.push(line),
        }
    }

    pub fn finish(self) -> PartClip {
        match self {
            Self::Ends(builder) => PartClip::Ends(builder.finish()),
            Self::Excerpt(builder) => PartClip::Excerpt(builder.finish()),
        }
    }
}

/// Shares `budget` characters among texts of the given lengths: failures first, then the rest, and from the start a
/// little for everybody, so that a tail of each is seen.
pub fn shares(budget: usize, wants: &[(usize, OutputRelevance)]) -> Vec<usize> {
    let little = budget / (4 * wants.len().max(1));
    let mut given: Vec<usize> = wants.iter().map(|(want, _)| *want.min(&little)).collect();
    let mut left = budget - given.iter().sum::<usize>();
    for turn in [OutputRelevance::Failure, OutputRelevance::Success] {
        let rest = |index: usize, given: &[usize]| match wants[index] {
            (want, outcome) if outcome == turn => want - given[index],
            _ => 0,
        };
        loop {
            let hungry: Vec<usize> = (0..wants.len())
                .filter(|index| rest(*index, &given) > 0)
                .collect();
            if hungry.is_empty() || left == 0 {
                break;
            }
            let each = (left / hungry.len()).max(1);
            for index in hungry {
                let more = rest(index, &given).min(each).min(left);
                given[index] += more;
                left -= more;
            }
        }
    }
    given
}

/// The line that stands in a text where output is missing from the log.
pub fn missing_line(bytes: u64) -> String {
    format!(
        "[fugue: {} bytes of output are missing here]",
        grouped(bytes)
    )
}

/// The same for a reply's note.
pub fn missing_note(bytes: u64) -> String {
    format!(
        "{} bytes of its output are missing from the log",
        grouped(bytes)
    )
}

/// A number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Compiles a regex, or returns the regex engine's error.
pub fn compile(pattern: &str) -> Result<Regex, Error> {
    RegexBuilder::new(pattern)
        // Large enough for any pattern a person writes; a model's `(a{1000}){1000}` is refused.
        .size_limit(1 << 20)
        .build()
        .map_err(|error| Error::invalid(format!("grep: {error}")))
}

/// Compiles a pattern to wait for, or returns the regex engine's error.
pub fn pattern(field: &str, text: &str) -> Result<fugue_term::Pattern, Error> {
    fugue_term::Pattern::new(text).map_err(|error| Error::invalid(format!("{field}: {error}")))
}

/// Parses a client's cursor.
pub fn cursor(said: &fugue_api::Cursor) -> Result<fugue_term::TextCursor, Error> {
    said.0.parse().map_err(|_| {
        Error::invalid(format!("since: `{}` is not a cursor", said.0))
            .hint("pass a `cursor` that an earlier call returned, unchanged")
    })
}

/// The cursor before everything.
pub fn start() -> fugue_api::Cursor {
    shown(fugue_term::TextCursor::default())
}

pub fn shown(cursor: fugue_term::TextCursor) -> fugue_api::Cursor {
    fugue_api::Cursor(cursor.to_string())
}

/// An overview for a model: as many rows as a model can take, live panes and needy ones first, without the times that only
/// people look at. Ended panes are left out first.
pub fn bound_overview(overview: &mut fugue_api::overview::Overview, most_chars: usize) {
    use fugue_api::{overview::WorkerState, pane_state::PaneState};
    let rank = |state: PaneState| match state {
        PaneState::NeedsInput => 0,
        PaneState::Running => 1,
        PaneState::Idle => 2,
        PaneState::Exited => 3,
        PaneState::Closed => 4,
    };
    overview
        .panes
        .sort_by_key(|row| (rank(row.state.state), std::cmp::Reverse(row.pane_id)));
    let mut used = json_chars(&overview.sessions) + 64;
    // The latest runs, in at most a third of the limit. Running ones come first.
    overview
        .runs
        .sort_by_key(|row| (row.status != "running", std::cmp::Reverse(row.started_at)));
    let some = fitting(&overview.runs, most_chars / 3);
    overview.omitted_runs = (overview.runs.len() - some) as u64;
    overview.runs.truncate(some);
    overview
        .runs
        .iter_mut()
        .for_each(|row| row.started_at = None);
    used += json_chars(&overview.runs);
    overview.workers.sort_by_key(|row| {
        let rank = match row.state {
            WorkerState::Starting
            | WorkerState::Working
            | WorkerState::NeedsInput
            | WorkerState::Resting
            | WorkerState::Paused => 0,
            WorkerState::Failed => 1,
            WorkerState::Ended => 2,
        };
        (rank, std::cmp::Reverse(row.started_at))
    });
    let some = fitting(&overview.workers, most_chars / 4);
    overview.omitted_workers = (overview.workers.len() - some) as u64;
    overview.workers.truncate(some);
    overview
        .workers
        .iter_mut()
        .for_each(|row| row.started_at = None);
    used += json_chars(&overview.workers);
    let some = fitting(&overview.watchers, most_chars / 8);
    overview.omitted_watchers = (overview.watchers.len() - some) as u64;
    overview.watchers.truncate(some);
    used += json_chars(&overview.watchers);
    let some = fitting(&overview.tmux, most_chars / 8);
    overview.omitted_tmux = (overview.tmux.len() - some) as u64;
    overview.tmux.truncate(some);
    used += json_chars(&overview.tmux);
    overview.panes.iter_mut().for_each(|row| {
        row.created_at = None;
        // `get_status` of the pane has the choices.
        if let Some(agent) = &mut row.agent {
            agent.request = None;
            agent.resume_at = None;
        }
    });
    let some = fitting(&overview.panes, most_chars.saturating_sub(used));
    overview.omitted_panes = (overview.panes.len() - some) as u64;
    overview.panes.truncate(some);
}

/// How many of the first rows have room.
fn fitting(rows: &[impl serde::Serialize], room: usize) -> usize {
    let sizes = rows.iter().scan(0, |used, row| {
        *used += json_chars(row) + 1;
        Some(*used)
    });
    sizes.take_while(|used| *used <= room).count()
}

fn json_chars(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        let bounded = bound(&["one", "two", ""], 8);
        assert_eq!(
            bounded,
            BoundedText {
                text: "one\ntwo\n".into(),
                lines: 3,
                omitted_lines: 0,
                omitted_chars: 0
            }
        );
        assert_eq!(bound::<&str>(&[], 10), BoundedText::default());
    }

    #[test]
    fn head_and_tail_are_kept_and_the_rest_is_counted() {
        let lines: Vec<String> = (1..=1000).map(|n| format!("line {n}")).collect();
        let total: usize = lines.iter().map(|line| line.len() + 1).sum::<usize>() - 1;
        for most in [100, 101, 500, 1000, 4000, total - 1] {
            let bounded = bound(&lines, most);
            assert!(
                bounded.text.chars().count() <= most,
                "{most}: {}",
                bounded.text.len()
            );
            assert!(bounded.text.ends_with("line 1000"), "{most}");
            assert!(bounded.text.starts_with("line 1"), "{most}");
            assert_eq!(bounded.lines + bounded.omitted_lines, 1000);
            assert!(bounded.omitted_chars > 0);
        }
    }

    #[test]
    fn lines_are_whole_and_the_gap_is_one_line() {
        let lines: Vec<String> = (1..=1000).map(|n| format!("line {n}")).collect();
        let bounded = bound(&lines, 60);
        assert_eq!(
            bounded.text,
            "line 1\nline 2\n…\nline 997\nline 998\nline 999\nline 1000"
        );
        assert_eq!((bounded.lines, bounded.omitted_lines), (6, 994));
        // A first line that does not fit leaves its room to the last ones.
        let long = "x".repeat(100);
        let bounded = bound(&[&long, "one", "two"], 60);
        assert_eq!(bounded.text, "one\ntwo");
        assert_eq!((bounded.omitted_lines, bounded.omitted_chars), (1, 101));
    }

    #[test]
    fn only_a_last_line_that_is_too_long_is_cut() {
        let bounded = bound(&["€".repeat(5000)], 300);
        assert_eq!(bounded.text, format!("…{}", "€".repeat(299)));
        assert_eq!((bounded.omitted_lines, bounded.omitted_chars), (0, 4701));
        assert_eq!(bound(&["abcdef"], 3).text, "…ef");
        assert_eq!(bound(&["abcdef"], 1).text, "");
        let long = "x".repeat(100);
        assert_eq!(
            bound(&["first", &long, "", ""], 24).text,
            "first\n…\n…xxxxxxxxxxxxxxx"
        );
    }

    #[test]
    fn missing_output_is_told_in_one_line() {
        assert_eq!(
            missing_line(1_048_576),
            "[fugue: 1,048,576 bytes of output are missing here]"
        );
        assert_eq!([7, 999, 1000].map(grouped), ["7", "999", "1,000"]);
    }

    #[test]
    fn a_bad_pattern_is_refused_in_the_engines_words() {
        assert!(compile("(").unwrap_err().message.contains("unclosed"));
        assert!(
            compile("(?:a{1000}){1000}")
                .unwrap_err()
                .message
                .contains("size limit")
        );
        assert!(compile(r"^err\w+").is_ok());
    }
}
