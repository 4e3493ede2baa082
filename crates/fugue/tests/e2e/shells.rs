//! Interactive shells: their prompts, the last command with its exit code, and the user's own files left alone.

use std::{fs, time::Duration};

use fugue_api::{
    PaneId,
    pane_state::{PaneState, StateSource},
    tools::{CreatePaneReply, ReadPaneReply},
};
use fugue_testkit::{TestEnv, until, until_some};

const LIMIT: Duration = Duration::from_secs(120);
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// Types a command line and gives what `read --last` says once the command has ended.
#[track_caller]
fn last(test_env: &TestEnv, pane: PaneId, line: &str) -> ReadPaneReply {
    test_env.type_line(pane, line);
    until_some(&format!("`{line}` has ended"), LIMIT, || {
        let last = test_env.read(pane, &["--last"]);
        (last.command.as_deref() == Some(line) && last.exit_code.is_some()).then_some(last)
    })
}

#[test]
fn the_last_command_has_its_line_output_and_exit_code() {
    let test_env = test_env();
    for shell in SHELLS {
        let pane = test_env.shell(shell).pane_id;
        let check = |line: &str, output: &str, code: i32| {
            let last = last(&test_env, pane, line);
            assert_eq!(last.text.trim_end(), output, "{shell}: {line}");
            assert_eq!(last.exit_code, Some(code), "{shell}: {line}");
        };
        check("echo hello world", "hello world", 0);
        check("sh -c 'exit 7'", "", 7);
        check("printf abc", "abc", 0);
        check("false", "", 1);
        check("seq 1 3", "1\n2\n3", 0);
        check(
            "no-such-command-anywhere 2>/dev/null",
            &last(&test_env, pane, "no-such-command-anywhere 2>/dev/null").text,
            127,
        );
        if shell != "zsh" {
            // zsh takes no comments from a person.
            check("echo 'one   two' # three", "one   two", 0);
        }
        check(
            "sh -c 'kill -TERM $$'",
            &last(&test_env, pane, "sh -c 'kill -TERM $$'").text,
            143,
        );
        // What a program prints decides nothing.
        check(
            "printf '\\033]133;D;0\\007\\033]133;A\\007'; sh -c 'exit 9'",
            "",
            9,
        );
        test_env.close(pane);
    }
}

#[test]
fn a_command_that_still_runs_has_no_exit_code_and_an_interrupted_one_has_130() {
    let test_env = test_env();
    for shell in SHELLS {
        let pane = test_env.shell(shell).pane_id;
        test_env.type_line(pane, "echo start; sleep 1000");
        until("the command runs", LIMIT, || {
            let last = test_env.read(pane, &["--last"]);
            last.command.as_deref() == Some("echo start; sleep 1000") && last.text.contains("start")
        });
        assert_eq!(test_env.read(pane, &["--last"]).exit_code, None, "{shell}");
        assert_eq!(
            test_env.status(pane).state.state,
            PaneState::Running,
            "{shell}"
        );
        until("sleep is in front", LIMIT, || {
            test_env
                .processes()
                .iter()
                .any(|p| p.has_args(&["sleep", "1000"]) && p.is_in_foreground())
        });
        test_env.press(pane, &["C-c"]);
        let last = until_some("it was interrupted", LIMIT, || {
            let last = test_env.read(pane, &["--last"]);
            last.exit_code.is_some().then_some(last)
        });
        assert_eq!(last.exit_code, Some(130), "{shell}");
        until("the prompt is back", LIMIT, || {
            test_env.status(pane).state.state == PaneState::Idle
        });
        test_env.close(pane);
    }
}

#[test]
fn the_shell_tells_where_it_is() {
    let test_env = test_env();
    fs::create_dir(test_env.work().join("deep er")).expect("a directory");
    for shell in SHELLS {
        let pane = test_env.shell(shell).pane_id;
        assert_eq!(
            test_env.status(pane).cwd,
            test_env.work().to_string_lossy(),
            "{shell}"
        );
        last(&test_env, pane, "cd 'deep er'");
        let wanted = test_env.work().join("deep er");
        until("the directory is known", LIMIT, || {
            test_env.status(pane).cwd == wanted.to_string_lossy()
        });
        // A program that claims another one is not believed.
        last(
            &test_env,
            pane,
            "printf '\\033]7;file://localhost/etc\\007'",
        );
        assert_eq!(
            test_env.status(pane).cwd,
            wanted.to_string_lossy(),
            "{shell}"
        );
        test_env.close(pane);
    }
}

