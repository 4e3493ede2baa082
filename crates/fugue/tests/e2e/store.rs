//! The store: a reply is sent only after its change is stored, and stored state is loaded again, also with a full disk, a
//! damaged record, a damaged database or none.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use fugue_api::{
    ErrorKind, EventId, PaneId,
    overview::Overview,
    tools::{CreatePaneReply, NotifyCompletionReply, ReadPaneReply},
    wire::{DaemonStatus, StoreState, StoreStatus},
};
use fugue_testkit::{
    MissingRequirement, ProcessRef, ProgramOutput, RunningProgram, TestEnv, report_metric, skip,
    until,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);
const VERB: Duration = Duration::from_secs(60);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// The environment's state directory on a small file system that only programs in its own mount namespace see. Daemons and
/// clients run there.
struct SmallDisk<'a> {
    test_env: &'a TestEnv,
    enter: Vec<String>,
    /// Keeps the namespace, and ends with its stdin.
    keeper: Child,
}

impl<'a> SmallDisk<'a> {
    /// Skips the test and returns `None` where no small file system can be mounted.
    fn new(test_env: &'a TestEnv, size: &str) -> Option<Self> {
        let ways: [(&[&str], &[&str]); 2] = [
            (&["-m"], &["-m"]),
            (&["-rm"], &["-U", "--preserve-credentials", "-m"]),
        ];
        let mount = format!("mount -t tmpfs -o size={size},mode=700 tmpfs \"$XDG_STATE_HOME\"");
        for (unshare, enter) in ways {
            let mut command = test_env.command("unshare");
            command.args(unshare);
            command.args(["sh", "-ec", &format!("{mount}; echo ready; exec cat")]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut keeper = command.stderr(Stdio::null()).spawn().expect("unshare");
            let mut said = String::new();
            let stdout = keeper.stdout.take().expect("its stdout");
            let mut lines = std::io::BufReader::new(stdout);
            std::io::BufRead::read_line(&mut lines, &mut said).expect("its word");
            if said == "ready\n" {
                let target = keeper.id().to_string();
                let mut words = vec!["-t".to_owned(), target, "-w".to_owned()];
                words.extend(enter.iter().map(|word| (*word).to_owned()));
                return Some(Self {
                    test_env,
                    enter: words,
                    keeper,
                });
            }
            keeper.wait().expect("it has ended");
        }
        skip(
            MissingRequirement::Root,
            "no mount namespace can be had here for a full disk",
        );
        None
    }

    fn fugue(&self, args: &[&str]) -> ProgramOutput {
        let mut command = self.test_env.command("nsenter");
        command.args(&self.enter).arg(env!("CARGO_BIN_EXE_fugue"));
        command.args(args).current_dir(self.test_env.work());
        RunningProgram::start(command).end(VERB)
    }

    fn json<T: DeserializeOwned>(&self, args: &[&str]) -> T {
        self.fugue(&json_args(args)).ok().json()
    }

    fn refused(&self, args: &[&str]) -> fugue_api::Error {
        let ran = self.fugue(&json_args(args));
        assert_eq!(ran.code, Some(1), "{ran}");
        ran.refusal()
    }

    fn store(&self) -> StoreStatus {
        self.json::<DaemonStatus>(&["daemon", "status"]).store
    }

    fn notify(&self, text: &'static str) -> [&'static str; 8] {
        [
            "notify",
            "success",
            "-m",
            text,
            "--session-id",
            "lead",
            "--worker-id",
            "w",
        ]
    }

    /// The messages of all events in the lead's inbox.
    fn messages(&self) -> Vec<String> {
        let inbox: Value = self.json(&["events", "--inbox", "lead"]);
        let events = inbox["events"].as_array().cloned().unwrap_or_default();
        let messages = events.iter().map(|event| event["message"].to_string());
        messages
            .map(|text| text.trim_matches('"').to_owned())
            .collect()
    }

    fn state(&self) -> PathBuf {
        let state = self.test_env.dir().join("state");
        PathBuf::from(format!(
            "/proc/{}/root{}",
            self.keeper.id(),
            state.display()
        ))
    }

    /// To the last byte.
    fn fill(&self) {
        for size in [1 << 16, 4096, 1] {
            let mut number = 0;
            let part = |number| self.state().join(format!("filler-{size}-{number}"));
            while fs::write(part(number), vec![b'x'; size]).is_ok() {
                number += 1;
            }
        }
    }

    fn make_room(&self) {
        for entry in fs::read_dir(self.state()).expect("the state").flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                fs::remove_file(entry.path()).expect("it can be removed");
            }
        }
    }

    fn end(mut self) {
        self.fugue(&["daemon", "stop", "--panes"]).ok();
        drop(self.keeper.stdin.take());
        self.keeper.wait().expect("it ends with its stdin");
    }
}

