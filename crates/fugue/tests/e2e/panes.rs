//! Panes from `new` to `close`: what the verbs do and refuse, the launch environment of a pane, and how a pane ends.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, time::Duration};

use fugue_api::{
    ErrorKind, PaneId,
    overview::Overview,
    pane_state::PaneState,
    tools::{ClosePaneReply, CreatePaneReply, PaneStatus},
};
use fugue_testkit::{RunningProgram, TestEnv, until, until_some};

const LIMIT: Duration = Duration::from_secs(120);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

#[test]
fn a_pane_is_made_listed_typed_into_read_and_closed() {
    let test_env = test_env();
    let made: CreatePaneReply = test_env.json(&[
        "new",
        "-s",
        "work",
        "-n",
        "greeter",
        "--rows",
        "10",
        "--cols",
        "50",
        "--",
        "read name; echo \"hello $name\"; exec cat",
    ]);
    assert_eq!(made.name, "greeter");
    assert_eq!(made.session.0, "work");
    assert!(made.ready);

    let all = test_env.overview();
    assert_eq!(all.panes.len(), 1);
    assert_eq!(all.panes[0].pane_id, made.pane_id);
    assert_eq!(all.panes[0].name, "greeter");
    assert_eq!(all.sessions.len(), 1);
    assert_eq!(all.sessions[0].panes, 1);

    let sent = test_env.type_line(made.pane_id, "Bach");
    assert!(sent.accepted);
    assert_eq!(sent.bytes, 5);
    test_env.until_printed(made.pane_id, |text| text.contains("hello Bach"));
    let since = test_env.read(made.pane_id, &["--since", &sent.cursor.0]);
    assert_eq!(since.text.trim_end(), "Bach\nhello Bach");

    let status = test_env.status(made.pane_id);
    assert_eq!(status.pid, made.pid);
    assert_eq!(status.session.0, "work");
    assert_eq!((status.size.rows, status.size.cols), (10, 50));
    assert!(status.command.contains("read name"), "{status:?}");
    assert_eq!(status.cwd, test_env.work().to_string_lossy());

    let closed = test_env.close(made.pane_id);
    assert_eq!(closed.pane_id, made.pane_id);
    assert!(
        closed.exit_code.is_some() || closed.signal.is_some(),
        "{closed:?}"
    );
    assert_eq!(test_env.status(made.pane_id).state.state, PaneState::Closed);
    assert!(
        test_env
            .text(made.pane_id)
            .trim_end()
            .ends_with("Bach\nhello Bach")
    );
}

#[test]
fn for_people_the_verbs_print_what_was_asked_for_and_nothing_else() {
    let test_env = test_env();
    let made = test_env
        .fugue(&["new", "-n", "one", "--", "echo hi; exit 3"])
        .ok();
    let id = made.out().trim_end().to_owned();
    assert_eq!(made.out(), format!("{id}\n"));
    let pane: PaneId = id.parse().expect("`new` prints the pane's id");
    test_env.exited(pane);
    assert_eq!(test_env.fugue(&["read", &id]).ok().out(), "hi\n");
    let listed = test_env.fugue(&["ls"]).ok().out();
    assert!(
        listed.contains(&id) && listed.contains("one") && listed.contains("exited"),
        "{listed}"
    );
    let status = test_env.fugue(&["status", &id]).ok().out();
    assert!(
        status.contains("exited") && status.contains('3'),
        "{status}"
    );
    for out in [listed, status] {
        assert!(
            !out.contains('\u{1b}'),
            "colour only on a terminal: {out:?}"
        );
    }
    // Quiet means quiet.
    let closed = test_env.fugue(&["close", "-q", &id]).ok();
    assert!(
        closed.stdout.is_empty() && closed.stderr.is_empty(),
        "{closed}"
    );
}

#[test]
fn several_words_are_one_command_each_word_kept_whole() {
    let test_env = test_env();
    let pane: CreatePaneReply =
        test_env.json(&["new", "--", "printf", "<%s>\n", "a b", "$HOME", "it's", "*"]);
    test_env.exited(pane.pane_id);
    assert_eq!(
        test_env.text(pane.pane_id).trim_end(),
        "<a b>\n<$HOME>\n<it's>\n<*>"
    );
}

