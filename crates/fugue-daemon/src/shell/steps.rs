//! Steps that a shell runs from files: writes the plans, and reads the records that shells write.
//!
//! A plan is a directory with the text of each step; the file `go` has the number of the complete plan. The shell's prompt
//! hook runs the steps one after the other and appends a record to the plan's `log` before and after each. So the steps run
//! on without a daemon, and the next daemon continues to read the log. Files are opened by path for each use: a step inherits
//! no fd of fugue.
//!
//! A step can find the log and write to it. So every record ends with its own key, which is valid once: a key that is in the
//! log already proves nothing, and the key of a later record is in no file. The daemon derives the keys from the plan's
//! secret. The shell reads them from the file `keys` into a variable that is not exported, and empties the file before the
//! first step runs. Commands that a step runs cannot read the keys; the text of a step can, because the shell itself runs
//! that text.
//!
//! This module writes plans and reads records. It never starts or wakes a shell.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use fugue_core::pane_machine::{StepRecord, StepRecords};
use sha2::{Digest, Sha256};

/// The secret that the keys of records are derived from (`PaneRecord::step_secret`), given to no program of the pane.
pub type StepSecret = [u8; 16];

/// Steps for one shell, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFiles {
    /// Never used before in this directory.
    pub number: u64,
    pub steps: Vec<Step>,
    /// Whether a step that failed is followed by the next.
    pub keep_going: bool,
    /// How many steps are recorded as started by the daemon. A shell never gets these again, whatever the log contains.
    pub begun: usize,
    pub secret: StepSecret,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// One line to show above the step's output, free of control characters.
    pub heading: String,
    /// The text for the shell, without NUL, which no shell accepts.
    pub text: String,
}

/// Writes the plan's files, and marks the plan as complete with one rename of `go`. The files of a plan that was written
/// before stay unchanged, with their records.
pub fn write_plan(dir: &Path, plan: &StepFiles) -> io::Result<()> {
    private_dir(dir)?;
    let home = plan_dir(dir, plan.number);
    if !home.is_dir() {
        // A plan that is not complete has another name.
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
        write(&new.join("keys"), &plan.keys(plan.begun))?;
        fs::rename(&new, &home)?;
    }
    let go = dir.join("go");
    let number = format!("{}\n", plan.number);
    if fs::read(&go).is_ok_and(|found| found == number.as_bytes()) {
        return Ok(());
    }
    let new = dir.join("go.new");
    write(&new, &number)?;
    fs::rename(new, go)
}

/// Writes the plan for a shell that is about to be started, with the keys of the steps that no shell has started.
pub fn write_plan_for_new_shell(dir: &Path, plan: &StepFiles) -> io::Result<()> {
    write_plan(dir, plan)?;
    let begun = match records(dir, plan.number, plan.secret) {
        Ok(found) => found.steps.len().max(plan.begun),
        // A step removed the log.
        Err(error) if error.kind() == io::ErrorKind::NotFound => plan.begun,
        Err(error) => return Err(error),
    };
    let home = plan_dir(dir, plan.number);
    let new = home.join("keys.new");
    write(&new, &plan.keys(begun))?;
    fs::rename(new, home.join("keys"))
}

impl StepFiles {
    /// The number of the first step that is left, and the keys of all records from then on, in their order.
    fn keys(&self, begun: usize) -> String {
        let mut text = format!("{} ", begun + 1);
        for step in begun + 1..=self.steps.len() {
            text += &key(self.secret, self.number, RecordEvent::Started(step));
            text += &key(self.secret, self.number, RecordEvent::Ended(step));
        }
        text += &key(self.secret, self.number, RecordEvent::Done);
        text + "\n"
    }
}

/// The event of a record.
#[derive(Clone, Copy)]
pub(crate) enum RecordEvent {
    Started(usize),
    Ended(usize),
    Done,
}

