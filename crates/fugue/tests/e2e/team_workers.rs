//! Workers end to end with the agent `shell`: start, completion events, and cleanup.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use fugue_testkit::{TestEnv, mcp_client::McpClient, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(180);
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
// A worker that does nothing until it is closed.
pub const STAYS: &str = "exec tail -f /dev/null";

pub fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

pub fn lead(test_env: &TestEnv) -> McpClient {
    let mut client = McpClient::start(test_env.fugue_command(["mcp", "--session", "lead"]));
    client.initialize("2025-11-25", "test");
    client
}

fn spawn(lead: &mut McpClient, name: &str, prompt: &str) -> Value {
    let args = json!({"name": name, "agent": "shell", "prompt": prompt});
    lead.call("spawn_worker", args)
}

pub fn next(lead: &mut McpClient) -> Value {
    let args = json!({"types": ["worker_complete"], "timeout_secs": 50});
    let told = lead.call("wait_for_event", args);
    assert_eq!(told["type"], json!("worker_complete"), "{told}");
    told
}

fn nothing_more(lead: &mut McpClient) {
    let told = lead.call("wait_for_event", json!({"types": ["*"], "timeout_secs": 0}));
    assert_eq!(told["type"], json!("timeout"), "{told}");
}

/// A verb with the environment of a worker that was spawned.
fn as_worker(test_env: &TestEnv, worker: &Value, args: &[&str]) -> Command {
    let mut command = test_env.fugue_command(args);
    let said = |field: &str| worker[field].as_str().expect("a string").to_owned();
    command
        .env("FUGUE_SESSION_ID", said("session_id"))
        .env("FUGUE_AGENT_ID", said("worker_id"))
        .env("FUGUE_PANE_ID", said("pane_id"));
    command
}

/// Calls `fugue hook claude` as the agent would; it must be quick, silent and content.
fn hook(command: &mut Command, payload: &[u8]) {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the hook starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It need not read what it has no use for.
    let _ = stdin.write_all(payload);
    drop(stdin);
    let said = child.wait_with_output().expect("it ends");
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert!(said.stdout.is_empty() && said.stderr.is_empty(), "{said:?}");
    // It gives up by itself after less than a second; the rest is for a machine that does other things too.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "an agent waits for it: {:?}",
        began.elapsed()
    );
}

pub fn stop(test_env: &TestEnv, worker: &Value, message: &str) {
    let payload = json!({"hook_event_name": "Stop", "last_assistant_message": message});
    hook(
        &mut as_worker(test_env, worker, &["hook", "claude"]),
        payload.to_string().as_bytes(),
    );
}

pub fn event(test_env: &TestEnv, worker: &Value, name: &str, more: Value) {
    let mut payload = json!({"hook_event_name": name});
    let fields = more.as_object().expect("fields").clone();
    payload.as_object_mut().expect("an object").extend(fields);
    hook(
        &mut as_worker(test_env, worker, &["hook", "claude"]),
        payload.to_string().as_bytes(),
    );
}

pub fn git(test_env: &TestEnv, dir: &Path, args: &[&str]) -> String {
    let mut all = vec![
        "-C",
        dir.to_str().expect("a path"),
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t",
    ];
    all.extend(args);
    test_env.run("git", &all).ok().out()
}

/// A repository with one commit, where the environment works.
pub fn repository(test_env: &TestEnv) {
    git(test_env, &test_env.work(), &["init", "-q", "-b", "main"]);
    fs::write(test_env.work().join("tracked.txt"), "one\n").expect("a file");
    git(test_env, &test_env.work(), &["add", "."]);
    git(test_env, &test_env.work(), &["commit", "-q", "-m", "first"]);
}

pub fn strings(list: &Value) -> Vec<&str> {
    let list = list.as_array().expect("a list");
    list.iter().filter_map(Value::as_str).collect()
}

/// Nothing in the directory where fugue keeps such things.
fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
}

// Reports.

#[test]
fn the_code_the_signal_and_the_last_words_of_a_worker_are_told() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    spawn(&mut lead, "bad", "echo it broke; exit 7");
    let told = next(&mut lead);
    assert_eq!(told["status"], json!("error"));
    assert_eq!(told["exit_code"], json!(7));
    assert_eq!(told["synthesized"], json!(true));
    assert_eq!(told["message"], json!("it broke"));
    spawn(&mut lead, "killed", "kill -9 $$");
    let told = next(&mut lead);
    assert_eq!(told["signal"], json!("SIGKILL"));
    assert_eq!(told["status"], json!("error"));
    let closed = spawn(&mut lead, "closed", STAYS);
    test_env.close(closed["pane_id"].as_str().unwrap().parse().unwrap());
    assert_eq!(next(&mut lead)["worker_id"], json!("closed-shell"));
    nothing_more(&mut lead);
}