fn json_args<'b>(args: &[&'b str]) -> Vec<&'b str> {
    let verb = if args[0] == "daemon" { 2 } else { 1 };
    let mut all = args.to_vec();
    all.insert(verb, "--json");
    all
}

#[test]
fn what_a_full_disk_did_not_store_is_not_answered_and_the_next_daemon_agrees() {
    let test_env = test_env();
    let Some(disk) = SmallDisk::new(&test_env, "3m") else {
        return;
    };
    let pane: CreatePaneReply = disk.json(&["new", "-n", "cat", "--", "echo ready; exec cat"]);
    disk.fugue(&["expect", "cat", "ready"]).ok();
    disk.json::<Value>(&disk.notify("stored"));
    assert_eq!(disk.messages(), ["stored"]);

    disk.fill();
    // One call meets the full disk; those behind it are refused before they change anything.
    let first = disk.refused(&disk.notify("first"));
    assert_eq!(first.kind, ErrorKind::Uncertain, "{first:?}");
    assert!(first.message.contains("not stored yet"), "{first:?}");
    let second = disk.notify("second");
    let calls: [&[&str]; 3] = [&second, &["new", "--", "true"], &["parallel", "true"]];
    for args in calls {
        let error = disk.refused(args);
        assert_eq!(error.kind, ErrorKind::Exhausted, "{error:?}");
        assert!(
            error.message.contains("no space left on device"),
            "{error:?}"
        );
        assert!(error.message.contains("changed nothing"), "{error:?}");
    }
    let store = disk.store();
    assert_eq!(store.state, StoreState::Stalled, "{store:?}");
    assert!(
        store.since.is_some() && store.unstored_commits > 0,
        "{store:?}"
    );
    let said = disk.fugue(&["daemon", "status"]).ok().out();
    assert!(
        said.contains("the store is stalled") && said.contains("no space left"),
        "{said}"
    );

    // What is there can be read and typed into.
    let text: ReadPaneReply = disk.json(&["read", "cat"]);
    assert!(text.text.contains("ready"), "{text:?}");
    disk.fugue(&["send", "cat", "typed", "--enter"]).ok();
    assert_eq!(disk.json::<Overview>(&["ls"]).panes.len(), 1);

    // An event that is not stored is shown to nobody.
    let look = disk.refused(&["events", "--inbox", "lead"]);
    assert_eq!(look.kind, ErrorKind::Uncertain, "{look:?}");

    // The event that nobody was told of is not there, and its id is given out as if it had never been.
    let daemon = disk.json::<DaemonStatus>(&["daemon", "status"]).pid;
    ProcessRef::find(daemon).expect("the daemon").kill9();
    disk.make_room();
    assert_eq!(disk.messages(), ["stored"]);
    assert_eq!(disk.store().state, StoreState::Ok);
    assert!(ProcessRef::find(pane.pid).is_some(), "panes go on");
    disk.end();
    report_metric(
        "a full disk and the store",
        "stalled, said, refused; the next daemon agreed",
    );
}

