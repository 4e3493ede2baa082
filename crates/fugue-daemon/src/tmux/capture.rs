//! A capture of a tmux pane: text, cursor and modes, as bytes that reproduce the same screen in another terminal.
//!
//! The output log of a person's pane begins with a capture. After a gap in the connection, another capture is merged with the
//! known text: lines that have scrolled meanwhile are added, and the screen is drawn again.

use std::fmt::Write;

/// The format of a pane's state, numbers only: no field can hold text that a program has chosen.
pub const FORMAT: &str = "#{pane_pid} #{pane_height} #{pane_width} #{cursor_y} #{cursor_x} #{alternate_on} \
                          #{history_size} #{cursor_flag} #{keypad_cursor_flag} #{keypad_flag} #{wrap_flag} \
                          #{origin_flag} #{insert_flag} #{mouse_standard_flag} #{mouse_button_flag} #{mouse_all_flag} \
                          #{mouse_sgr_flag} #{scroll_region_upper} #{scroll_region_lower} #{pane_dead}";

/// The state of a tmux pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmuxPaneState {
    pub pid: u32,
    pub rows: u16,
    pub cols: u16,
    cursor: (u32, u32),
    pub alternate: bool,
    has_history: bool,
    /// Modes: the number of the DEC mode, and whether the mode is on.
    modes: Vec<(&'static str, bool)>,
    app_keypad: bool,
    region: (u32, u32),
    pub dead: bool,
}

impl TmuxPaneState {
    pub fn parse(said: &str) -> Option<Self> {
        let numbers: Vec<u32> = said
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        let [
            pid,
            rows,
            cols,
            y,
            x,
            alternate,
            history,
            cursor,
            app_cursor,
            app_keypad,
            wrap,
            origin,
            insert,
            standard,
            button,
            all,
            sgr,
            upper,
            lower,
            dead,
        ] = numbers[..]
        else {
            return None;
        };
        Some(Self {
            pid,
            rows: u16::try_from(rows).ok()?,
            cols: u16::try_from(cols).ok()?,
            cursor: (y, x),
            alternate: alternate == 1,
            has_history: history > 0,
            modes: vec![
                ("?25", cursor == 1),
                ("?1", app_cursor == 1),
                ("?7", wrap == 1),
                ("?6", origin == 1),
                ("4", insert == 1),
                ("?1000", standard == 1),
                ("?1002", button == 1),
                ("?1003", all == 1),
                ("?1006", sgr == 1),
            ],
            app_keypad: app_keypad == 1,
            region: (upper, lower),
            dead: dead == 1,
        })
    }
}

/// The text and the state of a tmux pane.
pub struct PaneCapture {
    pub state: TmuxPaneState,
    /// The history and the screen, with wrapped lines joined (`capture-pane -e -J -S -`).
    pub all: String,
    /// The history and the screen in rows, without colours (`capture-pane -S -`).
    pub rows: String,
    /// The main screen of a pane whose alternate screen is on.
    pub behind: String,
    /// The alternate screen of such a pane.
    pub front: String,
    /// The history of such a pane (`-E -1`).
    pub history: String,
}

/// How a capture continues the known text.
#[derive(Debug, PartialEq, Eq)]
pub enum CaptureFit {
    /// Nothing is missing and nothing is repeated.
    Exact,
    /// The end of the known text was not found: the whole capture was added, and some of it may be repeated.
    Unknown,
}

impl PaneCapture {
    /// The whole capture, for an empty terminal.
    pub fn whole(&self) -> Vec<u8> {
        let mut out = String::new();
        if self.state.alternate {
            let history = if self.state.has_history {
                &self.history
            } else {
                ""
            };
            for part in [history, self.behind.as_str()] {
                print(&mut out, part.lines());
                if part.is_empty() {
                    continue;
                }
                out.push_str("\r\n");
            }
            out.truncate(out.trim_end_matches("\r\n").len());
            self.paint_alternate(&mut out);
        } else {
            print(&mut out, self.all.lines());
        }
        self.finish(&mut out);
        out.into_bytes()
    }

