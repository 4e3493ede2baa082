//! One state directory has one daemon, whatever environment a client has and whichever files are removed while it runs.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    time::Duration,
};

use fugue_api::{ErrorKind, PaneId, overview::Overview, pane_state::PaneState, wire::DaemonStatus};
use fugue_testkit::{
    MissingRequirement, ProcessRef, ProgramOutput, RunningProgram, TestEnv, mcp_client::McpClient,
    skip, until, until_some,
};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(180);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// A pane whose child waits for input, and the daemon that has it.
struct Scene {
    pane: PaneId,
    child: ProcessRef,
    daemon: u32,
}

impl Scene {
    fn new(test_env: &TestEnv) -> Self {
        let pane = test_env.pane("exec cat").pane_id;
        // The pane's shell becomes it in its own time.
        let child = until_some("the pane's child runs", LIMIT, || {
            let mut found = test_env.processes();
            found.retain(|process| process.args == ["cat"]);
            found.pop()
        });
        Self {
            pane,
            child,
            daemon: test_env.daemon().pid,
        }
    }

    /// The same daemon is the only one, and the pane and its child are as before.
    #[track_caller]
    fn is_undisturbed(&self, test_env: &TestEnv) {
        assert_eq!(
            test_env.daemon().pid,
            self.daemon,
            "the same daemon answers"
        );
        let only = [self.daemon];
        // A client's start may have brought another process that found the daemon and ends.
        until("one daemon runs", LIMIT, || {
            test_env.daemons().iter().map(|d| d.pid).eq(only)
        });
        self.lives(test_env);
    }

    #[track_caller]
    fn lives(&self, test_env: &TestEnv) {
        let status = test_env.status(self.pane);
        assert_ne!(status.state.state, PaneState::Exited, "{status:?}");
        assert!(self.child.is_alive(), "the pane's child runs");
        test_env.type_line(self.pane, "echoed");
        test_env.until_printed(self.pane, |text| text.matches("echoed").count() >= 2);
        test_env.press(self.pane, &["C-l"]);
    }
}

fn run(mut command: Command, args: &[&str]) -> ProgramOutput {
    command.args(args);
    RunningProgram::start(command).end(LIMIT)
}

#[test]
fn clients_find_the_same_daemon_whatever_their_runtime_directory_is() {
    let test_env = test_env();
    let scene = Scene::new(&test_env);
    let other = test_env.dir().join("other");
    fs::create_dir(&other).expect("a directory");
    let fugue = || test_env.fugue_command::<&str>([]);
    let mut without = fugue();
    without.env_remove("XDG_RUNTIME_DIR");
    let mut elsewhere = fugue();
    elsewhere.env("XDG_RUNTIME_DIR", &other);
    let mut nowhere = fugue();
    nowhere.env("XDG_RUNTIME_DIR", test_env.dir().join("is/not/there"));
    for command in [without, elsewhere, nowhere] {
        let found: DaemonStatus = run(command, &["daemon", "status", "--json"]).ok().json();
        assert_eq!(found.pid, scene.daemon);
    }
    // As logind does after the last logout.
    fs::remove_dir_all(test_env.runtime()).expect("the runtime directory goes");
    scene.is_undisturbed(&test_env);
}

/// Codex hands an MCP server these variables of its own and no others.
#[test]
fn an_mcp_server_with_the_environment_that_codex_gives_finds_the_daemon_and_its_panes() {
    let mut test_env = test_env();
    let state = test_env.home().join(".local/state");
    test_env.set_env("XDG_STATE_HOME", &state);
    let scene = Scene::new(&test_env);
    let mut command = test_env.fugue_command(["mcp"]);
    for variable in [
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
        "XDG_CONFIG_HOME",
        "TMUX_TMPDIR",
    ] {
        command.env_remove(variable);
    }
    let mut client = McpClient::start(command);
    client.initialize("2025-11-25", "codex");
    let found = client.call("get_status", json!({"pane_id": scene.pane.to_string()}));
    assert_ne!(found["state"], json!("exited"), "{found}");
    let made = client.call("create_pane", json!({"command": "exec sleep 1000"}));
    assert_ne!(made["pane_id"], json!(scene.pane.to_string()), "{made}");
    client.end();
    let seen: Overview = test_env.overview();
    assert_eq!(seen.panes.len(), 2, "{seen:?}");
    scene.is_undisturbed(&test_env);
}