#[test]
fn a_prompt_reaches_its_worker_whole() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let prompt =
        "printf '%s|' \"it's $((1+1))\" '😀' \"a\tb\" 'back\\slash'\necho \"`echo ticks`\" # done";
    spawn(&mut lead, "w", prompt);
    let told = next(&mut lead);
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("it's 2|😀|"), "{told}");
    assert!(message.contains("back\\slash|ticks"), "{told}");
}

#[test]
fn stopped_is_not_finished_and_every_turn_is_told_once() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let worker = spawn(&mut lead, "w", STAYS);
    event(
        &test_env,
        &worker,
        "UserPromptSubmit",
        json!({"prompt": "x"}),
    );
    stop(&test_env, &worker, "first turn");
    stop(&test_env, &worker, "the same turn again");
    let told = next(&mut lead);
    assert_eq!(told["message"], json!("first turn"));
    assert_eq!(
        (&told["turn"], &told["synthesized"]),
        (&json!(1), &Value::Null)
    );
    nothing_more(&mut lead);
    event(
        &test_env,
        &worker,
        "UserPromptSubmit",
        json!({"prompt": "y"}),
    );
    let mut notify = as_worker(
        &test_env,
        &worker,
        &["notify", "success", "-m", "second turn"],
    );
    assert!(notify.output().expect("it runs").status.success());
    stop(&test_env, &worker, "behind the notice");
    let told = next(&mut lead);
    assert_eq!(told["message"], json!("second turn"));
    assert_eq!(told["turn"], json!(2));
    nothing_more(&mut lead);
    event(
        &test_env,
        &worker,
        "UserPromptSubmit",
        json!({"prompt": "z"}),
    );
    event(
        &test_env,
        &worker,
        "StopFailure",
        json!({"last_assistant_message": "no model"}),
    );
    let told = next(&mut lead);
    assert_eq!(
        (&told["turn"], &told["status"]),
        (&json!(3), &json!("error"))
    );
    // It has reported, so its end is no news.
    test_env.close(worker["pane_id"].as_str().unwrap().parse().unwrap());
    nothing_more(&mut lead);
}

#[test]
fn a_dialog_that_hooks_tell_of_is_told_once_and_again_when_it_is_another() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let worker = spawn(&mut lead, "w", STAYS);
    let asks = |command: &str| json!({"tool_name": "Bash", "tool_input": {"command": command}});
    for command in ["rm -rf x", "rm -rf y"] {
        event(&test_env, &worker, "PermissionRequest", asks(command));
        let told = lead.call("wait_for_event", json!({"types": ["worker_needs_input"]}));
        assert_eq!(told["prompt"], json!(format!("Bash: {command}")));
        assert_eq!(told["by"], json!("hook"));
        assert_eq!(told["pane_id"], worker["pane_id"]);
        assert_eq!(told["kind"], json!("permission"));
        let still = json!({"notification_type": "permission_prompt", "message": "It needs you"});
        event(&test_env, &worker, "Notification", still);
        event(&test_env, &worker, "PostToolUse", json!({}));
    }
    // Answered before anybody has heard of it.
    event(&test_env, &worker, "PermissionRequest", asks("rm -rf z"));
    event(&test_env, &worker, "PostToolUse", json!({}));
    nothing_more(&mut lead);
}

#[test]
fn the_late_words_of_an_earlier_worker_of_that_name_are_not_taken_for_the_new_ones() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let old = spawn(&mut lead, "w", "true");
    assert_eq!(next(&mut lead)["instance"], json!(1));
    let new = spawn(&mut lead, "w", STAYS);
    assert_ne!(old["pane_id"], new["pane_id"]);
    let live = lead.refused(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": "true"}),
    );
    assert!(live.message.contains("w-shell"), "{live:?}");
    let mut late = as_worker(&test_env, &old, &["notify", "success", "-m", "late"]);
    assert!(late.output().expect("it runs").status.success());
    let told = next(&mut lead);
    assert_eq!(
        (&told["instance"], &told["message"]),
        (&json!(1), &json!("late"))
    );
    stop(&test_env, &old, "later still");
    stop(&test_env, &new, "mine");
    let told = next(&mut lead);
    assert_eq!(
        (&told["instance"], &told["message"]),
        (&json!(2), &json!("mine"))
    );
    nothing_more(&mut lead);
}