#[test]
fn asking_for_help_changes_nothing() {
    let test_env = test_env();
    let mut asked = vec![vec!["--help"], vec!["--version"]];
    for verb in ["new", "ls", "send", "read", "status", "close", "daemon"] {
        asked.push(vec![verb, "--help"]);
    }
    for sub in ["run", "start", "stop", "restart", "status"] {
        asked.push(vec!["daemon", sub, "--help"]);
    }
    for args in asked {
        let ran = test_env.fugue(&args).ok();
        assert!(!ran.stdout.is_empty(), "{ran}");
    }
    // Nor does a line that is wrong.
    for args in [
        &["ls", "--no-such-flag"][..],
        &["no-such-verb"],
        &["read"],
        &["new", "--rows", "x"],
        &["send"],
    ] {
        assert_eq!(test_env.fugue(args).code, Some(2), "{args:?}");
    }
    assert!(test_env.processes().is_empty(), "no daemon was started");
    assert!(!test_env.state().exists(), "the state directory was made");
}

#[test]
fn stopping_and_asking_for_a_daemon_that_is_not_there_starts_none() {
    let test_env = test_env();
    for sub in ["status", "stop"] {
        let ran = test_env.fugue(&["daemon", sub, "--json"]);
        assert!(ran.elapsed < LIMIT, "{ran}");
        assert!(
            test_env.daemons().is_empty(),
            "{sub} started a daemon: {ran}"
        );
    }
}

#[test]
fn the_daemon_says_how_it_is_and_can_be_stopped_and_restarted() {
    let test_env = test_env();
    test_env.fugue(&["daemon", "start"]).ok();
    let first = test_env.daemon();
    assert_eq!(
        test_env.daemons().iter().map(|d| d.pid).collect::<Vec<_>>(),
        [first.pid]
    );
    assert!(fs::exists(&first.socket).expect("the socket can be looked for"));
    assert_eq!(first.panes, 0);
    let pane = test_env.pane("exec cat");
    assert_eq!(test_env.daemon().panes, 1);

    // Starting twice is once.
    test_env.fugue(&["daemon", "start"]).ok();
    assert_eq!(test_env.daemon().pid, first.pid);

    test_env.fugue(&["daemon", "restart"]).ok();
    let second = test_env.daemon();
    assert_ne!(second.pid, first.pid);
    assert!(second.epoch > first.epoch, "{second:?}");
    assert_eq!(test_env.status(pane.pane_id).pid, pane.pid);

    // Without --panes the panes live on.
    test_env.fugue(&["daemon", "stop"]).ok();
    until("the daemon is gone", LIMIT, || {
        test_env.daemons().is_empty()
    });
    assert_eq!(test_env.holders().len(), 1);
    assert_eq!(test_env.status(pane.pane_id).pid, pane.pid);

    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    until("nothing is left", LIMIT, || test_env.processes().is_empty());
}

#[test]
fn stopping_with_panes_reaches_panes_whose_daemon_was_killed() {
    let test_env = test_env();
    test_env.pane("exec sleep 1000");
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    until("the daemon is gone", LIMIT, || {
        test_env.daemons().is_empty()
    });
    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    until("nothing is left", LIMIT, || test_env.processes().is_empty());
}

