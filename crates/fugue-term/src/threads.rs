//! A regex's states, walked one byte at a time: slow, and right in all cases.
//!
//! The fast engine cannot read Unicode word boundaries beside other than ASCII, and no engine of the library tells
//! whether more text could change a match. Here both are plain to see: the states that are alive are the ways in which
//! a match could go on, in the order of preference.

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

/// Which matches are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any match that starts anywhere.
    Any,
    /// The one match that starts where we began and that the pattern prefers.
    Preferred,
}

/// The states that are alive in front of the next byte.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    wanted: Wanted,
    /// Alive, in order of preference, before assertions at this place were looked at.
    waiting: Vec<StateID>,
    /// The states that read a byte, and how they were reached is done with.
    reading: Vec<StateID>,
    stack: Vec<StateID>,
    /// The round in which a state was last met.
    met: Vec<u32>,
    round: u32,
}

/// What is known at the end of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtEnd {
    /// A match ends here.
    pub(crate) matches: bool,
    /// More text may give another one that is preferred.
    pub(crate) goes_on: bool,
}

impl Threads {
    pub(crate) fn new(nfa: &NFA, wanted: Wanted) -> Self {
        Threads {
            wanted,
            waiting: match wanted {
                Wanted::Any => Vec::new(),
                Wanted::Preferred => vec![nfa.start_anchored()],
            },
            reading: Vec::new(),
            stack: Vec::new(),
            met: vec![0; nfa.states().len()],
            round: 0,
        }
    }

    /// Nothing can come of it any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.wanted == Wanted::Preferred && self.waiting.is_empty()
    }

    /// Reads `text[at]`; gives whether a match ends in front of it.
    pub(crate) fn step(&mut self, nfa: &NFA, text: &str, at: usize) -> bool {
        let bytes = text.as_bytes();
        let starts = self.wanted == Wanted::Any && text.is_char_boundary(at);
        let matches = self.resolve(nfa, bytes, at, starts);
        self.waiting.clear();
        for &id in &self.reading {
            let next = match nfa.state(id) {
                State::ByteRange { trans } => trans.matches_byte(bytes[at]).then_some(trans.next),
                State::Sparse(sparse) => sparse.matches_byte(bytes[at]),
                State::Dense(dense) => dense.matches_byte(bytes[at]),
                State::Look { .. }
                | State::Union { .. }
                | State::BinaryUnion { .. }
                | State::Capture { .. }
                | State::Fail
                | State::Match { .. } => None,
            };
            self.waiting.extend(next);
        }
        matches
    }

    /// What is so at the end of `text`, if the next character is `next`.
    pub(crate) fn at_end(&self, nfa: &NFA, text: &str, next: Option<char>) -> AtEnd {
        let mut here = self.clone();
        // Assertions look no further than one character.
        let mut around: String = text.chars().next_back().into_iter().collect();
        let at = around.len();
        around.extend(next);
        let matches = here.resolve(nfa, around.as_bytes(), at, self.wanted == Wanted::Any);
        AtEnd {
            matches,
            goes_on: !here.reading.is_empty(),
        }
    }

    /// From the waiting states to those that read a byte; gives whether a match was met. Where only the preferred
    /// match counts, what is less preferred than it is dropped.
    fn resolve(&mut self, nfa: &NFA, text: &[u8], at: usize, starts: bool) -> bool {
        self.round += 1;
        self.reading.clear();
        let mut matches = false;
        let start = starts.then(|| nfa.start_anchored());
        for i in 0..self.waiting.len() + usize::from(start.is_some()) {
            let Some(first) = self.waiting.get(i).copied().or(start) else {
                break;
            };
            self.stack.push(first);
            while let Some(id) = self.stack.pop() {
                let met = &mut self.met[id.as_usize()];
                if *met == self.round {
                    continue;
                }
                *met = self.round;
                match nfa.state(id) {
                    State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {
                        self.reading.push(id);
                    }
                    State::Look { look, next } => {
                        if holds(nfa, *look, text, at) {
                            self.stack.push(*next);
                        }
                    }
                    State::Union { alternates } => self.stack.extend(alternates.iter().rev()),
                    State::BinaryUnion { alt1, alt2 } => self.stack.extend([alt2, alt1]),
                    State::Capture { next, .. } => self.stack.push(*next),
                    State::Fail => (),
                    State::Match { .. } => {
                        matches = true;
                        if self.wanted == Wanted::Preferred {
                            self.stack.clear();
                            return true;
                        }
                    }
                }
            }
        }
        matches
    }
}

fn holds(nfa: &NFA, look: Look, text: &[u8], at: usize) -> bool {
    nfa.look_matcher().matches(look, text, at)
}
