//! `fugue doctor`, with one thing broken at a time: the right line fails, and what it says mends it.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use fugue_testkit::{ProgramOutput, RunningProgram, TestEnv, until};
use rustix::{
    fs::{FlockOperation, fcntl_lock},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

use crate::store::SmallDisk;

const LIMIT: Duration = Duration::from_secs(240);

/// With `fugue` on the PATH, because the commands that doctor names say so.
fn test_env() -> TestEnv {
    let mut test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT);
    test_env.install();
    test_env
}

/// The lines of a doctor's document.
struct Diagnosis {
    code: Option<i32>,
    lines: Vec<Value>,
}

impl Diagnosis {
    fn of(ran: &ProgramOutput) -> Self {
        let document: Value = ran.json();
        let lines = document["checks"].as_array().cloned().unwrap_or_default();
        let diagnosis = Self {
            code: ran.code,
            lines,
        };
        let fails = diagnosis.lines.iter().any(|line| line["verdict"] == "fail");
        assert_eq!(diagnosis.code, Some(i32::from(fails)), "{ran}");
        assert_eq!(document["ok"], Value::Bool(!fails), "{ran}");
        for line in &diagnosis.lines {
            let cures = [&line["command"], &line["person"]];
            let named = cures.iter().filter(|cure| cure.is_string()).count();
            assert_eq!(named, usize::from(line["verdict"] != "ok"), "{line}");
        }
        diagnosis
    }

    /// The lines of a check that are not ok.
    fn troubles(&self, check: &str) -> Vec<&Value> {
        let of_check = self.lines.iter().filter(|line| line["check"] == check);
        of_check.filter(|line| line["verdict"] != "ok").collect()
    }

    /// The single trouble of a check, which fails.
    #[track_caller]
    fn failure(&self, check: &str, says: &str) -> &Value {
        let troubles = self.troubles(check);
        let [line] = troubles[..] else {
            panic!("{check}: {:#?}", self.lines);
        };
        assert_eq!(line["verdict"], "fail", "{line}");
        let message = line["message"].as_str().unwrap_or_default();
        assert!(message.contains(says), "{line}");
        line
    }

    #[track_caller]
    fn is_well(&self, check: &str) {
        assert!(
            self.lines.iter().any(|line| line["check"] == check),
            "{check}"
        );
        assert!(
            self.troubles(check).is_empty(),
            "{:#?}",
            self.troubles(check)
        );
    }
}

fn diagnose(test_env: &TestEnv) -> Diagnosis {
    Diagnosis::of(&test_env.fugue(&["doctor", "--json"]))
}

/// Runs the command that a line names, as a person would.
#[track_caller]
fn mend(test_env: &TestEnv, line: &Value) {
    let command = line["command"].as_str().unwrap_or_else(|| panic!("{line}"));
    test_env.run("sh", &["-c", command]).ok();
}

#[test]
fn a_fresh_account_is_well_and_stays_as_it_is() {
    let test_env = test_env();
    let before: Vec<_> = fs::read_dir(test_env.dir().join("state"))
        .expect("it is there")
        .collect();
    assert!(before.is_empty());
    let found = diagnose(&test_env);
    for check in [
        "daemon",
        "store",
        "settings",
        "files",
        "disk",
        "terminals",
        "descriptors",
    ] {
        found.is_well(check);
    }
    assert!(test_env.daemons().is_empty(), "no daemon was started");
    let after = fs::read_dir(test_env.dir().join("state"))
        .expect("it is there")
        .count();
    assert_eq!(after, 0, "nothing was created");

    // With a daemon, and in words.
    test_env.pane("exec cat");
    let found = diagnose(&test_env);
    for check in ["daemon", "store", "files", "disk", "descriptors"] {
        found.is_well(check);
    }
    let said = test_env.fugue(&["doctor"]);
    assert!(said.out().contains("ok    daemon      fugue "), "{said}");
}

#[test]
fn a_stale_socket_is_told_and_mended() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat").pane_id;
    test_env.kill_daemon();
    let found = diagnose(&test_env);
    let line = found.failure("daemon", "the socket of an earlier one is left");
    found.is_well("store");
    assert!(test_env.daemons().is_empty(), "no daemon was started");
    mend(&test_env, line);
    diagnose(&test_env).is_well("daemon");
    test_env.type_line(pane, "lives");
    test_env.until_printed(pane, |text| text.matches("lives").count() == 2);
}

#[test]
fn a_daemon_that_is_stopped_by_a_signal_is_told_and_woken() {
    let test_env = test_env();
    test_env.pane("exec cat");
    let daemon = Pid::from_raw(test_env.daemon().pid.cast_signed()).expect("a pid");
    kill_process(daemon, Signal::STOP).expect("the daemon is ours");
    let found = diagnose(&test_env);
    let line = found.failure("daemon", "does not answer");
    mend(&test_env, line);
    until("the daemon answers", LIMIT, || {
        diagnose(&test_env).troubles("daemon").is_empty()
    });
}

