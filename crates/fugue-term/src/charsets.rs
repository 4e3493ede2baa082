//! Character sets: ASCII and line drawing, the only sets that programs still switch between.

/// The sets G0 and G1, and which of the two is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charsets {
    pub(crate) drawing: [bool; 2],
    pub(crate) shifted: bool,
}

impl Charsets {
    pub(crate) fn is_drawing(&self) -> bool {
        self.drawing[usize::from(self.shifted)]
    }
}

/// The line drawing set of the VT100.
pub(crate) fn drawing(byte: u8) -> char {
    const SET: [char; 31] = [
        '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─',
        '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
    ];
    match byte {
        0x5f => ' ',
        0x60..=0x7e => SET[usize::from(byte - 0x60)],
        byte => char::from(byte),
    }
}
