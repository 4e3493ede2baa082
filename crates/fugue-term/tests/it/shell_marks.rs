//! Shell marks with the secret, and the state derived from the marks.

use fugue_term::{
    ShellMarkKind, ShellState, StepMark, Terminal, TerminalEvent, TerminalOptions, TerminalSize,
};

fn terminal() -> Terminal {
    let options = TerminalOptions {
        secret: Some("K".into()),
        ..TerminalOptions::default()
    };
    Terminal::new(TerminalSize { rows: 6, cols: 30 }, options)
}

/// Replaces `{A}` and the like by marks with the secret.
fn feed(terminal: &mut Terminal, text: &str) -> Vec<TerminalEvent> {
    let mut text = text.to_owned();
    for mark in ["A", "B", "C", "D", "D;0", "D;1", "D;130"] {
        text = text.replace(
            &format!("{{{mark}}}"),
            &format!("\x1b]133;{mark};k=K\x1b\\"),
        );
    }
    terminal.feed(text.as_bytes())
}

fn output(terminal: &Terminal) -> Vec<String> {
    let last = terminal.last_command(100).unwrap();
    last.output
        .lines
        .into_iter()
        .map(|line| line.text.into_owned())
        .collect()
}

#[test]
fn marks_delimit_a_command() {
    let mut terminal = terminal();
    assert_eq!(terminal.shell_state(), ShellState::Unknown);
    assert!(terminal.last_command(10).is_none());
    feed(&mut terminal, "{A}$ {B}");
    assert!(matches!(terminal.shell_state(), ShellState::AtPrompt { since } if since.col == 2));
    feed(&mut terminal, "echo hi\r\n{C}");
    assert!(matches!(terminal.shell_state(), ShellState::Running { .. }));
    feed(&mut terminal, "hi\r\nthere");
    let last = terminal.last_command(10).unwrap();
    assert_eq!(
        (last.command, last.exit_code, last.running),
        ("echo hi", None, true)
    );
    assert_eq!(output(&terminal), ["hi", "there"]);
    feed(&mut terminal, "\r\n{D;1}{A}$ {B}");
    let last = terminal.last_command(10).unwrap();
    assert_eq!(
        (last.command, last.exit_code, last.running),
        ("echo hi", Some(1), false)
    );
    assert_eq!(output(&terminal), ["hi", "there"]);
    assert!(matches!(
        terminal.shell_state(),
        ShellState::AtPrompt { .. }
    ));
}

#[test]
fn output_without_a_last_newline_ends_where_the_mark_is() {
    let mut terminal = terminal();
    feed(&mut terminal, "{A}$ {B}printf abc\r\n{C}abc{D;0}{A}$ {B}");
    assert_eq!(output(&terminal), ["abc"]);
    feed(&mut terminal, "true\r\n{C}{D;0}{A}$ {B}");
    assert_eq!(output(&terminal), [""; 0]);
}

#[test]
fn a_command_over_many_lines_and_off_the_screen_is_whole() {
    let mut terminal = terminal();
    let many: String = (0..50).map(|i| format!("{i}\r\n")).collect();
    feed(
        &mut terminal,
        &format!(
            "{{A}}$ {{B}}for i in $(seq 50)\r\n> do echo $i; done\r\n{{C}}{many}{{D;0}}{{A}}$ {{B}}"
        ),
    );
    let last = terminal.last_command(3).unwrap();
    assert_eq!(last.command, "for i in $(seq 50)\n> do echo $i; done");
    assert_eq!(
        last.output
            .lines
            .iter()
            .map(|line| &line.text[..])
            .collect::<Vec<_>>(),
        ["47", "48", "49"]
    );
    assert_eq!(last.output.omitted, 47);
}

#[test]
fn an_interrupted_prompt_is_no_command() {
    let mut terminal = terminal();
    feed(
        &mut terminal,
        "{A}$ {B}true\r\n{C}{D;0}{A}$ {B}half^C\r\n{D;130}{A}$ {B}",
    );
    let last = terminal.last_command(10).unwrap();
    assert_eq!((last.command, last.exit_code), ("true", Some(0)));
}

#[test]
fn marks_without_the_secret_are_ignored() {
    let mut terminal = terminal();
    feed(&mut terminal, "{A}$ {B}cat evil\r\n{C}");
    let state = terminal.shell_state();
    let facts = terminal.feed(
        b"\x1b]133;D;0\x07\x1b]133;A\x07\x1b]133;B;k=\x07\x1b]133;D;0;k=k\x07\x1b]133;D;0;K\x07",
    );
    assert_eq!(facts, []);
    assert_eq!(terminal.shell_state(), state);
    let last = terminal.last_command(10).unwrap();
    assert_eq!((last.exit_code, last.running), (None, true));
}

#[test]
fn a_mark_has_its_position() {
    let mut terminal = terminal();
    let facts = feed(&mut terminal, "hi\r\n{A}漢$ {B}");
    let places: Vec<_> = facts
        .iter()
        .map(|fact| match fact {
            TerminalEvent::Mark(mark) => (mark.kind, mark.at.line.0, mark.at.col),
            fact => panic!("{fact:?}"),
        })
        .collect();
    assert_eq!(
        places,
        [(ShellMarkKind::Prompt, 1, 0), (ShellMarkKind::Input, 1, 3)]
    );
    assert_eq!(terminal.marks().count(), 2);
}

#[test]
fn marks_are_bounded() {
    let mut terminal = terminal();
    for _ in 0..1000 {
        feed(&mut terminal, "{A}$ {B}x\r\n{C}{D;0}");
    }
    assert_eq!(terminal.marks().count(), 1024);
}

#[test]
fn a_mark_can_name_a_pipeline_step() {
    let step = |text: &str| {
        let mut terminal = terminal();
        terminal.feed(format!("\x1b]133;C;{text};k=K\x1b\\out").as_bytes());
        assert!(matches!(terminal.shell_state(), ShellState::Running { .. }));
        assert_eq!(output(&terminal), ["out"]);
        let step = terminal.marks().next_back().unwrap().step;
        let options = TerminalOptions {
            secret: Some("K".into()),
            ..TerminalOptions::default()
        };
        let loaded = Terminal::load(&terminal.save().unwrap(), options).unwrap();
        assert_eq!(loaded.marks().next_back().unwrap().step, step);
        step.map(|StepMark { plan, step }| (plan, step))
    };
    assert_eq!(step("s=7.12"), Some((7, 12)));
    assert_eq!(step("s=18446744073709551615.0"), Some((u64::MAX, 0)));
    for none in [
        "s=",
        "s=7",
        "s=7.",
        "s=.1",
        "s=+7.1",
        "s=7.1.2",
        "s=7. 1",
        "x=7.1",
        "s=18446744073709551616.1",
    ] {
        assert_eq!(step(none), None, "{none}");
    }
}
