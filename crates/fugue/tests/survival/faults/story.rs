//! The lives that are led once for every fault, and what must hold at their ends whatever failed in between.
//!
//! A call may be refused, since something failed; but the fault happens once, so the same call succeeds soon after.
//! Everything that was answered stays true for this daemon and the next.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use fugue_api::{
    ErrorKind, PaneId,
    overview::Overview,
    pane_state::PaneState,
    tools::{
        CreatePaneReply, PaneStatus, ParallelResult, PipelineResult, ReadPaneReply, TaskStatus,
    },
};
use fugue_testkit::{ProcessRef, ProgramOutput, TestEnv, until};
use serde::de::DeserializeOwned;

/// How long one call may take to be answered or refused.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long after a fault calls may still be refused because of it.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Story {
    /// Panes: start, send, adoption, holder replacement, end, close, forget, restart.
    Pane,
    /// Runs: parallel and pipeline, a daemon killed in the middle, results asked for again.
    Run,
}

impl Story {
    pub const ALL: [Story; 2] = [Story::Pane, Story::Run];

    pub fn name(self) -> &'static str {
        match self {
            Story::Pane => "pane",
            Story::Run => "run",
        }
    }

    /// Panics with what was violated.
    pub fn tell(self, test_env: &TestEnv) {
        let forget_beyond = match self {
            Story::Pane => 2,
            // A run's outputs are its panes' logs, and are asked for at the end.
            Story::Run => 500,
        };
        test_env.configure(&format!(
            "forget_beyond_panes = {forget_beyond}\nidle_threshold_secs = 600\n"
        ));
        let mut told = Told {
            test_env,
            live: BTreeMap::new(),
            exited: BTreeMap::new(),
        };
        match self {
            Story::Pane => told.pane(),
            Story::Run => told.run(),
        }
    }
}

/// What was answered so far.
struct Told<'w> {
    test_env: &'w TestEnv,
    /// Panes whose child runs until it is told to end.
    live: BTreeMap<PaneId, ProcessRef>,
    exited: BTreeMap<PaneId, Option<i32>>,
}

