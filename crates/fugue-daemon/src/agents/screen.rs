//! Recognition of agents' screens: whether a dialog waits for a person, and whether the input box is empty.
//!
//! Used for states that no hook reports (no agent runs a hook when a permission is refused) and immediately before typing.
//! An input box is recognised by its frame and by the cursor in it, a dialog by a list of choices, by a line
//! with keys or by the prompt for the code of a login. A screen that is not recognised never counts as an empty input box.

mod dialogs;
mod notice;

use std::ops::Range;

use fugue_api::pane_state::AttentionKind;
pub use fugue_core::pane_machine::{AgentDialog, AgentNotice, AgentScreen, BoxContent, UsageLimit};
use fugue_term::{CellAttribute, Screen};

use super::AGENTS;
use dialogs::{find_dialog_of_any_agent, find_dialog_of_known_agent, offers_keys};
pub use notice::notice_in_lines;
pub(super) use notice::resume_time;

/// The patterns of an agent's input box and of its work. Dialogs have shapes that are common to all agents
/// (`find_dialog_*`).
#[derive(Debug)]
pub struct ScreenPatterns {
    /// Finds the rows of the input box that contains the cursor's row.
    pub find_input_box: fn(lines: &[String], cursor_row: usize) -> Option<Range<usize>>,
    /// Signs at the start of the input box in normal mode. Another sign is a mode that a person has switched on.
    pub plain_sign: &'static [char],
    /// Texts that the agent shows in an empty input box and that are not always dim.
    pub placeholders: &'static [&'static str],
    /// Texts around the input box while the agent works.
    pub working_marks: &'static [&'static str],
    /// Texts of dialogs, and what such a dialog asks for. Every other dialog is a prompt.
    pub request_marks: &'static [(&'static str, AttentionKind)],
}

/// Recognises an agent's screen in a terminal. Dim text in an input box is a placeholder and no draft.
pub fn recognize(agent: &ScreenPatterns, screen: &Screen<'_>) -> AgentScreen {
    let lines: Vec<String> = screen.rows().collect();
    classify(agent, &lines, &bright(screen, lines.len()), screen.cursor())
}

/// Recognises an agent's screen in visible lines, with the cursor's row and column counted from 0. Without styles, only the
/// listed placeholders are distinguished from a draft.
pub fn recognize_in_lines(
    agent: &ScreenPatterns,
    lines: &[String],
    cursor: (u16, u16),
) -> AgentScreen {
    let cursor = (usize::from(cursor.0), usize::from(cursor.1));
    classify(agent, lines, lines, cursor)
}

/// Recognises the screen of any built-in agent in a terminal whose program is not known: an agent may have been started by
/// hand, in a person's own tmux or by a template. The input boxes of all agents are tried, and the shapes of their dialogs.
pub fn recognize_any(screen: &Screen<'_>) -> AgentScreen {
    let lines: Vec<String> = screen.rows().collect();
    classify_any(&lines, &bright(screen, lines.len()), screen.cursor())
}

/// [`recognize_any`] for visible lines without styles.
pub fn recognize_any_in_lines(lines: &[String], cursor: (u16, u16)) -> AgentScreen {
    let cursor = (usize::from(cursor.0), usize::from(cursor.1));
    classify_any(lines, lines, cursor)
}

/// The last lines above the input box, and the usage limit that they state.
pub fn notice(screen: &Screen<'_>) -> AgentNotice {
    let lines: Vec<String> = screen.rows().collect();
    notice_in_lines(&lines, screen.cursor().0)
}

/// The patterns of all built-in agents that have any.
pub fn all_patterns() -> impl Iterator<Item = &'static ScreenPatterns> {
    AGENTS.iter().filter_map(|agent| agent.screen())
}

