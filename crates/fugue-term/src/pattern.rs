//! Patterns: regular expressions compiled for searching a stream of text.

use std::fmt;
use std::sync::Arc;

use regex_automata::MatchKind;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::meta;
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::look::{Look, LookSet};
use regex_automata::util::syntax;

/// A regular expression in which `^` and `$` match at line boundaries. Cheap to clone.
#[derive(Clone)]
pub struct Pattern(pub(crate) Arc<PatternEngines>);

/// The reason why a pattern does not compile, as reported by the regex engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern(String);

/// The same regex compiled for three engines.
pub(crate) struct PatternEngines {
    text: String,
    /// Finds a match in existing text.
    pub(crate) regex: meta::Regex,
    /// Detects the end of any match, fast and one byte at a time.
    pub(crate) dfa: DFA,
    /// The NFA, for text that the DFA cannot read and for extending a match.
    pub(crate) nfa: NFA,
    /// Whether a match can contain a newline.
    pub(crate) crosses_lines: bool,
    /// Whether the text after a match decides if it matches: `$`, `\b` and similar assertions.
    pub(crate) looks_ahead: bool,
}

/// Large enough for any pattern that a person writes; `(a{1000}){1000}` is refused.
const MAX_NFA_BYTES: usize = 1 << 20;

/// The cache limit of the lazy DFA. A pattern that needs more states at a time is slower, not wrong.
const DFA_CACHE_BYTES: usize = 1 << 20;

impl Pattern {
    /// Compiles a regular expression.
    pub fn new(text: &str) -> Result<Pattern, BadPattern> {
        let syntax = syntax::Config::new().multi_line(true);
        let regex = meta::Regex::builder()
            .syntax(syntax)
            .configure(
                meta::Config::new()
                    .nfa_size_limit(Some(MAX_NFA_BYTES))
                    .hybrid_cache_capacity(DFA_CACHE_BYTES),
            )
            .build(text)
            .map_err(|error| match (error.size_limit(), error.syntax_error()) {
                (Some(limit), _) => size_limit_error(limit),
                (None, Some(error)) => BadPattern(error.to_string()),
                (None, None) => BadPattern(error.to_string()),
            })?;
        // NFA and DFA without captures have half the states of `regex`, and fail only where `regex` fails.
        let nfa = NFA::compiler()
            .syntax(syntax)
            .configure(
                thompson::Config::new()
                    .which_captures(WhichCaptures::None)
                    .nfa_size_limit(Some(MAX_NFA_BYTES)),
            )
            .build(text)
            .map_err(|error| BadPattern(error.to_string()))?;
        let dfa = DFA::builder()
            .configure(
                DFA::config()
                    .match_kind(MatchKind::All)
                    // The DFA quits at non-ASCII bytes next to a Unicode word boundary; the NFA simulation continues
                    // from there.
                    .unicode_word_boundary(true)
                    .cache_capacity(DFA_CACHE_BYTES)
                    .skip_cache_capacity_check(true),
            )
            .build_from_nfa(nfa.clone())
            .map_err(|error| BadPattern(error.to_string()))?;
        let crosses_lines = reads_newline(&nfa);
        let looks_ahead = nfa.look_set_any().subtract(look_behind_set()) != LookSet::empty();
        Ok(Pattern(Arc::new(PatternEngines {
            text: text.to_owned(),
            regex,
            dfa,
            nfa,
            crosses_lines,
            looks_ahead,
        })))
    }
}

fn size_limit_error(limit: usize) -> BadPattern {
    BadPattern(format!(
        "Compiled regex exceeds size limit of {limit} bytes."
    ))
}

/// Assertions that depend only on the text before.
fn look_behind_set() -> LookSet {
    LookSet::singleton(Look::Start).insert(Look::StartLF)
}

/// Whether a match can contain a newline: a reachable state consumes a newline.
fn reads_newline(nfa: &NFA) -> bool {
    let mut visited = vec![false; nfa.states().len()];
    let mut next = vec![nfa.start_anchored()];
    while let Some(id) = next.pop() {
        if std::mem::replace(&mut visited[id.as_usize()], true) {
            continue;
        }
        let reads = match nfa.state(id) {
            State::ByteRange { trans } => {
                next.push(trans.next);
                trans.matches_byte(b'\n')
            }
            State::Sparse(sparse) => {
                next.extend(sparse.transitions.iter().map(|trans| trans.next));
                sparse.matches_byte(b'\n').is_some()
            }
            State::Dense(dense) => {
                next.extend(dense.transitions.iter());
                dense.matches_byte(b'\n').is_some()
            }
            State::Look { next: to, .. } | State::Capture { next: to, .. } => {
                next.push(*to);
                false
            }
            State::Union { alternates } => {
                next.extend(alternates.iter());
                false
            }
            State::BinaryUnion { alt1, alt2 } => {
                next.extend([alt1, alt2]);
                false
            }
            State::Fail | State::Match { .. } => false,
        };
        if reads {
            return true;
        }
    }
    false
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.0.text).finish()
    }
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadPattern {}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn an_invalid_pattern_is_refused_with_the_engines_message() {
        let refused = |text| Pattern::new(text).expect_err(text).to_string();
        let message = refused("a(b");
        assert!(message.contains("unclosed group"), "{message}");
        assert!(message.contains("a(b\n"), "shows where: {message}");
        let message = refused("(a{1000}){1000}");
        assert!(message.contains("size limit of 1048576 bytes"), "{message}");
        assert!(refused(r"(?<=a)b").contains("look-around"));
    }

    #[test]
    fn newlines_and_look_ahead_are_detected() {
        let known = |text| {
            let pattern = Pattern::new(text).expect(text);
            (pattern.0.crosses_lines, pattern.0.looks_ahead)
        };
        assert_eq!(known("Listening"), (false, false));
        assert_eq!(known("^a.*b"), (false, false));
        assert_eq!(known("foo$"), (false, true));
        assert_eq!(known(r"\bfoo"), (false, true));
        assert_eq!(known(r"a\nb"), (true, false));
        assert_eq!(known(r"a\s+b"), (true, false));
        assert_eq!(known("(?s)a.b"), (true, false));
        assert_eq!(known("[^x]"), (true, false));
    }
}
