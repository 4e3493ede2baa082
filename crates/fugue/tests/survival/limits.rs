//! Limits: an output log at its cap, a full disk, no PTY left, and hostile bytes.

use std::{fs, path::PathBuf, time::Duration};

use fugue_api::{ErrorKind, PaneId, pane_state::PaneState, tools::CreatePaneReply};
use fugue_testkit::{MissingRequirement, TestEnv, report_metric, skip, until, until_some};

const LIMIT: Duration = Duration::from_secs(180);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// How to have mounts of one's own here, if it can be had.
fn own_mounts(test_env: &TestEnv) -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-rm"]];
    let way = ways.into_iter().find(|way| {
        let mut args = way[1..].to_vec();
        args.extend(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
        test_env.run(way[0], &args).code == Some(0)
    });
    if way.is_none() {
        skip(
            MissingRequirement::Root,
            "no mount namespace can be had here for a full disk or a lack of terminals",
        );
    }
    way
}

/// Starts the environment's daemon in a mount namespace in which `script` has been run.
fn daemon_among(test_env: &TestEnv, own: &[&str], script: &str) -> u32 {
    let script = format!("{script} && exec \"$@\"");
    let mut way = own.to_vec();
    way.extend(["sh", "-ec", &script, "sh"]);
    test_env.start_daemon_with(&way)
}

#[test]
fn a_log_at_its_cap_keeps_the_newest_and_says_what_is_gone() {
    const CAP: u64 = 2 << 20;
    let test_env = test_env();
    test_env.configure(&format!("log_cap_bytes = {CAP}\nkeep_lines = 1000\n"));
    // 12 bytes a line, 7.2 MB in all.
    let pane = test_env
        .pane("echo the very first line; read -rs _; seq 1000000000 1000599999; exit 6")
        .pane_id;
    test_env.until_printed(pane, |text| text.contains("the very first line"));
    let before = test_env.read(pane, &["-n", "1"]).cursor;
    test_env.type_line(pane, "");
    assert_eq!(test_env.exited(pane).state.exit_code, Some(6));
    for round in 0..2 {
        let (first, bytes) = test_env.log(pane);
        assert!(first > 0, "something had to go");
        let kept = bytes.len() as u64;
        assert!(
            kept <= CAP + CAP / 4,
            "{kept} bytes on disk for a cap of {CAP}"
        );
        assert!(
            kept >= CAP / 4,
            "{kept} bytes are little for a cap of {CAP}"
        );
        assert_eq!(
            first + kept,
            21 + 600_000 * 12,
            "counted from the pane's birth"
        );

        let newest = test_env.read(pane, &["-n", "3"]).text;
        assert_eq!(
            newest.trim_end(),
            "1000599997\n1000599998\n1000599999",
            "round {round}"
        );
        let all = test_env.read(pane, &["-n", "1000000", "--max-output-chars", "16000000"]);
        let lines: Vec<u64> = all
            .text
            .lines()
            .filter_map(|line| line.parse().ok())
            .filter(|n| *n >= 1_000_000_000)
            .collect();
        let oldest = *lines.first().expect("some lines are kept");
        assert!(
            lines.iter().copied().eq(oldest..=1_000_599_999),
            "no gap in what is kept"
        );
        assert!(lines.len() >= 1000);
        assert!(!all.text.contains("the very first line"));
        // What is gone is said, also to somebody who was there before.
        let since = test_env.read(
            pane,
            &[
                "--since",
                &before.0,
                "-n",
                "1000000",
                "--max-output-chars",
                "16000000",
            ],
        );
        assert!(
            since.omitted_lines > 100_000,
            "{} lines are said to be gone",
            since.omitted_lines
        );
        let shown = since
            .text
            .lines()
            .filter(|line| line.parse::<u64>().is_ok())
            .count() as u64;
        let total = shown + since.omitted_lines;
        assert!(
            (599_990..=600_010).contains(&total),
            "{shown} shown, {} gone",
            since.omitted_lines
        );
        let raw = test_env.raw(pane);
        assert!(raw.ends_with(b"1000599998\r\n1000599999\r\n"));
        test_env.fugue(&["daemon", "restart"]).ok();
    }
    let (first, _) = test_env.log(pane);
    report_metric(
        "a log at its cap",
        format!("7200021 bytes printed at a cap of {CAP}: the oldest {first} dropped and counted"),
    );
}