fn classify_any(lines: &[String], bright: &[String], cursor: (usize, usize)) -> AgentScreen {
    let boxes = || {
        all_patterns().filter_map(|agent| {
            let rows = (agent.find_input_box)(lines, cursor.0)?;
            Some((agent, rows))
        })
    };
    let input_box = boxes().next().map(|(_, rows)| rows.start);
    let dialog = find_dialog_of_any_agent(lines, input_box, cursor.0);
    let inputs = || boxes().map(|(agent, rows)| contents(agent, bright, rows, cursor));
    let input = match dialog {
        Some(_) => BoxContent::Unrecognized,
        // Input boxes of two agents may have the same shape but different signs and placeholders.
        None if inputs().any(|input| input == BoxContent::Empty) => BoxContent::Empty,
        None => inputs().next().unwrap_or(BoxContent::Unrecognized),
    };
    AgentScreen {
        dialog,
        input,
        working: all_patterns().any(|agent| shows_work(agent, lines)),
    }
}

fn classify(
    agent: &ScreenPatterns,
    lines: &[String],
    bright: &[String],
    cursor: (usize, usize),
) -> AgentScreen {
    let working = shows_work(agent, lines);
    match (agent.find_input_box)(lines, cursor.0) {
        Some(rows) => AgentScreen {
            dialog: None,
            input: contents(agent, bright, rows, cursor),
            working,
        },
        None => AgentScreen {
            dialog: find_dialog_of_known_agent(lines, cursor.0),
            input: BoxContent::Unrecognized,
            working,
        },
    }
}

// The rows that can hold a working mark: the input box with a few lines of a draft, and the lines around the box.
const STATUS_ROWS: usize = 16;

fn shows_work(agent: &ScreenPatterns, lines: &[String]) -> bool {
    let has_mark = |line: &String| agent.working_marks.iter().any(|mark| line.contains(mark));
    // An agent that has just started may fill only the upper part of the screen.
    let lines = lines.iter().rev().skip_while(|line| line.trim().is_empty());
    lines.take(STATUS_ROWS).any(has_mark)
}

/// Finds an input box between two rules whose first row starts with a character of `signs`.
pub(super) fn find_framed_box(
    lines: &[String],
    cursor_row: usize,
    signs: &[char],
    above: &[char],
    below: &[char],
) -> Option<Range<usize>> {
    let lower = lines.get(cursor_row..)?;
    let first = (1..=cursor_row)
        .rev()
        .find(|row| is_rule(&lines[row - 1], above))?;
    let end = cursor_row + lower.iter().position(|line| is_rule(line, below))?;
    let signed = lines[first].trim_start().starts_with(signs);
    (signed && end > cursor_row).then_some(first..end)
}

// Text has no run of these characters that is as long, and no agent draws a narrower box.
const MIN_RULE_CHARS: usize = 20;

fn is_rule(line: &str, marks: &[char]) -> bool {
    let line = line.trim();
    marks
        .iter()
        .any(|mark| line.chars().take_while(|c| c == mark).count() >= MIN_RULE_CHARS)
}

/// Finds an input box without a frame: `sign` after an empty row, and below it an empty row and the agent's status lines,
/// which end the screen.
pub(super) fn find_unframed_box(
    lines: &[String],
    cursor_row: usize,
    sign: char,
) -> Option<Range<usize>> {
    let last = lines.iter().rposition(|line| !line.is_empty())?;
    let end = (0..last).rev().find(|row| lines[*row].is_empty())?;
    let first = (1..=cursor_row)
        .rev()
        .find(|row| lines.get(*row).is_some_and(|line| line.starts_with(sign)))?;
    let continued = |line: &String| line.is_empty() || line.starts_with("  ");
    let whole = first < end
        && cursor_row < end
        && lines[first - 1].is_empty()
        && lines[first + 1..end].iter().all(continued)
        && lines[end + 1].starts_with("  ")
        && !lines[end..=last].iter().any(|line| offers_keys(line));
    whole.then_some(first..end)
}

fn contents(
    agent: &ScreenPatterns,
    lines: &[String],
    rows: Range<usize>,
    cursor: (usize, usize),
) -> BoxContent {
    let at_start = cursor.0 == rows.start;
    let mut text = String::new();
    for line in lines.get(rows).unwrap_or_default() {
        text.push_str(line.trim());
        text.push(' ');
    }
    let mut chars = text.trim().chars();
    let sign = chars.next();
    let text = chars.as_str().trim();
    let plain = sign.is_none_or(|sign| agent.plain_sign.contains(&sign));
    let placeholder = at_start && agent.placeholders.contains(&text);
    if plain && (text.is_empty() || placeholder) {
        BoxContent::Empty
    } else {
        BoxContent::UnsentText
    }
}