#[test]
fn what_waited_for_room_is_stored_when_there_is_some() {
    let test_env = test_env();
    let Some(disk) = SmallDisk::new(&test_env, "3m") else {
        return;
    };
    disk.json::<Value>(&disk.notify("stored"));
    disk.fill();
    disk.refused(&disk.notify("late"));
    disk.make_room();
    until("the store has resumed", VERB, || {
        disk.store().state == StoreState::Ok
    });
    assert_eq!(disk.messages(), ["stored", "late"]);
    let daemon = disk.json::<DaemonStatus>(&["daemon", "status"]).pid;
    ProcessRef::find(daemon).expect("the daemon").kill9();
    assert_eq!(disk.messages(), ["stored", "late"], "on disk, and once");
    let log = disk.state().join("fugue/daemon.log");
    let log = fs::read_to_string(log).expect("the daemon's log");
    for line in ["store stalled", "store resumed"] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
    disk.end();
}

fn database(test_env: &TestEnv) -> PathBuf {
    test_env.state().join("fugue.db")
}

fn stop_daemon(test_env: &TestEnv) {
    test_env.fugue(&["daemon", "stop"]).ok();
}

/// Overwrites the one place in a file where `old` stands.
fn damage(path: &Path, old: &str, new: &str) {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(path).expect("the file");
    let found: Vec<usize> = bytes
        .windows(old.len())
        .enumerate()
        .filter(|(_, part)| *part == old.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!found.is_empty(), "`{old}` is not in {}", path.display());
    for at in found {
        bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
    }
    fs::write(path, bytes).expect("the file can be written");
}

/// What is typed into a pane that runs `cat` comes back, after all that came before.
fn still_works(test_env: &TestEnv, pane: &CreatePaneReply) {
    assert!(ProcessRef::find(pane.pid).is_some(), "its process lives");
    // A backup may be from before its process was known; then the daemon first asks its holder.
    let id = pane.pane_id.to_string();
    until("the pane is taken up", VERB, || {
        test_env.fugue(&["read", &id]).code == Some(0)
    });
    let before = test_env.text(pane.pane_id).matches("still here").count();
    test_env.type_line(pane.pane_id, "still here");
    test_env.until_printed(pane.pane_id, |text| {
        text.matches("still here").count() == before + 2
    });
}

#[test]
fn one_damaged_record_is_set_aside_and_its_pane_is_found_again() {
    let test_env = test_env();
    let other = test_env.pane("echo other; exec cat");
    let victim: CreatePaneReply = test_env.json(&["new", "-n", "victim", "--", "exec cat"]);
    stop_daemon(&test_env);
    damage(
        &database(&test_env),
        "\"name\":\"victim\"",
        "\"name\":\"victim\\",
    );
    let started: DaemonStatus = test_env.json(&["daemon", "start"]);
    assert_eq!(started.store.quarantined_records, 1, "{:?}", started.store);
    let notes = started.store.notes.join("\n");
    assert!(
        notes.contains("record 2 of panes") && notes.contains("p2"),
        "{notes}"
    );
    assert_eq!(started.panes, 2);
    still_works(&test_env, &other);
    still_works(&test_env, &victim);
    assert_eq!(test_env.status(victim.pane_id).name, "victim");
    let said = test_env.fugue(&["daemon", "status"]).ok().out();
    assert!(said.contains("1 record that could not be read"), "{said}");
}