#[test]
fn many_clients_that_start_at_once_start_one_daemon() {
    let test_env = test_env();
    let clients: Vec<RunningProgram> = (0..8)
        .map(|number| {
            let mut command = test_env.fugue_command(["new", "--json", "--", "exec cat"]);
            match number % 3 {
                0 => command.env_remove("XDG_RUNTIME_DIR"),
                1 => command.env("XDG_RUNTIME_DIR", test_env.home()),
                _ => &mut command,
            };
            RunningProgram::start(command)
        })
        .collect();
    for client in clients {
        client.end(LIMIT).ok();
    }
    assert_eq!(test_env.overview().panes.len(), 8);
    until("one daemon is left", LIMIT, || {
        test_env.daemons().len() == 1
    });
}

#[test]
fn a_daemon_that_is_started_right_behind_a_killed_one_is_not_told_that_one_runs() {
    let test_env = test_env();
    let scene = Scene::new(&test_env);
    for _ in 0..20 {
        // It is killed and not waited for: the kernel may still accept connections to its socket.
        for daemon in test_env.daemons() {
            daemon.kill9();
        }
        test_env.start_daemon_with(&["env"]);
        scene.lives(&test_env);
    }
}

#[test]
fn a_daemon_whose_socket_was_removed_is_found_again() {
    let test_env = test_env();
    let scene = Scene::new(&test_env);
    let socket = test_env.state().join("daemon.sock");
    // First for a verb that starts no daemon, then for one that would.
    for verb in [&["daemon", "status"][..], &["ls"]] {
        fs::remove_file(&socket).expect("the socket goes");
        test_env.fugue(verb).ok();
        scene.is_undisturbed(&test_env);
    }
    // A file that is no socket, or nobody's, is in the way.
    fs::remove_file(&socket).expect("the socket goes");
    fs::write(&socket, "not a socket").expect("a file");
    test_env.fugue(&["ls"]).ok();
    scene.is_undisturbed(&test_env);
}

#[test]
fn every_lock_file_removed_and_three_clients_at_once_make_no_second_daemon() {
    let test_env = test_env();
    let scene = Scene::new(&test_env);
    for name in ["daemon.sock", "start.lock"] {
        fs::remove_file(test_env.state().join(name)).expect("a file of the daemon's");
    }
    for dir in [
        test_env.runtime().join("fugue"),
        test_env.state().join("run"),
    ] {
        let _ = fs::remove_dir_all(dir);
    }
    let clients: Vec<RunningProgram> = (0..3).map(|_| test_env.start(&["ls"])).collect();
    for client in clients {
        client.end(LIMIT).ok();
    }
    scene.is_undisturbed(&test_env);
}