/// A line without surrounding frames, rules and blanks.
fn bare(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c))
}

/// The lines without dim text.
fn bright(screen: &Screen<'_>, rows: usize) -> Vec<String> {
    let row = |row| {
        let mut text = String::new();
        for cell in screen.cells(row) {
            if cell.style.has(CellAttribute::Dim) {
                text.push(' ');
            } else {
                cell.append_to(&mut text);
            }
        }
        text
    };
    (0..rows).map(row).collect()
}

#[cfg(test)]
mod tests {
    use fugue_term::{Terminal, TerminalOptions, TerminalSize};

    use super::*;
    use crate::agents::screen_patterns;

    /// Codex's screen with an input box that holds `text` after the cursor.
    fn input(text: &str) -> BoxContent {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 10, cols: 60 },
            TerminalOptions::default(),
        );
        terminal.feed(format!("\r\n\r\n› {text}\r\n\r\n  model · /work\x1b[3;3H").as_bytes());
        let screen = terminal.screen();
        let look = recognize(screen_patterns("codex").unwrap(), &screen);
        assert_eq!(recognize_any(&screen), look);
        look.input
    }

    #[test]
    fn dim_text_is_no_draft() {
        assert_eq!(input(""), BoxContent::Empty);
        assert_eq!(
            input("\x1b[2mExplain this codebase\x1b[0m"),
            BoxContent::Empty
        );
        assert_eq!(input("Explain this codebase"), BoxContent::UnsentText);
        assert_eq!(input("fix \x1b[2mthe bug\x1b[0m"), BoxContent::UnsentText);
    }

    #[test]
    fn a_cursor_below_all_lines_is_in_no_box() {
        let lines = ["", "› ", "", "  model · /work"].map(str::to_owned);
        for agent in all_patterns() {
            assert_eq!(
                recognize_in_lines(agent, &lines, (9, 2)).input,
                BoxContent::Unrecognized
            );
        }
        assert_eq!(
            recognize_any_in_lines(&lines, (9, 2)).input,
            BoxContent::Unrecognized
        );
    }

    #[test]
    fn a_shell_is_no_agent() {
        for text in ["$ ls", "❯ ls", "› ls", "> x\r\n> y", ""] {
            let mut terminal = Terminal::new(
                TerminalSize { rows: 10, cols: 60 },
                TerminalOptions::default(),
            );
            terminal.feed(format!("\r\nhello\r\n{text}").as_bytes());
            let look = recognize_any(&terminal.screen());
            assert_eq!(
                (look.input, look.dialog),
                (BoxContent::Unrecognized, None),
                "{text}"
            );
        }
    }

    #[test]
    fn programs_that_are_no_agents_show_no_dialog() {
        for text in [
            // vim after `:!ls`, and an installer.
            "a.txt\r\n\r\nPress ENTER or type command to continue",
            "Press any key to continue . . . ",
            "Proceed ([y]/n)? ",
            // A list in a text, and the rest of a dialog above a prompt.
            "1. one\r\n2. two\r\n3. three\r\n:",
            "> 1. one\r\n> 2. two\r\n:",
            "Trust?\r\n❯ 1. Yes\r\n  2. No\r\n  Enter to confirm · Esc to cancel\r\n$ ",
            "● 1. Allow once\r\n  2. No\r\n\r\nada@host:~$ ls",
            // One numbered line behind a prompt of that sign.
            "❯ 1. x",
        ] {
            let mut terminal = Terminal::new(
                TerminalSize { rows: 10, cols: 60 },
                TerminalOptions::default(),
            );
            terminal.feed(text.as_bytes());
            assert_eq!(recognize_any(&terminal.screen()).dialog, None, "{text}");
        }
    }
}
