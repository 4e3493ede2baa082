//! What can be seen of an agent's screen: does it ask a person something, and is its input box empty?
//!
//! Used where no hook tells it (an agent says nothing when its question is refused) and just before something is
//! typed. An input box is told by its frame and by the cursor in it, a question by its list of choices or by the keys it
//! offers. What is not recognised is never taken for an empty box.

use std::ops::Range;

use fugue_term::{CellAttribute, Screen};

use super::Vendor;

/// What is on a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The text of a question that waits for a person; `unknown prompt: …` where something waits and does not look like
    /// a question, such as a menu.
    pub dialog: Option<String>,
    pub input: Input,
    /// It says that it works on something, which a key would interrupt.
    pub working: bool,
}

/// What the input box holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing, or a hint of the agent's own.
    Empty,
    /// Somebody has begun to type.
    Draft,
    /// There is no input box that we recognise.
    Unknown,
}

/// Looks at a terminal. Hints that an agent writes faintly into its empty box are told from a draft by that.
pub fn look_at(vendor: Vendor, screen: &Screen<'_>) -> Look {
    let lines: Vec<String> = screen.rows().collect();
    let (row, column) = screen.cursor();
    judge(vendor, &lines, &bright(screen, lines.len()), (row, column))
}

/// Looks at the visible lines and the cursor's row and column, counted from 0. Without colours only the hints that we
/// know by heart are told from a draft.
pub fn look(vendor: Vendor, lines: &[String], cursor: (u16, u16)) -> Look {
    let cursor = (usize::from(cursor.0), usize::from(cursor.1));
    judge(vendor, lines, lines, cursor)
}

/// Looks at a terminal of which nobody said whose it is: an agent may have been started in it by hand, in a person's own
/// tmux or by a template. The boxes of all agents are tried, and the shapes of their dialogs.
pub fn look_at_any(screen: &Screen<'_>) -> Look {
    let lines: Vec<String> = screen.rows().collect();
    judge_any(&lines, &bright(screen, lines.len()), screen.cursor())
}

/// The same for visible lines without colours.
pub fn look_any(lines: &[String], cursor: (u16, u16)) -> Look {
    let cursor = (usize::from(cursor.0), usize::from(cursor.1));
    judge_any(lines, lines, cursor)
}

fn judge_any(lines: &[String], bright: &[String], cursor: (usize, usize)) -> Look {
    let mut boxes = Vendor::ALL
        .into_iter()
        .filter_map(|vendor| find_box(vendor, lines, cursor.0));
    let found = boxes.next();
    // Above a box there is what was said before, which may look like anything.
    let from = found.as_ref().map_or(0, |rows| rows.start);
    let dialog = known_dialog(lines, from, cursor.0);
    let input = match found.filter(|_| dialog.is_none()) {
        Some(rows) => contents(bright, rows, cursor),
        None => Input::Unknown,
    };
    Look {
        dialog,
        input,
        working: says_working(lines),
    }
}

fn judge(vendor: Vendor, lines: &[String], bright: &[String], cursor: (usize, usize)) -> Look {
    let working = says_working(lines);
    match find_box(vendor, lines, cursor.0) {
        Some(rows) => Look {
            dialog: None,
            input: contents(bright, rows, cursor),
            working,
        },
        None => Look {
            dialog: dialog(lines, cursor.0),
            input: Input::Unknown,
            working,
        },
    }
}

// Where agents say what they do: the box with a few lines of a draft, and the lines around it.
const BOTTOM: usize = 16;

fn says_working(lines: &[String]) -> bool {
    let is_working =
        |line: &String| line.contains("esc to interrupt") || line.contains("(esc to cancel, ");
    lines.iter().rev().take(BOTTOM).any(is_working)
}

/// The rows of the box that the cursor is in.
fn find_box(vendor: Vendor, lines: &[String], cursor_row: usize) -> Option<Range<usize>> {
    match vendor {
        Vendor::Claude => framed(lines, cursor_row, &['❯', '!', '#'], &['─'], &['─']),
        Vendor::Codex => unframed(lines, cursor_row, '›'),
        Vendor::Gemini => framed(
            lines,
            cursor_row,
            &['>', '*', '!'],
            &['▄', '─'],
            &['▀', '─'],
        ),
    }
}