// Hooks that must not be noticed.

#[test]
fn a_hook_never_breaks_its_agent() {
    let test_env = test_env();
    let payload = json!({"hook_event_name": "Stop", "last_assistant_message": "x"}).to_string();
    let nobody = json!({"session_id": "lead", "worker_id": "w-shell", "pane_id": "p1"});
    let plain = || as_worker(&test_env, &nobody, &["hook", "claude"]);
    hook(&mut plain(), payload.as_bytes());
    assert!(test_env.daemons().is_empty(), "a hook starts no daemon");
    let mut lead = lead(&test_env);
    let worker = spawn(&mut lead, "w", STAYS);
    let plain = || as_worker(&test_env, &worker, &["hook", "claude"]);
    for garbage in [
        &b""[..],
        b"\xff\xfe\x00",
        b"{",
        b"[]",
        b"null",
        b"{\"hook_event_name\": 7}",
        b"{\"hook_event_name\": \"Stop\", \"last_assistant_message\": {}",
    ] {
        hook(&mut plain(), garbage);
    }
    let huge = format!(
        "{{\"hook_event_name\": \"Stop\", \"x\": \"{}\"}}",
        "a".repeat(20 << 20)
    );
    hook(&mut plain(), huge.as_bytes());
    hook(
        &mut as_worker(&test_env, &worker, &["hook", "nobody"]),
        b"{}",
    );
    hook(
        plain().env_remove("HOME").env_remove("XDG_RUNTIME_DIR"),
        b"{}",
    );
    hook(plain().env("FUGUE_AGENT_ID", "a\nb"), payload.as_bytes());
    let gone = test_env.dir().join("gone");
    fs::create_dir(&gone).expect("a directory");
    let from_nowhere = "rmdir \"$PWD\" && exec \"$0\" \"$@\"";
    let mut command = test_env.command("sh");
    command
        .args([
            "-c",
            from_nowhere,
            env!("CARGO_BIN_EXE_fugue"),
            "hook",
            "claude",
        ])
        .current_dir(&gone);
    hook(&mut command, payload.as_bytes());
    // Only the one from before the daemon and the worker ran, which named this session.
    let told = next(&mut lead);
    assert_eq!(
        (&told["message"], &told["instance"]),
        (&json!("x"), &json!(0)),
        "{told}"
    );
    nothing_more(&mut lead);
    // And after all that it still works.
    stop(&test_env, &worker, "fine");
    assert_eq!(next(&mut lead)["message"], json!("fine"));
}