impl Told<'_> {
    fn pane(&mut self) {
        let cat = self.create("exec cat");
        let reader = self.create("read -r _; echo over; exit 7");
        self.send(cat, "one");
        self.kill_daemons();
        self.check_live();
        self.send(cat, "two");
        // A daemon that could not reach the holder yet has nothing to start another one with.
        let deadline = Instant::now() + RECOVERY_TIMEOUT;
        while self
            .must::<PaneStatus>(&["status", &cat.to_string()])
            .note
            .is_some()
        {
            assert!(Instant::now() < deadline, "{cat} is not reached");
        }
        if let Some(holder) = self.test_env.holder(cat) {
            holder.kill9();
            until("another holder has taken over", RECOVERY_TIMEOUT, || {
                self.test_env
                    .holder(cat)
                    .is_some_and(|other| other != holder)
            });
        }
        self.check_live();
        self.send(cat, "three");
        self.live.remove(&reader);
        self.end(reader, 7);
        let deadline = Instant::now() + RECOVERY_TIMEOUT;
        loop {
            let text: ReadPaneReply = self.must(&["read", &reader.to_string()]);
            if text.text.contains("over") {
                break;
            }
            // The end of the output may have to wait for the disk, and then the pane says so.
            let said = text.note.as_deref().unwrap_or_default();
            assert!(said.contains("wait for disk space"), "{reader}: {text:?}");
            assert!(
                Instant::now() < deadline,
                "{reader} printed `over`: {text:?}"
            );
        }
        self.check_exited();

        let child = self.live.remove(&cat).expect("the pane is live");
        let _: serde_json::Value = self.must(&["close", &cat.to_string()]);
        assert!(!child.is_alive(), "{cat} was closed and its child runs");
        assert!(
            self.test_env.holder(cat).is_none() || self.no_holder_soon(cat),
            "{cat} was closed and its holder runs"
        );

        let keeper = self.create("exec cat");
        self.restart();
        self.check_live();
        self.check_exited();
        self.kill_daemons();
        self.check_live();
        self.check_exited();
        // Forgets the oldest ended panes.
        for _ in 0..2 {
            let short = self.create("exit 3");
            self.live.remove(&short);
            self.exited.clear();
            self.end(short, 3);
        }
        self.check_live();
        self.check_exited();
        assert!(self.live.contains_key(&keeper));
        self.stop();
    }

    fn run(&mut self) {
        let work = self.test_env.work();
        let lines = |file: &str| {
            let text = fs::read_to_string(work.join(file)).unwrap_or_default();
            text.lines().count()
        };
        // A refused run may have been begun; each attempt has a file of its own.
        let (attempt, parallel) = self.attempts(|told, attempt| {
            let first = format!("echo x >> a{attempt}; echo first; exit 3");
            let second =
                format!("echo y >> b{attempt}; until [ -e go ]; do sleep 0.02; done; echo second");
            let running = told
                .test_env
                .start(&["parallel", "--json", &first, &second]);
            // The daemon dies while the second command runs, if it was started at all.
            let begun = || work.join(format!("b{attempt}")).exists();
            let deadline = Instant::now() + Duration::from_secs(3);
            while !begun() && Instant::now() < deadline {
                fugue_testkit::sleep_in_test(Duration::from_millis(5));
            }
            for daemon in told.test_env.daemons() {
                daemon.kill9();
            }
            fs::write(work.join("go"), "").expect("a file");
            running.end(CALL_TIMEOUT * 2)
        });
        let mut parallel: ParallelResult = parallel.json();
        if are_unread(parallel.results.iter().map(|task| &task.note)) {
            parallel = self.must(&["wait", parallel.run_id.as_ref().expect("its id").0.as_str()]);
        }
        let tasks = [("a", "first", 3), ("b", "second", 0)];
        for (task, (file, output, code)) in parallel.results.iter().zip(tasks) {
            let times = lines(&format!("{file}{attempt}"));
            if task.status == TaskStatus::Error {
                assert!(task.error.is_some(), "an error says why: {task:?}");
                assert_eq!(times, 0, "what failed to start did not run: {task:?}");
                continue;
            }
            assert_eq!(task.exit_code, Some(code), "{task:?}");
            assert_eq!(task.output.trim(), output, "{task:?}");
            assert_eq!(times, 1, "each command once: {task:?}");
        }

        let (attempt, pipeline) = self.attempts(|told, attempt| {
            let last = format!("echo z >> {}/c{attempt}; exit 4", work.display());
            told.test_env
                .start(&["pipeline", "--json", "cd /", "pwd", &last])
                .end(CALL_TIMEOUT)
        });
        let mut pipeline: PipelineResult = pipeline.json();
        if are_unread(pipeline.steps.iter().map(|step| &step.note)) {
            pipeline = self.must(&["wait", pipeline.run_id.as_ref().expect("its id").0.as_str()]);
        }
        let times = lines(&format!("c{attempt}"));
        let codes: Vec<_> = pipeline.steps.iter().map(|step| step.exit_code).collect();
        if pipeline.steps.iter().any(|step| step.note.is_some()) {
            assert!(times <= 1, "no step twice: {pipeline:?}");
        } else {
            assert_eq!(codes, [Some(0), Some(0), Some(4)], "{pipeline:?}");
            assert_eq!(times, 1, "each step once: {pipeline:?}");
        }

        self.kill_daemons();
        let mut again: ParallelResult =
            self.must(&["wait", parallel.run_id.as_ref().expect("its id").0.as_str()]);
        if are_unread(again.results.iter().map(|task| &task.note)) {
            again = self.must(&["wait", parallel.run_id.as_ref().expect("its id").0.as_str()]);
        }
        assert_eq!(
            again.results, parallel.results,
            "the next daemon knows the same result"
        );
        let mut again: PipelineResult =
            self.must(&["wait", pipeline.run_id.as_ref().expect("its id").0.as_str()]);
        if are_unread(again.steps.iter().map(|step| &step.note)) {
            again = self.must(&["wait", pipeline.run_id.as_ref().expect("its id").0.as_str()]);
        }
        assert_eq!(
            again.steps, pipeline.steps,
            "the next daemon knows the same result"
        );
        self.stop();
    }

    // Calls.

    /// Asks until it is answered; refusals are allowed while a fault may still show.
    fn attempts(&self, mut ask: impl FnMut(&Self, u32) -> ProgramOutput) -> (u32, ProgramOutput) {
        let deadline = Instant::now() + RECOVERY_TIMEOUT;
        for attempt in 0.. {
            let ran = ask(self, attempt);
            if ran.code.is_some() && !ran.stdout.is_empty() {
                return (attempt, ran);
            }
            let refusal = ran.refusal();
            assert!(
                Instant::now() < deadline,
                "still refused {RECOVERY_TIMEOUT:?} after the fault: {refusal:?}\n{ran}"
            );
            fugue_testkit::sleep_in_test(Duration::from_millis(20));
        }
        unreachable!("the loop ends by itself")
    }

    fn must<T: DeserializeOwned>(&self, args: &[&str]) -> T {
        let mut with_json = vec![args[0], "--json"];
        with_json.extend(&args[1..]);
        let (_, ran) = self.attempts(|told, _| told.test_env.start(&with_json).end(CALL_TIMEOUT));
        assert_eq!(
            ran.code.map(|code| code <= 1 || args[0] == "wait"),
            Some(true),
            "{ran}"
        );
        ran.json()
    }

    fn create(&mut self, command: &str) -> PaneId {
        let pane: CreatePaneReply = self.must(&["new", "--", command]);
        if let Some(child) = ProcessRef::find(pane.pid) {
            self.live.insert(pane.pane_id, child);
        }
        pane.pane_id
    }

    /// Types a line. It may be refused, but not hang.
    fn send(&self, pane: PaneId, line: &str) {
        let ran = self
            .test_env
            .start(&["send", "--json", &pane.to_string(), line, "--enter"])
            .end(CALL_TIMEOUT);
        if ran.code != Some(0) {
            let refusal = ran.refusal();
            assert_ne!(refusal.kind, ErrorKind::Ended, "{pane} is live: {ran}");
        }
    }

    fn end(&mut self, pane: PaneId, code: i32) {
        let deadline = Instant::now() + RECOVERY_TIMEOUT;
        let status = loop {
            let status: PaneStatus = self.must(&["status", &pane.to_string()]);
            if status.state.state == PaneState::Exited {
                break status;
            }
            assert!(Instant::now() < deadline, "{pane} does not end: {status:?}");
            if code == 7 {
                let ran = self
                    .test_env
                    .start(&["send", "--json", &pane.to_string(), "go", "--enter"])
                    .end(CALL_TIMEOUT);
                drop(ran);
            }
            fugue_testkit::sleep_in_test(Duration::from_millis(10));
        };
        assert_eq!(status.state.exit_code, Some(code), "{pane}: {status:?}");
        self.exited.insert(pane, Some(code));
    }

    fn kill_daemons(&self) {
        for daemon in self.test_env.daemons() {
            daemon.kill9();
        }
    }

    fn restart(&self) {
        self.attempts(|told, _| {
            let mut ran = told
                .test_env
                .start(&["daemon", "restart", "--json"])
                .end(CALL_TIMEOUT);
            // It prints nothing where all went well.
            if ran.code == Some(0) && ran.stdout.is_empty() {
                ran.stdout = b"{}".to_vec();
            }
            ran
        });
    }

    fn stop(&self) {
        self.attempts(|told, _| {
            let mut ran = told
                .test_env
                .start(&["daemon", "stop", "--panes", "--json"])
                .end(CALL_TIMEOUT);
            if ran.code == Some(0) && ran.stdout.is_empty() {
                ran.stdout = b"{}".to_vec();
            }
            ran
        });
        until(
            "no process is left behind `daemon stop --panes`",
            CALL_TIMEOUT,
            || self.test_env.processes().is_empty(),
        );
    }

    // What must hold.

    fn no_holder_soon(&self, pane: PaneId) -> bool {
        until("the closed pane's holder is gone", RECOVERY_TIMEOUT, || {
            self.test_env.holder(pane).is_none()
        });
        true
    }

    fn overview(&self) -> Overview {
        self.must(&["ls"])
    }

    /// Every live child has a reachable pane with its directory, and none has been killed.
    fn check_live(&self) {
        for (pane, child) in &self.live {
            assert!(
                child.is_alive(),
                "{pane}'s child was ended by nobody's wish"
            );
            let status: PaneStatus = self.must(&["status", &pane.to_string()]);
            assert!(
                !matches!(status.state.state, PaneState::Exited | PaneState::Closed),
                "{pane}'s child runs, but the pane is said to have ended: {status:?}"
            );
            let dir = self.test_env.state().join(format!("panes/{pane}"));
            assert!(dir.join("hold.sock").exists(), "{pane}'s directory is gone");
        }
        let listed = self.overview().panes.into_iter();
        let live: Vec<u32> = listed
            .filter(|row| !matches!(row.state.state, PaneState::Exited | PaneState::Closed))
            .map(|row| {
                self.must::<PaneStatus>(&["status", &row.pane_id.to_string()])
                    .pid
            })
            .collect();
        for process in self.test_env.processes() {
            let is_child = process
                .args
                .first()
                .is_some_and(|word| word.ends_with("cat"));
            let Some(leader) = is_child.then(|| session_of(process.pid)).flatten() else {
                continue;
            };
            assert!(
                live.contains(&leader) || !process.is_alive(),
                "no pane reaches the live process {process:?}; panes have {live:?}"
            );
        }
    }

    /// What was answered about ended panes is what is answered now.
    fn check_exited(&self) {
        for (pane, code) in &self.exited {
            let status: PaneStatus = self.must(&["status", &pane.to_string()]);
            assert_eq!(
                (status.state.state, status.state.exit_code),
                (PaneState::Exited, *code),
                "{pane} was answered to have ended with {code:?}: {status:?}"
            );
        }
    }
}

fn session_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()
}

/// Whether a result says that outputs could not be read when it was asked for. Asked for again, they are there.
fn are_unread<'n>(mut notes: impl Iterator<Item = &'n Option<String>>) -> bool {
    notes.any(|note| {
        note.as_deref()
            .is_some_and(|note| note.contains("its output could not be read"))
    })
}
