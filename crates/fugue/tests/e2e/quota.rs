//! The limits of disk space: a quota over all output logs, a floor of free space, and `fugue gc`.

use std::{fs, time::Duration};

use fugue_api::{
    ErrorKind, PaneId,
    wire::{ForgetReason, GarbageKind, GarbageReport},
};
use fugue_testkit::{MissingRequirement, TestEnv, skip, until};

const LIMIT: Duration = Duration::from_secs(180);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// A pane that prints 2,000,000 bytes and ends.
fn two_megabytes(test_env: &TestEnv) -> PaneId {
    let pane = test_env
        .pane("stty -opost; yes 0123456789 | head -c 2000000")
        .pane_id;
    test_env.exited(pane);
    pane
}

fn has_directory(test_env: &TestEnv, pane: PaneId) -> bool {
    test_env
        .state()
        .join("panes")
        .join(pane.to_string())
        .exists()
}

#[test]
fn beyond_the_quota_the_oldest_ended_panes_go_with_their_files() {
    let test_env = test_env();
    test_env.configure("logs_quota_mb = 5\n");
    let panes: Vec<PaneId> = (0..4).map(|_| two_megabytes(&test_env)).collect();
    until("the oldest are forgotten", LIMIT, || {
        !has_directory(&test_env, panes[0]) && !has_directory(&test_env, panes[1])
    });
    let gone = test_env.refused(&["status", &panes[0].to_string()], 1);
    assert_eq!(gone.kind, ErrorKind::NotFound);
    assert_eq!(test_env.raw(panes[3]).len(), 2_000_000);
    let logs = test_env.daemon().logs;
    assert_eq!(logs.ended_bytes, 4_000_000);
    assert_eq!(logs.quota_bytes, Some(5 << 20));
    assert_eq!(logs.note, None);
}

#[test]
fn running_panes_may_exceed_the_quota_and_the_daemon_says_so() {
    let test_env = test_env();
    test_env.configure("logs_quota_mb = 1\n");
    let ended = two_megabytes(&test_env);
    let pane = test_env
        .pane("yes 0123456789 | head -c 4000000; echo; echo through; exec cat")
        .pane_id;
    test_env.until_printed(pane, |text| text.contains("through"));
    until("the daemon says so", LIMIT, || {
        test_env.daemon().logs.note.is_some()
    });
    let said = test_env.fugue(&["daemon", "status"]);
    assert!(said.err().contains("logs_quota_mb"), "{}", said.err());
    let log = fs::read_to_string(test_env.state().join("daemon.log")).expect("a log");
    assert!(log.contains("output logs exceed the quota"), "{log}");
    until("what can go has gone", LIMIT, || {
        !has_directory(&test_env, ended)
    });
    test_env.type_line(pane, "still here");
    test_env.until_printed(pane, |text| text.contains("still here\nstill here"));
    test_env.close(pane);
    until("that is over soon after the pane's end", LIMIT, || {
        test_env.daemon().logs.note.is_none()
    });
}