#[test]
fn a_second_daemon_that_a_person_starts_is_refused() {
    let test_env = test_env();
    let scene = Scene::new(&test_env);
    let ran = test_env.fugue(&["daemon", "run"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.err().contains("a daemon already runs"), "{ran}");
    scene.is_undisturbed(&test_env);
}

#[test]
fn a_removed_state_directory_ends_the_daemon_and_its_panes_and_the_next_call_makes_a_new_one() {
    let test_env = test_env();
    let scene = Scene::new(&test_env);
    fs::remove_dir_all(test_env.state()).expect("the state directory goes");
    until("the daemon has ended", LIMIT, || {
        test_env.daemons().is_empty()
    });
    until("nothing of it is left", LIMIT, || {
        !scene.child.is_alive() && test_env.holders().is_empty()
    });
    assert!(
        !test_env.state().exists(),
        "nothing is made again by itself"
    );
    assert!(test_env.overview().panes.is_empty());
    assert_eq!(test_env.daemons().len(), 1);
}

#[test]
fn a_state_directory_that_is_moved_away_and_back_has_its_panes() {
    let test_env = test_env();
    let scene = Scene::new(&test_env);
    let aside = test_env.dir().join("state/aside");
    fs::rename(test_env.state(), &aside).expect("the state directory moves");
    until("the daemon has ended", LIMIT, || {
        test_env.daemons().is_empty()
    });
    assert!(scene.child.is_alive(), "the pane's child runs on");
    fs::rename(&aside, test_env.state()).expect("it comes back");
    scene.lives(&test_env);
}

/// Makes the state directory read-only for a program: by its mode, which root does not heed, or by a mount.
fn read_only(test_env: &TestEnv) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(test_env.state(), Permissions::from_mode(0o500)).expect("permissions");
        return Some(test_env.fugue_command::<&str>([]));
    }
    let own_mounts = test_env.run("unshare", &["-m", "true"]);
    if own_mounts.code != Some(0) {
        skip(
            MissingRequirement::Machine,
            "no mount namespace can be had here for a read-only state directory",
        );
        return None;
    }
    let state = test_env.state();
    let mut command = test_env.command("unshare");
    command
        .args(["-m", "sh", "-ec"])
        .arg("mount --bind \"$0\" \"$0\"; mount -o remount,ro,bind \"$0\"; exec \"$@\"")
        .arg(state)
        .arg(env!("CARGO_BIN_EXE_fugue"));
    Some(command)
}

#[test]
fn a_state_directory_that_cannot_be_written_is_named_with_the_way_out() {
    let test_env = test_env();
    fs::create_dir_all(test_env.state().join("panes")).expect("directories");
    let Some(command) = read_only(&test_env) else {
        return;
    };
    let refused = run(command, &["ls", "--json"]);
    fs::set_permissions(test_env.state(), Permissions::from_mode(0o700)).expect("permissions");
    assert_eq!(refused.code, Some(1), "{refused}");
    let refused = refused.refusal();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused:?}");
    let state = test_env.state();
    assert!(
        refused.message.contains(&*state.to_string_lossy()),
        "{refused:?}"
    );
    assert!(
        refused
            .hint
            .as_deref()
            .unwrap_or("")
            .contains("XDG_STATE_HOME"),
        "{refused:?}"
    );
    assert!(test_env.daemons().is_empty(), "no daemon was left");
}

#[test]
fn a_file_system_without_locks_is_named_with_the_way_out_and_disturbs_no_daemon() {
    let test_env = test_env();
    let trace = test_env.dir().join("trace");
    let without_locks = || {
        let mut command = test_env.command("strace");
        command
            .args([
                "-f",
                "-e",
                "trace=flock",
                "-e",
                "inject=flock:error=ENOLCK",
                "-o",
            ])
            .arg::<&PathBuf>(&trace)
            .arg(env!("CARGO_BIN_EXE_fugue"));
        command
    };
    if test_env.run("sh", &["-c", "strace -o /dev/null true"]).code != Some(0) {
        return skip(
            MissingRequirement::Program,
            "strace is not installed, or may not trace",
        );
    }
    let refused = run(without_locks(), &["ls", "--json"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    let refused = refused.refusal();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused:?}");
    assert!(
        refused.message.contains("does not support locks"),
        "{refused:?}"
    );
    assert!(
        refused
            .hint
            .as_deref()
            .unwrap_or("")
            .contains("XDG_STATE_HOME"),
        "{refused:?}"
    );
    assert!(test_env.daemons().is_empty(), "no daemon was left");
    // A daemon that runs is reached without any lock.
    let scene = Scene::new(&test_env);
    run(without_locks(), &["ls"]).ok();
    scene.is_undisturbed(&test_env);
}
