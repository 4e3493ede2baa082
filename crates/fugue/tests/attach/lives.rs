//! Coming, going, and what else may die.

use fugue_api::{overview::Overview, tools::CreatePaneReply};
use fugue_testkit::{ProcessRef, until};
use rustix::process::Signal;

use crate::{
    LIMIT,
    attached::{Attached, Kind},
    prompts, test_env,
};

pub fn signal(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("it is there");
}

/// The terminal is as a shell wants it.
#[track_caller]
fn is_given_back(person: &Attached) {
    assert!(person.is_cooked());
    let modes = person.terminal.modes();
    assert!(
        !modes.alternate && modes.autowrap && modes.cursor_visible,
        "{modes:?}"
    );
    assert!(!modes.bracketed_paste && !modes.focus, "{modes:?}");
    assert_eq!(modes.mouse, fugue_term::MouseMode::Off);
    assert_eq!(modes.keyboard, 0);
}

#[test]
fn plain_fugue_opens_a_session_and_detach_leaves_all_as_it_was() {
    let test_env = test_env();
    let binary = env!("CARGO_BIN_EXE_fugue");
    let mut person = Attached::program(&test_env, binary, &[], 24, 80, Kind::Modern);
    prompts(&mut person, 1);
    // A terminal that can is asked to tell keys apart.
    assert_eq!(person.terminal.modes().keyboard, 1);
    person.type_text("echo still here; cd /\r");
    person.shows("still here");
    person.command("d");
    assert!(person.ended().success());
    is_given_back(&person);
    assert!(person.text().contains("detached"), "{}", person.text());

    let mut again = Attached::new(&test_env, &[], 24, 80);
    again.shows("still here");
    again.command("d");
    assert!(again.ended().success());
    assert_eq!(test_env.overview().panes.len(), 1);
}

#[test]
fn an_old_terminal_is_not_spoken_to_in_new_words() {
    let test_env = test_env();
    let binary = env!("CARGO_BIN_EXE_fugue");
    let mut person = Attached::program(&test_env, binary, &["attach"], 24, 80, Kind::Old);
    prompts(&mut person, 1);
    assert_eq!(person.terminal.modes().keyboard, 0);
    person.type_text("echo typed\r");
    person.until("it ran", |screen| screen.matches("typed").count() == 2);
    person.command("d");
    person.ended();
    is_given_back(&person);
}

#[test]
fn signals_give_the_terminal_back() {
    let test_env = test_env();
    for kind in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut person = Attached::new(&test_env, &[], 24, 80);
        prompts(&mut person, 1);
        signal(person.pid(), kind);
        person.ended();
        is_given_back(&person);
    }
}

#[test]
fn a_killed_client_costs_nobody_anything() {
    let test_env = test_env();
    let mut other = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut other, 1);
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    other.shows("2 clients");
    person.kill();
    other.hides("2 clients");
    other.type_text("echo un''harmed\r");
    other.shows("unharmed");
}

#[test]
fn the_smallest_screen_rules_and_one_that_only_reads_does_not() {
    let test_env = test_env();
    let mut wide = Attached::new(&test_env, &[], 30, 100);
    prompts(&mut wide, 1);
    wide.type_text("stty size\r");
    wide.shows("28 100");
    let mut eyes = Attached::new(&test_env, &["--read-only"], 20, 60);
    eyes.shows("read-only");
    eyes.shows("28 100");
    eyes.type_text("echo intruder\r");
    eyes.shows("keys do not reach the pane");
    eyes.command("%");
    eyes.shows("nothing can be changed");
    let mut small = Attached::new(&test_env, &[], 20, 60);
    small.shows("3 clients");
    wide.until("the room is smaller", |screen| screen.contains("····"));
    small.type_text("stty size\r");
    small.shows("18 60");
    small.command("d");
    small.ended();
    wide.hides("····");
    wide.type_text("clear; stty size\r");
    wide.until("all of the room again", |screen| {
        screen.matches("28 100").count() == 1
    });
    let text = wide.text();
    assert!(!text.contains("intruder"), "{text}");
}

#[test]
fn a_new_size_is_the_panes_too() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.resize(40, 100);
    person.until("the status line is at the bottom", |screen| {
        screen
            .lines()
            .nth(39)
            .is_some_and(|row| row.contains("C-b ? help"))
    });
    person.type_text("stty size\r");
    person.shows("38 100");
    person.resize(10, 40);
    person.until("and again", |screen| {
        screen
            .lines()
            .nth(9)
            .is_some_and(|row| row.contains("main"))
    });
    person.type_text("clear; stty size\r");
    person.shows("8 40");
    // As small as it gets.
    for (rows, cols) in [(1, 1), (2, 5), (3, 12), (24, 80)] {
        person.resize(rows, cols);
    }
    person.type_text("clear; stty size\r");
    person.shows("22 80");
}