#[test]
fn what_is_wrong_is_refused_at_the_door_and_nothing_happens() {
    let test_env = test_env();
    let missing = test_env.work().join("nowhere");
    let missing = missing.to_str().expect("a path in UTF-8");
    let file = test_env.work().join("file");
    fs::write(&file, "").expect("a file");
    let file = file.to_str().expect("a path in UTF-8");
    #[rustfmt::skip]
    let wrong: &[(&[&str], &[&str])] = &[
        (&["new", "--", ""], &["command"]),
        (&["new", "--", "  "], &["command"]),
        (&["new", "-c", missing, "--", "true"], &["cwd", "nowhere"]),
        (&["new", "-c", file, "--", "true"], &["cwd", "file"]),
        (&["new", "-c", "", "--", "true"], &["cwd"]),
        (&["new", "--rows", "0"], &["rows", "0"]),
        (&["new", "--rows", "1001"], &["rows", "1001", "1000"]),
        (&["new", "--cols", "0"], &["cols"]),
        (&["new", "--cols", "70000"], &["cols", "70000"]),
        (&["new", "--rows", "many"], &["rows", "many"]),
        (&["new", "-n", ""], &["name"]),
        (&["new", "-n", "p5"], &["name", "p5"]),
        (&["new", "-n", "a\nb"], &["name"]),
        (&["new", "-s", ""], &["session"]),
        (&["new", "-e", "novalue", "--", "true"], &["env", "novalue"]),
        (&["new", "-e", "=x", "--", "true"], &["env"]),
        (&["new", "--shell", "no-such-shell-anywhere"], &["shell", "no-such-shell-anywhere"]),
        (&["new", "--no-such-flag"], &["--no-such-flag"]),
        (&["send", "p1", "-k", "Entr"], &["Entr"]),
        (&["send", "p1", "-k", "F13"], &["F13"]),
        (&["send", "p1"], &["input"]),
        (&["read", "p1", "--grep", "("], &["grep", "unclosed"]),
        (&["read", "p1", "-n", "0"], &["lines", "0"]),
        (&["read", "p1", "-n", "1000001"], &["lines", "1000000"]),
        (&["read", "p1", "--max-output-chars", "0"], &["max"]),
        (&["read", "p1", "--screen", "--raw"], &["--screen", "--raw"]),
        (&["read", "p1", "--since", "nonsense"], &["since", "nonsense"]),
        (&["close", "p1", "--grace-ms", "600001"], &["grace", "600000"]),
        (&["close"], &["PANE"]),
        (&["no-such-verb"], &["no-such-verb"]),
    ];
    let pane = test_env.pane("exec cat").pane_id;
    assert_eq!(pane.to_string(), "p1");
    for (args, says) in wrong {
        let error = test_env.refused(args, 2);
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{args:?} {error:?}");
        for word in *says {
            let all = format!("{} {}", error.message, error.hint.as_deref().unwrap_or(""));
            assert!(
                all.contains(word),
                "{args:?}: {error:?} does not say {word}"
            );
        }
    }
    let all = test_env.overview();
    assert_eq!(all.panes.len(), 1, "nothing was spawned: {all:?}");
    assert_eq!(test_env.text(pane), "", "nothing was typed");
    assert_eq!(test_env.holders().len(), 1);

    // For people the same on stderr, in words.
    let ran = test_env.fugue(&["new", "--rows", "0"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err().contains("rows") && ran.stdout.is_empty(), "{ran}");
}

#[test]
fn what_is_not_there_is_not_found() {
    let test_env = test_env();
    for args in [
        &["status", "p99"][..],
        &["read", "p99"],
        &["read", "p99", "-f"],
        &["send", "p99", "x"],
        &["close", "p99"],
        &["status", "some-name"],
    ] {
        let error = test_env.refused(args, 1);
        assert_eq!(error.kind, ErrorKind::NotFound, "{args:?}");
        assert!(error.message.contains(args[1]), "{args:?}: {error:?}");
    }
}

#[test]
fn an_ended_pane_takes_no_input_and_says_so() {
    let test_env = test_env();
    let exited = test_env.pane("exit 7").pane_id;
    test_env.exited(exited);
    let closed = test_env.pane("exec cat").pane_id;
    test_env.close(closed);
    for pane in [exited, closed] {
        let error = test_env.refused(&["send", &pane.to_string(), "x"], 1);
        assert_eq!(error.kind, ErrorKind::Ended, "{error:?}");
        assert!(error.message.contains(&pane.to_string()), "{error:?}");
    }
}

#[test]
fn a_name_works_where_an_id_does_until_it_fits_two() {
    let test_env = test_env();
    let new = || -> CreatePaneReply {
        test_env.json(&["new", "-n", "build", "--", "echo I am $$; exec cat"])
    };
    let first = new();
    let status: PaneStatus = test_env.json(&["status", "build"]);
    assert_eq!(status.pane_id, first.pane_id);
    let second = new();
    for args in [
        &["status", "build"][..],
        &["send", "build", "x"],
        &["read", "build"],
        &["close", "build"],
    ] {
        let error = test_env.refused(args, 2);
        assert_eq!(error.kind, ErrorKind::Ambiguous);
        let all = format!("{} {}", error.message, error.hint.as_deref().unwrap_or(""));
        for id in [first.pane_id, second.pane_id] {
            assert!(
                all.contains(&id.to_string()),
                "{id} is a candidate: {error:?}"
            );
        }
    }
    test_env.close(first.pane_id);
    let status: PaneStatus = test_env.json(&["status", "build"]);
    assert_eq!(status.pane_id, second.pane_id, "only live panes compete");
    test_env.close(second.pane_id);
    // Ids are never used again, not even by a later daemon.
    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    let third = new();
    assert!(third.pane_id > second.pane_id, "{third:?}");
}

#[test]
fn sessions_group_panes() {
    let test_env = test_env();
    for (session, name) in [("a", "1"), ("b", "2"), ("a", "3")] {
        let _: CreatePaneReply =
            test_env.json(&["new", "-s", session, "-n", name, "--", "exec cat"]);
    }
    let unnamed = test_env.pane("exec cat");
    assert_eq!(unnamed.session.0, "main");
    let all: Overview = test_env.overview();
    let counts: Vec<(String, u64)> = all
        .sessions
        .into_iter()
        .map(|row| (row.session.0, row.panes))
        .collect();
    assert_eq!(
        counts,
        [
            ("a".to_owned(), 2),
            ("b".to_owned(), 1),
            ("main".to_owned(), 1)
        ]
    );
}

#[test]
fn a_pane_starts_in_its_callers_world_and_not_the_daemons() {
    let test_env = test_env();
    let mut start = test_env.fugue_command(["daemon", "start"]);
    start
        .env("DAEMONS_OWN", "1")
        .env("SHARED", "daemon")
        .current_dir("/");
    RunningProgram::start(start).end(LIMIT).ok();

    let sub = test_env.work().join("sub dir");
    fs::create_dir(&sub).expect("a directory");
    let mut new = test_env.command("sh");
    new.args(["-c", "umask 027 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_fugue")])
        .args(["new", "--json", "-e", "GIVEN=x y=z", "-e", "SHARED=flag", "--"])
        .arg("pwd; echo ${DAEMONS_OWN-unset} $SHARED \"<$GIVEN>\" $CALLERS; umask; printf %s \"$ODD\" | od -An -tx1")
        .env("CALLERS", "mine")
        .env("SHARED", "caller")
        .env("ODD", OsStr::from_bytes(b"\xff\xfe!"))
        .current_dir(&sub);
    let pane: CreatePaneReply = RunningProgram::start(new).end(LIMIT).ok().json();
    test_env.exited(pane.pane_id);
    assert_eq!(
        test_env.text(pane.pane_id).trim_end(),
        format!(
            "{}\nunset flag <x y=z> mine\n0027\n ff fe 21",
            sub.display()
        )
    );

    // A relative directory is the caller's too.
    let pane: CreatePaneReply = test_env.json(&["new", "-c", "sub dir", "--", "pwd"]);
    test_env.exited(pane.pane_id);
    assert_eq!(
        test_env.text(pane.pane_id).trim_end(),
        sub.to_string_lossy()
    );
}

