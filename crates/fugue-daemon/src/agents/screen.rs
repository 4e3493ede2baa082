//! Recognition of agents' screens: whether a dialog waits for a person, and whether the input box is empty.
//!
//! Used for states that no hook reports (no agent runs a hook when a permission is refused) and immediately before typing.
//! An input box is recognised by its frame and by the cursor in it, a dialog by a list of choices, by a line
//! with keys or by the prompt for the code of a login. A screen that is not recognised never counts as an empty input box.

use std::ops::{Range, RangeInclusive};

pub use fugue_core::pane_machine::{AgentScreen, BoxContent};
use fugue_term::{CellAttribute, Screen};

use super::AGENTS;

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

/// The text of a dialog at the end of the screen of an agent without an input box.
fn find_dialog_of_known_agent(lines: &[String], cursor_row: usize) -> Option<String> {
    let last = lines.iter().rposition(|line| !bare(line).is_empty())?;
    if let Some(code) = find_login_code(&lines[..=last], cursor_row) {
        return Some(code);
    }
    // Below the choices are the keys and descriptions of the choices.
    let from = last.saturating_sub(MAX_DIALOG_ROWS);
    let chosen = (from..=last).find(|row| is_numbered_choice(bare(&lines[*row])));
    let keys = (last.saturating_sub(2)..=last).find(|row| offers_keys(bare(&lines[*row])));
    let marked = find_marked(&lines[..=last], from);
    // A mark alone may be earlier output; a mark in the cursor's row is not.
    let marked = marked.filter(|row| keys.is_some() || *row == cursor_row);
    let framed = (from..=last).find(|row| is_framed_choice(lines, *row));
    let end = chosen.or(marked).or(framed).or(keys)?;
    Some(worded(question(&lines[..end])))
}

/// Gemini CLI's login without a browser, which offers no choices and no keys.
const LOGIN_CODE_PROMPT: &str = "Enter the authorization code:";

/// The prompt for the code of a login, at the end of the screen. A typed code follows it and may reach into the next rows.
fn find_login_code(lines: &[String], cursor_row: usize) -> Option<String> {
    let is_prompt = |line: &String| line.starts_with(LOGIN_CODE_PROMPT);
    let prompt = lines.iter().rev().take(3).any(is_prompt);
    (prompt && cursor_row + 1 == lines.len())
        .then(|| worded(LOGIN_CODE_PROMPT.trim_end_matches(':').to_owned()))
}

fn worded(question: String) -> String {
    if question.contains('?') {
        question
    } else {
        format!("unknown prompt: {question}")
    }
}

/// The text of a dialog, if the end of the screen has a shape of the known agents: a list of numbered choices with a
/// mark on one, a marked choice above rows that offer Enter and Esc, a marked choice with the cursor in the same row above
/// another choice, a marked choice in a frame, the rows with keys alone, or the prompt for the code of a login. Other programs
/// have other shapes (`Press ENTER or type command to continue`). A shell prompt below the dialog means that the dialog is
/// over. `input_box` is the first row of an input box: above it is earlier output, which may look like anything, and below it
/// are the agent's hints.
fn find_dialog_of_any_agent(
    lines: &[String],
    input_box: Option<usize>,
    cursor_row: usize,
) -> Option<String> {
    let last = lines.iter().rposition(|line| !bare(line).is_empty())?;
    if let Some(code) = find_login_code(&lines[..=last], cursor_row) {
        return Some(code);
    }
    let from = input_box
        .unwrap_or(0)
        .max(last.saturating_sub(MAX_DIALOG_ROWS));
    let rows = || from..=last;
    let numbered = rows().filter(|row| number_of(bare(&lines[*row])).is_some());
    let listed = numbered.count() > 1;
    // Quoted text has more than one line with this sign.
    let is_quoted = |row: &usize| {
        let line = bare(&lines[*row]);
        line.starts_with(QUOTE) && number_of(line).is_some()
    };
    let quoted = rows()
        .find(is_quoted)
        .filter(|_| rows().filter(is_quoted).count() == 1);
    let chosen = rows()
        .rfind(|row| is_numbered_choice(bare(&lines[*row])))
        .or(quoted)
        .filter(|_| listed);
    let keys = find_offered_keys(&lines[..=last], from, input_box);
    let marked = find_marked(&lines[..=last], from).filter(|_| keys.is_some());
    let aligned = rows().find(|row| *row == cursor_row && is_aligned_choice(&lines[*row..]));
    let framed = rows().find(|row| input_box.is_none() && is_framed_choice(lines, *row));
    let first_key = keys.as_ref().map(|rows| *rows.start());
    let end = chosen.or(marked).or(aligned).or(framed).or(first_key)?;
    let at_keys = keys.is_some_and(|rows| rows.contains(&cursor_row));
    let below = cursor_row == last && cursor_row > end && !at_keys;
    let is_prompt = number_of(bare(&lines[last])).is_none() && !lines[last].contains('│');
    let prompt = below && is_prompt && !shows_spinner(&lines[last]);
    (!prompt).then(|| worded(question(&lines[..end])))
}

/// Whether a row begins with a frame of a spinner, as Qwen Code's row below a dialog does. No shell prompt does.
fn shows_spinner(line: &str) -> bool {
    let first = line.trim_start().chars().next();
    first.is_some_and(|c| ('\u{2801}'..='\u{28ff}').contains(&c))
}