/// A box between two rules, with a sign in its first row.
fn framed(
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

// No text has so long a run of these, and no agent draws a narrower box.
const SHORTEST_RULE: usize = 20;

fn is_rule(line: &str, of: &[char]) -> bool {
    let line = line.trim();
    of.iter()
        .any(|mark| line.chars().take_while(|c| c == mark).count() >= SHORTEST_RULE)
}

/// A box without a frame: a sign after an empty row, and behind it an empty row and the lines of the agent's status,
/// which end the screen.
fn unframed(lines: &[String], cursor_row: usize, sign: char) -> Option<Range<usize>> {
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

fn contents(lines: &[String], rows: Range<usize>, cursor: (usize, usize)) -> Input {
    let at_start = cursor.0 == rows.start;
    let mut text = String::new();
    for line in lines.get(rows).unwrap_or_default() {
        text.push_str(line.trim());
        text.push(' ');
    }
    let mut chars = text.trim().chars();
    let sign = chars.next();
    let text = chars.as_str().trim();
    // Another sign is another mode, which a person has switched on.
    let plain = matches!(sign, Some('❯' | '›' | '>' | '*') | None);
    let hint = at_start && HINTS.contains(&text);
    if plain && (text.is_empty() || hint) {
        Input::Empty
    } else {
        Input::Draft
    }
}

const HINTS: [&str; 2] = [
    "Type your message or @path/to/file",
    "Ask Codex to do anything",
];

/// The text of a question, if one is asked at the end of the screen.
fn dialog(lines: &[String], cursor_row: usize) -> Option<String> {
    let last = lines.iter().rposition(|line| !bare(line).is_empty())?;
    // Behind the choices there are the keys, and descriptions of the choices.
    let from = last.saturating_sub(DIALOG);
    let chosen = (from..=last).find(|row| is_numbered_choice(bare(&lines[*row])));
    let keys = (last.saturating_sub(2)..=last).find(|row| offers_keys(bare(&lines[*row])));
    let marked = (from..=last).rfind(|row| bare(&lines[*row]).starts_with(MARKS));
    // A mark alone may be what somebody said before; one with the cursor on it is not.
    let marked = marked.filter(|row| keys.is_some() || *row == cursor_row);
    let end = chosen.or(marked).or(keys)?;
    Some(worded(question(&lines[..end])))
}

fn worded(question: String) -> String {
    if question.contains('?') {
        question
    } else {
        format!("unknown prompt: {question}")
    }
}

/// The text of a dialog, if the end of the screen has the shape of a known agent's: a list of numbered choices with a mark
/// on one, a marked choice above the keys that Enter and Esc are offered by, one with the cursor on it above another
/// choice, or these keys alone. Programs that are no
/// agents ask in other shapes (`Press ENTER or type command to continue`), and a shell's prompt below all this says that
/// the dialog is over.
fn known_dialog(lines: &[String], from: usize, cursor_row: usize) -> Option<String> {
    let last = lines.iter().rposition(|line| !bare(line).is_empty())?;
    let from = from.max(last.saturating_sub(DIALOG));
    let rows = || from..=last;
    let numbered = rows().filter(|row| number_of(bare(&lines[*row])).is_some());
    let listed = numbered.count() > 1;
    // Of quoted lines more than one begins with this sign.
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
    let keys = rows()
        .filter(|row| *row + 2 >= last)
        .find(|row| offers_enter_and_escape(bare(&lines[*row])));
    let marked = rows()
        .rfind(|row| bare(&lines[*row]).starts_with(MARKS))
        .filter(|_| keys.is_some());
    let aligned = rows().find(|row| *row == cursor_row && is_aligned_choice(&lines[*row..]));
    let end = chosen.or(marked).or(aligned).or(keys)?;
    let below = cursor_row == last && cursor_row > end && Some(cursor_row) != keys;
    let prompt = below && number_of(bare(&lines[last])).is_none() && !lines[last].contains('│');
    (!prompt).then(|| worded(question(&lines[..end])))
}

// The longest list of choices with its descriptions that we have seen, twice.
const DIALOG: usize = 32;

const MARKS: [char; 4] = ['❯', '›', '●', '○'];
// The mark of Codex's first screen, which is also how mail and Markdown quote.
const QUOTE: char = '>';

/// `❯ 1. Yes`: the choice that Enter would take.
fn is_numbered_choice(line: &str) -> bool {
    line.starts_with(MARKS) && number_of(line).is_some()
}

/// A marked choice that is indented, as no prompt of a shell is, and below it one without a mark.
fn is_aligned_choice(lines: &[String]) -> bool {
    let indent = |line: &str| line.chars().take_while(|c| *c == ' ').count();
    let [first, second, ..] = lines else {
        return false;
    };
    let at = indent(first);
    let marked = at > 0 && first.trim_start().starts_with(MARKS);
    marked && !second.trim().is_empty() && indent(second) == at + 2
}

/// The number of a choice in a list, with or without a mark.
fn number_of(line: &str) -> Option<&str> {
    let marks = |c: char| c == QUOTE || MARKS.contains(&c);
    let rest = line.strip_prefix(marks).unwrap_or(line).trim_start();
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    (digits > 0 && rest[digits..].starts_with(". ")).then(|| &rest[..digits])
}

/// Both keys in one line, as the dialogs of agents have them and few other programs.
fn offers_enter_and_escape(line: &str) -> bool {
    let line = line.to_lowercase();
    let says = |key: &str| {
        line.split(|c: char| !c.is_alphanumeric())
            .any(|word| word == key)
    };
    offers_keys(&line) && says("enter") && (says("esc") || says("escape"))
}

/// `Enter to confirm · Esc to cancel`, in whatever words.
fn offers_keys(line: &str) -> bool {
    let line = line.trim().trim_start_matches('(').to_lowercase();
    line.split([',', '·']).map(str::trim).any(|offer| {
        let offer = offer
            .trim_start_matches("press ")
            .trim_start_matches("use ");
        offer.starts_with("enter ") || offer.starts_with("esc ") || offer.starts_with("any key ")
    })
}

// What fits a line of a table and still says what is asked.
const QUESTION: usize = 400;

/// What stands above the choices, up to the top of the dialog, in one line.
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
            // Two empty rows are the end of a dialog that has no frame; in front of its choices there may be some.
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
    if let Some((cut, _)) = text.char_indices().nth(QUESTION) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// A line without frames, rules and blanks around its text.
fn bare(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c))
}

