//! What can be seen of an agent's screen: does it ask a person something, and is its input box empty?
//!
//! Used where no hook tells it, and just before something is typed. What is not recognised is never taken for idle.

use super::Vendor;

/// What is on a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The text of a question that waits for a person; `unknown prompt: …` if we know only that there is one.
    pub dialog: Option<String>,
    pub input: Input,
}

/// What the input box holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Empty,
    /// Somebody has begun to type.
    Draft,
    /// No input box that we recognise.
    Unknown,
}

/// Looks at the visible lines and the cursor's row and column, both counted from 0. An agent that we cannot read is
/// `None`.
pub fn look(vendor: Option<Vendor>, lines: &[String], cursor: (u16, u16)) -> Look {
    let _ = (vendor, lines, cursor);
    Look {
        dialog: None,
        input: Input::Unknown,
    }
}
