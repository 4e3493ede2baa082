//! Simulation of a regex NFA one byte at a time: slow, and correct in all cases.
//!
//! The lazy DFA cannot evaluate Unicode word boundaries next to non-ASCII characters, and no engine of
//! `regex-automata` reports whether more text could change a match. The simulation does both: the live states are the
//! ways in which a match could continue, in order of preference.

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

/// Which matches the simulation reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchMode {
    /// Any match, at any start.
    Any,
    /// The preferred match that starts at the first byte read.
    Preferred,
}

/// The live NFA states before the next byte.
#[derive(Clone, Debug)]
pub(crate) struct NfaStates {
    mode: MatchMode,
    /// Live states in order of preference, before the assertions at this position are evaluated.
    pending: Vec<StateID>,
    /// Live states that consume a byte, after all epsilon transitions.
    reading: Vec<StateID>,
    stack: Vec<StateID>,
    /// The round in which each state was last visited.
    visited: Vec<u32>,
    round: u32,
}

/// The state of a match at the end of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndState {
    /// A match ends at the end of the text.
    pub(crate) matches: bool,
    /// More text may give another, preferred match.
    pub(crate) can_continue: bool,
}

impl NfaStates {
    pub(crate) fn new(nfa: &NFA, mode: MatchMode) -> Self {
        NfaStates {
            mode,
            pending: match mode {
                MatchMode::Any => Vec::new(),
                MatchMode::Preferred => vec![nfa.start_anchored()],
            },
            reading: Vec::new(),
            stack: Vec::new(),
            visited: vec![0; nfa.states().len()],
            round: 0,
        }
    }

    /// Whether no match is possible any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.mode == MatchMode::Preferred && self.pending.is_empty()
    }

    /// Reads `text[at]`. Returns whether a match ends before that byte.
    pub(crate) fn step(&mut self, nfa: &NFA, text: &str, at: usize) -> bool {
        let bytes = text.as_bytes();
        let starts = self.mode == MatchMode::Any && text.is_char_boundary(at);
        let matches = self.follow_epsilons(nfa, bytes, at, starts);
        self.pending.clear();
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
            self.pending.extend(next);
        }
        matches
    }

    /// The state at the end of `text`, if the next character is `next`.
    pub(crate) fn at_end(&self, nfa: &NFA, text: &str, next: Option<char>) -> EndState {
        let mut here = self.clone();
        // Assertions depend on at most one character before and after.
        let mut around: String = text.chars().next_back().into_iter().collect();
        let at = around.len();
        around.extend(next);
        let matches = here.follow_epsilons(nfa, around.as_bytes(), at, self.mode == MatchMode::Any);
        EndState {
            matches,
            can_continue: !here.reading.is_empty(),
        }
    }

    /// Follows epsilon transitions from the pending states to states that consume a byte, and returns whether a match
    /// state was reached. In `Preferred` mode, states that are less preferred than the match are dropped.
    fn follow_epsilons(&mut self, nfa: &NFA, text: &[u8], at: usize, starts: bool) -> bool {
        self.round += 1;
        self.reading.clear();
        let mut matches = false;
        let start = starts.then(|| nfa.start_anchored());
        for i in 0..self.pending.len() + usize::from(start.is_some()) {
            let Some(first) = self.pending.get(i).copied().or(start) else {
                break;
            };
            self.stack.push(first);
            while let Some(id) = self.stack.pop() {
                let visited = &mut self.visited[id.as_usize()];
                if *visited == self.round {
                    continue;
                }
                *visited = self.round;
                match nfa.state(id) {
                    State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {
                        self.reading.push(id);
                    }
                    State::Look { look, next } => {
                        if assertion_holds(nfa, *look, text, at) {
                            self.stack.push(*next);
                        }
                    }
                    State::Union { alternates } => self.stack.extend(alternates.iter().rev()),
                    State::BinaryUnion { alt1, alt2 } => self.stack.extend([alt2, alt1]),
                    State::Capture { next, .. } => self.stack.push(*next),
                    State::Fail => (),
                    State::Match { .. } => {
                        matches = true;
                        if self.mode == MatchMode::Preferred {
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

fn assertion_holds(nfa: &NFA, look: Look, text: &[u8], at: usize) -> bool {
    nfa.look_matcher().matches(look, text, at)
}