/// The last row with a mark. A rule below it means that the row is earlier output, such as the command that opened the dialog.
fn find_marked(lines: &[String], from: usize) -> Option<usize> {
    let top = lines
        .iter()
        .rposition(|line| is_rule(line, &['─', '▔']))
        .unwrap_or(0);
    (from.max(top)..lines.len()).rfind(|row| bare(&lines[*row]).starts_with(MARKS))
}

/// The rows with the keys of a dialog, among the last rows: a row that offers Enter and Esc. Where no input box is shown,
/// also a row for each of the two, or a last row that offers Esc and nothing else.
fn find_offered_keys(
    lines: &[String],
    from: usize,
    input_box: Option<usize>,
) -> Option<RangeInclusive<usize>> {
    let rows = from.max(lines.len().saturating_sub(3))..lines.len();
    let in_one_row = rows
        .clone()
        .find(|row| names_enter_and_escape(bare(&lines[*row])));
    if in_one_row.is_some() || input_box.is_some() {
        return in_one_row.map(|row| row..=row);
    }
    let last = lines.len() - 1;
    let offers = rows.rev().take_while(|row| offers_keys(bare(&lines[*row])));
    let first = offers.last()?;
    let offered: Vec<&str> = lines[first..].iter().map(|line| bare(line)).collect();
    let is_dialog = match offered[..] {
        [only] => offers_only_escape(only),
        _ => names_enter_and_escape(&offered.join(", ")),
    };
    is_dialog.then_some(first..=last)
}

// Twice the longest list of choices with descriptions that was observed.
const MAX_DIALOG_ROWS: usize = 32;

const MARKS: [char; 4] = ['❯', '›', '●', '○'];
// The mark of Codex's first screen, and also the quote sign of mail and Markdown.
const QUOTE: char = '>';

/// Whether the line is the numbered choice that Enter would take, as in `❯ 1. Yes`.
fn is_numbered_choice(line: &str) -> bool {
    line.starts_with(MARKS) && number_of(line).is_some()
}

/// Whether the first line is an indented, marked choice and the second a choice without a mark. No shell prompt is indented.
fn is_aligned_choice(lines: &[String]) -> bool {
    let indent = |line: &str| line.chars().take_while(|c| *c == ' ').count();
    let [first, second, ..] = lines else {
        return false;
    };
    let at = indent(first);
    let marked = at > 0 && first.trim_start().starts_with(MARKS);
    marked && !second.trim().is_empty() && indent(second) == at + 2
}

/// Whether a row is a marked choice above another text in the same frame, and the frame ends the screen.
fn is_framed_choice(lines: &[String], row: usize) -> bool {
    let last = lines.iter().rfind(|line| !line.trim().is_empty());
    let is_closed = last.is_some_and(|line| line.trim_start().starts_with(['└', '╰']));
    let inside = |line: &String| {
        let inner = line.trim().strip_prefix('│')?.strip_suffix('│')?;
        Some(inner.trim_end().to_owned())
    };
    let framed: Vec<String> = lines[row..].iter().take(2).map_while(inside).collect();
    is_closed && is_aligned_choice(&framed)
}

/// The number of a choice in a list, with or without a mark.
fn number_of(line: &str) -> Option<&str> {
    let marks = |c: char| c == QUOTE || MARKS.contains(&c);
    let rest = line.strip_prefix(marks).unwrap_or(line).trim_start();
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    (digits > 0 && rest[digits..].starts_with(". ")).then(|| &rest[..digits])
}

/// Whether a line offers Esc, and no other key or text.
fn offers_only_escape(line: &str) -> bool {
    let line = line.trim_matches(['(', ')']).to_lowercase();
    let offer = line.trim_start_matches("press ");
    offer.starts_with("esc to ") && offer.split(' ').count() <= 4 && !offer.contains([',', '·'])
}

/// Whether a line offers both Enter and Esc, as dialogs of agents do and few other programs.
fn names_enter_and_escape(line: &str) -> bool {
    let line = line.to_lowercase();
    let has_word = |key: &str| {
        line.split(|c: char| !c.is_alphanumeric())
            .any(|word| word == key)
    };
    offers_keys(&line) && has_word("enter") && (has_word("esc") || has_word("escape"))
}

/// Whether the line offers keys, as in `Enter to confirm · Esc to cancel`.
fn offers_keys(line: &str) -> bool {
    let line = line.trim().trim_start_matches('(').to_lowercase();
    line.split([',', '·']).map(str::trim).any(|offer| {
        let offer = offer
            .trim_start_matches("press ")
            .trim_start_matches("use ");
        offer.starts_with("enter ") || offer.starts_with("esc ") || offer.starts_with("any key ")
    })
}

// Fits into a line of a table and is enough to understand the question.
const MAX_DIALOG_CHARS: usize = 400;

/// The text above the choices, up to the top of the dialog, joined to a single line.
fn question(above: &[String]) -> String {
    let mut found: Vec<&str> = Vec::new();
    let mut blanks = 0;
    for line in above.iter().rev() {
        if line.trim_start().starts_with('╭') || is_rule(line, &['─', '▔', '▄', '▀']) {
            break;
        }
        let text = bare(line);
        if text.is_empty() {
            blanks += 1;
            // Two empty rows end a dialog without a frame; empty rows before the choices are possible too.
            if blanks > 1 && !found.is_empty() && !line.contains('│') {
                break;
            }
            continue;
        }
        blanks = 0;
        if text.starts_with("Tip: ") {
            continue;
        }
        found.push(text);
    }
    found.reverse();
    let mut text = found.join(" · ");
    if let Some((cut, _)) = text.char_indices().nth(MAX_DIALOG_CHARS) {
        text.truncate(cut);
        text.push('…');
    }
    text
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
