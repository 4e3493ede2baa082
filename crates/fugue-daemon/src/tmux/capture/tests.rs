use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

use super::*;

fn pane_state(rows: u16, cols: u16, y: u32, x: u32) -> TmuxPaneState {
    TmuxPaneState::parse(&format!(
        "7 {rows} {cols} {y} {x} 0 0 1 0 0 1 0 0 0 0 0 0 0 {} 0",
        rows - 1
    ))
    .unwrap()
}

fn terminal(rows: u16, cols: u16) -> Terminal {
    let options = TerminalOptions {
        keep_lines: 1000,
        secret: None,
    };
    Terminal::new(TerminalSize { rows, cols }, options)
}

fn rows(terminal: &Terminal) -> Vec<String> {
    terminal.screen().rows().collect()
}

fn text(terminal: &Terminal) -> Vec<String> {
    let query = LineQuery {
        since: None,
        last: usize::MAX,
    };
    let lines = terminal.lines(&query);
    lines
        .lines
        .iter()
        .map(|line| line.text.to_string())
        .collect()
}

/// Joined lines as tmux has them, in rows of `cols`, blank to the screen's end.
fn picture(lines: &[&str], rows: u16, cols: u16) -> PaneCapture {
    let cut = |line: &&str| {
        let chars: Vec<char> = line.chars().collect();
        match chars.len() {
            0 => vec![String::new()],
            _ => chars
                .chunks(usize::from(cols))
                .map(|row| row.iter().collect())
                .collect::<Vec<String>>(),
        }
    };
    let mut in_rows: Vec<String> = lines.iter().flat_map(cut).collect();
    let x = in_rows.last().map_or(0, |row| row.chars().count() as u32);
    let mut all: Vec<&str> = lines.to_vec();
    let last = in_rows.len().min(usize::from(rows)) - 1;
    while in_rows.len() < usize::from(rows) {
        in_rows.push(String::new());
        all.push("");
    }
    PaneCapture {
        state: pane_state(rows, cols, last as u32, x.min(u32::from(cols) - 1)),
        all: all.join("\n") + "\n",
        rows: in_rows.join("\n") + "\n",
        behind: String::new(),
        front: String::new(),
        history: String::new(),
    }
}

#[test]
fn a_whole_picture_paints_the_same_screen_and_joins_what_was_wrapped() {
    let mut terminal = terminal(4, 10);
    let lines = ["one", "two is a line of more than ten", "three", "$ "];
    terminal.feed(&picture(&lines, 4, 10).whole());
    assert_eq!(rows(&terminal), ["ine of mor", "e than ten", "three", "$"]);
    assert_eq!(text(&terminal)[..3], lines[..3]);
    assert_eq!(terminal.screen().cursor(), (3, 2));
}

#[test]
fn what_scrolled_by_is_added_once() {
    let before = ["a1", "a2", "a3 goes on in a second row", "a4"];
    let mut terminal = terminal(4, 10);
    terminal.feed(&picture(&before, 4, 10).whole());
    let mut after = before.to_vec();
    after.extend(["a5", "a6 goes on in a second row", "a7", "a8", "a9"]);
    let (bytes, fit) = picture(&after, 4, 10).since(&rows(&terminal));
    terminal.feed(&bytes);
    assert_eq!(fit, CaptureFit::Exact);
    assert_eq!(text(&terminal), after);
    // And nothing where nothing is new.
    let (bytes, fit) = picture(&after, 4, 10).since(&rows(&terminal));
    terminal.feed(&bytes);
    assert_eq!(
        (fit, text(&terminal)),
        (
            CaptureFit::Exact,
            after.iter().map(|line| line.to_string()).collect()
        )
    );
}

#[test]
fn a_last_row_that_was_written_over_is_not_there_twice() {
    let mut terminal = terminal(6, 20);
    terminal.feed(&picture(&["x", "y", "10%"], 6, 20).whole());
    let after = ["x", "y", "100%", "done", "$"];
    let (bytes, fit) = picture(&after, 6, 20).since(&rows(&terminal));
    terminal.feed(&bytes);
    assert_eq!(
        (fit, text(&terminal)),
        (CaptureFit::Exact, after.map(str::to_owned).to_vec())
    );
}

#[test]
fn what_does_not_fit_is_said_and_added_whole() {
    let mut terminal = terminal(3, 20);
    terminal.feed(&picture(&["x", "y", "z"], 3, 20).whole());
    let after = ["p", "q", "r", "s"];
    let (bytes, fit) = picture(&after, 3, 20).since(&rows(&terminal));
    terminal.feed(&bytes);
    assert_eq!(fit, CaptureFit::Unknown);
    assert_eq!(text(&terminal), ["x", "y", "z", "p", "q", "r", "s"]);
}

#[test]
fn an_alternate_screen_is_painted_over_what_is_behind_it() {
    let mut terminal = terminal(3, 20);
    let mut picture = picture(&["unused"], 3, 20);
    picture.state.alternate = true;
    picture.state.has_history = true;
    picture.history = "old\n".into();
    picture.behind = "$ vim\n\n\n".into();
    picture.front = "~\n~\nfile\n".into();
    terminal.feed(&picture.whole());
    assert!(terminal.screen().is_alternate());
    assert_eq!(rows(&terminal), ["~", "~", "file"]);
    terminal.feed(b"\x1b[?1049l");
    assert_eq!(text(&terminal)[..2], ["old", "$ vim"]);
}

#[test]
fn numbers_that_are_none_are_no_facts() {
    for bad in ["", "1 2 3", "x"] {
        assert_eq!(TmuxPaneState::parse(bad), None);
    }
}