/// The key of a record: 64 bits as 16 hexadecimal digits. A wrong guess is a line that is ignored.
pub(crate) fn key(secret: StepSecret, plan: u64, event: RecordEvent) -> String {
    let (kind, step) = match event {
        RecordEvent::Started(step) => ("S", step),
        RecordEvent::Ended(step) => ("E", step),
        RecordEvent::Done => ("D", 0),
    };
    let mut hash = Sha256::new();
    hash.update(b"fugue step record ");
    hash.update(secret);
    hash.update(format!(" {plan} {kind} {step}"));
    let digest = hash.finalize();
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Lets the shell start no further step. The running step goes on.
pub fn stop(dir: &Path, plan: u64) -> io::Result<()> {
    write(&plan_dir(dir, plan).join("stop"), "")
}

/// The records that the shells have written so far. Lines without the right key, torn lines and second records of the same
/// event are ignored: steps may write to the log.
pub fn records(dir: &Path, plan: u64, secret: StepSecret) -> io::Result<StepRecords> {
    let log = fs::read(plan_dir(dir, plan).join("log"))?;
    Ok(read(&log, plan, secret))
}

pub(crate) fn read(log: &[u8], plan: u64, secret: StepSecret) -> StepRecords {
    let mut found = StepRecords::default();
    // Bytes after the last newline are not complete.
    let Some(whole) = log.iter().rposition(|&byte| byte == b'\n') else {
        return found;
    };
    for line in log[..whole].split(|&byte| byte == b'\n') {
        // Every record begins with a newline, which separates it from an unfinished line of a step.
        if line.is_empty() {
            continue;
        }
        let taken = match parse(line) {
            Some((event, _, given)) if key(secret, plan, event) != given => false,
            Some((RecordEvent::Started(step), record, _)) => {
                let step = step_record(&mut found, step);
                let known = std::mem::replace(&mut step.started, true);
                if !known {
                    step.started_us = record.started_us;
                }
                !known
            }
            Some((RecordEvent::Ended(step), record, _)) => {
                let step = step_record(&mut found, step);
                let known = step.ended.is_some();
                if !known {
                    step.ended = record.ended;
                }
                !known
            }
            Some((RecordEvent::Done, _, _)) => !std::mem::replace(&mut found.done, true),
            None => false,
        };
        found.ignored += usize::from(!taken);
    }
    found
}

/// The record of a step, whose key has proved that the step is part of the plan.
fn step_record(records: &mut StepRecords, step: usize) -> &mut StepRecord {
    if records.steps.len() < step {
        records.steps.resize(step, StepRecord::default());
    }
    &mut records.steps[step - 1]
}

/// Parses a line into its event, its record and its key.
pub(crate) fn parse(line: &[u8]) -> Option<(RecordEvent, StepRecord, &str)> {
    let line = str::from_utf8(line).ok()?;
    let number = |word: &str| word.parse().ok().filter(|step| *step > 0);
    let words: Vec<&str> = line.split(' ').collect();
    let mut record = StepRecord::default();
    match words[..] {
        // The field before the key is the shell's process id, which only the shell uses.
        ["S", step, at, _, given] => {
            record.started_us = parse_time(at)?;
            Some((RecordEvent::Started(number(step)?), record, given))
        }
        ["E", step, code, at, given] => {
            record.ended = Some((code.parse().ok()?, parse_time(at)?));
            Some((RecordEvent::Ended(number(step)?), record, given))
        }
        ["D", given] => Some((RecordEvent::Done, record, given)),
        _ => None,
    }
}

/// Parses the time of a record: `Some(None)` for `-`, written by shells without a clock, and `None` for anything else.
fn parse_time(word: &str) -> Option<Option<u64>> {
    match word {
        "-" => Some(None),
        digits => digits.parse().ok().map(Some),
    }
}

fn plan_dir(dir: &Path, plan: u64) -> PathBuf {
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

    const SECRET: StepSecret = [7; 16];

    fn plan(number: u64, texts: &[&str]) -> StepFiles {
        let step = |text: &&str| Step {
            heading: format!("run {text}"),
            text: (*text).into(),
        };
        StepFiles {
            number,
            steps: texts.iter().map(step).collect(),
            keep_going: false,
            begun: 0,
            secret: SECRET,
        }
    }

    fn line(record: &str, event: RecordEvent) -> String {
        format!("{record} {}\n", key(SECRET, 7, event))
    }

    #[test]
    fn a_plan_is_laid_out_once_and_named_last() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("steps");
        write_plan(&dir, &plan(7, &["true", "printf 'a\nb' \n"])).expect("laid out");
        let text = |name: &str| fs::read_to_string(dir.join(name)).expect(name);
        assert_eq!(text("go"), "7\n");
        assert_eq!(text("7/count"), "2\n");
        assert_eq!(text("7/2"), "printf 'a\nb' \n");
        assert_eq!(text("7/2.head"), "run printf 'a b'  \n");
        assert!(!dir.join("7/keep-going").exists());
        for private in ["7/1", "7/log", "7/keys", "go"] {
            let mode = fs::metadata(dir.join(private)).expect("there");
            assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{private}");
        }

        fs::write(dir.join("7/log"), line("S 1 5 9", RecordEvent::Started(1))).expect("write");
        fs::write(dir.join("7/keys"), "").expect("the shell has them");
        write_plan(&dir, &plan(7, &["other"])).expect("again");
        assert_eq!(text("7/1"), "true");
        assert_eq!(text("7/keys"), "", "not while a step may read them");
        assert_eq!(records(&dir, 7, SECRET).expect("records").steps.len(), 1);

        stop(&dir, 7).expect("stopped");
        stop(&dir, 7).expect("stopped again");
        write_plan(&dir, &plan(8, &["true"])).expect("the next");
        assert_eq!(text("go"), "8\n");
    }

    #[test]
    fn a_fresh_shell_gets_the_keys_of_what_no_shell_has_started() {
        let dir = tempfile::tempdir().expect("a directory");
        let all = plan(7, &["exit 3", "true", "true"]);
        let keys = |plan: &StepFiles| {
            write_plan_for_new_shell(dir.path(), plan).expect("laid out");
            fs::read_to_string(dir.path().join("7/keys")).expect("keys")
        };
        let from = |first: usize| {
            let mut text = format!("{first} ");
            for step in first..=3 {
                text += &key(SECRET, 7, RecordEvent::Started(step));
                text += &key(SECRET, 7, RecordEvent::Ended(step));
            }
            text + &key(SECRET, 7, RecordEvent::Done) + "\n"
        };
        assert_eq!(keys(&all), from(1));
        let log = dir.path().join("7/log");
        fs::write(&log, line("S 1 5 9", RecordEvent::Started(1))).expect("write");
        assert_eq!(keys(&all), from(2));
        // Whatever a step did to the log: what is known to have begun does not begin again.
        let begun = StepFiles { begun: 2, ..all };
        assert_eq!(keys(&begun), from(3));
        fs::remove_dir_all(dir.path().join("7")).expect("removed");
        assert_eq!(keys(&begun), from(3));
    }

    #[test]
    fn what_a_daemon_left_half_written_is_written_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("3.new")).expect("mkdir");
        fs::write(dir.path().join("3.new/9"), "old").expect("write");
        write_plan(dir.path(), &plan(3, &["true"])).expect("laid out");
        assert!(!dir.path().join("3/9").exists());
    }

    #[test]
    fn records_are_read_and_everything_else_is_ignored() {
        use RecordEvent::{Done, Ended, Started};
        let log = [
            line("S 1 100 42", Started(1)),
            line("E 1 0 200", Ended(1)),
            line("S 2 - 42", Started(2)),
            line("E 2 130 -", Ended(2)),
            line("S 3 300 42", Started(3)),
        ]
        .concat();
        let read_all = read(log.as_bytes(), 7, SECRET);
        let step = |started_us, ended| StepRecord {
            started: true,
            started_us,
            ended,
        };
        let expected = [
            step(Some(100), Some((0, Some(200)))),
            step(None, Some((130, None))),
            step(Some(300), None),
        ];
        assert_eq!(read_all.steps, expected);
        assert_eq!((read_all.done, read_all.ignored), (false, 0));

        let (start, end) = (line("S 1 1 1", Started(1)), line("E 1 0 2", Ended(1)));
        let done = line("D", Done);
        let used = key(SECRET, 7, Started(1));
        let zero = "0".repeat(16);
        for (log, steps, done, ignored) in [
            (String::new(), 0, false, 0),
            (done.clone(), 0, true, 0),
            (done.trim_end().to_owned(), 0, false, 0),
            (format!("{start}{end}{done}"), 1, true, 0),
            ("S 1 1".to_owned(), 0, false, 0),
            // Without a key, with a wrong one, with one that was used for another record, of another plan.
            (
                format!("{start}E 1 0 9\nE 1 9 9 {zero}\nE 1 9 9 {used}\nD\nD {used}\n"),
                1,
                false,
                5,
            ),
            (
                format!("S 1 1 1 {}\n", key(SECRET, 8, Started(1))),
                0,
                false,
                1,
            ),
            (
                format!("{start}S 99999999999999999999 1 1 {zero}\nS 0 1 1 {zero}\n\n \n"),
                1,
                false,
                3,
            ),
            // A second record of the same event does not change the first.
            (
                format!("{start}{end}E 1 9 9 {}\n", key(SECRET, 7, Ended(1))),
                1,
                false,
                1,
            ),
            // Torn by a step that truncated the log in the middle of a write: what follows is true.
            (format!("S 1 1 \n{end}"), 1, false, 1),
        ] {
            let found = read(log.as_bytes(), 7, SECRET);
            assert_eq!(found.steps.len(), steps, "{log}");
            assert_eq!((found.done, found.ignored), (done, ignored), "{log}");
            let true_end =
                |step: &StepRecord| step.ended.is_none() || step.ended == Some((0, Some(2)));
            assert!(found.steps.iter().all(true_end), "{log}");
        }
        let garbage = [&b"\xff\xfe\n"[..], start.as_bytes()].concat();
        let found = read(&garbage, 7, SECRET);
        assert_eq!((found.steps.len(), found.ignored), (1, 1));
        // A step that removed the records of steps before it.
        let late = read(line("E 3 4 -", Ended(3)).as_bytes(), 7, SECRET);
        assert_eq!(late.steps[2].ended, Some((4, None)));
        assert_eq!(late.steps[0], StepRecord::default());
    }
}