#[test]
fn nothing_that_is_started_inherits_the_session_of_the_agent_that_asked() {
    const OF_THE_SESSION: &[&str] = &[
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_PROJECT_DIR",
        "CODEX_SANDBOX",
        "CODEX_THREAD_ID",
        "COREPACK_ENABLE_AUTO_PIN",
        "GEMINI_CLI",
        "NoDefaultCurrentDirectoryInExePath",
    ];
    const OF_THE_PERSON: &[&str] = &[
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_USE_BEDROCK",
        "CODEX_HOME",
    ];
    let mut test_env = test_env();
    for name in OF_THE_SESSION.iter().chain(OF_THE_PERSON) {
        test_env.set_env(name, "of-the-lead");
    }
    let printed = |file: &str| {
        let path = test_env.work().join(file);
        let text = until_some("the environment", LIMIT, || {
            fs::read_to_string(&path)
                .ok()
                .filter(|text| text.contains("\nEND"))
        });
        let has = |name: &&&str| {
            text.lines()
                .any(|line| line == format!("{name}=of-the-lead"))
        };
        assert_eq!(OF_THE_SESSION.iter().find(has), None, "{file}\n{text}");
        assert_eq!(
            OF_THE_PERSON.iter().filter(has).count(),
            4,
            "{file}\n{text}"
        );
        text
    };
    let print = |file: &str| format!("(env; echo; echo END) > {file}");
    test_env.fugue(&["new", "--", &print("pane")]).ok();
    printed("pane");
    test_env.fugue(&["parallel", &print("run")]).ok();
    printed("run");
    test_env.fugue(&["pipeline", &print("step")]).ok();
    printed("step");
    test_env
        .fugue(&["spawn", "w", &print("worker"), "--agent", "shell"])
        .ok();
    printed("worker");
    let shell = test_env.shell("bash");
    test_env.type_line(shell.pane_id, &print("shell"));
    printed("shell");
    test_env
        .fugue(&["new", "--backend", "tmux", "-s", "t", "--", &print("tmux")])
        .ok();
    printed("tmux");
    let handed_down = test_env.tmux(&["show-environment", "-g"]);
    assert!(!handed_down.contains("CLAUDECODE="), "{handed_down}");
    // What the call itself says is meant.
    let said = ["new", "-e", "CLAUDECODE=said", "--", &print("said")];
    test_env.fugue(&said).ok();
    assert!(printed("said").contains("\nCLAUDECODE=said\n"));
}