#[test]
fn the_users_own_files_prompt_and_history_are_left_alone() {
    let test_env = test_env();
    let home = test_env.home();
    fs::create_dir_all(home.join(".config/fish")).expect("a directory");
    // fish looks where XDG says.
    let fish = test_env.dir().join("config/fish");
    fs::create_dir_all(&fish).expect("a directory");
    #[rustfmt::skip]
    let files = [
        (home.join(".bashrc"), "PS1='mine> '; PROMPT_COMMAND='hooked=$((hooked+1))'; alias greet='echo hello from alias'; HISTFILE=~/.hist_bash\n"),
        (home.join(".zshrc"), "PS1='mine> '; precmd() { (( hooked++ )) }; alias greet='echo hello from alias'; HISTFILE=~/.hist_zsh; SAVEHIST=100; HISTSIZE=100\n"),
        (home.join(".zshenv"), "export FROM_ZSHENV=yes\n"),
        (fish.join("config.fish"), "function fish_prompt; echo 'mine> '; end; alias greet='echo hello from alias'; function hook --on-event fish_prompt; set -g hooked (math 0$hooked + 1); end\n"),
    ];
    for (path, text) in &files {
        fs::write(path, text).expect("an rc file");
    }
    for shell in SHELLS {
        let pane = test_env.shell(shell).pane_id;
        until("the user's prompt is shown", LIMIT, || {
            test_env.text(pane).contains("mine>")
        });
        assert_eq!(
            last(&test_env, pane, "greet").text.trim_end(),
            "hello from alias",
            "{shell}"
        );
        let hooked = last(&test_env, pane, "echo $hooked").text;
        assert!(
            hooked.trim().parse::<u32>().is_ok_and(|count| count >= 2),
            "{shell}: the user's hook runs: {hooked:?}"
        );
        if shell == "zsh" {
            assert_eq!(
                last(&test_env, pane, "echo $FROM_ZSHENV \"<$ZDOTDIR>\"")
                    .text
                    .trim_end(),
                "yes <>"
            );
        }
        // The secret that makes our marks ours is no program's to know.
        let env = last(&test_env, pane, "env").text;
        let exported: Vec<&str> = env
            .lines()
            .filter(|line| line.to_lowercase().contains("secret") || line.contains("133"))
            .collect();
        assert!(exported.is_empty(), "{shell}: {exported:?}");
        test_env.type_line(pane, "exit 3");
        assert_eq!(test_env.exited(pane).state.exit_code, Some(3), "{shell}");
    }
    for (path, text) in &files {
        assert_eq!(
            &fs::read_to_string(path).expect("an rc file"),
            text,
            "{path:?}"
        );
    }
    // What was typed, and nothing of ours, is in the history.
    for shell in ["bash", "zsh"] {
        let history = fs::read_to_string(home.join(format!(".hist_{shell}"))).unwrap_or_default();
        assert!(history.contains("greet"), "{shell}: {history}");
        assert!(
            !history.to_lowercase().contains("fugue"),
            "{shell}: {history}"
        );
    }
}

#[test]
fn a_shell_without_any_rc_file_comes_to_its_prompt() {
    let test_env = test_env();
    for rc in [".bashrc", ".zshrc"] {
        fs::remove_file(test_env.home().join(rc)).expect("the rc file");
    }
    for shell in ["bash", "fish", "sh"] {
        let pane: CreatePaneReply = test_env.json(&["new", "--shell", shell]);
        assert!(pane.ready, "{shell}: {pane:?}");
        test_env.type_line(pane.pane_id, "echo $((40 + 2)) || math 40 + 2");
        test_env.close(pane.pane_id);
    }
    // zsh asks new users questions, which is theirs to answer; it must not hang the call.
    let pane: CreatePaneReply = test_env.json(&["new", "--shell", "zsh"]);
    assert!(pane.pid > 0);
}

#[test]
fn panes_use_the_callers_shell_unless_told() {
    let mut test_env = test_env();
    test_env.set_env("SHELL", "/usr/bin/fish");
    let pane: CreatePaneReply = test_env.json(&["new"]);
    assert_eq!(
        last(
            &test_env,
            pane.pane_id,
            "echo $FISH_VERSION | string length -q; and echo fish"
        )
        .text
        .trim_end(),
        "fish"
    );
    // A command is bash's whatever the person's shell is.
    assert_eq!(
        test_env
            .run_to_exit("echo ${BASH_VERSION:+bash}")
            .trim_end(),
        "bash"
    );
    let pane: CreatePaneReply =
        test_env.json(&["new", "--shell", "sh", "--", "echo ${BASH_VERSION-plain}"]);
    test_env.exited(pane.pane_id);
    // Where sh is bash it says its version.
    assert!(!test_env.text(pane.pane_id).trim_end().is_empty());
}

#[test]
fn several_lines_are_one_paste_and_are_seen_to_be_taken() {
    let test_env = test_env();
    for shell in SHELLS {
        let pane = test_env.shell(shell).pane_id;
        let sent = test_env.type_line(pane, "echo first line\necho second line");
        assert!(sent.accepted);
        until("both ran", LIMIT, || {
            let text = test_env.text(pane);
            text.lines().any(|line| line == "first line")
                && text.lines().any(|line| line == "second line")
        });
        test_env.close(pane);
    }
}

#[test]
fn a_paste_cannot_break_out_of_itself() {
    let test_env = test_env();
    let canary = test_env.work().join("broken-out");
    let pane = test_env.shell("bash").pane_id;
    let hostile = format!("echo a\u{1b}[201~\ntouch {}\n", canary.display());
    test_env.json::<fugue_api::tools::SendInputReply>(&[
        "send",
        &pane.to_string(),
        &hostile,
        "--paste",
        "always",
    ]);
    // What was pasted waits on the line; had it broken out, the line would have run before this key is read.
    test_env.press(pane, &["C-c"]);
    assert_eq!(last(&test_env, pane, "echo after").text.trim_end(), "after");
    assert!(!canary.exists());
}

#[test]
fn a_shell_at_its_prompt_is_idle_by_its_own_mark() {
    let test_env = test_env();
    for shell in SHELLS {
        let pane = test_env.shell(shell).pane_id;
        let status = test_env.status(pane).state;
        assert_eq!(
            (status.state, status.by),
            (PaneState::Idle, StateSource::ShellMark),
            "{shell}"
        );
    }
}