#[test]
fn after_the_loss_of_the_database_panes_are_found_and_no_directory_is_used_again() {
    let test_env = test_env();
    let live = test_env.pane("echo live; exec cat");
    let ended = test_env.pane("echo the last words; exit 7");
    test_env.exited(ended.pane_id);
    let notice = || -> EventId {
        let report = ["notify", "success", "--worker-id", "stranger"];
        let reply: NotifyCompletionReply =
            test_env.json(&[&report[..], &["--session-id", "lead"]].concat());
        reply.event_id
    };
    let mut last_event = notice();
    for _ in 0..2 {
        stop_daemon(&test_env);
        for file in [
            "fugue.db",
            "fugue.db-wal",
            "fugue.db-shm",
            "fugue.db.backup",
        ] {
            let _ = fs::remove_file(test_env.state().join(file));
        }
        still_works(&test_env, &live);
        let exited = test_env.exited(ended.pane_id);
        assert_eq!(exited.state.exit_code, Some(7), "{exited:?}");
        assert!(test_env.text(ended.pane_id).contains("the last words"));
        let new = test_env.pane("echo new; exec cat");
        assert!(new.pane_id > ended.pane_id, "{new:?}");
        test_env.until_printed(new.pane_id, |text| text.trim_end() == "new");
        let notes = test_env.daemon().store.notes.join("\n");
        assert!(notes.contains("p1") && notes.contains("p2"), "{notes}");
        let event = notice();
        assert!(event > last_event, "{event} after {last_event}");
        last_event = event;
    }
    let ids: Vec<PaneId> = test_env
        .overview()
        .panes
        .iter()
        .map(|row| row.pane_id)
        .collect();
    assert_eq!(ids, (1..=4).map(PaneId).collect::<Vec<_>>());
}

#[test]
fn a_damaged_database_is_repaired_without_a_daemon_and_at_its_start() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat");
    let backup = test_env.state().join("fugue.db.backup");
    until("a backup is made", VERB, || backup.exists());
    let refused = test_env.refused(&["daemon", "repair"], 1);
    assert!(refused.message.contains("a daemon runs"), "{refused:?}");
    stop_daemon(&test_env);
    let sound: Value = test_env.json(&["daemon", "repair"]);
    assert_eq!(sound["database"], "sound", "{sound}");

    let garbage = vec![0x5a; 1 << 16];
    fs::write(database(&test_env), &garbage).expect("it can be damaged");
    let report: Value = test_env.json(&["daemon", "repair"]);
    assert_eq!(report["database"], "backup", "{report}");
    let kept = test_env.state().join("fugue.db.damaged-1");
    assert_eq!(fs::read(&kept).expect("it is kept"), garbage);
    still_works(&test_env, &pane);

    stop_daemon(&test_env);
    fs::write(database(&test_env), &garbage).expect("it can be damaged");
    still_works(&test_env, &pane);
    let notes = test_env.daemon().store.notes.join("\n");
    assert!(
        notes.contains("backup") && notes.contains("damaged-2"),
        "{notes}"
    );
}

#[test]
fn a_database_that_is_deleted_under_the_daemon_is_noticed_and_panes_go_on() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat");
    let closed = test_env.pane("exec cat");
    let kept = test_env.state().join("elsewhere");
    fs::rename(database(&test_env), &kept).expect("it can be moved");
    let notify = [
        "notify",
        "success",
        "--session-id",
        "lead",
        "--worker-id",
        "w",
    ];
    let first = test_env.refused(&notify, 1);
    assert_eq!(first.kind, ErrorKind::Uncertain, "{first:?}");
    let second = test_env.refused(&notify, 1);
    assert!(
        second.message.contains("was removed or replaced"),
        "{second:?}"
    );
    assert_eq!(test_env.daemon().store.state, StoreState::Stalled);
    still_works(&test_env, &pane);
    // Closing waits for no commit, and what it answers is what the next daemon finds.
    let answer = test_env.close(closed.pane_id);
    assert!(
        ProcessRef::find(closed.pid).is_none(),
        "its process is gone"
    );
    let epoch = test_env.daemon().epoch;
    // A daemon that is stopped and started makes a new database, and finds its panes.
    test_env.fugue(&["daemon", "restart"]).ok();
    still_works(&test_env, &pane);
    assert!(test_env.daemon().epoch > epoch, "{:?}", test_env.daemon());
    let ended = test_env.exited(closed.pane_id).state;
    assert_eq!(
        (ended.exit_code, ended.signal),
        (answer.exit_code, answer.signal)
    );
    assert_eq!(test_env.daemon().store.state, StoreState::Ok);
}

#[test]
fn a_daemon_whose_log_cannot_be_written_goes_on() {
    let test_env = test_env();
    test_env.start_daemon_with(&["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"]);
    assert_eq!(test_env.run_to_exit("echo works").trim_end(), "works");
}
