//! Recognition of dialogs: the shapes that the dialogs of all agents have, their questions and their choices.

use std::ops::RangeInclusive;

use fugue_api::pane_state::DialogChoice;

use super::{AgentDialog, all_patterns, bare, is_rule, notice::find_limit};

/// The text of a dialog at the end of the screen of an agent without an input box.
pub(super) fn find_dialog_of_known_agent(
    lines: &[String],
    cursor_row: usize,
) -> Option<AgentDialog> {
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
    Some(dialog(&lines[..=last], end))
}

/// Gemini CLI's login without a browser, which offers no choices and no keys.
const LOGIN_CODE_PROMPT: &str = "Enter the authorization code:";

/// The prompt for the code of a login, at the end of the screen. A typed code follows it and may reach into the next rows.
fn find_login_code(lines: &[String], cursor_row: usize) -> Option<AgentDialog> {
    let is_prompt = |line: &String| line.starts_with(LOGIN_CODE_PROMPT);
    let prompt = lines.iter().rev().take(3).any(is_prompt);
    (prompt && cursor_row + 1 == lines.len())
        .then(|| AgentDialog::unknown(worded(LOGIN_CODE_PROMPT.trim_end_matches(':').to_owned())))
}

/// The question of a dialog. A text that is no question is marked as such; no text is no question.
fn worded(question: String) -> String {
    if question.contains('?') || question.is_empty() {
        question
    } else {
        format!("unknown prompt: {question}")
    }
}

/// The dialog whose choices or keys begin at row `end`, or that has a later choice in that row.
fn dialog(lines: &[String], end: usize) -> AgentDialog {
    let number = |row: &usize| number_of(bare(&lines[*row]));
    let mut above = (end.saturating_sub(MAX_DIALOG_ROWS)..=end).rev();
    let first = number(&end).and_then(|_| above.find(|row| number(row) == Some("1")));
    let end = first.unwrap_or(end);
    let question = worded(question(&lines[..end]));
    let marks = all_patterns().flat_map(|agent| agent.request_marks);
    let kind = marks
        .filter(|(mark, _)| question.contains(mark) || lines[end].contains(mark))
        .map(|(_, kind)| *kind)
        .next();
    AgentDialog {
        kind: kind.unwrap_or_default(),
        choices: choices(&lines[end..]),
        limit: find_limit(&question),
        question,
    }
}

// Claude Code, Codex and Gemini CLI take one digit.
const MAX_CHOICES: usize = 9;
// A label is enough to choose by; the pane shows the whole.
const MAX_LABEL_CHARS: usize = 120;

/// The numbered choices in the order of their numbers. Rows between two of them are descriptions.
fn choices(lines: &[String]) -> Vec<DialogChoice> {
    let mut choices: Vec<DialogChoice> = Vec::new();
    for line in lines.iter().map(|line| bare(line)) {
        let Some(key) = number_of(line).filter(|_| choices.len() < MAX_CHOICES) else {
            continue;
        };
        if key != (choices.len() + 1).to_string() {
            continue;
        }
        let label = line.split_once(". ").map_or("", |(_, label)| label.trim());
        choices.push(DialogChoice {
            key: key.to_owned(),
            label: label.chars().take(MAX_LABEL_CHARS).collect(),
        });
    }
    choices
}

/// The text of a dialog, if the end of the screen has a shape of the known agents: a list of numbered choices with a
/// mark on one, a marked choice above rows that offer Enter and Esc, a marked choice with the cursor in the same row above
/// another choice, a marked choice in a frame, the rows with keys alone, or the prompt for the code of a login. Other programs
/// have other shapes (`Press ENTER or type command to continue`). A shell prompt below the dialog means that the dialog is
/// over. `input_box` is the first row of an input box: above it is earlier output, which may look like anything, and below it
/// are the agent's hints.
pub(super) fn find_dialog_of_any_agent(
    lines: &[String],
    input_box: Option<usize>,
    cursor_row: usize,
) -> Option<AgentDialog> {
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
    (!prompt).then(|| dialog(&lines[..=last], end))
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
pub(super) fn offers_keys(line: &str) -> bool {
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