#[test]
fn a_pane_has_a_terminal_of_its_own_and_its_size() {
    let test_env = test_env();
    let pane: CreatePaneReply = test_env.json(&[
        "new",
        "--rows",
        "17",
        "--cols",
        "91",
        "--",
        // Field 6 is the session, 7 the terminal, 8 the group in front: all the process's own.
        "stty size; tty; test -t 0 -a -t 1 -a -t 2 && echo tty; \
         read -r _ _ _ ppid pgrp sid tty front _ < /proc/$$/stat; \
         test $$ = $pgrp -a $$ = $sid -a $$ = $front && echo leader; \
         ls -m /proc/$$/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '0\\t\\n'",
    ]);
    test_env.exited(pane.pane_id);
    let text = test_env.text(pane.pane_id);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "17 91");
    assert!(lines[1].starts_with("/dev/pts/"), "{text}");
    assert_eq!(lines[2..4], ["tty", "leader"]);
    // 255 is bash's own copy of its script or terminal.
    assert!(
        ["0, 1, 2", "0, 1, 2, 255"].contains(&lines[4]) && lines[5] == "SigBlk:SigIgn:",
        "no descriptor and no signal mask of ours leaks into a pane: {text}"
    );
}

#[test]
fn variables_of_an_outer_pane_do_not_name_an_inner_one() {
    let test_env = test_env();
    let inner = format!(
        "{} new -- 'env | grep ^FUGUE_PANE_ID=; echo end'",
        env!("CARGO_BIN_EXE_fugue")
    );
    let outer = test_env.pane(&format!("env | grep ^FUGUE; {inner}"));
    test_env.exited(outer.pane_id);
    let said = test_env.text(outer.pane_id);
    let inner: PaneId = said
        .lines()
        .last()
        .and_then(|line| line.parse().ok())
        .unwrap_or_else(|| panic!("the inner pane's id is the last line: {said}"));
    test_env.exited(inner);
    let text = test_env.text(inner);
    let wanted = format!("FUGUE_PANE_ID={inner}");
    for line in text.lines().filter(|line| *line != "end") {
        assert_eq!(line, wanted, "the inner pane is told who it is");
    }
    // Nor does that of a fugue that has nothing to do with this one.
    let mut new = test_env.fugue_command(["new", "--json", "--", "env | grep ^FUGUE_; echo end"]);
    new.env("FUGUE_PANE_ID", "p777");
    let pane: CreatePaneReply = RunningProgram::start(new).end(LIMIT).ok().json();
    test_env.exited(pane.pane_id);
    let text = test_env.text(pane.pane_id);
    assert!(!text.contains("p777"), "{text}");
}

