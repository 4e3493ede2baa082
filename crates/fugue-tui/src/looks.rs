//! How cells look, and how that is said to terminals with more or fewer colours.

use fugue_api::attach::{FrameColor, FrameStyle, StyleAttributes};

/// How many colours the person's terminal has, or is wanted to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// `NO_COLOR`: whatever has a colour elsewhere has to be told by signs and weight.
    None,
    Sixteen,
    Palette,
    True,
}

impl Depth {
    /// As the environment says.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if set("NO_COLOR").is_some() {
            return Self::None;
        }
        let colours = set("COLORTERM").unwrap_or_default();
        let term = set("TERM").unwrap_or_default();
        if colours == "truecolor" || colours == "24bit" || term.contains("direct") {
            Self::True
        } else if term.contains("256") || !colours.is_empty() {
            Self::Palette
        } else if ["vt100", "vt220", "vt102"].contains(&term.as_str()) {
            Self::None
        } else {
            Self::Sixteen
        }
    }
}

pub const BOLD: u16 = 1;
pub const DIM: u16 = 1 << 1;
pub const REVERSE: u16 = 1 << 4;
pub const HIDDEN: u16 = 1 << 5;

// Of the sixteen that a person has chosen for the terminal, so that they are legible on its background.
pub const RED: FrameColor = FrameColor(1);
pub const GREEN: FrameColor = FrameColor(2);
pub const YELLOW: FrameColor = FrameColor(3);
pub const MAGENTA: FrameColor = FrameColor(5);
pub const CYAN: FrameColor = FrameColor(6);

/// The terminal's own text.
pub fn plain() -> FrameStyle {
    FrameStyle::default()
}

/// The terminal's own text with these attributes.
pub fn with(attributes: u16) -> FrameStyle {
    FrameStyle(
        FrameColor::default(),
        FrameColor::default(),
        FrameColor::default(),
        StyleAttributes(attributes),
    )
}

pub fn coloured(colour: FrameColor) -> FrameStyle {
    FrameStyle(
        colour,
        FrameColor::default(),
        FrameColor::default(),
        StyleAttributes::default(),
    )
}

pub fn add(look: FrameStyle, attributes: u16) -> FrameStyle {
    FrameStyle(
        look.0,
        look.1,
        look.2,
        StyleAttributes(look.3.0 | attributes),
    )
}

/// Turned around, once more if it is already.
pub fn reversed(look: FrameStyle) -> FrameStyle {
    FrameStyle(look.0, look.1, look.2, StyleAttributes(look.3.0 ^ REVERSE))
}

/// Another background, and text that can be read on it.
pub fn on(text: FrameColor, background: FrameColor, attributes: u16) -> FrameStyle {
    FrameStyle(
        text,
        background,
        FrameColor::default(),
        StyleAttributes(attributes),
    )
}

/// Says, from whatever was said before, that text looks like this from now on.
pub fn say(look: FrameStyle, depth: Depth, out: &mut Vec<u8>) {
    let mut words = String::from("\x1b[0");
    let StyleAttributes(attributes) = look.3;
    // 1 bold, 2 dim, 3 italic, 5 blink, 7 reverse, 8 hidden, 9 struck, 53 overlined.
    for (bit, code) in [1, 2, 3, 5, 7, 8, 9, 53].into_iter().enumerate() {
        if attributes & 1 << bit != 0 {
            words.push_str(&format!(";{code}"));
        }
    }
    colour(look.0, depth, 30, &mut words);
    colour(look.1, depth, 40, &mut words);
    let underline = attributes >> 8 & 7;
    if underline != 0 {
        words.push_str(";4");
    }
    words.push('m');
    // Numbers behind a colon are skipped by terminals that do not know them; so the plain line comes first, by itself.
    if (2..=5).contains(&underline) {
        words.push_str(&format!("\x1b[4:{underline}m"));
    }
    if underline != 0 {
        match (look.2, depth) {
            (_, Depth::None | Depth::Sixteen) | (FrameColor(..0), _) => {}
            (FrameColor(index @ ..256), _) => words.push_str(&format!("\x1b[58:5:{index}m")),
            (rgb, Depth::True) => {
                let (r, g, b) = parts(rgb);
                words.push_str(&format!("\x1b[58:2::{r}:{g}:{b}m"));
            }
            (rgb, Depth::Palette) => {
                words.push_str(&format!("\x1b[58:5:{}m", nearest_of_256(parts(rgb))));
            }
        }
    }
    out.extend_from_slice(words.as_bytes());
}