    /// The new part, for a terminal that shows these rows on its main screen.
    pub fn since(&self, known: &[String]) -> (Vec<u8>, CaptureFit) {
        // The terminal's modes are unknown; the alternate screen is left.
        let mut out = String::from("\x1b[?1049l\x1b[r\x1b[?6l\x1b[4l\x1b[?7h\x1b[m");
        let mut fit = CaptureFit::Exact;
        if self.state.alternate {
            self.paint_alternate(&mut out);
        } else {
            let rows: Vec<&str> = self
                .rows
                .lines()
                .map(|row| row.trim_end_matches(' '))
                .collect();
            let lines: Vec<&str> = self.all.lines().collect();
            let starts = starts(&lines, &rows);
            match place_of(known, &rows) {
                Some(top) => {
                    // From the first line that begins on the old screen; the rows above stay.
                    let begins = starts.iter().position(|row| *row >= top);
                    if let Some(line) = begins {
                        let row = starts[line] - top + 1;
                        // Row by row, because the text of a screen that is cleared at once counts as scrolled.
                        for row in row..=known.len() {
                            let _ = write!(out, "\x1b[{row};1H\x1b[2K");
                        }
                        let _ = write!(out, "\x1b[{row};1H");
                        print(&mut out, lines[line..].iter().copied());
                    }
                }
                None => {
                    fit = CaptureFit::Unknown;
                    // The old screen scrolls out, and the whole capture follows.
                    let used = known
                        .iter()
                        .rposition(|row| !row.is_empty())
                        .map_or(0, |row| row + 1);
                    let _ = write!(out, "\x1b[{};1H", known.len().max(1));
                    out.push_str(&"\n".repeat(used));
                    out.push_str("\x1b[H");
                    print(&mut out, self.all.lines());
                }
            }
        }
        self.finish(&mut out);
        (out.into_bytes(), fit)
    }

    fn paint_alternate(&self, out: &mut String) {
        out.push_str("\x1b[?1049h\x1b[H\x1b[2J");
        print(out, self.front.lines());
    }

    fn finish(&self, out: &mut String) {
        let state = &self.state;
        out.push_str("\x1b[m");
        if state.region != (0, u32::from(state.rows).saturating_sub(1)) {
            let _ = write!(
                out,
                "\x1b[{};{}r",
                state.region.0.saturating_add(1),
                state.region.1.saturating_add(1)
            );
        }
        // Relative to the screen, not to the scroll region; the modes follow.
        let _ = write!(
            out,
            "\x1b[{};{}H",
            state.cursor.0.saturating_add(1),
            state.cursor.1.saturating_add(1)
        );
        for (mode, on) in &state.modes {
            // This mode moves the cursor when it is set.
            if *mode == "?6" && !on {
                continue;
            }
            let _ = write!(out, "\x1b[{mode}{}", if *on { 'h' } else { 'l' });
        }
        out.push_str(if state.app_keypad { "\x1b=" } else { "\x1b>" });
    }
}

/// Prints lines, without a line end after the last.
fn print<'a>(out: &mut String, lines: impl IntoIterator<Item = &'a str>) {
    for (index, line) in lines.into_iter().enumerate() {
        if index > 0 {
            out.push_str("\r\n");
        }
        out.push_str(line);
    }
}

/// The row in which each line begins. A line continues until its rows hold all of its characters.
fn starts(lines: &[&str], rows: &[&str]) -> Vec<usize> {
    let mut starts = Vec::with_capacity(lines.len());
    let mut row = 0;
    for line in lines {
        starts.push(row);
        let whole = seen(line);
        let mut had = rows.get(row).map_or(0, |row| seen(row));
        row += 1;
        while had < whole && row < rows.len() {
            had += seen(rows[row]);
            row += 1;
        }
    }
    starts
}

/// The number of characters that are not blank, without colour sequences.
fn seen(text: &str) -> usize {
    let mut count = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                // `capture-pane -e` writes nothing but colours (`ESC [ … m`) and shifts (SO, SI).
                for c in chars.by_ref() {
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            c if c.is_whitespace() || c.is_control() => {}
            _ => count += 1,
        }
    }
    count
}

/// The new row that holds the old screen's first row: the last position at which most of the old rows follow.
fn place_of(known: &[String], rows: &[&str]) -> Option<usize> {
    let used = known
        .iter()
        .rposition(|row| !row.is_empty())
        .map_or(0, |row| row + 1);
    let known = &known[..used];
    if known.is_empty() {
        // The old screen was empty, so all rows are new.
        return Some(0);
    }
    let written = |rows: &[String]| rows.iter().filter(|row| !row.is_empty()).count();
    let fit = |top: usize| {
        let same = known
            .iter()
            .zip(&rows[top..])
            .take_while(|(old, new)| old.as_str() == **new)
            .count();
        written(&known[..same])
    };
    let (best, top) = (0..rows.len()).map(|top| (fit(top), top)).max()?;
    // The last rows may have been overwritten since; a few equal rows are no proof.
    let enough = written(known).div_ceil(3).min(5);
    (best >= enough.max(1)).then_some(top)
}

#[cfg(test)]
mod tests;
