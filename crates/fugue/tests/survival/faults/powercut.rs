//! Power cuts: everything is killed at a random moment, the state directory becomes what a disk may hold then, and
//! the next daemon finds another boot. What was answered before is there.
//!
//! `FUGUE_CUTS` sets how many cuts are made, `FUGUE_SEED` repeats their moments and their luck.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fugue_api::{
    PaneId,
    pane_state::PaneState,
    tools::{CreatePaneReply, PaneStatus, ParallelResult, PipelineResult},
};
use fugue_testkit::{
    MissingRequirement, SeededRng, TestEnv, report_metric, skip, sleep_in_test,
    supervisor::{Syscall, SyscallSupervisor, SyscallVerdict},
    until,
};
use serde_json::Value;

use super::shadow::Shadow;

const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// What was answered before a cut.
#[derive(Default)]
struct Answered {
    live: Vec<PaneId>,
    /// With exit code and text.
    ended: BTreeMap<PaneId, (i32, String)>,
    parallel: Vec<ParallelResult>,
    pipeline: Vec<PipelineResult>,
    /// Texts of events.
    events: Vec<String>,
}

impl Answered {
    fn count(&self) -> usize {
        self.live.len()
            + self.ended.len()
            + self.parallel.len()
            + self.pipeline.len()
            + self.events.len()
    }

    /// Does one thing and remembers its answer.
    fn add(&mut self, test_env: &TestEnv, chance: &mut SeededRng) {
        let n = self.count();
        match chance.below(8) {
            0 => {
                let pane = test_env.pane("echo alive; exec cat").pane_id;
                self.live.push(pane);
            }
            1..=3 => {
                let code = 1 + (n % 200) as i32;
                let lines = chance.below(3000);
                let pane = test_env
                    .pane(&format!("echo pane {n}; seq 1 {lines}; exit {code}"))
                    .pane_id;
                let status = test_env.exited(pane);
                assert_eq!(status.state.exit_code, Some(code));
                self.ended.insert(pane, (code, test_env.text(pane)));
            }
            4 | 5 => {
                let code = chance.below(2) as i32;
                let command = format!("echo task {n}; exit {code}");
                let ran = test_env
                    .start(&["parallel", "--json", &command, "seq 1 400"])
                    .end(CALL_TIMEOUT);
                let result: ParallelResult = ran.json();
                assert_eq!(result.results[0].exit_code, Some(code), "{result:?}");
                self.parallel.push(result);
            }
            6 => {
                let step = format!("echo step {n}");
                let ran = test_env
                    .start(&["pipeline", "--json", &step, "exit 4"])
                    .end(CALL_TIMEOUT);
                self.pipeline.push(ran.json());
            }
            _ => {
                let text = format!("event {n}");
                let args = [
                    "notify",
                    "success",
                    "--session-id",
                    "lead",
                    "--worker-id",
                    "w",
                    "-m",
                    &text,
                ];
                let _: Value = test_env.json(&args);
                self.events.push(text);
            }
        }
    }

    /// Checks every answer. `is_other_boot`: the daemon sees another boot than the one of the answers.
    fn check(&self, test_env: &TestEnv, is_other_boot: bool) {
        let said = |pane: PaneId| -> PaneStatus { test_env.status(pane) };
        for (&pane, (code, text)) in &self.ended {
            let status = said(pane);
            assert_eq!(
                (status.state.state, status.state.exit_code),
                (PaneState::Exited, Some(*code)),
                "{pane} was answered to have ended with {code}: {status:?}"
            );
            let now = test_env.text(pane);
            assert!(
                now == *text,
                "{pane}'s output was answered with {} bytes and has {} now",
                text.len(),
                now.len()
            );
        }
        for result in &self.parallel {
            let ran = test_env
                .start(&["wait", "--json", &result.run_id.as_ref().expect("its id").0])
                .end(CALL_TIMEOUT);
            let now: ParallelResult = ran.json();
            assert_eq!(now.results, result.results, "the same results");
        }
        for result in &self.pipeline {
            let ran = test_env
                .start(&["wait", "--json", &result.run_id.as_ref().expect("its id").0])
                .end(CALL_TIMEOUT);
            let now: PipelineResult = ran.json();
            assert_eq!(now.steps, result.steps, "the same steps");
        }
        for &pane in &self.live {
            let status = said(pane);
            assert!(
                matches!(status.state.state, PaneState::Exited | PaneState::Closed),
                "{pane} cannot run after a power cut: {status:?}"
            );
            if is_other_boot {
                let read = test_env.read(pane, &[]);
                for note in [status.note, read.note] {
                    let note = note.unwrap_or_default();
                    assert!(note.contains("its output may be missing"), "{pane}: {note}");
                }
            }
        }
        if !self.events.is_empty() {
            let listed = test_env
                .fugue(&["events", "--json", "--inbox", "lead"])
                .ok()
                .out();
            for event in &self.events {
                assert!(listed.contains(event), "`{event}` was answered: {listed}");
            }
        }
    }
}

