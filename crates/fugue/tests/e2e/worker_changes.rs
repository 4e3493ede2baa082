//! The changes that completions report: a worker's own, and where they are.

use std::fs;

use serde_json::{Value, json};

use crate::team_workers::{STAYS, event, git, lead, next, repository, stop, strings, test_env};

#[test]
fn what_was_changed_before_a_worker_is_not_listed_unless_it_changed_again() {
    let test_env = test_env();
    repository(&test_env);
    let work = test_env.work();
    let write = |name: &str, text: &str| fs::write(work.join(name), text).expect("a file");
    for name in ["kept.txt", "again.txt", "reset.txt", "deleted.txt"] {
        write(name, "one\n");
    }
    git(&test_env, &work, &["add", "."]);
    git(&test_env, &work, &["commit", "-q", "-m", "second"]);
    for name in ["kept.txt", "again.txt", "reset.txt"] {
        write(name, "one\ntwo\n");
    }
    fs::remove_file(work.join("deleted.txt")).expect("a file");
    for name in ["notes.txt", "draft.txt", "scratch.txt", "[odd] *name"] {
        write(name, "mine\n");
    }
    let mut lead = lead(&test_env);
    let prompt = "touch kept.txt; echo three >> again.txt; git checkout -q reset.txt; rm scratch.txt; \
                  echo more >> draft.txt; echo new > new.txt; echo own >> tracked.txt";
    lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": prompt}),
    );
    let told = next(&mut lead);
    let mut changes = strings(&told["changes"]);
    changes.sort_unstable();
    let wanted = [
        "again.txt | 2 ++, changed before too",
        "draft.txt | untracked, changed before too",
        "new.txt | untracked",
        "reset.txt | as committed again, was changed before",
        "scratch.txt | removed, was untracked before",
        "tracked.txt | 1 +",
    ];
    let padding = |change: &str| change.split_whitespace().collect::<Vec<_>>().join(" ");
    let changes: Vec<String> = changes.into_iter().map(padding).collect();
    assert_eq!(changes, wanted, "{told}");
    assert_eq!(told.get("note"), None, "{told}");
}

#[test]
fn workers_that_share_a_directory_are_named() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    let mut spawn = |name: &str, prompt: &str, more: Value| {
        let mut args = json!({"name": name, "agent": "shell", "prompt": prompt});
        let fields = more.as_object().expect("fields").clone();
        args.as_object_mut().expect("an object").extend(fields);
        lead.call("spawn_worker", args)
    };
    spawn("early", STAYS, json!({}));
    spawn("apart", STAYS, json!({"worktree": true}));
    spawn("w", "echo two >> tracked.txt", json!({}));
    let told = next(&mut lead);
    assert_eq!(
        told["note"],
        json!("early-shell worked in the same directory; changes may be theirs"),
        "{told}"
    );
    // Who changed nothing has nothing to share.
    git(&test_env, &test_env.work(), &["checkout", "-q", "."]);
    lead.call(
        "spawn_worker",
        json!({"name": "idle", "agent": "shell", "prompt": "true"}),
    );
    assert_eq!(next(&mut lead).get("note"), None);
}

#[test]
fn a_completion_says_where_the_work_is_if_it_is_not_with_the_lead() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    let spawn = |lead: &mut fugue_testkit::mcp_client::McpClient, worktree: bool| {
        let name = format!("w{worktree}");
        let args = json!({"name": name, "agent": "shell", "prompt": STAYS, "worktree": worktree});
        lead.call("spawn_worker", args)
    };
    let beside = spawn(&mut lead, false);
    stop(&test_env, &beside, "done");
    let told = next(&mut lead);
    assert_eq!(
        (told.get("branch"), told.get("cwd")),
        (None, None),
        "{told}"
    );
    let apart = spawn(&mut lead, true);
    let dir = apart["cwd"].as_str().expect("a directory").to_owned();
    stop(&test_env, &apart, "done");
    let told = next(&mut lead);
    assert_eq!(told["branch"], json!("fugue/wtrue"), "{told}");
    assert_eq!(told["cwd"], json!(dir), "{told}");
    // The branch is the one that the worker has checked out.
    git(
        &test_env,
        dir.as_ref(),
        &["checkout", "-q", "-b", "feature"],
    );
    let pane = json!({"pane_id": apart["pane_id"]});
    let status = lead.call("get_status", pane.clone());
    assert_eq!(status["worker"]["branch"], json!("fugue/wtrue"), "{status}");
    assert_eq!(status["worker"]["cwd"], json!(dir), "{status}");
    event(&test_env, &apart, "UserPromptSubmit", json!({}));
    lead.call("close_pane", pane);
    let told = next(&mut lead);
    assert_eq!(told["branch"], json!("feature"), "{told}");
}