#[test]
fn exit_codes_and_signals_are_the_kernels() {
    let test_env = test_env();
    #[rustfmt::skip]
    let ends = [
        ("true", Some(0), None),
        ("exit 1", Some(1), None),
        ("exit 42", Some(42), None),
        ("exit 255", Some(255), None),
        ("exit 256", Some(0), None),
        ("no-such-command-anywhere", Some(127), None),
        ("/etc/passwd", Some(126), None),
        ("set -e; false; true", Some(1), None),
        ("echo hi # note", Some(0), None),
        ("sleep 0.01 & exit 9", Some(9), None),
        ("exec true", Some(0), None),
        ("echo 'unclosed", Some(2), None),
        ("cat <<E\nhi\nE\nexit 4", Some(4), None),
        ("kill -KILL $$", None, Some("SIGKILL")),
        ("kill -TERM $$", None, Some("SIGTERM")),
        ("kill -SEGV $$", None, Some("SIGSEGV")),
        ("kill -HUP $$", None, Some("SIGHUP")),
        ("sh -c 'kill -KILL $$'; exit 3", Some(3), None),
        ("printf '\\033]133;D;0\\007'; exit 5", Some(5), None),
    ];
    let panes: Vec<PaneId> = ends
        .iter()
        .map(|(command, _, _)| test_env.pane(command).pane_id)
        .collect();
    for (pane, (command, code, signal)) in panes.into_iter().zip(ends) {
        let status = test_env.exited(pane);
        assert_eq!(status.state.exit_code, code, "{command}");
        assert_eq!(status.state.signal.as_deref(), signal, "{command}");
        let closed = test_env.close(pane);
        assert_eq!((closed.exit_code, closed.signal.as_deref()), (code, signal));
        assert!(closed.note.is_some(), "it had ended before: {closed:?}");
    }
}

#[test]
fn the_last_words_of_a_program_that_ends_fast_are_kept() {
    let test_env = test_env();
    for round in 0..20 {
        let pane = test_env.pane(&format!("printf 'abc{round}'")).pane_id;
        test_env.exited(pane);
        assert_eq!(test_env.text(pane), format!("abc{round}"));
        assert_eq!(test_env.raw(pane), format!("abc{round}").into_bytes());
    }
}

#[test]
fn closing_leaves_no_process_of_the_pane_behind() {
    let test_env = test_env();
    let pane = test_env.pane(
        "sleep 1001 & (sleep 1002 &) ; nohup sleep 1003 >/dev/null 2>&1 & setsid sleep 1004 & \
         sh -c 'trap \"\" HUP TERM INT; sleep 1005; sleep 1006' & \
         setsid sh -c 'trap \"\" HUP TERM; sleep 1007 & sleep 1008' & \
         echo started; trap '' HUP TERM; while :; do sleep 1009; done",
    );
    let sleeper = |seconds: u32| {
        let seconds = seconds.to_string();
        test_env
            .processes()
            .iter()
            .any(|p| p.has_args(&["sleep", &seconds]))
    };
    until("all sleepers are there", LIMIT, || {
        [1001, 1002, 1003, 1004, 1005, 1007, 1008, 1009]
            .into_iter()
            .all(sleeper)
    });
    let closed: ClosePaneReply =
        test_env.json(&["close", &pane.pane_id.to_string(), "--grace-ms", "100"]);
    assert_eq!(closed.signal.as_deref(), Some("SIGKILL"), "{closed:?}");
    let left: Vec<_> = test_env
        .processes()
        .into_iter()
        .filter(|p| p.has_args(&["sleep"]))
        .collect();
    assert!(left.is_empty(), "{left:#?}");
    // The reply waits for the pane's processes; the holder may still be exiting.
    until("the holder has ended", LIMIT, || {
        test_env.holders().is_empty()
    });
}