/// How to start a daemon that sees another boot id, if mounts of one's own can be had.
fn way_to_another_boot(test_env: &TestEnv, boot: u64) -> Option<Vec<String>> {
    let id = test_env.dir().join("boot_id");
    fs::write(&id, format!("00000000-0000-4000-8000-{boot:012x}\n")).expect("a file");
    let mount = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$@\"",
        id.display()
    );
    let ways = [["unshare", "-m"], ["unshare", "-rm"]];
    ways.into_iter()
        .map(|way| {
            [way[0], way[1], "sh", "-ec", &mount, "sh"]
                .map(str::to_owned)
                .to_vec()
        })
        .find(|way| {
            let mut args: Vec<&str> = way[1..].iter().map(String::as_str).collect();
            args.push("true");
            test_env.run("unshare", &args).code == Some(0)
        })
}

/// Ends every process of the environment at once, as far as there is an at once.
fn kill_everything(test_env: &TestEnv) {
    until("everything is dead", CALL_TIMEOUT, || {
        let all = test_env.processes();
        // None records how another one ended.
        let mut stop = vec!["-STOP".to_owned()];
        stop.extend(all.iter().map(|process| process.pid.to_string()));
        test_env.run("kill", &stop.iter().map(String::as_str).collect::<Vec<_>>());
        for process in &all {
            process.kill9();
        }
        all.is_empty()
    });
}

#[test]
fn what_was_answered_is_there_after_a_power_cut() {
    let start = Instant::now();
    let cuts: u64 = std::env::var("FUGUE_CUTS").map_or(6, |text| text.parse().expect("a number"));
    let mut chance = SeededRng::default();
    let seed = chance.seed();
    let limit = Duration::from_secs(180 + 30 * cuts);
    let mut test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), limit);
    // Every answer is checked after every cut, so no pane may be forgotten for the number of those after it.
    test_env.configure("idle_threshold_secs = 600\nforget_beyond_panes = 1000000\n");
    fs::create_dir(test_env.state()).expect("the state directory");
    fs::set_permissions(
        test_env.state(),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .expect("its mode");
    let shadow = Arc::new(Mutex::new(Shadow::of(&test_env.state())));
    let syncs = ["fsync", "fdatasync"].map(|name| Syscall::from_name(name).expect("a known call"));
    let synced = Arc::clone(&shadow);
    let supervisor = SyscallSupervisor::new(&syncs, move |call| {
        synced.lock().expect("nobody panics with it").sync(call);
        SyscallVerdict::Continue
    });
    match supervisor {
        Ok(supervisor) => test_env.supervise(supervisor),
        Err(error) => {
            skip(
                MissingRequirement::Machine,
                format!("calls cannot be supervised: {error}"),
            );
            return;
        }
    }

    let mut answered = Answered::default();
    let (mut syncs, mut other_boots) = (0, 0);
    for cut in 1..=cuts {
        for _ in 0..1 + chance.below(4) {
            answered.add(&test_env, &mut chance);
        }
        // In the middle of something that nobody is promised.
        let creating = test_env.start(&["new", "--json", "--", "seq 1 20000; exec cat"]);
        let running = test_env.start(&["parallel", "--json", "seq 1 20000", "exit 1"]);
        sleep_in_test(chance.duration_below(Duration::from_millis(150)));
        kill_everything(&test_env);
        for call in [creating, running] {
            let ran = call.end(CALL_TIMEOUT);
            if let Ok(pane) = serde_json::from_slice::<CreatePaneReply>(&ran.stdout) {
                answered.live.push(pane.pane_id);
            } else if let Ok(result) = serde_json::from_slice::<ParallelResult>(&ran.stdout) {
                answered.parallel.push(result);
            }
        }
        {
            let mut shadow = shadow.lock().expect("nobody panics with it");
            syncs += shadow.syncs;
            shadow.cut(&mut chance);
        }
        let _ = fs::remove_dir_all(test_env.runtime());
        let way = way_to_another_boot(&test_env, cut);
        if let Some(way) = &way {
            let way: Vec<_> = way.iter().map(String::as_str).collect();
            test_env.start_daemon_with(&way);
            other_boots += 1;
        }
        test_env.fugue(&["daemon", "start"]).ok();
        answered.check(&test_env, way.is_some());
    }
    report_metric(
        "power cuts",
        format!(
            "{cuts} cuts ({other_boots} with another boot id), {syncs} syncs copied, {} answers checked after each following cut in {:?}; \
             0 lost, seed {seed}",
            answered.count(),
            start.elapsed()
        ),
    );
}
