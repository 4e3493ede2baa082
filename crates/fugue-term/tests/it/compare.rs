//! Running other programs, and showing the differences of two screens.

use std::process::Command;

/// The rows that differ.
pub fn diff(theirs: &[String], ours: &[String]) -> String {
    let rows = theirs.len().max(ours.len());
    let empty = String::new();
    let mut out = String::new();
    for row in 0..rows {
        let (a, b) = (
            theirs.get(row).unwrap_or(&empty),
            ours.get(row).unwrap_or(&empty),
        );
        if a != b {
            out += &format!("{row:3} - {a:?}\n    + {b:?}\n");
        }
    }
    out
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no daemon whose size or descriptors could matter"
)]
pub fn command(program: &str) -> Command {
    Command::new(program)
}