#[test]
fn a_full_disk_makes_the_child_wait_and_loses_nothing() {
    let test_env = test_env();
    // Panes are to be started on a disk that is as good as full.
    test_env.configure("free_disk_floor_mb = 0\n");
    let Some(own) = own_mounts(&test_env) else {
        return;
    };
    let daemon = daemon_among(
        &test_env,
        own,
        "mkdir -p \"$XDG_STATE_HOME/fugue/panes\" && chmod 700 \"$XDG_STATE_HOME/fugue\" && \
         mount -t tmpfs -o size=16m,mode=700 tmpfs \"$XDG_STATE_HOME/fugue/panes\"",
    );
    let inside = PathBuf::from(format!(
        "/proc/{daemon}/root{}",
        test_env.dir().join("state/fugue/panes").display()
    ));

    let before = test_env.pane("echo here before; exec cat").pane_id;
    test_env.until_printed(before, |text| text.contains("here before"));

    // Fill it but for half a megabyte, and let a program print six.
    let filler = inside.join("filler");
    fs::write(&filler, vec![b'x'; 1 << 20]).expect("a megabyte fits");
    let mut filled = vec![filler];
    loop {
        let more = inside.join(format!("filler{}", filled.len()));
        let wrote = fs::write(&more, vec![b'x'; 1 << 18]);
        filled.push(more);
        if wrote.is_err() {
            break;
        }
    }
    for _ in 0..3 {
        fs::remove_file(filled.pop().expect("a filler")).expect("it can be removed");
    }
    let printing: CreatePaneReply =
        test_env.json(&["new", "--", "seq 1000000000 1000499999; exit 5"]);
    let note = until_some("the pane says that the disk is full", LIMIT, || {
        test_env.status(printing.pane_id).note
    });
    assert!(
        note.to_lowercase().contains("disk") || note.to_lowercase().contains("space"),
        "{note}"
    );
    let status = test_env.status(printing.pane_id);
    assert!(
        !matches!(status.state.state, PaneState::Exited | PaneState::Closed),
        "the child waits: {status:?}"
    );

    // A new pane is refused with the reason, or nothing of it would be kept.
    let refused = test_env.refused(&["new", "--", "echo too much"], 1);
    assert_eq!(refused.kind, ErrorKind::Exhausted, "{refused:?}");
    let said = format!(
        "{} {}",
        refused.message,
        refused.hint.as_deref().unwrap_or("")
    )
    .to_lowercase();
    assert!(
        said.contains("disk") || said.contains("space"),
        "{refused:?}"
    );
    // Others are readable all the while, and the house can be looked at.
    assert_eq!(test_env.text(before).trim_end(), "here before");
    assert!(test_env.overview().panes.len() >= 2);

    for path in filled {
        fs::remove_file(path).expect("it can be removed");
    }
    // By itself.
    assert_eq!(test_env.exited(printing.pane_id).state.exit_code, Some(5));
    let text = test_env.text(printing.pane_id);
    assert!(
        text.lines()
            .map(str::to_owned)
            .eq((1_000_000_000u64..1_000_500_000).map(|n| n.to_string())),
        "every line once"
    );
    assert_eq!(test_env.raw(printing.pane_id).len(), 500_000 * 12);
    assert_eq!(
        test_env.status(printing.pane_id).note,
        None,
        "and it says so no longer"
    );
    test_env.type_line(before, "echoed");
    test_env.until_printed(before, |text| text.matches("echoed").count() == 2);
    assert_eq!(
        test_env.run_to_exit("echo works again").trim_end(),
        "works again"
    );
    report_metric(
        "a full disk",
        "the child waited, went on by itself when there was space, 6000000 bytes whole",
    );
}

