//! Bounded texts from a stream of lines: memory is proportional to the bound, not to the length of the text.

use std::collections::VecDeque;

use super::{BoundedText, ends, fitting_lines};

/// The parts of a long text that any bound up to a maximum can need. Several texts can so share one bound, which is decided
/// after all of them were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// All lines, or the first lines if there is a tail. Each line ends with a newline.
    head: String,
    tail: Option<String>,
    lines: usize,
    chars: usize,
}

impl Clip {
    /// For bounds up to `most`.
    pub fn from_lines<L: AsRef<str>>(lines: &[L], most: usize) -> Self {
        let mut builder = ClipBuilder::new(most);
        lines.iter().for_each(|line| builder.push(line.as_ref()));
        builder.finish()
    }

    /// The length of the whole text.
    pub fn chars(&self) -> usize {
        self.chars
    }

    pub fn bound(&self, most: usize) -> BoundedText {
        let head = split(&self.head);
        match &self.tail {
            None if self.chars <= most => BoundedText {
                text: self.head.strip_suffix('\n').unwrap_or("").to_owned(),
                lines: self.lines as u64,
                ..BoundedText::default()
            },
            None => ends(head.clone(), head.rev(), self.lines, self.chars, most),
            Some(tail) => ends(head, split(tail).rev(), self.lines, self.chars, most),
        }
    }
}

/// Builds a [`Clip`] line by line.
pub struct ClipBuilder {
    most: usize,
    head: String,
    tail: Option<ClipTail>,
    lines: usize,
    chars: usize,
}

/// The last lines, as many as the bound needs.
struct ClipTail {
    text: String,
    /// Lines before this byte are no longer needed.
    start: usize,
    /// The number of characters from `start` on, including newlines.
    chars: usize,
}

impl ClipBuilder {
    /// For bounds up to `most`.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            head: String::new(),
            tail: None,
            lines: 0,
            chars: 0,
        }
    }

    /// Adds a line without its newline.
    pub fn push(&mut self, line: &str) {
        let chars = line.chars().count();
        self.chars += chars + usize::from(self.lines > 0);
        self.lines += 1;
        if self.tail.is_none() && self.chars > self.most {
            let text = std::mem::take(&mut self.head);
            let lines = split(&text).chain([line]);
            self.head = joined(&fitting_lines(lines, self.most / 4));
            self.tail = Some(ClipTail {
                chars: text.chars().count(),
                text,
                start: 0,
            });
        }
        match &mut self.tail {
            None => push_line(&mut self.head, line),
            Some(tail) => tail.push(line, chars, self.most),
        }
    }

    pub fn finish(self) -> Clip {
        let tail = self.tail.map(|tail| {
            let mut text = tail.text;
            text.drain(..tail.start);
            text
        });
        Clip {
            head: self.head,
            tail,
            lines: self.lines,
            chars: self.chars,
        }
    }
}

impl ClipTail {
    fn push(&mut self, line: &str, chars: usize, most: usize) {
        // Of a line longer than the bound, only the end can be needed, with one more character that tells that it is longer.
        let skipped = chars.saturating_sub(most + 1);
        let from = line
            .char_indices()
            .nth(skipped)
            .map_or(line.len(), |(at, _)| at);
        push_line(&mut self.text, &line[from..]);
        self.chars += chars - skipped + 1;
        // The newline after the last line does not count.
        while let Some(length) = self.text[self.start..].find('\n') {
            let first = &self.text[self.start..self.start + length];
            let rest = self.chars - first.chars().count() - 1;
            if rest <= most {
                break;
            }
            (self.start, self.chars) = (self.start + length + 1, rest);
        }
        // Each byte is moved once on average.
        if self.start > self.text.len() / 2 {
            self.text.drain(..self.start);
            self.start = 0;
        }
    }
}

/// The last `wanted` lines of a stream of lines, within a bound.
pub struct LastLines {
    wanted: usize,
    most: usize,
    /// The number of lines before the wanted ones, if known beforehand.
    skip: Option<u64>,
    seen: u64,
    /// The wanted lines, if `skip` is right.
    clip: Option<ClipBuilder>,
    latest: VecDeque<String>,
    latest_bytes: usize,
    too_many: bool,
}

/// The result of [`LastLines`].
#[derive(Debug, PartialEq, Eq)]
pub enum ClipInput {
    Lines {
        clip: Clip,
        /// The number of lines before these.
        before: u64,
    },
    /// The wanted lines are too many to be kept until their first one is known. The text has to go by once more.
    Again { skip: u64 },
}

