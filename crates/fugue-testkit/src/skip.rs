use std::{fs::OpenOptions, io::Write, thread};

/// A requirement of a test that is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingRequirement {
    /// The rights of root. If the tests run as an ordinary user, CI runs such a test once more as root.
    Root,
    /// A program that can be installed. In CI this is a failure.
    Program,
    /// A capability that this machine, kernel or checkout cannot have.
    Machine,
}

impl MissingRequirement {
    fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Program => "program",
            Self::Machine => "machine",
        }
    }
}

/// Records that the current test, or the rest of it, is skipped. The line is printed and appended to the file that
/// `FUGUE_SKIPS` names, so that `scripts/test` can count and list the skipped tests: a test runner shows them as
/// passed.
#[expect(
    clippy::print_stderr,
    reason = "a test that is run alone says that it is skipped"
)]
pub fn skip(missing: MissingRequirement, reason: impl AsRef<str>) {
    let test = thread::current().name().unwrap_or("?").to_owned();
    let reason = reason.as_ref();
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(path) = std::env::var_os("FUGUE_SKIPS") {
        let file = OpenOptions::new().append(true).open(path);
        let mut file = file.expect("FUGUE_SKIPS names a file that can be written");
        // A single write, so that parallel tests do not interleave their lines.
        file.write_all(format!("{}\t{test}\t{reason}\n", missing.name()).as_bytes())
            .expect("a skipped test is recorded");
    }
}
