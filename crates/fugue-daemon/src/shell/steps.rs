//! Steps that a shell runs by itself, from files: what the daemon lays out, and what it finds written down afterwards.
//!
//! A plan is a directory with the text of each step; `go` names the plan that is complete. The shell's prompt hook
//! runs the steps one after the other and appends a record to the plan's `log` before and after each, so a daemon that
//! dies in the middle changes nothing, and one that comes back reads on. Files are opened by path for each use:
//! no step inherits anything of ours.
//!
//! This module writes plans and reads records. It never starts or wakes a shell.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Steps for one shell, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Never used before in this directory.
    pub number: u64,
    pub steps: Vec<Step>,
    /// Whether a step that failed is followed by the next.
    pub keep_going: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// One line to show above the step's output, free of control characters.
    pub heading: String,
    /// As the shell is to read it, but for NUL, which no shell takes.
    pub text: String,
}

/// What the shells have written down about a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The steps that were started, the first one first.
    pub steps: Vec<StepRecord>,
    /// Whether nothing is left to do: all steps ended, one failed, or the plan was stopped.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepRecord {
    /// Microseconds since the epoch, where the shell has a clock.
    pub started_us: Option<u64>,
    /// The exit code, and when. A step that ended its shell has none: the process' code is its own.
    pub ended: Option<(i32, Option<u64>)>,
}

/// Writes the plan down and then, with one rename, says that it is complete. A plan that was laid out before stays as
/// it is, records and all.
pub fn lay_out(dir: &Path, plan: &Plan) -> io::Result<()> {
    private_dir(dir)?;
    let home = home(dir, plan.number);
    if !home.is_dir() {
        // A plan that is only half written has another name.
        let new = dir.join(format!("{}.new", plan.number));
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        private_dir(&new)?;
        for (step, k) in plan.steps.iter().zip(1..) {
            let line = step.heading.replace(char::is_control, " ");
            write(&new.join(format!("{k}.head")), &format!("{line}\n"))?;
            write(&new.join(k.to_string()), &step.text)?;
        }
        write(&new.join("count"), &format!("{}\n", plan.steps.len()))?;
        if plan.keep_going {
            write(&new.join("keep-going"), "")?;
        }
        write(&new.join("log"), "")?;
        fs::rename(&new, &home)?;
    }
    let go = dir.join("go");
    let said = format!("{}\n", plan.number);
    if fs::read(&go).is_ok_and(|found| found == said.as_bytes()) {
        return Ok(());
    }
    let new = dir.join("go.new");
    write(&new, &said)?;
    fs::rename(new, go)
}

/// Says that no further step is to be started. The one that runs is not touched.
pub fn stop(dir: &Path, plan: u64) -> io::Result<()> {
    write(&home(dir, plan).join("stop"), "")
}

/// What was written down so far. A line that is torn, or none of ours, is passed over: a step knows no path of ours,
/// but its shell could be made to tell.
pub fn records(dir: &Path, plan: u64) -> io::Result<Records> {
    let log = fs::read(home(dir, plan).join("log"))?;
    Ok(read(&log))
}

fn read(log: &[u8]) -> Records {
    let mut found = Records::default();
    // What follows the last newline is still being written.
    let whole = log.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    for line in log[..whole].split(|&byte| byte == b'\n') {
        let Ok(line) = str::from_utf8(line) else {
            continue;
        };
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            // The last word is the shell's process id, for the shell itself.
            ["S", k, at, _] => {
                let next = found.steps.len() + 1;
                if let (Some(at), true) = (clock(at), k.parse() == Ok(next)) {
                    found.steps.push(StepRecord {
                        started_us: at,
                        ended: None,
                    });
                }
            }
            ["E", k, code, at] => {
                let step = k.parse().ok().and_then(|k: usize| k.checked_sub(1));
                let step = step.and_then(|index| found.steps.get_mut(index));
                if let (Some(step), Ok(code), Some(at)) = (step, code.parse(), clock(at))
                    && step.ended.is_none()
                {
                    step.ended = Some((code, at));
                }
            }
            ["D"] => found.done = true,
            _ => (),
        }
    }
    found
}