fn colour(FrameColor(number): FrameColor, depth: Depth, base: u16, words: &mut String) {
    if number < 0 || depth == Depth::None {
        return;
    }
    let rgb = || parts(FrameColor(number));
    let index = match (depth, number) {
        (Depth::Sixteen, 0..16) | (Depth::Palette | Depth::True, 0..256) => number as u8,
        (Depth::Sixteen, 16..256) => nearest_of_16(of_palette(number as u8)),
        (Depth::Sixteen, _) => nearest_of_16(rgb()),
        (Depth::Palette, _) => nearest_of_256(rgb()),
        _ => {
            let (r, g, b) = rgb();
            words.push_str(&format!(";{};2;{r};{g};{b}", base + 8));
            return;
        }
    };
    match index {
        0..8 => words.push_str(&format!(";{}", base + u16::from(index))),
        8..16 => words.push_str(&format!(";{}", base + 52 + u16::from(index))),
        _ => words.push_str(&format!(";{};5;{index}", base + 8)),
    }
}

fn parts(FrameColor(number): FrameColor) -> (u8, u8, u8) {
    let [_, r, g, b] = number.to_be_bytes();
    (r, g, b)
}

// The levels of the palette's cube, and xterm's first sixteen.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
const FIRST: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

fn of_palette(index: u8) -> (u8, u8, u8) {
    match index {
        0..16 => FIRST[usize::from(index)],
        16..232 => {
            let cube = usize::from(index - 16);
            (LEVELS[cube / 36], LEVELS[cube / 6 % 6], LEVELS[cube % 6])
        }
        232.. => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

fn distance(one: (u8, u8, u8), other: (u8, u8, u8)) -> u32 {
    let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    // The eye is surest of green and least of blue.
    3 * square(one.0, other.0) + 4 * square(one.1, other.1) + 2 * square(one.2, other.2)
}

fn nearest_of_16(rgb: (u8, u8, u8)) -> u8 {
    let near = (0..16).min_by_key(|index| distance(of_palette(*index), rgb));
    near.unwrap_or_default()
}

fn nearest_of_256(rgb: (u8, u8, u8)) -> u8 {
    // The first sixteen are whatever the person made them.
    let near = (16..=255).min_by_key(|index| distance(of_palette(*index), rgb));
    near.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(look: FrameStyle, depth: Depth) -> String {
        let mut out = Vec::new();
        say(look, depth, &mut out);
        String::from_utf8(out).unwrap().replace('\x1b', "^")
    }

    #[test]
    fn a_look_is_said_in_the_colours_that_there_are() {
        let orange = FrameColor(0x1_00_00_00 + 0xff_80_00);
        let look = on(orange, FrameColor(236), BOLD);
        for (depth, words) in [
            (Depth::True, "^[0;1;38;2;255;128;0;48;5;236m"),
            (Depth::Palette, "^[0;1;38;5;208;48;5;236m"),
            (Depth::Sixteen, "^[0;1;33;40m"),
            (Depth::None, "^[0;1m"),
        ] {
            assert_eq!(said(look, depth), words, "{depth:?}");
        }
        assert_eq!(said(coloured(FrameColor(9)), Depth::Sixteen), "^[0;91m");
        assert_eq!(said(plain(), Depth::True), "^[0m");
    }

    #[test]
    fn a_kind_of_underline_falls_back_to_a_plain_one() {
        let curly = FrameStyle(
            FrameColor(-1),
            FrameColor(-1),
            FrameColor(1),
            StyleAttributes(3 << 8),
        );
        assert_eq!(said(curly, Depth::Palette), "^[0;4m^[4:3m^[58:5:1m");
        let single = FrameStyle(
            FrameColor(-1),
            FrameColor(-1),
            FrameColor(-1),
            StyleAttributes(1 << 8),
        );
        assert_eq!(said(single, Depth::True), "^[0;4m");
        assert_eq!(said(with(0xff), Depth::True), "^[0;1;2;3;5;7;8;9;53m");
    }

    #[test]
    fn the_environment_tells_how_many_colours_there_are() {
        let check = |set: &[(&str, &str)], depth: Depth| {
            let found = Depth::of(|name| {
                let value = set.iter().find(|(key, _)| *key == name);
                value.map(|(_, value)| (*value).to_owned())
            });
            assert_eq!(found, depth, "{set:?}");
        };
        check(&[("TERM", "xterm-256color")], Depth::Palette);
        check(
            &[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")],
            Depth::True,
        );
        check(&[("TERM", "xterm-direct")], Depth::True);
        check(&[("TERM", "linux")], Depth::Sixteen);
        check(&[("TERM", "vt100")], Depth::None);
        check(
            &[("TERM", "xterm-256color"), ("NO_COLOR", "1")],
            Depth::None,
        );
        check(
            &[("TERM", "xterm-256color"), ("NO_COLOR", "")],
            Depth::Palette,
        );
    }
}