#[test]
fn a_hook_whose_agent_keeps_its_stdin_open_ends_by_itself() {
    let test_env = test_env();
    test_env.overview();
    let mut child = test_env
        .fugue_command(["hook", "claude"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the hook starts");
    let _open = child.stdin.take();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn very_long_last_words_are_cut_and_not_lost() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let worker = spawn(&mut lead, "w", STAYS);
    stop(&test_env, &worker, &"é".repeat(1_000_000));
    let told = next(&mut lead);
    assert!(told["omitted_chars"].as_u64().unwrap() > 990_000, "{told}");
    assert!(told["message"].as_str().unwrap().chars().count() < 9_000);
    let file = told["message_file"].as_str().expect("the whole message");
    assert_eq!(fs::read_to_string(file).unwrap(), "é".repeat(1_000_000));
    event(&test_env, &worker, "UserPromptSubmit", json!({}));
    stop(&test_env, &worker, "short");
    assert_eq!(next(&mut lead).get("message_file"), None);
}

// Changes and worktrees.

#[test]
fn what_a_worker_changed_is_told_also_what_git_does_not_know_yet() {
    let test_env = test_env();
    repository(&test_env);
    fs::write(test_env.work().join(".gitignore"), "ignored\n").expect("a file");
    git(&test_env, &test_env.work(), &["add", "."]);
    git(
        &test_env,
        &test_env.work(),
        &["commit", "-q", "-m", "second"],
    );
    let mut lead = lead(&test_env);
    let script = "echo two >> tracked.txt; touch ignored 'new file.txt'; \
                  git add tracked.txt; git -c user.name=t -c user.email=t@t commit -qm mine";
    spawn(&mut lead, "w", script);
    let told = next(&mut lead);
    assert_eq!(
        strings(&told["changes"]),
        ["tracked.txt | 1 +", "new file.txt | untracked"],
        "{told}"
    );
}

#[test]
fn a_repository_that_git_cannot_read_does_not_keep_a_completion_back() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    let worker = spawn(&mut lead, "w", STAYS);
    fs::write(test_env.work().join(".git/index"), "garbage").expect("a file");
    stop(&test_env, &worker, "done");
    let told = next(&mut lead);
    assert_eq!(told["message"], json!("done"));
    assert_eq!(told["changes"], json!([]));
    assert!(told["note"].as_str().unwrap().contains("git"), "{told}");
}

/// The keys of git-config(1) whose value is a program or a way to one.
const PROGRAMS: &[&str] = &[
    "alias.diff",
    "alias.x.command",
    "browser.x.cmd",
    "browser.x.path",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "credential.https://host.helper",
    "diff.external",
    "diff.guitool",
    "diff.tool",
    "diff.x.command",
    "diff.x.textconv",
    "difftool.x.cmd",
    "difftool.x.path",
    "filter.x.clean",
    "filter.x.process",
    "filter.x.smudge",
    "gc.recentObjectsHook",
    "gitcvs.dbDriver",
    "gpg.openpgp.program",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "gpg.ssh.program",
    "gpg.x509.program",
    "guitool.x.cmd",
    "help.browser",
    "hook.x.command",
    "imap.tunnel",
    "init.templateDir",
    "instaweb.browser",
    "instaweb.httpd",
    "instaweb.modulePath",
    "interactive.diffFilter",
    "man.viewer",
    "man.x.cmd",
    "man.x.path",
    "merge.guitool",
    "merge.tool",
    "merge.x.driver",
    "mergetool.x.cmd",
    "mergetool.x.path",
    "pager.diff",
    "receive.procReceiveRefs",
    "remote.origin.receivepack",
    "remote.origin.uploadpack",
    "remote.origin.vcs",
    "sendemail.ccCmd",
    "sendemail.headerCmd",
    "sendemail.sendmailCmd",
    "sendemail.smtpServer",
    "sendemail.toCmd",
    "sendemail.x.sendmailCmd",
    "sequence.editor",
    "submodule.sub.update",
    "tar.x.command",
    "trailer.x.cmd",
    "trailer.x.command",
    "uploadpack.packObjectsHook",
    "web.browser",
];

/// How the last word of a key ends whose value is a program, a way to one, or the name of a tool.
const PROGRAM_ENDINGS: &[&str] = &[
    "askpass",
    "browser",
    "clean",
    "cmd",
    "command",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "helper",
    "hook",
    "httpd",
    "pager",
    "path",
    "process",
    "procreceiverefs",
    "program",
    "receivepack",
    "smtpserver",
    "smudge",
    "templatedir",
    "textconv",
    "tool",
    "tunnel",
    "uploadpack",
    "vcs",
    "viewer",
];

/// Keys that end alike, or with a word of one's own, and name no program, or are set by [`booby_trap`] in their own way.
const NO_PROGRAMS: &[&str] = &[
    "bundle.*",
    "bundle.<id>.*",
    "column.clean",
    "core.hooksPath",
    "core.quotePath",
    "credential.useHttpPath",
    "diff.<driver>.cachetextconv",
    "extensions.*",
    "feature.*",
    "help.htmlPath",
    "http.<url>.*",
    "http.sslCAPath",
    "include.path",
    "includeIf.<condition>.path",
    "notes.rewrite.<command>",
    "pretty.<name>",
    "remotes.<group>",
    "sendemail.smtpSSLCertPath",
    "sideband.<url>.*",
];

/// Sections of switches and colours.
const SECTIONS_WITHOUT_PROGRAMS: &[&str] =
    &["advice.", "color.", "fetch.fsck.", "fsck.", "receive.fsck."];

const HOOKS: &[&str] = &[
    "applypatch-msg",
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "pre-auto-gc",
    "pre-commit",
    "reference-transaction",
];

/// Makes a repository name a program that leaves a mark, in every way that there is. `way` says where the keys stand.
fn booby_trap(test_env: &TestEnv, way: &str) -> PathBuf {
    let work = test_env.work();
    let mark = test_env.dir().join(format!("was-run-{way}"));
    let run = test_env.dir().join(format!("run-{way}"));
    let script = format!(
        "#!/bin/sh\necho \"$0 $*\" >> {}\nexec cat\n",
        mark.display()
    );
    fs::write(&run, script).expect("a file");
    test_env
        .run("chmod", &["+x", run.to_str().expect("text")])
        .ok();
    let run = run.to_str().expect("text");
    let file = match way {
        "config" => work.join(".git/config"),
        _ => test_env.dir().join("included"),
    };
    let file = file.to_str().expect("text");
    if way == "included" {
        let condition = format!("includeIf.gitdir:{}/.path", work.display());
        git(test_env, &work, &["config", &condition, file]);
    }
    for key in PROGRAMS {
        let value = match *key {
            "submodule.sub.update" => format!("!{run}"),
            _ => run.to_owned(),
        };
        git(test_env, &work, &["config", "-f", file, key, &value]);
    }
    let others = [
        // Since git 2.54.
        ("hook.x.event", "reference-transaction"),
        ("filter.x.required", "true"),
        ("log.showSignature", "true"),
        ("protocol.ext.allow", "always"),
        ("submodule.recurse", "true"),
        ("diff.submodule", "log"),
        // What is missing is fetched from here.
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
    ];
    for (key, value) in others {
        git(test_env, &work, &["config", "-f", file, key, value]);
    }
    let url = format!("ext::{run} %S");
    git(
        test_env,
        &work,
        &["config", "-f", file, "remote.origin.url", &url],
    );
    git(
        test_env,
        &work,
        &["config", "-f", file, "core.repositoryformatversion", "1"],
    );
    // In the repository's own place, and where a key says.
    let hooks = test_env.dir().join("hooks");
    for dir in [work.join(".git/hooks"), hooks.clone()] {
        fs::create_dir_all(&dir).expect("a directory");
        for hook in HOOKS {
            fs::copy(run, dir.join(hook)).expect("a hook");
        }
    }
    if way == "included" {
        let hooks = hooks.to_str().expect("text");
        git(
            test_env,
            &work,
            &["config", "-f", file, "core.hooksPath", hooks],
        );
    }
    fs::write(
        work.join(".git/info/attributes"),
        "* filter=x diff=x merge=x\n",
    )
    .expect("a file");
    mark
}

/// Puts a program before git that writes down what fugue's calls of git say of configured hooks, and then is git. Versions
/// of git that know no such hooks know the keys. Returns the file with a line for each call.
fn record_git_calls(test_env: &mut TestEnv) -> PathBuf {
    let (dir, calls) = (
        test_env.dir().join("before-git"),
        test_env.dir().join("calls"),
    );
    fs::create_dir(&dir).expect("a directory");
    let git = test_env.run("sh", &["-c", "command -v git"]).ok().out();
    let git = git.trim();
    let script = format!(
        "#!/bin/sh\n[ -z \"$GIT_NO_LAZY_FETCH\" ] || echo \"$* | $({git} config hook.x.enabled) \
         $({git} config hook.reference-transaction.enabled)\" >> {}\nexec {git} \"$@\"\n",
        calls.display()
    );
    let program = dir.join("git");
    fs::write(&program, script).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let path = test_env.run("sh", &["-c", "echo \"$PATH\""]).ok().out();
    test_env.set_env("PATH", format!("{}:{}", dir.display(), path.trim()));
    calls
}

/// Whether a key of `git help --config` stands for this key: `<tool>` and `*` stand for any word.
fn stands_for(listed: &str, key: &str) -> bool {
    let (listed, key): (Vec<_>, Vec<_>) = (listed.split('.').collect(), key.split('.').collect());
    let is_any = |word: &str| word.starts_with('<') || word == "*";
    let mut words = listed.iter().zip(&key);
    listed.len() == key.len()
        && words.all(|(listed, word)| is_any(listed) || listed.eq_ignore_ascii_case(word))
}

#[test]
fn every_key_of_this_git_that_names_a_program_is_known() {
    let listed = test_env().run("git", &["help", "--config"]).ok().out();
    let names_program = |key: &&str| {
        let last = key.rsplit('.').next().unwrap_or_default();
        let last = last.to_lowercase();
        PROGRAM_ENDINGS.iter().any(|ending| last.ends_with(ending))
            || last.starts_with('<')
            || last == "*"
    };
    // The list ends with an empty line and a hint.
    let keys = listed.lines().take_while(|line| !line.is_empty());
    let named: Vec<&str> = keys.filter(names_program).collect();
    assert!(named.len() > 40, "{listed}");
    let is_known = |listed: &&str| {
        let mut sections = SECTIONS_WITHOUT_PROGRAMS.iter();
        NO_PROGRAMS.contains(listed)
            || sections.any(|section| listed.starts_with(section))
            || PROGRAMS.iter().any(|key| stands_for(listed, key))
    };
    let unknown: Vec<_> = named.iter().filter(|listed| !is_known(listed)).collect();
    assert!(
        unknown.is_empty(),
        "not tried by `nothing_that_a_repository_names_is_run`: {unknown:?}"
    );
}

#[test]
fn nothing_that_a_repository_names_is_run() {
    for way in ["config", "included"] {
        for worktree in [false, true] {
            let mut test_env = test_env();
            let calls = record_git_calls(&mut test_env);
            repository(&test_env);
            let work = test_env.work();
            fs::write(work.join(".gitattributes"), "* filter=x diff=x merge=x\n").expect("a file");
            // A submodule is a repository with a configuration of its own.
            let sub = work.join("sub");
            fs::create_dir(&sub).expect("a directory");
            git(&test_env, &sub, &["init", "-q"]);
            fs::write(sub.join("inner"), "one\n").expect("a file");
            git(&test_env, &sub, &["add", "."]);
            git(&test_env, &sub, &["commit", "-q", "-m", "inner"]);
            git(&test_env, &work, &["add", "."]);
            git(&test_env, &work, &["commit", "-q", "-m", "second"]);
            let inner = test_env.dir().join("was-run-inner");
            let touch = format!("touch {}; cat", inner.display());
            git(&test_env, &sub, &["config", "filter.y.clean", &touch]);
            git(&test_env, &sub, &["config", "core.fsmonitor", &touch]);
            fs::write(sub.join(".git/info/attributes"), "* filter=y\n").expect("a file");
            fs::write(sub.join("inner"), "two\n").expect("a file");
            let mark = booby_trap(&test_env, way);
            let what = format!("{way}, worktree: {worktree}");
            let ran = || fs::read_to_string(&mark).unwrap_or_default();

            let mut lead = lead(&test_env);
            let args = json!({"name": "w", "agent": "shell", "worktree": worktree,
                "prompt": "echo two >> tracked.txt; echo new > new.txt"});
            lead.call("spawn_worker", args);
            let told = next(&mut lead);
            assert_eq!(ran(), "", "{what}");
            assert!(!inner.exists(), "{what}");
            let changes = strings(&told["changes"]);
            assert!(changes.contains(&"tracked.txt | 1 +"), "{what}: {told}");
            assert!(changes.contains(&"new.txt | untracked"), "{what}: {told}");

            let calls = fs::read_to_string(&calls).expect("git was called");
            let changes =
                |call: &&str| call.contains(" worktree add ") || call.contains(" branch ");
            let changes: Vec<&str> = calls.lines().filter(changes).collect();
            assert_eq!(changes.is_empty(), !worktree, "{what}: {calls}");
            let without_hooks = |call: &&str| call.ends_with(" | false false");
            assert!(changes.iter().all(without_hooks), "{what}: {calls}");

            // The trap is set: git alone runs what the repository names.
            test_env.run("git", &["diff"]);
            assert!(ran().contains("run-"), "{what}");

            // An object that is not there is not fetched, and is said to be missing.
            let blob = git(&test_env, &work, &["rev-parse", "HEAD:tracked.txt"]);
            let (dir, rest) = blob.trim().split_at(2);
            fs::remove_file(work.join(".git/objects").join(dir).join(rest)).expect("a blob");
            fs::remove_file(&mark).ok();
            let args = json!({"name": "lazy", "agent": "shell", "worktree": worktree,
                "prompt": "echo three >> tracked.txt"});
            if worktree {
                let refused = lead.refused("spawn_worker", args);
                assert!(
                    refused.message.starts_with("worktree:"),
                    "{what}: {refused:?}"
                );
            } else {
                lead.call("spawn_worker", args);
                let told = next(&mut lead);
                let note = told["note"].as_str().unwrap_or_default();
                assert!(note.contains("git"), "{what}: {told}");
            }
            assert_eq!(ran(), "", "{what}");
        }
    }
}

#[test]
fn a_filter_that_the_person_defined_is_used() {
    let test_env = test_env();
    repository(&test_env);
    let work = test_env.work();
    git(
        &test_env,
        &work,
        &["config", "--global", "filter.up.clean", "tr A-Z a-z"],
    );
    git(
        &test_env,
        &work,
        &["config", "--global", "filter.up.smudge", "tr a-z A-Z"],
    );
    fs::write(work.join(".gitattributes"), "*.txt filter=up\n").expect("a file");
    git(&test_env, &work, &["add", "."]);
    git(&test_env, &work, &["commit", "-q", "-m", "second"]);
    let mut lead = lead(&test_env);
    let args = json!({"name": "w", "agent": "shell", "worktree": true,
        "prompt": "cat tracked.txt; git status --short; touch tracked.txt"});
    lead.call("spawn_worker", args);
    let told = next(&mut lead);
    assert_eq!(told["changes"], json!([]), "{told}");
    assert_eq!(told["message"], json!("ONE"), "{told}");
}

#[test]
fn a_worktree_has_its_branch_and_keeps_the_work_apart() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    let args = json!({"name": "w", "agent": "shell", "worktree": true,
        "prompt": "echo two >> tracked.txt; echo x > made.txt; git branch --show-current"});
    let made = lead.call("spawn_worker", args.clone());
    assert_eq!(made["branch"], json!("fugue/w"));
    let told = next(&mut lead);
    assert_eq!(
        strings(&told["changes"]),
        ["tracked.txt | 1 +", "made.txt | untracked"]
    );
    assert_eq!(told["message"], json!("fugue/w"));
    let tree = Path::new(made["cwd"].as_str().unwrap()).to_owned();
    assert!(tree.join("made.txt").exists());
    assert!(!test_env.work().join("made.txt").exists());
    let ours = fs::read_to_string(test_env.work().join("tracked.txt")).unwrap();
    assert_eq!(ours, "one\n");
    // The work of the first stays where it is.
    let again = lead.call("spawn_worker", args);
    assert_ne!(again["branch"], made["branch"]);
    assert_ne!(again["cwd"], made["cwd"]);
    next(&mut lead);
}

