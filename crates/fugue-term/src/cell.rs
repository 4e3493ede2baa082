//! One cell of the screen: its character and its style.
//!
//! A cell is sixteen bytes and `Copy`, because filling and moving rows of cells is most of the terminal's work.
//! Characters with combining marks do not fit and are stored in the [`ClusterTable`](crate::clusters::ClusterTable).

/// A colour as set by the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// The terminal's default colour.
    #[default]
    Default,
    /// A colour of the 256-colour palette.
    Indexed(u8),
    /// A 24-bit colour.
    Rgb(u8, u8, u8),
}

/// The underline style of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Underline {
    /// No underline.
    #[default]
    None,
    /// A single line.
    Single,
    /// A double line.
    Double,
    /// A wavy line.
    Curly,
    /// A dotted line.
    Dotted,
    /// A dashed line.
    Dashed,
}

/// Colours and attributes of a cell.
///
/// A colour takes 26 bits. The attributes are stored in the six bits above the foreground and background colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Style {
    fg: u32,
    bg: u32,
    underline: u32,
}

const COLOR_MASK: u32 = (1 << 26) - 1;
const UNDERLINE_SHIFT: u32 = 28;

/// An attribute that is either on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellAttribute {
    /// Brighter or heavier.
    Bold,
    /// Fainter.
    Dim,
    /// Slanted.
    Italic,
    /// Blinking.
    Blink,
    /// Foreground and background swapped.
    Reverse,
    /// Not shown.
    Hidden,
    /// Struck through.
    Strike,
    /// A line above.
    Overline,
}

impl CellAttribute {
    /// All attributes.
    pub const ALL: [CellAttribute; 8] = [
        CellAttribute::Bold,
        CellAttribute::Dim,
        CellAttribute::Italic,
        CellAttribute::Blink,
        CellAttribute::Reverse,
        CellAttribute::Hidden,
        CellAttribute::Strike,
        CellAttribute::Overline,
    ];
}

impl Style {
    /// The colour of the text.
    pub fn fg(&self) -> Color {
        unpack(self.fg)
    }

    /// The background colour.
    pub fn bg(&self) -> Color {
        unpack(self.bg)
    }

    /// The colour of the underline; `Default` means the colour of the text.
    pub fn underline_color(&self) -> Color {
        unpack(self.underline)
    }

    /// The kind of underline.
    pub fn underline(&self) -> Underline {
        match self.bg >> UNDERLINE_SHIFT & 7 {
            1 => Underline::Single,
            2 => Underline::Double,
            3 => Underline::Curly,
            4 => Underline::Dotted,
            5 => Underline::Dashed,
            _ => Underline::None,
        }
    }

    /// Whether an attribute is on.
    pub fn has(&self, attr: CellAttribute) -> bool {
        let (word, bit) = attribute_bit(attr);
        let word = if word == 0 { self.fg } else { self.bg };
        word & bit != 0
    }

    pub(crate) fn set_fg(&mut self, color: Color) {
        self.fg = self.fg & !COLOR_MASK | pack(color);
    }

    pub(crate) fn set_bg(&mut self, color: Color) {
        self.bg = self.bg & !COLOR_MASK | pack(color);
    }

    pub(crate) fn set_underline_color(&mut self, color: Color) {
        self.underline = pack(color);
    }

    pub(crate) fn set_underline(&mut self, underline: Underline) {
        self.bg = self.bg & !(7 << UNDERLINE_SHIFT) | (underline as u32) << UNDERLINE_SHIFT;
    }

    pub(crate) fn add(&mut self, attr: CellAttribute) {
        let (word, bit) = attribute_bit(attr);
        *(if word == 0 {
            &mut self.fg
        } else {
            &mut self.bg
        }) |= bit;
    }

    pub(crate) fn remove(&mut self, attr: CellAttribute) {
        let (word, bit) = attribute_bit(attr);
        *(if word == 0 {
            &mut self.fg
        } else {
            &mut self.bg
        }) &= !bit;
    }

    /// The style of a cell erased with this pen: only the background stays.
    pub(crate) fn erased(&self) -> Style {
        Style {
            fg: 0,
            bg: self.bg & COLOR_MASK,
            underline: 0,
        }
    }
}

fn attribute_bit(attr: CellAttribute) -> (u8, u32) {
    match attr {
        CellAttribute::Bold => (0, 1 << 26),
        CellAttribute::Dim => (0, 1 << 27),
        CellAttribute::Italic => (0, 1 << 28),
        CellAttribute::Blink => (0, 1 << 29),
        CellAttribute::Reverse => (0, 1 << 30),
        CellAttribute::Hidden => (0, 1 << 31),
        CellAttribute::Strike => (1, 1 << 26),
        CellAttribute::Overline => (1, 1 << 27),
    }
}

fn pack(color: Color) -> u32 {
    match color {
        Color::Default => 0,
        Color::Indexed(index) => 1 << 24 | u32::from(index),
        Color::Rgb(r, g, b) => 2 << 24 | u32::from(r) << 16 | u32::from(g) << 8 | u32::from(b),
    }
}

fn unpack(packed: u32) -> Color {
    let [_, r, g, b] = packed.to_be_bytes();
    match packed >> 24 & 3 {
        0 => Color::Default,
        1 => Color::Indexed(b),
        _ => Color::Rgb(r, g, b),
    }
}