#[test]
fn a_holder_killed_on_a_full_disk_loses_nothing_either() {
    let test_env = test_env();
    let Some(own) = own_mounts(&test_env) else {
        return;
    };
    let daemon = daemon_among(
        &test_env,
        own,
        "mkdir -p \"$XDG_STATE_HOME/fugue/panes\" && chmod 700 \"$XDG_STATE_HOME/fugue\" && \
         mount -t tmpfs -o size=8m,mode=700 tmpfs \"$XDG_STATE_HOME/fugue/panes\"",
    );
    let inside = PathBuf::from(format!(
        "/proc/{daemon}/root{}",
        test_env.dir().join("state/fugue/panes").display()
    ));
    let pane: CreatePaneReply =
        test_env.json(&["new", "--", "read -r _; seq 1000000000 1000099999; exit 5"]);
    let mut count = 0;
    while fs::write(inside.join(format!("filler{count}")), vec![b'x'; 1 << 18]).is_ok() {
        count += 1;
    }
    test_env.type_line(pane.pane_id, "");
    until("the disk is full", LIMIT, || {
        test_env.status(pane.pane_id).note.is_some()
    });
    let holder = test_env.holder(pane.pane_id).expect("a holder");
    holder.kill9();
    until(
        "another holder has taken its place, or cannot yet",
        LIMIT,
        || !holder.is_alive(),
    );
    assert!(
        fugue_testkit::ProcessRef::find(pane.pid).is_some(),
        "the child lives"
    );
    for number in 0..=count {
        // The last one was cut short but is there.
        fs::remove_file(inside.join(format!("filler{number}"))).expect("it can be removed");
    }
    assert_eq!(test_env.exited(pane.pane_id).state.exit_code, Some(5));
    let raw = test_env.raw(pane.pane_id);
    let wanted: String = (1_000_000_000u64..1_000_100_000)
        .map(|n| format!("{n}\r\n"))
        .collect();
    // In front of it stands the echo of the Enter key.
    assert!(
        raw.ends_with(wanted.as_bytes()) && raw.len() == wanted.len() + 2,
        "{} bytes",
        raw.len()
    );
}

#[test]
fn a_program_that_ended_on_a_full_disk_is_told_of_and_can_be_closed() {
    let test_env = test_env();
    let Some(own) = own_mounts(&test_env) else {
        return;
    };
    // Only the panes' files are on the full disk; what is stored of them has room.
    let daemon = daemon_among(
        &test_env,
        own,
        "mkdir -p \"$XDG_STATE_HOME/fugue/panes\" && chmod 700 \"$XDG_STATE_HOME/fugue\" && \
         mount -t tmpfs -o size=1m,mode=700 tmpfs \"$XDG_STATE_HOME/fugue/panes\"",
    );
    let inside = PathBuf::from(format!(
        "/proc/{daemon}/root{}",
        test_env.dir().join("state/fugue/panes").display()
    ));
    let pane: CreatePaneReply = test_env.json(&[
        "new",
        "--",
        "read -r _; echo last words; head -c 8000 /dev/zero | tr '\\0' x; exit 6",
    ]);
    let pane = pane.pane_id;
    let mut filler = fs::File::create(inside.join("filler")).expect("a file");
    while std::io::Write::write_all(&mut filler, &[b'x'; 4096]).is_ok() {}
    test_env.type_line(pane, "");
    let status = until_some("the end is told", LIMIT, || {
        let status = test_env.status(pane);
        (status.state.state == PaneState::Exited).then_some(status)
    });
    assert_eq!(status.state.exit_code, Some(6));
    let note = status.note.expect("why its output is not whole");
    assert!(
        note.contains("its program has ended") && note.contains("wait for disk space"),
        "{note}"
    );
    let read = test_env.read(pane, &[]);
    assert_eq!(read.note.as_deref(), Some(&*note));
    let closed: fugue_api::tools::ClosePaneReply = test_env.json(&["close", &pane.to_string()]);
    assert_eq!(closed.exit_code, Some(6));
    let note = closed.note.expect("what was lost");
    assert!(note.contains("could not be written and are lost"), "{note}");
    until("no process is left", LIMIT, || {
        test_env.holder(pane).is_none()
    });
}

