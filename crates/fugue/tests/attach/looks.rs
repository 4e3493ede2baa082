//! What it looks like: every picture of `docs/attach` is a screen that is compared here.

use std::fs;

use fugue_api::{PaneId, pane_state::PaneState, tools::CreatePaneReply};
use fugue_testkit::{TestEnv, until};

use crate::{LIMIT, attached::Attached, prompts, test_env};

/// The two sizes in which everything is looked at.
const SIZES: [(u16, u16, &str); 2] = [(24, 80, "80x24"), (50, 200, "200x50")];

fn in_both(name: &str, scene: impl Fn(&TestEnv, u16, u16, &dyn Fn(&mut Attached))) {
    for (rows, cols, size) in SIZES {
        let test_env = test_env();
        let keep = |person: &mut Attached| person.golden(&format!("{name}-{size}"));
        scene(&test_env, rows, cols, &keep);
    }
}

fn pane(test_env: &TestEnv, name: &str, command: &str) -> PaneId {
    let made: CreatePaneReply = test_env.json(&["new", "-n", name, "--", command]);
    made.pane_id
}

fn shell(test_env: &TestEnv, name: &str) -> PaneId {
    let made: CreatePaneReply = test_env.json(&["new", "-n", name]);
    made.pane_id
}

#[track_caller]
fn is(test_env: &TestEnv, pane: PaneId, state: PaneState) {
    until(&format!("{pane} is {state:?}"), LIMIT, || {
        test_env.status(pane).state.state == state
    });
}

#[test]
fn one_pane() {
    in_both("one-pane", |test_env, rows, cols, keep| {
        let mut person = Attached::new(test_env, &[], rows, cols);
        prompts(&mut person, 1);
        person.type_text("echo hello from $((6*7)) people\r");
        person.shows("hello from 42 people");
        person.until("idle again", |screen| screen.contains("○ idle"));
        keep(&mut person);
    });
}

const SOURCE: &str = "\
//! Voices that enter one after another.

/// One voice, and the bar in which it enters.
pub struct Voice {
    pub name: &'static str,
    pub enters_at: u32,
}