#[test]
fn a_daemon_of_an_earlier_version_is_found_by_its_database() {
    let test_env = test_env();
    test_env.exited(test_env.pane("true").pane_id);
    test_env.fugue(&["daemon", "stop"]).ok();
    // Its socket and its lock are elsewhere, and the database is locked as SQLite does it.
    let database = fs::File::options()
        .write(true)
        .open(test_env.state().join("fugue.db"));
    let database = database.expect("the database");
    fcntl_lock(&database, FlockOperation::LockExclusive).expect("a lock");
    let us = std::process::id();
    let found = diagnose(&test_env);
    let line = found.failure("daemon", &format!("pid {us} has the database open"));
    assert_eq!(line["command"], format!("kill {us}"), "{line}");
    let error = test_env.refused(&["ls"], 1);
    assert!(error.message.contains("database is locked"), "{error}");
    assert!(
        error
            .hint
            .is_some_and(|hint| hint.contains("`fugue daemon stop`"))
    );
    drop(database);
    test_env.overview();
}

#[test]
fn wrong_modes_are_told_each_with_its_command() {
    let test_env = test_env();
    test_env.pane("exec cat");
    for (path, mode) in [
        (test_env.state(), 0o755),
        (test_env.state().join("panes"), 0o770),
        (test_env.state().join("daemon.sock"), 0o777),
        (test_env.state().join("fugue.db"), 0o644),
    ] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        let found = diagnose(&test_env);
        let line = found.failure("files", &path.to_string_lossy());
        mend(&test_env, line);
        diagnose(&test_env).is_well("files");
    }
    test_env.configure("");
    let file = test_env.dir().join("config/fugue/config.toml");
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("a mode");
    let found = diagnose(&test_env);
    mend(
        &test_env,
        found.failure("settings", "may be written by others"),
    );
    diagnose(&test_env).is_well("settings");
    fs::write(&file, "keep_linez = 1\n").expect("settings");
    let found = diagnose(&test_env);
    let line = found.failure("settings", "no setting is called `keep_linez`");
    let person = line["person"].as_str().unwrap_or_default();
    assert!(
        person.starts_with("you: ") && person.contains("`keep_lines`"),
        "{line}"
    );
}

#[test]
fn a_damaged_database_is_told_and_mended_without_a_loss() {
    let test_env = test_env();
    let pane = test_env.pane("echo kept; exit 3").pane_id;
    test_env.exited(pane);
    test_env.fugue(&["daemon", "stop"]).ok();
    diagnose(&test_env).is_well("store");
    let database = test_env.state().join("fugue.db");
    for name in ["fugue.db-wal", "fugue.db-shm", "fugue.db.backup"] {
        let _ = fs::remove_file(test_env.state().join(name));
    }
    let before = vec![0x5a; 8192];
    fs::write(&database, &before).expect("damage");
    let found = diagnose(&test_env);
    let line = found.failure("store", "damaged");
    assert_eq!(
        fs::read(&database).expect("it is there"),
        before,
        "doctor changed nothing"
    );
    mend(&test_env, line);
    let mended = diagnose(&test_env);
    mended.is_well("store");
    assert!(
        test_env.text(pane).contains("kept"),
        "the pane was found again"
    );
}

#[test]
fn a_full_disk_is_told_and_gc_makes_room() {
    let test_env = test_env();
    let Some(disk) = SmallDisk::new(&test_env, "24m") else {
        return;
    };
    let state = |disk: &SmallDisk<'_>| Diagnosis::of(&disk.fugue(&["doctor", "--json"]));
    disk.fugue(&[
        "new",
        "-n",
        "big",
        "--",
        "head -c 9000000 /dev/zero | tr '\\0' x",
    ])
    .ok();
    disk.fugue(&["read", "big", "-f", "-n", "1"]).ok();
    state(&disk).is_well("disk");
    disk.fill();
    let found = state(&disk);
    let line = found.failure("disk", "nothing can be started");
    let command = line["command"].as_str().unwrap_or_default();
    assert_eq!(command, "fugue gc --ended");
    // The record that the pane is forgotten needs a page itself.
    disk.make_room();
    disk.fill_but(200_000);
    state(&disk).failure("disk", "nothing can be started");
    disk.fugue(&["gc", "--ended"]).ok();
    state(&disk).is_well("disk");
    disk.fill();
    let found = state(&disk);
    let line = found.failure("disk", "nothing can be started");
    assert!(
        line["person"]
            .as_str()
            .unwrap_or_default()
            .starts_with("you: make room"),
        "{line}"
    );
    disk.make_room();
    state(&disk).is_well("disk");
    disk.end();
}

