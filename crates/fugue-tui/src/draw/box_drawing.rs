//! Box-drawing characters for the borders between tiles.

/// The weight of the line from the center of a cell to one of its edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineWeight {
    #[default]
    None,
    Light,
    Heavy,
}

/// The lines that meet in one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineJunction {
    pub up: LineWeight,
    pub right: LineWeight,
    pub down: LineWeight,
    pub left: LineWeight,
}

impl LineJunction {
    /// The character with these lines.
    pub fn glyph(self) -> char {
        let code = [self.up, self.right, self.down, self.left].map(|arm| match arm {
            LineWeight::None => '0',
            LineWeight::Light => '1',
            LineWeight::Heavy => '2',
        });
        let code: String = code.iter().collect();
        let known = GLYPHS.iter().find(|(arms, _)| *arms == code);
        known.map_or(' ', |(_, glyph)| *glyph)
    }
}

/// Up, right, down, left: 0 none, 1 light, 2 heavy.
const GLYPHS: &[(&str, char)] = &[
    ("0100", '─'),
    ("0001", '─'),
    ("0101", '─'),
    ("0200", '━'),
    ("0002", '━'),
    ("0202", '━'),
    ("0102", '╾'),
    ("0201", '╼'),
    ("1000", '│'),
    ("0010", '│'),
    ("1010", '│'),
    ("2020", '┃'),
    ("0110", '┌'),
    ("0210", '┍'),
    ("0011", '┐'),
    ("0012", '┑'),
    ("1100", '└'),
    ("1200", '┕'),
    ("1001", '┘'),
    ("1002", '┙'),
    ("1110", '├'),
    ("1210", '┝'),
    ("1011", '┤'),
    ("1012", '┥'),
    ("0111", '┬'),
    ("0112", '┭'),
    ("0211", '┮'),
    ("0212", '┯'),
    ("1101", '┴'),
    ("1102", '┵'),
    ("1201", '┶'),
    ("1202", '┷'),
    ("1111", '┼'),
    ("1112", '┽'),
    ("1211", '┾'),
    ("1212", '┿'),
];