// Several times the usual bounds of a read, and small compared to the daemon's memory.
const MAX_LATEST_BYTES: usize = 4 << 20;
// The memory of a line in addition to its text.
const LINE_COST: usize = 48;

impl LastLines {
    /// `skip` is how many lines come before the wanted ones, where that is known.
    pub fn new(wanted: usize, most: usize, skip: Option<u64>) -> Self {
        Self {
            wanted,
            most,
            skip,
            seen: 0,
            clip: Some(ClipBuilder::new(most)),
            latest: VecDeque::new(),
            latest_bytes: 0,
            too_many: false,
        }
    }

    /// How many lines went by.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    pub fn push(&mut self, line: &str) {
        self.seen += 1;
        if let Some(skip) = self.skip {
            if let Some(clip) = self.clip.as_mut().filter(|_| self.seen > skip) {
                clip.push(line);
            }
            return;
        }
        if self.seen > self.wanted as u64 {
            self.clip = None;
        }
        if let Some(clip) = &mut self.clip {
            clip.push(line);
        }
        if !self.too_many {
            self.keep(line);
        }
    }

    fn keep(&mut self, line: &str) {
        let mut kept = String::new();
        if self.latest.len() >= self.wanted
            && let Some(oldest) = self.latest.pop_front()
        {
            self.latest_bytes -= oldest.len() + LINE_COST;
            kept = oldest;
            kept.clear();
        }
        kept.push_str(line);
        self.latest_bytes += line.len() + LINE_COST;
        self.latest.push_back(kept);
        if self.latest_bytes > MAX_LATEST_BYTES {
            self.too_many = true;
            self.latest = VecDeque::new();
        }
    }

    pub fn finish(self) -> ClipInput {
        let surplus = self.seen.saturating_sub(self.wanted as u64);
        let before = self.skip.unwrap_or(surplus);
        match self.clip {
            Some(clip) => ClipInput::Lines {
                clip: clip.finish(),
                before,
            },
            None if self.too_many => ClipInput::Again { skip: surplus },
            None => {
                let mut clip = ClipBuilder::new(self.most);
                self.latest.iter().for_each(|line| clip.push(line));
                ClipInput::Lines {
                    clip: clip.finish(),
                    before,
                }
            }
        }
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn joined(lines: &[&str]) -> String {
    let mut text = String::new();
    lines.iter().for_each(|line| push_line(&mut text, line));
    text
}

fn split(text: &str) -> std::str::SplitTerminator<'_, char> {
    text.split_terminator('\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::view::bound;

    fn lines() -> impl Strategy<Value = Vec<String>> {
        let line = prop_oneof![
            6 => "[a-z€ ]{0,12}",
            1 => "[a-z€]{40,90}",
            1 => Just(String::new()),
        ];
        prop::collection::vec(line, 0..60)
    }

    proptest! {
        #[test]
        fn lines_that_go_by_are_bounded_like_the_whole_text(lines in lines(), most in 0usize..400, less in 0usize..400) {
            let clip = Clip::from_lines(&lines, most);
            for bounded in [most, most.saturating_sub(less)] {
                prop_assert_eq!(clip.bound(bounded), bound(&lines, bounded), "{} of {}", bounded, most);
            }
        }

        #[test]
        fn the_last_lines_are_found_in_one_pass_or_two(lines in lines(), wanted in 1usize..70, most in 0usize..400, forgets in any::<bool>()) {
            let mut last = LastLines::new(wanted, most, None);
            // As if there were more of them than may be kept.
            last.too_many = forgets;
            lines.iter().for_each(|line| last.push(line));
            let mut gathered = last.finish();
            if let ClipInput::Again { skip } = gathered {
                let mut last = LastLines::new(wanted, most, Some(skip));
                lines.iter().for_each(|line| last.push(line));
                gathered = last.finish();
            }
            let before = lines.len().saturating_sub(wanted);
            let clip = Clip::from_lines(&lines[before..], most);
            prop_assert_eq!(gathered, ClipInput::Lines { clip, before: before as u64 });
        }
    }

    #[test]
    fn what_is_kept_follows_the_bound_and_not_the_text() {
        let mut builder = ClipBuilder::new(1000);
        let mut last = LastLines::new(100, 1000, None);
        for n in 0..1_000_000 {
            let line = format!("line {n}");
            builder.push(&line);
            last.push(&line);
        }
        let tail = builder.tail.as_ref().map_or(0, |tail| tail.text.capacity());
        assert!(builder.head.capacity() + tail < 10_000, "{tail}");
        assert!(last.latest_bytes < 10_000, "{}", last.latest_bytes);
        assert_eq!(last.latest.len(), 100);
    }
}
