//! One place on the screen: what is written there and how it looks.
//!
//! A cell is sixteen bytes and `Copy`, because filling and moving rows of them is most of the work there is. What
//! does not fit (a letter with its accents) lives in [`Clusters`](crate::clusters::Clusters).

/// A colour as a program asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// The terminal's own.
    #[default]
    Default,
    /// One of the 256 of the palette.
    Indexed(u8),
    /// An exact one.
    Rgb(u8, u8, u8),
}

/// How a cell is underlined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Underline {
    /// Not.
    #[default]
    None,
    /// One line.
    Single,
    /// Two lines.
    Double,
    /// A wave.
    Curly,
    /// Dots.
    Dotted,
    /// Dashes.
    Dashed,
}

/// How a cell looks.
///
/// A colour takes 26 bits; the attributes live in the six bits above the two main colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Style {
    fg: u32,
    bg: u32,
    underline: u32,
}

const COLOR: u32 = (1 << 26) - 1;
const UNDERLINE_SHIFT: u32 = 28;

/// An attribute that is on or off.
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
    /// All of them.
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

    /// The colour behind the text.
    pub fn bg(&self) -> Color {
        unpack(self.bg)
    }

    /// The colour of the underline; `Default` is that of the text.
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
        let (word, bit) = place(attr);
        let word = if word == 0 { self.fg } else { self.bg };
        word & bit != 0
    }

    pub(crate) fn set_fg(&mut self, color: Color) {
        self.fg = self.fg & !COLOR | pack(color);
    }

    pub(crate) fn set_bg(&mut self, color: Color) {
        self.bg = self.bg & !COLOR | pack(color);
    }

    pub(crate) fn set_underline_color(&mut self, color: Color) {
        self.underline = pack(color);
    }

    pub(crate) fn set_underline(&mut self, underline: Underline) {
        self.bg = self.bg & !(7 << UNDERLINE_SHIFT) | (underline as u32) << UNDERLINE_SHIFT;
    }

    pub(crate) fn add(&mut self, attr: CellAttribute) {
        let (word, bit) = place(attr);
        *(if word == 0 {
            &mut self.fg
        } else {
            &mut self.bg
        }) |= bit;
    }

    pub(crate) fn remove(&mut self, attr: CellAttribute) {
        let (word, bit) = place(attr);
        *(if word == 0 {
            &mut self.fg
        } else {
            &mut self.bg
        }) &= !bit;
    }

    /// What an erased cell keeps of the pen: the background only.
    pub(crate) fn erased(&self) -> Style {
        Style {
            fg: 0,
            bg: self.bg & COLOR,
            underline: 0,
        }
    }
}

fn place(attr: CellAttribute) -> (u8, u32) {
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

/// What is written in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyph {
    /// Nothing was printed here, or it was erased.
    Blank,
    /// The right half of the wide character to the left.
    Spacer,
    /// One character.
    Char(char),
    /// A character with marks joined to it, by its number in the cluster table.
    Cluster(u32),
}

/// One place on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    code: u32,
    pub(crate) style: Style,
}

const CLUSTER: u32 = 1 << 31;
const WIDE: u32 = 1 << 30;
const VALUE: u32 = WIDE - 1;

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

    /// A printable ASCII byte: one column, nothing to look up.
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
            code: u32::from(c) | WIDE,
            style,
        }
    }

    pub(crate) fn spacer(style: Style) -> Cell {
        Cell { code: WIDE, style }
    }

    /// All of it, but for a cluster's text, whose number may be another's later.
    pub(crate) fn words(self) -> [u64; 2] {
        let code = match self.glyph() {
            Glyph::Cluster(_) => self.code & !VALUE,
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
        self.code == WIDE
    }

    pub(crate) fn is_wide(self) -> bool {
        self.code & WIDE != 0 && !self.is_spacer()
    }

    pub(crate) fn as_ascii(self) -> Option<u8> {
        if self.code < 0x80 && self.code != 0 {
            Some(self.code as u8)
        } else {
            None
        }
    }

    pub(crate) fn glyph(self) -> Glyph {
        if self.code & CLUSTER != 0 {
            return Glyph::Cluster(self.code & VALUE);
        }
        match self.code {
            0 => Glyph::Blank,
            WIDE => Glyph::Spacer,
            code => char::from_u32(code & VALUE).map_or(Glyph::Blank, Glyph::Char),
        }
    }

    /// The same cell with marks joined to its character: the cluster that has them all.
    pub(crate) fn with_cluster(self, index: u32) -> Cell {
        Cell {
            code: self.code & WIDE | CLUSTER | index & VALUE,
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
    fn colours_and_attributes_do_not_disturb_each_other() {
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
    fn a_cell_knows_what_it_holds() {
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