#[test]
fn the_daemon_may_die_under_it() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.type_text("echo before\r");
    person.shows("before");
    for round in 0..3 {
        // What is typed may be seen before the next one is there.
        until("a daemon runs", LIMIT, || !test_env.daemons().is_empty());
        let daemon: Vec<ProcessRef> = test_env.daemons();
        signal(daemon[0].pid, Signal::KILL);
        person.type_text(&format!("echo ro''und {round}\r"));
        person.shows(&format!("round {round}"));
    }
    person.hides("reconnecting");
    // Nothing was typed twice, and nothing is lost.
    let text = person.text();
    assert_eq!(text.matches("before").count(), 2, "{text}");
    assert_eq!(text.matches("\nround").count(), 3, "{text}");
    // A restart is the same.
    test_env.fugue(&["daemon", "restart"]).ok();
    person.type_text("echo af''ter\r");
    person.shows("after");
    person.command("%");
    prompts(&mut person, 2);
}

#[test]
fn a_daemon_that_was_stopped_is_started_by_a_key_only() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    test_env.fugue(&["daemon", "stop"]).ok();
    person.shows("the daemon was stopped");
    until("it is gone", LIMIT, || test_env.daemons().is_empty());
    person.type_text(" ");
    person.hides("the daemon was stopped");
    person.type_text("echo ba''ck\r");
    person.shows("back");
}

#[test]
fn it_leaves_with_the_last_pane() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.command("\"");
    prompts(&mut person, 2);
    person.type_text("exit\r");
    person.until("one is left", |screen| screen.starts_with("━ ▶"));
    person.command("x");
    person.shows("y/n");
    person.type_text("n");
    person.hides("y/n");
    person.command("x");
    person.shows("y/n");
    person.type_text("y");
    assert!(person.ended().success());
    is_given_back(&person);
    assert!(
        person.text().contains("no pane any more"),
        "{}",
        person.text()
    );
}

#[test]
fn splits_start_where_the_pane_is() {
    let test_env = test_env();
    std::fs::create_dir(test_env.work().join("deep")).expect("a directory");
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.type_text("cd deep\r");
    person.shows("cd deep");
    prompts(&mut person, 1);
    person.command("%");
    prompts(&mut person, 2);
    person.type_text("basename $PWD; echo ri''ght\r");
    person.shows("right");
    person.until("where it is", |screen| {
        screen.lines().any(|line| line.ends_with("│deep"))
    });
    // Focus goes left, and the edge is pushed.
    person.command("\x1b[D");
    person.until("focus", |screen| screen.starts_with("━ ▶"));
    let edge = |screen: &str| {
        screen
            .lines()
            .nth(3)
            .and_then(|row| row.chars().position(|c| c == '│'))
    };
    let before = edge(&person.text()).expect("a line");
    person.command("\x1b[1;5C\x1b[1;5C\x1b[1;5C");
    person.until("pushed three times", |screen| {
        edge(screen) == Some(before + 3)
    });
    // The same with the mouse, back again.
    person.type_text(&format!(
        "\x1b[<0;{};5M\x1b[<32;{};5M\x1b[<0;{};5m",
        before + 4,
        before + 1,
        before + 1
    ));
    person.until("dragged back", |screen| edge(screen) == Some(before));
    // A click focuses.
    person.type_text("\x1b[<0;60;5M\x1b[<0;60;5m");
    person.until("focus by click", |screen| screen.starts_with("─ bash"));
    person.command("}");
    person.command("z");
    person.shows("zoomed");
    person.command("z");
    person.hides("zoomed");
    person.command(" ");
    person.command("o");
    person.command(";");
    let overview: Overview = test_env.overview();
    assert_eq!(overview.panes.len(), 2);
}

#[test]
fn what_is_refused_is_told_in_words() {
    let test_env = test_env();
    let _: CreatePaneReply = test_env.json(&["new", "-s", "work", "--", "sleep 1000"]);
    let piped = test_env.fugue(&["attach"]);
    assert_eq!(piped.code, Some(1));
    assert!(piped.err().contains("needs a terminal"), "{piped}");

    let binary = env!("CARGO_BIN_EXE_fugue");
    let mut person = Attached::new(&test_env, &["nowhere"], 24, 80);
    assert_eq!(person.ended().code(), Some(1));
    assert!(
        person
            .text()
            .contains("no pane or session `nowhere`; there are: work"),
        "{}",
        person.text()
    );

    let mut command = test_env.command("setsid");
    command.args(["-c", binary, "attach"]).env("TERM", "dumb");
    let mut dumb = Attached::start(command, 24, 80, Kind::Modern);
    assert_eq!(dumb.ended().code(), Some(1));
    assert!(dumb.text().contains("TERM is `dumb`"), "{}", dumb.text());

    let mut inside = Attached::new(&test_env, &[], 24, 100);
    inside.shows("▶");
    inside.command("\"");
    prompts(&mut inside, 1);
    inside.type_text(&format!("{binary} attach\r"));
    inside.shows("cannot attach to its own session");
    until("no more clients", LIMIT, || {
        !inside.text().contains("clients")
    });
}

