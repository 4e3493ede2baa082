//! The state of a pane (running, idle, needs input, exited) and the source of that state.

use std::{fs, time::Duration};

use fugue_api::{
    PaneId,
    pane_state::{PaneState, SourcedState, StateSource},
    tools::CreatePaneReply,
};
use fugue_testkit::{TestEnv, until, until_some};

const LIMIT: Duration = Duration::from_secs(120);

fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

fn state(world: &TestEnv, pane: PaneId) -> SourcedState {
    world.status(pane).state
}

/// Waits for a state that nothing announces: the daemon computes it on request.
#[track_caller]
fn until_state(world: &TestEnv, pane: PaneId, wanted: PaneState) -> SourcedState {
    until_some(
        &format!("{pane} is {wanted:?}"),
        Duration::from_secs(20),
        || {
            let now = state(world, pane);
            (now.state == wanted).then_some(now)
        },
    )
}

/// Waits until a program whose command line has these words is in front of its terminal.
fn started(world: &TestEnv, words: &[&str]) {
    until(&format!("{words:?} runs"), LIMIT, || {
        world
            .processes()
            .iter()
            .any(|p| p.has_args(words) && p.is_in_foreground())
    });
}

#[test]
fn a_program_that_waits_for_a_line_needs_input() {
    let world = world();
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
        .map(|(command, prompt)| (world.pane(command).pane_id, *prompt))
        .collect();
    for (pane, prompt) in &panes {
        let state = until_state(&world, *pane, PaneState::NeedsInput);
        assert_eq!(state.by, StateSource::TtyRead, "{prompt}");
        assert_eq!(state.prompt.as_deref().unwrap_or("").trim_end(), *prompt);
        assert!(!state.secret, "{prompt}");
        // The overview says the same.
        let row = world
            .overview()
            .panes
            .into_iter()
            .find(|row| row.pane_id == *pane);
        assert_eq!(row.map(|row| row.state.state), Some(PaneState::NeedsInput));
    }
    // Answered, it goes on.
    world.type_line(panes[0].0, "x");
    assert_eq!(world.exited(panes[0].0).state.exit_code, Some(0));
}

#[test]
fn a_program_that_waits_for_a_secret_says_so() {
    let world = world();
    for (command, prompt) in [
        ("read -s -p 'Password: ' p; echo; echo ok", "Password:"),
        (
            "python3 -c 'import getpass; getpass.getpass(\"Passphrase: \")'",
            "Passphrase:",
        ),
    ] {
        let pane = world.pane(command).pane_id;
        let state = until_state(&world, pane, PaneState::NeedsInput);
        assert!(state.secret, "{state:?}");
        assert_eq!(state.by, StateSource::TtyRead);
        assert_eq!(state.prompt.as_deref().map(str::trim_end), Some(prompt));
        world.type_line(pane, "hunter2");
        assert_eq!(world.exited(pane).state.exit_code, Some(0));
        assert!(!world.text(pane).contains("hunter2"));
    }
}

#[test]
fn a_program_that_works_is_running() {
    let world = world();
    world.configure("idle_threshold_secs = 600\n");
    let sleeping = world.pane("exec sleep 1000").pane_id;
    let pipeline = world.pane("sleep 1001 | cat").pane_id;
    let counting = world.pane("while :; do :; done").pane_id;
    let elsewhere = world.pane("exec cat < /dev/zero > /dev/null").pane_id;
    let background = world.pane("cat < <(sleep 1002) & wait").pane_id;
    started(&world, &["sleep", "1000"]);
    started(&world, &["sleep", "1001"]);
    started(&world, &["sleep", "1002"]);
    for pane in [sleeping, pipeline, counting, elsewhere, background] {
        let state = state(&world, pane);
        assert_eq!(state.state, PaneState::Running, "{pane}: {state:?}");
        assert_eq!(state.prompt, None);
    }
}

#[test]
fn long_silence_is_idleness() {
    let world = world();
    world.configure("idle_threshold_secs = 1\n");
    let pane = world.pane("echo working; exec sleep 1000").pane_id;
    let state = until_state(&world, pane, PaneState::Idle);
    assert_eq!(state.by, StateSource::Silence);
    assert!(world.status(pane).idle_ms >= 1000);
    // One that goes on printing is not.
    let busy = world.pane("while :; do echo .; sleep 0.01; done").pane_id;
    world.until_printed(busy, |text| text.lines().count() > 200);
    assert_eq!(self::state(&world, busy).state, PaneState::Running);
}