#[test]
fn a_worktree_outside_a_repository_is_refused_and_leaves_nothing() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let args = json!({"name": "w", "agent": "shell", "worktree": true, "prompt": "true"});
    let refused = lead.refused("spawn_worker", args.clone());
    assert!(refused.message.starts_with("worktree:"), "{refused:?}");
    git(&test_env, &test_env.work(), &["init", "-q"]);
    let refused = lead.refused("spawn_worker", args);
    assert!(refused.message.contains("with a commit"), "{refused:?}");
    nothing_left(&test_env, &mut lead);
}

/// No files, no pane, no event, and the name is free.
fn nothing_left(test_env: &TestEnv, lead: &mut McpClient) {
    assert!(is_empty(&test_env.state().join("workers")));
    assert!(is_empty(&test_env.state().join("worktrees")));
    let overview = lead.call("get_status", json!({}));
    assert_eq!(overview["panes"], json!([]));
    assert_eq!(overview["workers"], Value::Null);
    nothing_more(lead);
}

#[test]
fn a_worker_whose_program_is_missing_leaves_no_trace() {
    let test_env = test_env();
    repository(&test_env);
    test_env.configure("[agents.ghost]\ncommand = [\"no-such-program\", \"{prompt_file}\"]\n");
    let mut lead = lead(&test_env);
    let refused = lead.refused(
        "spawn_worker",
        json!({"name": "w", "agent": "ghost", "worktree": true, "prompt": "boo"}),
    );
    assert!(refused.message.contains("no-such-program"), "{refused:?}");
    nothing_left(&test_env, &mut lead);
    assert_eq!(
        git(
            &test_env,
            &test_env.work(),
            &["branch", "--list", "fugue/*"]
        ),
        ""
    );
}