#[test]
fn no_colours_where_none_are_wanted() {
    let test_env = test_env();
    let binary = env!("CARGO_BIN_EXE_fugue");
    let _: CreatePaneReply = test_env.json(&[
        "new",
        "--",
        "printf '\\033[31mcol%s\\033[0m' oured; exec sleep 1000",
    ]);
    for (name, value, colour) in [
        ("NO_COLOR", "1", fugue_term::Color::Default),
        ("TERM", "xterm", fugue_term::Color::Indexed(1)),
        ("COLORTERM", "truecolor", fugue_term::Color::Indexed(1)),
    ] {
        let mut command = test_env.command("setsid");
        command.args(["-c", binary, "attach"]).env(name, value);
        let mut person = Attached::start(command, 24, 80, Kind::Modern);
        person.shows("coloured");
        assert_eq!(person.look_of("coloured").fg(), colour, "{name}={value}");
        if name == "NO_COLOR" {
            let raw = String::from_utf8_lossy(&person.raw).into_owned();
            for code in ["\x1b[0;3", "\x1b[0;1;3", "38;5", "48;5"] {
                assert!(!raw.contains(code), "{code:?}");
            }
        }
    }
}

#[test]
fn an_agent_that_waits_for_the_person_is_seen() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 100);
    prompts(&mut person, 1);
    person.type_text("echo half a li");
    person.shows("echo half a li");
    let agent = test_env.start(&["send", "p1", "echo second voi''ce", "--enter"]);
    person.shows("‖ held");
    person.type_text("ne\r");
    person.shows("second voice");
    person.hides("held");
    agent.end(LIMIT).ok();
    // The person's line was whole when the agent's came.
    let text = person.text();
    assert!(text.contains("$ echo half a line\n"), "{text}");
}

#[test]
fn keys_that_a_killed_holder_had_not_typed_are_told_and_never_typed_twice() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 100);
    prompts(&mut person, 1);
    person.type_text("echo be''gun\r");
    person.shows("begun");
    let pane = test_env.overview().panes[0].pane_id;
    let holder = test_env.holder(pane).expect("a holder");
    signal(holder.pid, Signal::STOP);
    person.type_text("x");
    let waits = || unread(holder.pid) > 0;
    until("the key waits for the holder", LIMIT, waits);
    holder.kill9();
    person.shows("may not have arrived");
    // It is gone, and the next one, behind the daemon's own notice of that death, is typed once.
    until("the holder is replaced", LIMIT, || {
        test_env
            .holder(pane)
            .is_some_and(|other| other.pid != holder.pid)
    });
    person.type_text("echo o''n\r");
    person.until("the command", |screen| {
        screen.lines().any(|line| line.trim() == "on")
    });
    assert!(!person.text().contains("xecho"), "{}", person.text());
}

/// Bytes that wait to be read by this process on the sockets that it has.
#[expect(
    clippy::disallowed_methods,
    reason = "a test asks the system's own tool"
)]
fn unread(pid: u32) -> u64 {
    let sockets = std::process::Command::new("ss")
        .args(["-xpn"])
        .output()
        .expect("ss");
    let text = String::from_utf8_lossy(&sockets.stdout).into_owned();
    let ours = text
        .lines()
        .filter(|line| line.contains(&format!("pid={pid},")));
    ours.filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok())
        .sum()
}

#[test]
fn what_a_person_types_is_no_output_to_those_who_wait_for_some() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.type_text("echo be''gun\r");
    person.shows("begun");
    let waiting = test_env.start(&["expect", "p1", "ready now|it is over"]);
    until("it is waited for", LIMIT, || {
        !test_env.overview().runs.is_empty()
    });
    let mut type_lines = |lines: std::ops::Range<u32>| {
        let line = |n: u32| format!(": ready now {n}.");
        let keys: String = lines.clone().map(|n| line(n) + "\r").collect();
        person.type_text(&keys);
        let last = line(lines.end - 1);
        person.until("the next prompt", |screen| {
            // What the terminal itself has echoed of the keys before the shell read them is without a prompt.
            let behind = screen
                .lines()
                .skip_while(|row| !row.contains('$') || !row.contains(&last));
            behind.skip(1).any(|row| row.trim() == "$")
        });
    };
    for n in 1..8 {
        type_lines(n..n + 1);
    }
    // Ahead of the shell.
    type_lines(8..18);
    person.type_text("echo it is ov''er\r");
    let came = waiting.end(LIMIT);
    let line = String::from_utf8_lossy(&came.stdout);
    assert_eq!((came.code, line.trim()), (Some(0), "it is over"));
}
