use fugue_term::{Terminal, TerminalOptions, TerminalSize};

use crate::agents::screen::{
    AgentScreen, BoxContent, all_patterns, recognize, recognize_any, recognize_any_in_lines,
    recognize_in_lines,
};

const ROWS: u16 = 30;
const COLS: u16 = 90;

/// Any text on an agent's screen: a dialog is never recognised as an empty input box, an input box with typed text is not
/// empty, and a question is short and without control characters.
///
/// The first two bytes are the cursor's row and column in the following lines; the same bytes are also printed to a terminal.
pub fn screens(bytes: &[u8]) {
    let [row, col, shown @ ..] = bytes else {
        return;
    };
    let text = String::from_utf8_lossy(shown);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let cursor = (u16::from(*row), u16::from(*col));
    let typed = with_typed(&lines, cursor);
    let mut looks = Vec::new();
    for agent in all_patterns() {
        let seen = recognize_in_lines(agent, &lines, cursor);
        if seen.input == BoxContent::Empty {
            let then = recognize_in_lines(agent, &typed, cursor);
            assert_ne!(then.input, BoxContent::Empty, "what was typed is not seen");
        }
        looks.push(seen);
    }
    let any = recognize_any_in_lines(&lines, cursor);
    if any.input == BoxContent::Empty {
        let is_empty = |seen: &AgentScreen| seen.input == BoxContent::Empty;
        assert!(looks.iter().any(is_empty), "no agent has such a box");
        assert_ne!(
            recognize_any_in_lines(&typed, cursor).input,
            BoxContent::Empty
        );
    }
    looks.push(any);
    looks.iter().for_each(check);

    let mut terminal = Terminal::new(
        TerminalSize {
            rows: ROWS,
            cols: COLS,
        },
        TerminalOptions::default(),
    );
    terminal.feed(text.replace('\n', "\r\n").as_bytes());
    terminal.feed(format!("\x1b[{row};{col}H").as_bytes());
    let screen = terminal.screen();
    for seen in all_patterns().map(|agent| recognize(agent, &screen)) {
        check(&seen);
        check_clean(&seen);
    }
    let any = recognize_any(&screen);
    check(&any);
    check_clean(&any);
}

/// The lines with another character where the cursor is.
fn with_typed(lines: &[String], (row, col): (u16, u16)) -> Vec<String> {
    let mut typed = lines.to_vec();
    if let Some(line) = typed.get_mut(usize::from(row)) {
        let before: String = line.chars().take(col.into()).collect();
        let after: String = line.chars().skip(usize::from(col) + 1).collect();
        // No agent has this character in a placeholder or at the start of its input box.
        *line = format!("{before:<width$}~{after}", width = col.into());
    }
    typed
}

fn check(look: &AgentScreen) {
    if let Some(dialog) = &look.dialog {
        assert_ne!(
            look.input,
            BoxContent::Empty,
            "a dialog is taken for an empty box"
        );
        assert!(dialog.question.chars().count() <= 450);
        assert!(dialog.choices.len() <= 9);
    }
}

fn check_clean(look: &AgentScreen) {
    if let Some(dialog) = &look.dialog {
        let labels = dialog.choices.iter().map(|choice| &choice.label);
        for text in labels.chain([&dialog.question]) {
            assert!(!text.chars().any(char::is_control));
        }
    }
}