/// The time that a record says, or that it knows none; nothing if it is no record.
fn clock(word: &str) -> Option<Option<u64>> {
    match word {
        "-" => Some(None),
        digits => digits.parse().ok().map(Some),
    }
}

fn home(dir: &Path, plan: u64) -> PathBuf {
    dir.join(plan.to_string())
}

fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?
        .write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn plan(number: u64, texts: &[&str]) -> Plan {
        let step = |text: &&str| Step {
            heading: format!("run {text}"),
            text: (*text).into(),
        };
        Plan {
            number,
            steps: texts.iter().map(step).collect(),
            keep_going: false,
        }
    }

    #[test]
    fn a_plan_is_laid_out_once_and_named_last() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("steps");
        lay_out(&dir, &plan(7, &["true", "printf 'a\nb' \n"])).expect("laid out");
        let text = |name: &str| fs::read_to_string(dir.join(name)).expect(name);
        assert_eq!(text("go"), "7\n");
        assert_eq!(text("7/count"), "2\n");
        assert_eq!(text("7/2"), "printf 'a\nb' \n");
        assert_eq!(text("7/2.head"), "run printf 'a b'  \n");
        assert!(!dir.join("7/keep-going").exists());
        for private in ["7/1", "7/log", "go"] {
            let mode = fs::metadata(dir.join(private)).expect("there");
            assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{private}");
        }

        fs::write(dir.join("7/log"), "S 1 5 9\n").expect("write");
        lay_out(&dir, &plan(7, &["other"])).expect("again");
        assert_eq!(text("7/1"), "true");
        assert_eq!(records(&dir, 7).expect("records").steps.len(), 1);

        stop(&dir, 7).expect("stopped");
        stop(&dir, 7).expect("stopped again");
        lay_out(&dir, &plan(8, &["true"])).expect("the next");
        assert_eq!(text("go"), "8\n");
    }

    #[test]
    fn what_a_daemon_left_half_written_is_written_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("3.new")).expect("mkdir");
        fs::write(dir.path().join("3.new/9"), "old").expect("write");
        lay_out(dir.path(), &plan(3, &["true"])).expect("laid out");
        assert!(!dir.path().join("3/9").exists());
    }

    #[test]
    fn records_are_read_and_everything_else_is_passed_over() {
        let log = b"S 1 100 42\nE 1 0 200\nS 2 - 42\nE 2 130 -\nS 3 300 42\n";
        let read_all = read(log);
        let step = |started_us, ended| StepRecord { started_us, ended };
        let expected = [
            step(Some(100), Some((0, Some(200)))),
            step(None, Some((130, None))),
            step(Some(300), None),
        ];
        assert_eq!(read_all.steps, expected);
        assert!(!read_all.done);

        for (log, steps, done) in [
            (&b""[..], 0, false),
            (b"D\n", 0, true),
            (b"D", 0, false),
            (b"S 1 1 1\nE 1 0 2\nD\n", 1, true),
            (b"S 1 1", 0, false),
            (b"S 2 1 1\nS x 1 1\nS 1 y 1\nS\n\n\xff\nE 1 0 2\n", 0, false),
            (b"S 1 1 1\nS 1 2 1\nE 0 0 1\nE 9 0 1\nE 1 x 1\n", 1, false),
        ] {
            let found = read(log);
            assert_eq!(found.steps.len(), steps, "{}", log.escape_ascii());
            assert_eq!(found.done, done, "{}", log.escape_ascii());
            assert!(
                found
                    .steps
                    .iter()
                    .all(|step| { step.ended.is_none() || step.ended == Some((0, Some(2))) })
            );
        }
    }
}
