//! The state of a pane (running, idle, needs input, exited) and the source of that state.

use std::{fs, time::Duration};

use fugue_api::{
    PaneId,
    pane_state::{PaneState, SourcedState, StateSource},
    tools::CreatePaneReply,
};
use fugue_testkit::{TestEnv, until, until_some};

const LIMIT: Duration = Duration::from_secs(120);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

fn state(test_env: &TestEnv, pane: PaneId) -> SourcedState {
    test_env.status(pane).state
}

/// Waits for a state that nothing announces: the daemon computes it on request.
#[track_caller]
fn until_state(test_env: &TestEnv, pane: PaneId, wanted: PaneState) -> SourcedState {
    until_some(
        &format!("{pane} is {wanted:?}"),
        Duration::from_secs(20),
        || {
            let now = state(test_env, pane);
            (now.state == wanted).then_some(now)
        },
    )
}

/// Waits until a program whose command line has these words is in front of its terminal.
fn started(test_env: &TestEnv, words: &[&str]) {
    until(&format!("{words:?} runs"), LIMIT, || {
        test_env
            .processes()
            .iter()
            .any(|p| p.has_args(words) && p.is_in_foreground())
    });
}

#[test]
fn a_program_that_waits_for_a_line_needs_input() {
    let test_env = test_env();
    #[rustfmt::skip]
    let table = [
        ("read -p 'Name? ' name; echo $name", "Name?"),
        ("python3 -c 'input(\"Your age: \")'", "Your age:"),
        ("exec cat", ""),
        ("sh -c 'printf \"Proceed [y/N] \"; read answer; echo $answer'", "Proceed [y/N]"),
        ("echo some output; echo; printf 'Continue? '; head -n 1 > /dev/null", "Continue?"),
    ];
    let panes: Vec<(PaneId, &str)> = table
        .iter()
        .map(|(command, prompt)| (test_env.pane(command).pane_id, *prompt))
        .collect();
    for (pane, prompt) in &panes {
        let state = until_state(&test_env, *pane, PaneState::NeedsInput);
        assert_eq!(state.by, StateSource::TtyRead, "{prompt}");
        assert_eq!(state.prompt.as_deref().unwrap_or("").trim_end(), *prompt);
        assert!(!state.secret, "{prompt}");
        // The overview says the same.
        let row = test_env
            .overview()
            .panes
            .into_iter()
            .find(|row| row.pane_id == *pane);
        assert_eq!(row.map(|row| row.state.state), Some(PaneState::NeedsInput));
    }
    // Answered, it goes on.
    test_env.type_line(panes[0].0, "x");
    assert_eq!(test_env.exited(panes[0].0).state.exit_code, Some(0));
}

#[test]
fn a_program_that_waits_for_a_secret_says_so() {
    let test_env = test_env();
    for (command, prompt) in [
        ("read -s -p 'Password: ' p; echo; echo ok", "Password:"),
        (
            "python3 -c 'import getpass; getpass.getpass(\"Passphrase: \")'",
            "Passphrase:",
        ),
    ] {
        let pane = test_env.pane(command).pane_id;
        let state = until_state(&test_env, pane, PaneState::NeedsInput);
        assert!(state.secret, "{state:?}");
        assert_eq!(state.by, StateSource::TtyRead);
        assert_eq!(state.prompt.as_deref().map(str::trim_end), Some(prompt));
        test_env.type_line(pane, "hunter2");
        assert_eq!(test_env.exited(pane).state.exit_code, Some(0));
        assert!(!test_env.text(pane).contains("hunter2"));
    }
}

#[test]
fn a_program_that_works_is_running() {
    let test_env = test_env();
    test_env.configure("idle_threshold_secs = 600\n");
    let sleeping = test_env.pane("exec sleep 1000").pane_id;
    let pipeline = test_env.pane("sleep 1001 | cat").pane_id;
    let counting = test_env.pane("while :; do :; done").pane_id;
    let elsewhere = test_env.pane("exec cat < /dev/zero > /dev/null").pane_id;
    let background = test_env.pane("cat < <(sleep 1002) & wait").pane_id;
    started(&test_env, &["sleep", "1000"]);
    started(&test_env, &["sleep", "1001"]);
    started(&test_env, &["sleep", "1002"]);
    for pane in [sleeping, pipeline, counting, elsewhere, background] {
        let state = state(&test_env, pane);
        assert_eq!(state.state, PaneState::Running, "{pane}: {state:?}");
        assert_eq!(state.prompt, None);
    }
}

