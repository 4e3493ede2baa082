//! What the verbs write to a person's terminal: text and a closed set of escape sequences, whatever names, titles, prompts,
//! messages, paths and outputs contain.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant},
};

use fugue_api::tools::CreatePaneReply;
use fugue_testkit::{TestEnv, TestPty, until};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(120);

/// Everything that we write besides text.
const OURS: &[&str] = &[
    "\r\n",
    "\r",
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[31m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[K",
    "\x1b[J",
    "\x1b[?7l",
    "\x1b[?7h",
    "\x1b[?25l",
    "\x1b[?25h",
];

/// A clipboard, a title, a cleared screen, C1, directions, what has no width, a forged line, a DEL.
const HOSTILE: &str = "x\x1b]52;c;aGk=\x07\x1b]0;owned\x1b\\\x1b[2J\u{9b}31m\u{90}q\u{9c}\u{202e}evil\u{2066}\u{200e}\
                       \u{61c}\u{200b}\u{2060}\u{feff}\u{200d}\u{e0041}\u{7f}\x08\x0c\x0e\x05y";
/// As much of it as a command line takes.
const WORDS: &str = "x\u{9b}31m\u{202e}evil\u{2066}\u{200b}\u{feff}\u{200d}y";

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// What a verb writes to a terminal.
fn on_terminal(test_env: &TestEnv, args: &[&str]) -> String {
    let mut command = test_env.command("setsid");
    command.args(["-c", env!("CARGO_BIN_EXE_fugue")]).args(args);
    let mut pty = TestPty::start(command, 30, 200);
    let mut bytes = Vec::new();
    let deadline = Instant::now() + LIMIT;
    while pty.child.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < deadline, "{args:?} goes on");
        bytes.extend(pty.read(Instant::now() + Duration::from_millis(10)));
    }
    loop {
        let more = pty.read(Instant::now());
        if more.is_empty() {
            break;
        }
        bytes.extend(more);
    }
    String::from_utf8(bytes).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// The text without what is ours. Anything that a terminal obeys or hides is a failure.
#[track_caller]
fn text_of(written: &str) -> String {
    let mut text = String::new();
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = OURS.iter().find_map(|ours| rest.strip_prefix(ours)) {
            rest = after;
            continue;
        }
        // The cursor goes up to the first of the rows that are drawn again.
        if let Some(up) = rest.strip_prefix("\x1b[") {
            let digits = up.trim_start_matches(|c: char| c.is_ascii_digit());
            if digits.len() < up.len() && digits.starts_with('A') {
                rest = &digits[1..];
                continue;
            }
        }
        let hidden = matches!(c,
            '\u{61c}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        assert!(
            c == '\t' || !c.is_control() && !hidden,
            "{c:?} in {written:?}"
        );
        text.push(c);
        rest = &rest[c.len_utf8()..];
    }
    text
}

#[track_caller]
fn check(test_env: &TestEnv, args: &[&str], says: &str) {
    let written = on_terminal(test_env, args);
    let text = text_of(&written);
    assert!(
        text.contains(says),
        "{args:?} says no {says:?}: {written:?}"
    );
    let mut args = args.to_vec();
    args.push("--json");
    text_of(&on_terminal(test_env, &args));
}