#[test]
fn a_worker_whose_pane_cannot_be_opened_leaves_no_trace() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    lead.call("get_status", json!({}));
    // Where panes are kept, nothing can be made.
    let panes = test_env.state().join("panes");
    let _ = fs::remove_dir(&panes);
    fs::write(&panes, "").expect("a file in its place");
    let args = json!({"name": "w", "agent": "shell", "worktree": true, "prompt": "true"});
    lead.refused("spawn_worker", args.clone());
    nothing_left(&test_env, &mut lead);
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
    fs::remove_file(&panes).expect("it is there");
    fs::create_dir(&panes).expect("a directory");
    let made = lead.call("spawn_worker", args);
    assert_eq!(made["branch"], json!("fugue/w"));
    next(&mut lead);
}

// What a worker waits for.

#[test]
fn a_worker_that_reads_a_line_says_so_and_goes_on_when_it_has_one() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let worker = spawn(
        &mut lead,
        "w",
        "read -rp 'go on? ' word; echo \"got $word\"",
    );
    let told = lead.call(
        "wait_for_event",
        json!({"types": ["worker_needs_input"], "timeout_secs": 50}),
    );
    assert_eq!(told["worker_id"], json!("w-shell"));
    assert_eq!(told["prompt"], json!("go on?"), "{told}");
    assert_eq!(told["by"], json!("tty_read"));
    let pane = worker["pane_id"].as_str().unwrap();
    let row = lead.call("get_status", json!({"pane_id": pane}));
    assert_eq!(row["worker"]["state"], json!("needs_input"), "{row}");
    test_env.fugue(&["send", pane, "yes", "--enter"]).ok();
    let told = next(&mut lead);
    assert_eq!(told["status"], json!("success"));
    assert!(
        told["message"].as_str().unwrap().contains("got yes"),
        "{told}"
    );
}