fn main() {
    let voices = [\"soprano\", \"alto\", \"tenor\", \"bass\"];
    for (bar, name) in voices.iter().enumerate() {
        println!(\"bar {}: {name}\", bar * 4);
    }
}
";

const COLOURS: &str = r#"
for i in 0 1 2 3 4 5 6 7; do printf '\033[4%dm    ' $i; done; printf '\033[0m\n'
for i in 0 1 2 3 4 5 6 7; do printf '\033[10%dm    ' $i; done; printf '\033[0m\n'
for i in $(seq 0 31); do printf '\033[48;2;%d;%d;%dm ' $((i*8)) 96 $((255-i*8)); done; printf '\033[0m\n'
printf '\033[1mbold\033[0m \033[2mdim\033[0m \033[3mitalic\033[0m \033[4munder\033[0m \033[7mreverse\033[0m \033[9mstruck\033[0m\n'
printf '\033[4:3mcurly\033[0m \033[31mred\033[0m \033[32mgreen\033[0m \033[33myellow\033[0m \033[34mblue\033[0m\n'
printf 'marks e\xcc\x81 box \xe2\x94\x8c\xe2\x94\x80\xe2\x94\x90 \xe2\x96\x81\xe2\x96\x82\xe2\x96\x83\xe2\x96\x84\xe2\x96\x85\xe2\x96\x86\xe2\x96\x87\xe2\x96\x88\n'
exec cat
"#;

const TESTS: &str = r#"
for name in inbox queue store terminal layout holder; do printf 'test %s::tests ... \033[32mok\033[0m\n' $name; done
printf 'test runs::survive ... \033[31mFAILED\033[0m\n'
exec sleep 1000
"#;

fn four(test_env: &TestEnv) -> Vec<PaneId> {
    fs::write(test_env.work().join("fugue.rs"), SOURCE).expect("a source");
    for file in ["notes.md", "score.xml"] {
        fs::write(test_env.work().join(file), "").expect("a file");
    }
    fs::create_dir(test_env.work().join("voices")).expect("a directory");
    fs::write(
        test_env.home().join(".vimrc"),
        "syntax on\nset number nomodeline ruler laststatus=2 background=dark noshowcmd\n",
    )
    .expect("a vimrc");
    let panes = vec![
        pane(test_env, "editor", "exec vim fugue.rs"),
        pane(test_env, "colours", COLOURS),
        shell(test_env, "shell"),
        pane(test_env, "tests", TESTS),
    ];
    test_env.type_line(panes[2], "ls --color -F");
    test_env.until_printed(panes[2], |text| text.contains("voices"));
    test_env.until_printed(panes[3], |text| text.contains("FAILED"));
    panes
}

fn shows_four(person: &mut Attached) {
    person.shows("enters_at");
    person.shows("marks");
    person.shows("FAILED");
    person.until("states", |screen| {
        // In narrow titles only the sign is told.
        screen.contains('●') && screen.contains('○') && screen.contains("voices/")
    });
}

#[test]
fn four_tiles_with_colours_and_a_full_screen_program() {
    in_both("four-tiles", |test_env, rows, cols, keep| {
        let panes = four(test_env);
        let mut person = Attached::new(test_env, &["editor"], rows, cols);
        shows_four(&mut person);
        is(test_env, panes[0], PaneState::Running);
        person.type_text("G");
        person.until("vim is at the end", |screen| screen.contains("14,1"));
        keep(&mut person);
    });
}

#[test]
fn a_zoomed_tile() {
    in_both("zoom", |test_env, rows, cols, keep| {
        four(test_env);
        let mut person = Attached::new(test_env, &["editor"], rows, cols);
        shows_four(&mut person);
        person.command("z");
        person.until("it is alone, and vim has drawn it", |screen| {
            screen.contains("zoomed")
                && !screen.contains("FAILED")
                && screen.contains("All")
                && screen
                    .lines()
                    .nth(usize::from(rows) - 3)
                    .is_some_and(|row| row.contains("fugue.rs"))
        });
        keep(&mut person);
    });
}

#[test]
fn ten_tiles() {
    in_both("ten-tiles", |test_env, rows, cols, keep| {
        for number in 1..=10 {
            let command = format!("echo voice {number} of 10; seq -s ' ' 1 12; exec sleep 1000");
            pane(test_env, &format!("voice-{number}"), &command);
        }
        let mut person = Attached::new(test_env, &["voice-3"], rows, cols);
        person.until("all ten", |screen| {
            (1..=10).all(|number| screen.contains(&format!("voice {number} of 10")))
        });
        keep(&mut person);
    });
}

#[test]
fn states_in_the_sidebar() {
    in_both("sidebar", |test_env, rows, cols, keep| {
        let shell_pane = shell(test_env, "shell");
        let asks = pane(
            test_env,
            "deploy",
            "read -p 'deploy to production? [y/N] ' answer",
        );
        let build = pane(test_env, "build", "echo compiling; exec sleep 1000");
        let done = pane(test_env, "lint", "echo clean; exit 0");
        let failed = pane(test_env, "tests", "echo 2 failed; exit 101");
        let elsewhere: CreatePaneReply = test_env.json(&[
            "new",
            "-s",
            "staging",
            "-n",
            "logs",
            "--",
            "exec sleep 1000",
        ]);
        test_env
            .fugue(&["spawn", "fix-auth", "sleep 1000", "--agent", "shell"])
            .ok();
        let _run = test_env.start(&["parallel", "sleep 1000", "true", "sleep 1001"]);
        is(test_env, asks, PaneState::NeedsInput);
        is(test_env, shell_pane, PaneState::Idle);
        is(test_env, done, PaneState::Exited);
        is(test_env, failed, PaneState::Exited);
        is(test_env, elsewhere.pane_id, PaneState::Running);
        let mut person = Attached::new(test_env, &["build"], rows, cols);
        person.shows("compiling");
        let _ = build;
        if cols < 100 {
            person.command("b");
        }
        person.until("all states", |screen| {
            [
                "● build",
                "○ shell",
                "▲ deploy",
                "✓ lint",
                "✗ tests",
                "staging",
                "● fix-auth",
                "● parallel r-",
                "1/3",
            ]
            .iter()
            .all(|state| screen.contains(state))
        });
        keep(&mut person);
    });
}

#[test]
fn a_search_in_the_scrollback() {
    in_both("search", |test_env, rows, cols, keep| {
        let log = "for i in $(seq 1 400); do echo \"2026-11-16 12:$((i/60)):$((i%60)) request $i $( [ $((i%37)) = 0 ] && echo 'error: connection reset' || echo ok)\"; done; exec cat";
        let pane = pane(test_env, "log", log);
        test_env.until_printed(pane, |text| text.contains("request 400"));
        let mut person = Attached::new(test_env, &["log"], rows, cols);
        person.shows("request 400");
        person.command("[");
        person.shows("scroll");
        person.type_text("?error\r");
        person.shows("error: line");
        person.type_text("n");
        person.shows("error: line 9 of 10");
        keep(&mut person);
        person.type_text("nnnnnnnn");
        person.shows("error: line 1 of 10");
        person.shows("request 37 error");
        person.type_text("N");
        person.shows("error: line 2 of 10");
        // Around the end, and back to the pane.
        person.type_text("g");
        person.shows("scroll 1/");
        person.until("the first line", |screen| screen.contains("request 1 ok"));
        person.type_text("q");
        person.shows("request 400");
        person.hides("scroll");
    });
}

#[test]
fn help() {
    in_both("help", |test_env, rows, cols, keep| {
        let mut person = Attached::new(test_env, &[], rows, cols);
        prompts(&mut person, 1);
        person.command("?");
        person.shows("any key closes");
        keep(&mut person);
        person.type_text("q");
        person.hides("any key closes");
    });
}

#[test]
fn the_list_of_panes() {
    in_both("picker", |test_env, rows, cols, keep| {
        shell(test_env, "shell");
        pane(test_env, "build", "echo compiling; exec sleep 1000");
        let over = pane(test_env, "lint", "echo all clean; exit 0");
        let _: CreatePaneReply = test_env.json(&[
            "new",
            "-s",
            "staging",
            "-n",
            "logs",
            "--",
            "echo tail; exec sleep 1000",
        ]);
        is(test_env, over, PaneState::Exited);
        let mut person = Attached::new(test_env, &["shell"], rows, cols);
        prompts(&mut person, 1);
        person.command("w");
        person.shows("go to a pane");
        person.until("all of them", |screen| {
            ["build p2", "lint p3", "logs p4", "✓ done"]
                .iter()
                .all(|name| screen.contains(name))
        });
        keep(&mut person);
        person.type_text("stag log");
        person.hides("build p2");
        person.type_text("\r");
        person.shows("tail");
        person.until("in the other session", |screen| {
            screen.contains(" staging  p4 logs")
        });
        // An ended pane can be looked at.
        person.command("w");
        person.shows("go to a pane");
        person.type_text("lint\r");
        person.shows("all clean");
        person.shows("p3 has ended");
        person.command("q");
        person.shows("tail");
    });
}