#[test]
fn a_program_is_given_its_grace_to_end_by_itself() {
    let test_env = test_env();
    let pane = test_env.pane(
        "trap '' HUP; trap 'echo tidied; exit 5' TERM; echo ready; while :; do sleep 0.01; done",
    );
    test_env.until_printed(pane.pane_id, |text| text.contains("ready"));
    // A grace longer than any verb may take: a close that waited it out would fail.
    let grace = LIMIT.as_millis().to_string();
    let closed: ClosePaneReply =
        test_env.json(&["close", &pane.pane_id.to_string(), "--grace-ms", &grace]);
    assert_eq!(closed.exit_code, Some(5), "{closed:?}");
    assert!(test_env.text(pane.pane_id).contains("tidied"));
}

#[test]
fn several_panes_are_closed_at_once_and_twice_is_no_error() {
    let test_env = test_env();
    let panes: Vec<String> = (0..3)
        .map(|_| test_env.pane("exec cat").pane_id.to_string())
        .collect();
    let args: Vec<&str> = ["close"]
        .into_iter()
        .chain(panes.iter().map(String::as_str))
        .collect();
    let closed: Vec<ClosePaneReply> = test_env.json(&args);
    assert_eq!(closed.len(), 3);
    assert!(closed.iter().all(|pane| pane.note.is_none()), "{closed:?}");
    let again: Vec<ClosePaneReply> = test_env.json(&args);
    assert!(again.iter().all(|pane| pane.note.is_some()), "{again:?}");
    // The reply waits for the pane's processes; a holder may still be exiting.
    until("every holder has ended", LIMIT, || {
        test_env.holders().is_empty()
    });
}

#[test]
fn keys_are_what_a_keyboard_would_send() {
    let test_env = test_env();
    let pane = test_env
        .pane("stty raw -echo; echo ready; exec od -An -v -tx1 -w1")
        .pane_id;
    test_env.until_printed(pane, |text| text.contains("ready"));
    test_env.press(
        pane,
        &[
            "Enter",
            "C-c",
            "Tab",
            "Escape",
            "Up",
            "F5",
            "M-x",
            "Backspace",
            "C-Space",
            "é",
        ],
    );
    let wanted = "0d 03 09 1b 1b 5b 41 1b 5b 31 35 7e 1b 78 7f 00 c3 a9";
    let seen = |text: &str| {
        text.split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let text = test_env.until_printed(pane, |text| seen(text).len() >= wanted.len());
    assert_eq!(seen(&text), wanted);
}

#[test]
fn the_interrupt_key_reaches_the_program_in_front() {
    let test_env = test_env();
    let pane = test_env
        .pane("trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.01; done")
        .pane_id;
    test_env.until_printed(pane, |text| text.contains("ready"));
    test_env.press(pane, &["C-c"]);
    assert_eq!(test_env.exited(pane).state.exit_code, Some(6));
    assert!(test_env.text(pane).contains("caught"));
}

#[test]
fn a_large_text_is_typed_whole() {
    let test_env = test_env();
    let pane = test_env
        .pane("stty raw -echo; echo ready; exec head -c 96000 | cksum")
        .pane_id;
    test_env.until_printed(pane, |text| text.contains("ready"));
    let text: String = (0..16_000).map(|n| format!("{n:05};")).collect();
    test_env.json::<fugue_api::tools::SendInputReply>(&[
        "send",
        &pane.to_string(),
        "--paste",
        "never",
        &text,
    ]);
    test_env.exited(pane);
    let file = test_env.work().join("typed");
    fs::write(&file, &text).expect("a file");
    let wanted = test_env.run("sh", &["-c", "cksum < typed"]).ok().out();
    let seen = test_env.text(pane);
    assert_eq!(seen.lines().nth(1).map(str::trim), Some(wanted.trim()));
}