#[test]
fn a_worker_that_takes_longer_than_it_may_is_told_of_and_goes_on() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let args = json!({"name": "w", "agent": "shell", "prompt": STAYS, "deadline_secs": 0.3});
    let worker = lead.call("spawn_worker", args);
    let told = lead.call(
        "wait_for_event",
        json!({"types": ["*"], "timeout_secs": 50}),
    );
    assert_eq!(told["type"], json!("worker_late"));
    assert_eq!(told["worker_id"], json!("w-shell"));
    let pane = worker["pane_id"].as_str().unwrap();
    assert_eq!(test_env.status(pane.parse().unwrap()).state.exit_code, None);
    nothing_more(&mut lead);
}

#[test]
fn a_message_for_a_worker_that_rests_is_typed_into_its_pane() {
    let test_env = test_env();
    test_env.configure(
        "idle_threshold_secs = 0.3\n[agents.reader]\ncommand = [\"bash\", \"{prompt_file}\"]\n",
    );
    let mut lead = lead(&test_env);
    let prompt = "while read -r line; do echo \"<$line>\"; done";
    let args = json!({"name": "w", "agent": "reader", "prompt": prompt});
    let worker = lead.call("spawn_worker", args);
    let pane = worker["pane_id"].as_str().unwrap().parse().unwrap();
    let args = json!({"to": "w-reader", "body": "go on", "deliver": "type"});
    lead.call("send_message", args);
    test_env.until_printed(pane, |text| text.contains("<Message from lead: go on>"));
    until("what was typed is taken", WAIT_TIMEOUT, || {
        let left: Value = test_env.json(&["events", "--inbox", "lead/w-reader.1"]);
        left["events"] == json!([])
    });
}