#[test]
fn without_a_terminal_left_a_new_pane_is_refused_by_name() {
    const MAX_PANES: usize = 4;
    let test_env = test_env();
    let Some(own) = own_mounts(&test_env) else {
        return;
    };
    let script = format!(
        "mount -t devpts -o newinstance,ptmxmode=0666,max={MAX_PANES} devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx"
    );
    daemon_among(&test_env, own, &script);
    let panes: Vec<PaneId> = (0..MAX_PANES)
        .map(|n| test_env.pane(&format!("echo pane {n}; exec cat")).pane_id)
        .collect();
    let refused = test_env.refused(&["new", "--", "true"], 1);
    assert_eq!(refused.kind, ErrorKind::Exhausted, "{refused:?}");
    let said = format!(
        "{} {}",
        refused.message,
        refused.hint.as_deref().unwrap_or("")
    )
    .to_lowercase();
    assert!(
        said.contains("terminal") || said.contains("pty"),
        "{refused:?}"
    );
    assert_eq!(
        test_env
            .overview()
            .panes
            .iter()
            .filter(|row| !matches!(row.state.state, PaneState::Exited | PaneState::Closed))
            .count(),
        MAX_PANES
    );
    until("no half-made holder stays", LIMIT, || {
        test_env.holders().len() == MAX_PANES
    });
    for (n, pane) in panes.iter().enumerate() {
        assert!(
            test_env.text(*pane).contains(&format!("pane {n}")),
            "the others do not notice"
        );
    }
    test_env.close(panes[0]);
    assert_eq!(
        test_env.run_to_exit("echo works again").trim_end(),
        "works again"
    );
}

#[test]
fn a_line_without_end_is_only_a_long_line() {
    let test_env = test_env();
    let other = test_env.pane("exec cat").pane_id;
    let pane = test_env
        .pane("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo after; exit 3")
        .pane_id;
    assert_eq!(test_env.exited(pane).state.exit_code, Some(3));
    let reply = test_env.read(pane, &[]);
    assert!(reply.text.chars().count() <= 10_000);
    assert_eq!(reply.text.lines().last(), Some("after"));
    assert!(reply.omitted_chars > 4_980_000, "{}", reply.omitted_chars);
    // A bound on one line may cut it into several, but every character is there.
    let whole = test_env.text(pane);
    assert_eq!(whole.matches('x').count(), 5_000_000);
    assert_eq!(test_env.raw(pane).len(), 5_000_000 + 2 + 7);
    test_env.type_line(other, "still here");
    test_env.until_printed(other, |text| text.matches("still here").count() == 2);
}

#[test]
fn any_bytes_are_only_bytes() {
    let test_env = test_env();
    let other = test_env.pane("exec cat").pane_id;
    let before = test_env.daemon();
    let mut garbage = Vec::new();
    let mut state = 88_172_645_463_325_252u64;
    while garbage.len() < 3_000_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        garbage.extend(state.to_le_bytes());
    }
    fs::write(test_env.work().join("garbage"), &garbage).expect("a file");
    let pane = test_env
        // Without echo, so that what a terminal answers to a query in it does not stand in the output.
        .pane("stty -opost -echo; cat garbage; exit 8")
        .pane_id;
    assert_eq!(test_env.exited(pane).state.exit_code, Some(8));
    assert!(test_env.raw(pane) == garbage, "every byte is kept");
    for flags in [&[][..], &["--screen"], &["--last"], &["--grep", "a"]] {
        let mut args = vec!["read", "--json"];
        let id = pane.to_string();
        args.push(&id);
        args.extend(flags);
        let ran = test_env.fugue(&args);
        // A pane without a shell has no last command, which may be said as a refusal.
        assert!(ran.code == Some(0) || flags == ["--last"], "{ran}");
        let text = test_env
            .fugue(
                &args[..1]
                    .iter()
                    .chain(&args[2..])
                    .copied()
                    .collect::<Vec<_>>(),
            )
            .stdout;
        let bad: Vec<u8> = text
            .iter()
            .copied()
            .filter(|byte| *byte < 0x20 && *byte != b'\n' && *byte != b'\t')
            .collect();
        assert!(bad.is_empty(), "control characters for a reader: {bad:?}");
    }
    let status = test_env.status(pane);
    assert!(!status.title.chars().any(char::is_control), "{status:?}");
    assert_eq!(test_env.daemon().pid, before.pid, "the daemon is the same");
    assert_eq!(test_env.text(other), "", "nothing was typed anywhere else");
}