#[test]
fn below_the_floor_nothing_is_started_and_gc_makes_room() {
    let test_env = test_env();
    let ways: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-rm"]];
    let own = ways.into_iter().find(|way| {
        let mut args = way[1..].to_vec();
        args.extend(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
        test_env.run(way[0], &args).code == Some(0)
    });
    let Some(own) = own else {
        skip(
            MissingRequirement::Root,
            "no mount namespace can be had here for a full disk",
        );
        return;
    };
    // Only the logs are there: clients outside must find the socket.
    let script = "panes=$XDG_STATE_HOME/fugue/panes; mkdir -p -m 700 \"$panes\" && chmod 700 \"$XDG_STATE_HOME/fugue\" \
                  && mount -t tmpfs -o size=64m,mode=700 tmpfs \"$panes\" && exec \"$@\"";
    let mut way = own.to_vec();
    way.extend(["sh", "-ec", script, "sh"]);
    test_env.start_daemon_with(&way);
    let stays = test_env.pane("exec cat").pane_id;
    // The floor is a twentieth of this disk: 3.2 MB. One pane's output takes 6 MB, and the next pane fills the rest.
    let prints = test_env.pane("yes 0123456789 | head -c 6000000").pane_id;
    test_env.exited(prints);
    let fills = "free=$(df --output=avail -B1 \"$XDG_STATE_HOME/fugue/panes\" | tail -n 1); \
                 head -c $((free - 2000000)) /dev/zero > \"$XDG_STATE_HOME/fugue/panes/filler\"";
    test_env.exited(test_env.pane(fills).pane_id);
    let refused = test_env.refused(&["new", "--", "true"], 1);
    assert_eq!(refused.kind, ErrorKind::Exhausted);
    assert!(refused.message.contains("MB are free"), "{refused}");
    assert!(refused.message.contains("the floor is 3 MB"), "{refused}");
    assert!(
        refused.hint.as_deref().unwrap_or("").contains("fugue gc"),
        "{refused:?}"
    );
    for verb in [
        vec!["parallel", "true"],
        vec!["pipeline", "true"],
        vec!["spawn", "w", "true", "--agent", "shell"],
    ] {
        assert_eq!(
            test_env.refused(&verb, 1).kind,
            ErrorKind::Exhausted,
            "{verb:?}"
        );
    }
    test_env.type_line(stays, "goes on");
    test_env.until_printed(stays, |text| text.contains("goes on\ngoes on"));
    let planned: GarbageReport = test_env.json(&["gc", "--ended", "--dry-run"]);
    assert_eq!(planned.items.len(), 2, "{planned:?}");
    let collected: GarbageReport = test_env.json(&["gc", "--ended"]);
    assert_eq!(collected.items, planned.items);
    assert!(collected.freed_bytes > 6_000_000, "{collected:?}");
    test_env.pane("true");
}

#[test]
fn gc_shows_what_it_removes_and_spares_what_is_needed() {
    let test_env = test_env();
    let lives = test_env.pane("exec cat").pane_id;
    let ended = test_env.pane("echo out").pane_id;
    test_env.exited(ended);
    let state = test_env.state();
    // A daemon of an earlier day left these: a pane and a worker without a record, and a damaged database.
    test_env.json::<serde_json::Value>(&["spawn", "w", "true", "--agent", "shell"]);
    let next = test_env.pane("exec cat").pane_id;
    test_env.close(next);
    let nothing: GarbageReport = test_env.json(&["gc", "--dry-run"]);
    assert_eq!(nothing.items, [], "all that is there is on record");
    for (path, size) in [
        ("panes/p0/out.0", 200_000),
        ("workers/0/prompt", 10_000),
        ("fugue.db.damaged-1", 50_000),
    ] {
        let path = state.join(path);
        fs::create_dir_all(path.parent().expect("below the state")).expect("a directory");
        fs::write(path, vec![b'x'; size]).expect("a file");
    }
    let planned: GarbageReport = test_env.json(&["gc", "--dry-run"]);
    let found: Vec<(GarbageKind, &str)> = planned
        .items
        .iter()
        .map(|item| (item.kind, item.path.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (GarbageKind::StrayPane, "panes/p0"),
            (GarbageKind::StrayWorker, "workers/0"),
            (GarbageKind::DamagedDatabase, "fugue.db.damaged-1"),
        ]
    );
    assert!(planned.freed_bytes >= 260_000, "{planned:?}");
    assert!(state.join("panes/p0/out.0").exists(), "a dry run is dry");
    let collected: GarbageReport = test_env.json(&["gc"]);
    assert_eq!(collected.items, planned.items);
    for item in &collected.items {
        assert!(!state.join(&item.path).exists(), "{item:?}");
    }
    let asked: GarbageReport = test_env.json(&["gc", "--ended"]);
    let asked_for = |pane: PaneId| {
        asked.items.iter().any(|item| {
            item.path == format!("panes/{pane}") && item.reason == Some(ForgetReason::Asked)
        })
    };
    assert!(asked_for(ended) && !asked_for(lives), "{asked:?}");
    assert!(has_directory(&test_env, lives));
    test_env.close(lives);
}