/// The contents of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyph {
    /// Never printed, or erased.
    Blank,
    /// The right half of the wide character in the cell to the left.
    Spacer,
    /// A single character.
    Char(char),
    /// A character with combining marks, as an index into the cluster table.
    Cluster(u32),
}

/// One cell of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    code: u32,
    pub(crate) style: Style,
}

const CLUSTER_FLAG: u32 = 1 << 31;
const WIDE_FLAG: u32 = 1 << 30;
const VALUE_MASK: u32 = WIDE_FLAG - 1;

impl Cell {
    pub(crate) const BLANK: Cell = Cell {
        code: 0,
        style: Style {
            fg: 0,
            bg: 0,
            underline: 0,
        },
    };

    pub(crate) fn blank(style: Style) -> Cell {
        Cell {
            code: 0,
            style: style.erased(),
        }
    }

    /// A printable ASCII byte, which is always one column wide.
    pub(crate) fn ascii(byte: u8, style: Style) -> Cell {
        Cell {
            code: u32::from(byte),
            style,
        }
    }

    pub(crate) fn narrow(c: char, style: Style) -> Cell {
        Cell {
            code: u32::from(c),
            style,
        }
    }

    pub(crate) fn wide(c: char, style: Style) -> Cell {
        Cell {
            code: u32::from(c) | WIDE_FLAG,
            style,
        }
    }

    pub(crate) fn spacer(style: Style) -> Cell {
        Cell {
            code: WIDE_FLAG,
            style,
        }
    }

    /// The cell as two words for hashing, without the cluster index, which may denote another text later.
    pub(crate) fn hash_words(self) -> [u64; 2] {
        let code = match self.glyph() {
            Glyph::Cluster(_) => self.code & !VALUE_MASK,
            Glyph::Blank | Glyph::Spacer | Glyph::Char(_) => self.code,
        };
        let Style { fg, bg, underline } = self.style;
        let pair = |one: u32, other: u32| u64::from(one) << 32 | u64::from(other);
        [pair(code, fg), pair(bg, underline)]
    }

    pub(crate) fn is_blank(self) -> bool {
        self.code == 0
    }

    pub(crate) fn is_spacer(self) -> bool {
        self.code == WIDE_FLAG
    }

    pub(crate) fn is_wide(self) -> bool {
        self.code & WIDE_FLAG != 0 && !self.is_spacer()
    }

    pub(crate) fn as_ascii(self) -> Option<u8> {
        if self.code < 0x80 && self.code != 0 {
            Some(self.code as u8)
        } else {
            None
        }
    }

    pub(crate) fn glyph(self) -> Glyph {
        if self.code & CLUSTER_FLAG != 0 {
            return Glyph::Cluster(self.code & VALUE_MASK);
        }
        match self.code {
            0 => Glyph::Blank,
            WIDE_FLAG => Glyph::Spacer,
            code => char::from_u32(code & VALUE_MASK).map_or(Glyph::Blank, Glyph::Char),
        }
    }

    /// The same cell with its character replaced by a cluster.
    pub(crate) fn with_cluster(self, index: u32) -> Cell {
        Cell {
            code: self.code & WIDE_FLAG | CLUSTER_FLAG | index & VALUE_MASK,
            style: self.style,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_sixteen_bytes() {
        assert_eq!(size_of::<Cell>(), 16);
    }

    #[test]
    fn colours_and_attributes_are_independent() {
        let mut style = Style::default();
        for attr in CellAttribute::ALL {
            style.add(attr);
        }
        style.set_underline(Underline::Dashed);
        style.set_fg(Color::Rgb(255, 254, 253));
        style.set_bg(Color::Indexed(255));
        style.set_underline_color(Color::Rgb(1, 2, 3));
        assert!(CellAttribute::ALL.into_iter().all(|attr| style.has(attr)));
        assert_eq!(style.underline(), Underline::Dashed);
        assert_eq!(style.fg(), Color::Rgb(255, 254, 253));
        assert_eq!(style.bg(), Color::Indexed(255));
        assert_eq!(style.underline_color(), Color::Rgb(1, 2, 3));
        for attr in CellAttribute::ALL {
            style.remove(attr);
            assert!(!style.has(attr));
        }
        style.set_underline(Underline::None);
        assert_eq!(style.fg(), Color::Rgb(255, 254, 253));
        assert_eq!(style.erased().bg(), Color::Indexed(255));
        assert_eq!(style.erased().fg(), Color::Default);
    }

    #[test]
    fn constructors_and_accessors_agree() {
        let style = Style::default();
        assert_eq!(Cell::BLANK.glyph(), Glyph::Blank);
        assert_eq!(Cell::ascii(b'a', style).glyph(), Glyph::Char('a'));
        assert_eq!(Cell::wide('漢', style).glyph(), Glyph::Char('漢'));
        assert!(Cell::wide('漢', style).is_wide());
        assert_eq!(Cell::spacer(style).glyph(), Glyph::Spacer);
        assert!(!Cell::spacer(style).is_wide());
        let cluster = Cell::wide('漢', style).with_cluster(7);
        assert_eq!(cluster.glyph(), Glyph::Cluster(7));
        assert!(cluster.is_wide());
    }
}