/// Every family of sequences that some terminal acts upon, each as `printf` writes it. `PWN` stands for a command that
/// leaves a trace.
#[rustfmt::skip]
const FAMILIES: &[(&str, &str)] = &[
    ("title", r"\033]0;PWN\007"),
    ("icon name", r"\033]1;PWN\033\\"),
    ("title, ended by ST", r"\033]2;PWN\033\\"),
    ("X property", r"\033]3;PWN=1\007"),
    ("palette", r"\033]4;1;rgb:ff/00/00\007"),
    ("palette query", r"\033]4;1;?\007"),
    ("working directory", r"\033]7;file://localhost/etc\007"),
    ("hyperlink", r"\033]8;;file:///PWN\033\\\033]8;;\033\\"),
    ("notification", r"\033]9;PWN\007"),
    ("progress", r"\033]9;4;1;50\007"),
    ("colour queries", r"\033]10;?\007\033]11;?\007\033]12;?\007"),
    ("log file", r"\033]46;/PWN\007"),
    ("font", r"\033]50;#PWN\007"),
    ("emacs and vim calls", r"\033]51;EPWN\007\033]51;[\042call\042,\042Tapi_x\042,[]]\007"),
    ("clipboard write", r"\033]52;c;UFdO\007"),
    ("clipboard read", r"\033]52;c;?\007"),
    ("shell marks", r"\033]133;A\007\033]133;B\007\033]133;C\007\033]133;D;0\007"),
    ("VS Code marks", r"\033]633;E;PWN\007\033]633;P;Cwd=/etc\007"),
    ("urxvt extension", r"\033]777;notify;PWN;PWN\007"),
    ("ConEmu macro", r"\033]9;7;PWN\007"),
    ("iTerm2 file", r"\033]1337;File=name=UFdO;inline=1:UFdO\007"),
    ("iTerm2 commands", r"\033]1337;SetMark\007\033]1337;Custom=id=x:PWN\007\033]1337;Copy=:UFdO\007"),
    ("tmux passthrough", r"\033Ptmux;\033\033]52;c;UFdO\007\033\\"),
    ("screen title and exec", r"\033kPWN\033\\"),
    ("sixel", r"\033Pq#0;2;0;0;0#0~~\033\\"),
    ("settings query", r"\033P$qm\033\\"),
    ("termcap query", r"\033P+q544e\033\\"),
    ("key definition", r"\033P0;1|17/50574e0a\033\\"),
    ("kitty graphics", r"\033_Gf=24,s=1,v=1;UFdO\033\\"),
    ("application command", r"\033_PWN\033\\"),
    ("privacy message", r"\033^PWN\033\\"),
    ("start of string", r"\033XPWN\033\\"),
    ("attributes queries", r"\033[c\033[>c\033[=c\033Z\033[>q"),
    ("status queries", r"\033[5n\033[6n\033[?6n\033[?15n\033[?25n"),
    ("mode queries", r"\033[?2004$p\033[4$p\033[?u"),
    ("window reports", r"\033[11t\033[13t\033[14t\033[18t\033[19t\033[20t\033[21t"),
    ("window orders", r"\033[8;5;5t\033[3;0;0t\033[2t\033[1t\033[9;1t\033[10;1t"),
    ("title stack", r"\033[22;0t\033[23;0t"),
    ("media copy", r"\033[?5i\033[?4i\033[5i\033[4i\033[i"),
    ("enquiry and bell", r"\005\007"),
    ("locator", r"\033[1;2\047z\033[\047|"),
    ("checksum query", r"\033[1;1;1;1;1;1*y"),
    ("linux console", r"\033[9;0]\033[11;100]\033[14;0]\033]P1ff0000\033\\"),
    ("modify keys, mouse, focus, paste", r"\033[>4;2m\033[?1000h\033[?1006h\033[?1004h\033[?2004h\033[?1000l\033[?1006l\033[?1004l\033[?2004l"),
    ("character sets", r"\033(0\033(B\033)A\033%%G\016\017"),
    ("8-bit controls as UTF-8", r"\302\205\302\220\302\233\302\234\302\235\302\236\302\237\302\234"),
    ("unended string", r"\033]0;PWN\030"),
    ("fugue's own look", r"\033]777;fugue;run;PWN\007\033]5379;PWN\007\033]1337;fugue=PWN\007"),
];