#[test]
fn long_silence_is_idleness() {
    let test_env = test_env();
    test_env.configure("idle_threshold_secs = 1\n");
    let pane = test_env.pane("echo working; exec sleep 1000").pane_id;
    let state = until_state(&test_env, pane, PaneState::Idle);
    assert_eq!(state.by, StateSource::Silence);
    assert!(test_env.status(pane).idle_ms >= 1000);
    // One that goes on printing is not.
    let busy = test_env
        .pane("while :; do echo .; sleep 0.01; done")
        .pane_id;
    test_env.until_printed(busy, |text| text.lines().count() > 200);
    assert_eq!(self::state(&test_env, busy).state, PaneState::Running);
}

#[test]
fn a_shell_is_idle_at_its_prompt_and_running_while_a_command_runs() {
    let test_env = test_env();
    test_env.configure("idle_threshold_secs = 600\n");
    for shell in ["bash", "zsh", "fish"] {
        let pane = test_env.shell(shell).pane_id;
        let at_prompt = until_state(&test_env, pane, PaneState::Idle);
        assert_eq!(at_prompt.by, StateSource::ShellMark, "{shell}");
        test_env.type_line(pane, "sleep 1003");
        let running = until_state(&test_env, pane, PaneState::Running);
        assert_eq!(running.by, StateSource::ShellMark, "{shell}");
        started(&test_env, &["sleep", "1003"]);
        test_env.press(pane, &["C-c"]);
        until_state(&test_env, pane, PaneState::Idle);
        // A program started from the shell that asks something.
        test_env.type_line(pane, "sh -c 'printf \"Sure? \"; read x'");
        let asks = until_state(&test_env, pane, PaneState::NeedsInput);
        assert_eq!(
            (asks.by, asks.prompt.as_deref().map(str::trim_end)),
            (StateSource::TtyRead, Some("Sure?")),
            "{shell}"
        );
        test_env.type_line(pane, "y");
        until_state(&test_env, pane, PaneState::Idle);
        // A prompt that a program only pretends to show.
        test_env.type_line(
            pane,
            "printf '\\033]133;A\\007$ \\033]133;B\\007'; sleep 1004",
        );
        started(&test_env, &["sleep", "1004"]);
        assert_eq!(
            state(&test_env, pane).state,
            PaneState::Running,
            "{shell}: a forged mark decides nothing"
        );
        test_env.close(pane);
    }
}

#[test]
fn a_shell_without_marks_is_idle_at_its_prompt_too() {
    let test_env = test_env();
    test_env.configure("idle_threshold_secs = 600\n");
    let pane: CreatePaneReply = test_env.json(&["new", "--shell", "dash"]);
    until_state(&test_env, pane.pane_id, PaneState::Idle);
    test_env.type_line(pane.pane_id, "sleep 1005");
    started(&test_env, &["sleep", "1005"]);
    assert_eq!(state(&test_env, pane.pane_id).state, PaneState::Running);
}

#[test]
fn an_rc_file_that_asks_something_is_not_ready_and_says_what_it_asks() {
    let test_env = test_env();
    fs::write(
        test_env.home().join(".bashrc"),
        "read -p 'Unlock the keys? ' answer\n",
    )
    .expect("an rc file");
    let pane: CreatePaneReply = test_env.json(&["new", "--shell", "bash"]);
    assert!(!pane.ready, "{pane:?}");
    assert!(pane.note.is_some(), "it says why: {pane:?}");
    let asks = until_state(&test_env, pane.pane_id, PaneState::NeedsInput);
    assert_eq!(
        asks.prompt.as_deref().map(str::trim_end),
        Some("Unlock the keys?")
    );
    test_env.type_line(pane.pane_id, "y");
    let ready = until_state(&test_env, pane.pane_id, PaneState::Idle);
    assert_eq!(ready.by, StateSource::ShellMark);
}

#[test]
fn an_editor_in_front_is_no_question() {
    let test_env = test_env();
    let pane = test_env.pane("vim -u NONE -N").pane_id;
    until("vim shows itself", LIMIT, || {
        test_env.read(pane, &["--screen"]).text.contains('~')
    });
    // It stays so: a program in raw mode waits for keys, not for an answer.
    for _ in 0..20 {
        let state = state(&test_env, pane);
        assert!(
            matches!(state.state, PaneState::Running | PaneState::Idle),
            "{state:?}"
        );
    }
    test_env.type_line(pane, ":q!");
    test_env.exited(pane);
}

#[test]
fn an_end_is_known_by_the_exit() {
    let test_env = test_env();
    let exited = test_env.pane("exit 3").pane_id;
    test_env.exited(exited);
    let state = state(&test_env, exited);
    assert_eq!(
        (state.state, state.by, state.exit_code),
        (PaneState::Exited, StateSource::Exit, Some(3))
    );
    test_env.close(exited);
    let closed = self::state(&test_env, exited);
    assert_eq!(
        (closed.state, closed.by, closed.exit_code),
        (PaneState::Closed, StateSource::Exit, Some(3))
    );
}