#[test]
fn a_shell_is_idle_at_its_prompt_and_running_while_a_command_runs() {
    let world = world();
    world.configure("idle_threshold_secs = 600\n");
    for shell in ["bash", "zsh", "fish"] {
        let pane = world.shell(shell).pane_id;
        let at_prompt = until_state(&world, pane, PaneState::Idle);
        assert_eq!(at_prompt.by, StateSource::ShellMark, "{shell}");
        world.type_line(pane, "sleep 1003");
        let running = until_state(&world, pane, PaneState::Running);
        assert_eq!(running.by, StateSource::ShellMark, "{shell}");
        started(&world, &["sleep", "1003"]);
        world.press(pane, &["C-c"]);
        until_state(&world, pane, PaneState::Idle);
        // A program started from the shell that asks something.
        world.type_line(pane, "sh -c 'printf \"Sure? \"; read x'");
        let asks = until_state(&world, pane, PaneState::NeedsInput);
        assert_eq!(
            (asks.by, asks.prompt.as_deref().map(str::trim_end)),
            (StateSource::TtyRead, Some("Sure?")),
            "{shell}"
        );
        world.type_line(pane, "y");
        until_state(&world, pane, PaneState::Idle);
        // A prompt that a program only pretends to show.
        world.type_line(
            pane,
            "printf '\\033]133;A\\007$ \\033]133;B\\007'; sleep 1004",
        );
        started(&world, &["sleep", "1004"]);
        assert_eq!(
            state(&world, pane).state,
            PaneState::Running,
            "{shell}: a forged mark decides nothing"
        );
        world.close(pane);
    }
}

#[test]
fn a_shell_without_marks_is_idle_at_its_prompt_too() {
    let world = world();
    world.configure("idle_threshold_secs = 600\n");
    let pane: CreatePaneReply = world.json(&["new", "--shell", "dash"]);
    until_state(&world, pane.pane_id, PaneState::Idle);
    world.type_line(pane.pane_id, "sleep 1005");
    started(&world, &["sleep", "1005"]);
    assert_eq!(state(&world, pane.pane_id).state, PaneState::Running);
}

#[test]
fn an_rc_file_that_asks_something_is_not_ready_and_says_what_it_asks() {
    let world = world();
    fs::write(
        world.home().join(".bashrc"),
        "read -p 'Unlock the keys? ' answer\n",
    )
    .expect("an rc file");
    let pane: CreatePaneReply = world.json(&["new", "--shell", "bash"]);
    assert!(!pane.ready, "{pane:?}");
    assert!(pane.note.is_some(), "it says why: {pane:?}");
    let asks = until_state(&world, pane.pane_id, PaneState::NeedsInput);
    assert_eq!(
        asks.prompt.as_deref().map(str::trim_end),
        Some("Unlock the keys?")
    );
    world.type_line(pane.pane_id, "y");
    let ready = until_state(&world, pane.pane_id, PaneState::Idle);
    assert_eq!(ready.by, StateSource::ShellMark);
}

#[test]
fn an_editor_in_front_is_no_question() {
    let world = world();
    let pane = world.pane("vim -u NONE -N").pane_id;
    until("vim shows itself", LIMIT, || {
        world.read(pane, &["--screen"]).text.contains('~')
    });
    // It stays so: a program in raw mode waits for keys, not for an answer.
    for _ in 0..20 {
        let state = state(&world, pane);
        assert!(
            matches!(state.state, PaneState::Running | PaneState::Idle),
            "{state:?}"
        );
    }
    world.type_line(pane, ":q!");
    world.exited(pane);
}

#[test]
fn an_end_is_known_by_the_exit() {
    let world = world();
    let exited = world.pane("exit 3").pane_id;
    world.exited(exited);
    let state = state(&world, exited);
    assert_eq!(
        (state.state, state.by, state.exit_code),
        (PaneState::Exited, StateSource::Exit, Some(3))
    );
    world.close(exited);
    let closed = self::state(&world, exited);
    assert_eq!(
        (closed.state, closed.by, closed.exit_code),
        (PaneState::Closed, StateSource::Exit, Some(3))
    );
}