/// The lines without what is written faintly.
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

    /// Codex's screen with a box that holds `text`, and the cursor in front of it.
    fn input(text: &str) -> Input {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 10, cols: 60 },
            TerminalOptions::default(),
        );
        terminal.feed(format!("\r\n\r\n› {text}\r\n\r\n  model · /work\x1b[3;3H").as_bytes());
        let screen = terminal.screen();
        let look = look_at(Vendor::Codex, &screen);
        assert_eq!(look_at_any(&screen), look);
        look.input
    }

    #[test]
    fn what_is_written_faintly_is_no_draft() {
        assert_eq!(input(""), Input::Empty);
        assert_eq!(input("\x1b[2mExplain this codebase\x1b[0m"), Input::Empty);
        assert_eq!(input("Explain this codebase"), Input::Draft);
        assert_eq!(input("fix \x1b[2mthe bug\x1b[0m"), Input::Draft);
    }

    #[test]
    fn a_cursor_below_all_lines_is_in_no_box() {
        let lines = ["", "› ", "", "  model · /work"].map(str::to_owned);
        for vendor in Vendor::ALL {
            assert_eq!(look(vendor, &lines, (9, 2)).input, Input::Unknown);
        }
        assert_eq!(look_any(&lines, (9, 2)).input, Input::Unknown);
    }

    #[test]
    fn a_shell_is_no_agent() {
        for text in ["$ ls", "❯ ls", "› ls", "> x\r\n> y", ""] {
            let mut terminal = Terminal::new(
                TerminalSize { rows: 10, cols: 60 },
                TerminalOptions::default(),
            );
            terminal.feed(format!("\r\nhello\r\n{text}").as_bytes());
            let look = look_at_any(&terminal.screen());
            assert_eq!((look.input, look.dialog), (Input::Unknown, None), "{text}");
        }
    }

    #[test]
    fn programs_that_are_no_agents_show_no_dialog() {
        for text in [
            // vim after `:!ls`, and an installer.
            "a.txt\r\n\r\nPress ENTER or type command to continue",
            "Press any key to continue . . . ",
            "Proceed ([y]/n)? ",
            // A list in a text, and what is left of a dialog above a prompt.
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
            assert_eq!(look_at_any(&terminal.screen()).dialog, None, "{text}");
        }
    }
}