// Daemons that die.

#[test]
fn workers_that_end_while_daemons_die_complete_once_each() {
    let test_env = test_env();
    repository(&test_env);
    let mut lead = lead(&test_env);
    for name in ["a", "b", "c", "d"] {
        spawn(&mut lead, name, "read -r _; exit 3");
        for daemon in test_env.daemons() {
            daemon.kill9();
        }
    }
    let overview = lead.call("get_status", json!({}));
    let rows = overview["workers"].as_array().expect("rows").clone();
    assert_eq!(rows.len(), 4);
    for row in rows {
        test_env
            .fugue(&["send", row["pane_id"].as_str().unwrap(), "-k", "Enter"])
            .ok();
        for daemon in test_env.daemons() {
            daemon.kill9();
        }
    }
    let mut told = Vec::new();
    for _ in 0..4 {
        let event = next(&mut lead);
        assert_eq!(event["exit_code"], json!(3));
        told.push(event["worker_id"].as_str().unwrap().to_owned());
    }
    told.sort();
    assert_eq!(told, ["a-shell", "b-shell", "c-shell", "d-shell"]);
    until("no completion is under way", WAIT_TIMEOUT, || {
        let overview = lead.call("get_status", json!({}));
        let rows = overview["workers"].as_array().expect("rows").clone();
        rows.iter().all(|row| row["state"] == json!("failed"))
    });
    let told = lead.call("wait_for_event", json!({"timeout_secs": 0}));
    assert_eq!(told["type"], json!("timeout"), "{told}");
}