#[test]
fn nothing_that_is_printed_acts_or_leaks() {
    let test_env = test_env();
    let trace = test_env.work().join("acted");
    let pwn = format!("touch {}", trace.display());
    let mut script = String::from("stty -echo -icanon min 0 time 5\n");
    for (number, (_, sequence)) in FAMILIES.iter().enumerate() {
        let sequence = sequence.replace("PWN", &pwn);
        script.push_str(&format!("printf '{number}[{sequence}]\\n'\n"));
    }
    // Whatever the terminal typed in answer is waiting here.
    script.push_str("echo asked\ncat > typed\necho end\n");
    fs::write(test_env.work().join("families"), script).expect("a script");
    let other = test_env.pane("exec cat").pane_id;

    let pane = test_env.pane("bash families").pane_id;
    test_env.exited(pane);
    let text = test_env.text(pane);
    let lines: Vec<&str> = text.lines().collect();
    let leaks: Vec<(&str, &str)> = FAMILIES
        .iter()
        .enumerate()
        .map(|(number, (family, _))| (number, *family, lines.get(number).copied().unwrap_or("")))
        .filter(|(number, _, line)| *line != format!("{number}[]"))
        .map(|(_, family, line)| (family, line))
        .collect();
    assert!(leaks.is_empty(), "leaked into the text: {leaks:#?}");
    assert_eq!(lines[FAMILIES.len()..], ["asked", "end"]);
    // A terminal answers what it is and where its cursor stands, as programs need; but no word of theirs, no title, no
    // clipboard, no setting, and nothing that would press Enter.
    let typed = fs::read(test_env.work().join("typed")).expect("what was typed");
    let typed = String::from_utf8(typed).expect("answers are ASCII");
    assert!(!typed.contains("touch"), "{typed:?}");
    for answer in [
        "\u{1b}]l",
        "\u{1b}]L",
        "\u{1b}]52",
        "$r",
        "+r",
        "\u{1b}]4",
        "\u{1b}]50",
    ] {
        assert!(!typed.contains(answer), "{answer:?} in {typed:?}");
    }
    assert!(
        !typed
            .chars()
            .any(|c| c.is_control() && c != '\u{1b}' && c != '\u{7}'),
        "{typed:?}"
    );
    assert!(!trace.exists(), "something acted");
    let status = test_env.status(pane);
    assert_eq!(
        (status.size.rows, status.size.cols),
        (40, 120),
        "no program resizes its pane"
    );
    assert_eq!(
        status.cwd,
        test_env.work().to_string_lossy(),
        "no program moves its pane"
    );
    assert_eq!(test_env.text(other), "");
    for out in [
        test_env.fugue(&["ls"]).ok().out(),
        test_env.fugue(&["status", &pane.to_string()]).ok().out(),
    ] {
        assert!(!out.contains('\u{1b}') && !out.contains('\u{7}'), "{out:?}");
    }

    // The same typed at a shell's prompt: its marks are not taken for the shell's.
    let shell = test_env.shell("bash").pane_id;
    test_env.type_line(shell, "bash families; false");
    let last = until_some("the command has ended", LIMIT, || {
        let last = test_env.read(shell, &["--last", "-n", "1000"]);
        last.exit_code.is_some().then_some(last)
    });
    assert_eq!(last.exit_code, Some(1));
    assert_eq!(last.command.as_deref(), Some("bash families; false"));
    assert!(
        last.text.trim_end().ends_with("asked\nend"),
        "{}",
        last.text
    );
    assert!(!trace.exists(), "something acted");
    let status = test_env.status(shell);
    assert_eq!(status.cwd, test_env.work().to_string_lossy());
    report_metric(
        "escape families",
        format!(
            "{} families printed: nothing acted, nothing leaked, no word of theirs was typed in answer",
            FAMILIES.len()
        ),
    );
}
