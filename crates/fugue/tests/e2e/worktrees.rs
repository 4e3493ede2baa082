//! `fugue worktree`: what workers have left in their worktrees is listed, compared and removed, and never lost by accident.

use std::{fs, path::Path};

use fugue_api::{
    wire::{GarbageKind, GarbageReport},
    worktree::{WorktreeDiff, WorktreeRemoval, WorktreeRow, WorktreeWork},
};
use fugue_testkit::{TestEnv, mcp_client::McpClient};
use serde_json::{Value, json};

use crate::team_workers::{STAYS, git, lead, next, repository, test_env};

/// A worker in a worktree that has run a command to its end.
fn worked(test_env: &TestEnv, lead: &mut McpClient, name: &str, prompt: &str) -> Value {
    let commit = "git -c user.name=t -c user.email=t@t commit -q";
    let prompt = prompt.replace("COMMIT", commit);
    let args = json!({"name": name, "agent": "shell", "prompt": prompt, "worktree": true});
    let spawned = lead.call("spawn_worker", args);
    let told = next(lead);
    assert_eq!(
        told["status"],
        json!("success"),
        "{told}\n{:?}",
        test_env.state()
    );
    spawned
}

fn rows(test_env: &TestEnv) -> Vec<WorktreeRow> {
    test_env.json(&["worktree", "ls"])
}

#[test]
fn work_that_is_nowhere_else_is_removed_only_by_force() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    let prompt = "echo two >> tracked.txt; COMMIT -am 'add two'; echo three >> tracked.txt; echo new > new.txt";
    let spawned = worked(&test_env, &mut lead, "w", prompt);
    let dir = spawned["cwd"].as_str().expect("a directory");
    fs::write(test_env.work().join("tracked.txt"), "zero\n").expect("a file");
    git(
        &test_env,
        &test_env.work(),
        &["commit", "-q", "-am", "ahead"],
    );

    let rows = rows(&test_env);
    let [row] = &rows[..] else {
        panic!("{rows:?}");
    };
    let work = WorktreeWork {
        ahead: 1,
        behind: 1,
        commits: 1,
        dirty: 2,
        unmerged: 1,
    };
    assert_eq!(
        (&*row.worker_id, &*row.branch, &*row.directory),
        ("w-shell", "fugue/w", dir)
    );
    assert_eq!(
        (row.work.as_ref(), row.live),
        (Some(&work), false),
        "{row:?}"
    );
    let shown = test_env.fugue(&["worktree", "ls"]).ok().out();
    assert!(shown.contains("1 unmerged, 2 uncommitted"), "{shown}");

    let diff: WorktreeDiff = test_env.json(&["worktree", "diff", "w-shell"]);
    assert!(diff.diff.contains("+two\n+three"), "{diff:?}");
    assert_eq!(diff.untracked, ["new.txt"]);
    let stat = test_env
        .fugue(&["worktree", "diff", "fugue/w", "--stat"])
        .ok()
        .out();
    assert!(
        stat.contains("tracked.txt | 2 ++") && stat.contains("new.txt | untracked"),
        "{stat}"
    );

    let refused = test_env.refused(&["worktree", "rm", "w-shell"], 2);
    for named in [
        "2 uncommitted files (tracked.txt, new.txt)",
        "1 unmerged commit (",
        "add two",
    ] {
        assert!(refused.message.contains(named), "{refused:?}");
    }
    assert!(refused.hint.unwrap_or_default().contains("--force"));
    assert!(Path::new(dir).join("new.txt").exists());

    let removed: Vec<WorktreeRemoval> = test_env.json(&["worktree", "rm", "w-shell", "--force"]);
    assert_eq!(removed[0].lost.len(), 2, "{removed:?}");
    assert!(!Path::new(dir).exists());
    assert_eq!(
        git(
            &test_env,
            &test_env.work(),
            &["branch", "--list", "fugue/*"]
        ),
        ""
    );
    assert_eq!(
        git(&test_env, &test_env.work(), &["worktree", "list"])
            .lines()
            .count(),
        1
    );
    assert_eq!(self::rows(&test_env), []);
    let missing = test_env.refused(&["worktree", "rm", "w-shell"], 1);
    assert!(missing.message.contains("no worktrees"), "{missing:?}");
}

#[test]
fn a_worktree_whose_work_is_merged_is_named_by_gc_and_removed_without_force() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    let spawned = worked(
        &test_env,
        &mut lead,
        "w",
        "echo two >> tracked.txt; COMMIT -am two",
    );
    let dir = spawned["cwd"].as_str().expect("a directory");
    let named = |report: &GarbageReport| {
        let mut items = report.items.iter();
        items.any(|item| item.kind == GarbageKind::Worktree && dir.ends_with(&item.path))
    };
    assert!(
        !named(&test_env.json(&["gc", "--dry-run"])),
        "it holds work"
    );
    git(&test_env, &test_env.work(), &["merge", "-q", "fugue/w"]);
    let report: GarbageReport = test_env.json(&["gc"]);
    assert!(named(&report), "{report:?}");
    assert!(Path::new(dir).exists(), "gc only names it");
    let shown = test_env.fugue(&["worktree", "ls"]).ok().out();
    assert!(shown.contains("merged"), "{shown}");
    test_env.fugue(&["worktree", "rm", "w-shell"]).ok();
    assert!(!Path::new(dir).exists());
    assert!(
        fs::read_to_string(test_env.work().join("tracked.txt"))
            .expect("a file")
            .contains("two")
    );
}

#[test]
fn a_worktree_in_use_stays_and_one_without_a_record_is_still_known() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    let args = json!({"name": "w", "agent": "shell", "prompt": STAYS, "worktree": true});
    let spawned = lead.call("spawn_worker", args);
    assert!(rows(&test_env)[0].live);
    let refused = test_env.refused(&["worktree", "rm", "w-shell", "--force"], 2);
    assert!(refused.message.contains("works in"), "{refused:?}");
    lead.call("close_pane", json!({"pane_id": spawned["pane_id"]}));
    test_env.kill_daemon();
    for name in [
        "fugue.db",
        "fugue.db-wal",
        "fugue.db-shm",
        "fugue.db.backup",
    ] {
        let _ = fs::remove_file(test_env.state().join(name));
    }
    let rows = rows(&test_env);
    assert_eq!(
        (&*rows[0].worker_id, rows[0].live),
        ("w-shell", false),
        "{rows:?}"
    );
    test_env.fugue(&["worktree", "rm", &rows[0].name]).ok();
    assert_eq!(self::rows(&test_env), []);
}