#[test]
fn a_low_limit_of_open_files_is_told_with_who_raises_it() {
    let test_env = test_env();
    let limited = |args: &str| {
        let mut command = test_env.command("sh");
        command.args(["-c", &format!("ulimit -n 64; exec fugue {args}")]);
        RunningProgram::start(command).end(LIMIT)
    };
    let found = Diagnosis::of(&limited("doctor --json"));
    let line = found.failure("descriptors", "64 files open");
    let person = line["person"].as_str().unwrap_or_default();
    assert!(person.contains("/etc/security/limits.conf"), "{line}");
    diagnose(&test_env).is_well("descriptors");
    // A daemon that was started there keeps the limit; from a better shell a restart mends it.
    limited("daemon start").ok();
    let found = diagnose(&test_env);
    mend(&test_env, found.failure("descriptors", "64 files open"));
    diagnose(&test_env).is_well("descriptors");
}

#[test]
fn a_missing_old_or_hanging_tmux_is_told_and_fails_where_panes_are_put_there() {
    let mut test_env = test_env();
    let bin = test_env.dir().join("bin");
    // Only what the check itself needs; whatever tmux the machine has is out of reach.
    test_env.set_env("PATH", &bin);
    let tmux = bin.join("tmux");
    let script = |text: &str| {
        fs::write(&tmux, format!("#!/bin/sh\n{text}\n")).expect("a script");
        fs::set_permissions(&tmux, Permissions::from_mode(0o755)).expect("its mode");
    };
    let check = |test_env: &TestEnv, says: &str| {
        let found = diagnose(test_env);
        let [line] = found.troubles("tmux")[..] else {
            panic!("{:#?}", found.lines);
        };
        assert_eq!(line["verdict"], "warn", "{line}");
        assert!(
            line["message"]
                .as_str()
                .is_some_and(|said| said.contains(says)),
            "{line}"
        );
    };
    script("echo tmux 2.9");
    check(&test_env, "tmux 2.9");
    script("while :; do :; done");
    check(&test_env, "does not answer");
    script("echo tmux 3.4");
    diagnose(&test_env).is_well("tmux");
    fs::remove_file(&tmux).expect("it goes");
    if Path::new("/usr/bin/tmux").exists() || Path::new("/usr/local/bin/tmux").exists() {
        // Without a PATH that has it, tmux is looked for where systems install it.
        diagnose(&test_env).is_well("tmux");
    } else {
        check(&test_env, "no program `tmux`");
    }
    script("echo tmux 2.9");
    test_env.configure("backend = \"tmux\"\n");
    diagnose(&test_env).failure("tmux", "puts every pane there");
}

#[test]
fn missing_registrations_and_hooks_are_told_each_with_its_cure() {
    let test_env = test_env();
    let claude = test_env.dir().join("bin/claude");
    fs::write(&claude, "#!/bin/sh\nexit 1\n").expect("a program");
    fs::set_permissions(&claude, Permissions::from_mode(0o755)).expect("its mode");
    let found = diagnose(&test_env);
    let [line] = found.troubles("agents")[..] else {
        panic!("{:#?}", found.lines);
    };
    assert_eq!(
        line["command"],
        "claude mcp add --scope user fugue -- fugue mcp"
    );
    let [line] = found.troubles("hooks")[..] else {
        panic!("{:#?}", found.lines);
    };
    assert!(
        line["person"]
            .as_str()
            .is_some_and(|said| said.contains("fugue hook claude")),
        "{line}"
    );

    let home = test_env.home();
    fs::write(
        home.join(".claude.json"),
        r#"{"mcpServers":{"fugue":{"command":"/gone/fugue"}}}"#,
    )
    .expect("settings");
    diagnose(&test_env).failure("agents", "/gone/fugue");
    fs::write(
        home.join(".claude.json"),
        r#"{"mcpServers":{"fugue":{"command":"fugue","args":["mcp"]}}}"#,
    )
    .expect("settings");
    diagnose(&test_env).is_well("agents");
    fs::create_dir(home.join(".claude")).expect("a directory");
    let settings = home.join(".claude/settings.json");
    fs::write(&settings, r#"{"disableAllHooks":true}"#).expect("settings");
    diagnose(&test_env).failure("hooks", "disableAllHooks");
    let hook =
        r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"fugue hook claude"}]}]}}"#;
    fs::write(&settings, hook).expect("settings");
    diagnose(&test_env).is_well("hooks");
}

#[test]
fn an_assessor_without_its_key_is_told_with_what_to_set() {
    let mut test_env = test_env();
    let found = diagnose(&test_env);
    let [line] = found.troubles("assessor")[..] else {
        panic!("{:#?}", found.lines);
    };
    assert_eq!(line["verdict"], "warn");
    assert!(
        line["message"]
            .as_str()
            .is_some_and(|said| said.contains("OPENAI_API_KEY")),
        "{line}"
    );
    test_env.set_env("FUGUE_ASSESS_MODEL", "cmd:cat");
    diagnose(&test_env).is_well("assessor");
}