#[test]
fn no_verb_writes_what_a_terminal_obeys_or_hides() {
    let test_env = test_env();
    let script = test_env.work().join("script");
    fs::write(
        &script,
        format!("printf '%s\\n' '{HOSTILE}'; printf '\\033]2;{WORDS}\\007'; exit 3\n"),
    )
    .expect("a script");
    let run = format!(". ./script # {WORDS}");
    let name = format!("n{WORDS}");

    // A directory, a command, an output and a title of the sort; the name, where it is allowed.
    let odd = test_env.work().join(OsStr::from_bytes(
        b"dir\x1b]0;t\x07\xc2\x9b2J\xe2\x80\xae\xff",
    ));
    fs::create_dir(&odd).expect("a directory");
    fs::copy(&script, odd.join("script")).expect("a script");
    let mut new = test_env.fugue_command(["new", "--json", "--", &run]);
    new.current_dir(&odd);
    let pane: CreatePaneReply = fugue_testkit::RunningProgram::start(new)
        .end(LIMIT)
        .ok()
        .json();
    let id = pane.pane_id.to_string();
    test_env.exited(pane.pane_id);
    check(&test_env, &["ls"], &id);
    check(&test_env, &["status", &id], "evil");
    check(&test_env, &["read", &id], "evil");
    check(&test_env, &["read", &id, "-f"], "evil");
    check(&test_env, &["read", &id, "--screen"], "evil");
    let long = format!("n{}", "\u{202e}\u{200b}");
    check(&test_env, &["new", "-n", &long, "--", "exec cat"], "");
    check(&test_env, &["ls"], "n\u{fffd}\u{fffd}");

    // Errors repeat what was said.
    let written = on_terminal(&test_env, &["ls", &format!("--{WORDS}")]);
    assert!(text_of(&written).contains("evil"), "{written:?}");
    check(&test_env, &["status", &name], "evil");
    check(
        &test_env,
        &["new", "-c", &format!("/nowhere/{WORDS}")],
        "evil",
    );
    check(
        &test_env,
        &["new", "--shell", &format!("sh{WORDS}")],
        "evil",
    );

    // Runs: the live table, the report of failures, streamed steps, a line that was found.
    check(&test_env, &["parallel", &run, &run], "evil");
    check(&test_env, &["pipeline", &run], "evil");
    check(
        &test_env,
        &["expect", &id, "evil", "--lines", "100"],
        "evil",
    );
    check(
        &test_env,
        &["expect", &id, "nothing\u{202e}such", "--lines", "100"],
        "such",
    );

    // A prompt that is asked at.
    let asks = format!("printf '{WORDS}? '; read answer");
    let asking = test_env.pane(&asks);
    until("it waits for an answer", LIMIT, || {
        test_env.status(asking.pane_id).state.prompt.is_some()
    });
    check(&test_env, &["status", &asking.pane_id.to_string()], "evil");
    check(&test_env, &["ls"], "evil");

    // Messages and completions of others.
    for (round, more) in [&[][..], &["--json"]].into_iter().enumerate() {
        let worker = format!("w{round}\u{202e}\u{200b}");
        test_env
            .fugue(&[
                "notify",
                "success",
                "--session-id",
                "lead",
                "--worker-id",
                &worker,
                "--message",
                HOSTILE,
                "--change",
                WORDS,
            ])
            .ok();
        check(&test_env, &["events", "--inbox", "lead"], "evil");
        let next = ["events", "wait", "--inbox", "lead", "--timeout", "5s"];
        let written = on_terminal(&test_env, &[&next[..], more].concat());
        assert!(text_of(&written).contains("evil"), "{written:?}");
    }

    // A spawned worker's name and its last words.
    let spawn = ["spawn", "w2", &run, "--agent", "shell"];
    check(&test_env, &spawn[..], "");

    // Settings: the file's own words in an error.
    test_env.configure(&format!("keep_lines = \"{WORDS}\"\nnot{WORDS} = 1\n"));
    check(&test_env, &["config", "show"], "");
}

#[test]
fn a_pipe_gets_a_reading_as_it_is() {
    let test_env = test_env();
    // What a pane's text may hold: no controls, but whatever letters a program prints.
    let shown = "x\u{202e}evil\u{2066} 👨\u{200d}👩 tab\tend";
    let script = test_env.work().join("script");
    fs::write(&script, format!("printf '%s\\n' '{shown}'\n")).expect("a script");
    let pane = test_env.pane(". ./script");
    test_env.exited(pane.pane_id);
    let id = pane.pane_id.to_string();
    let text = test_env.read(pane.pane_id, &[]).text;
    assert_eq!(
        test_env.fugue(&["read", &id]).ok().out(),
        format!("{text}\n")
    );
    assert!(text.contains('\u{202e}'), "{text:?}");
    let followed = test_env.fugue(&["read", &id, "-f"]).ok().out();
    assert!(followed.contains('\u{202e}'), "{followed:?}");
    // A document says the same with and without escapes.
    let parsed: serde_json::Value =
        serde_json::from_str(&test_env.fugue(&["read", &id, "--json"]).ok().out()).expect("JSON");
    assert_eq!(parsed["text"], json!(text));
}
