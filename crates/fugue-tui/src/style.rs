//! Styles of cells, and their SGR sequences for terminals with more or fewer colors.

use fugue_api::attach::{FrameColor, FrameStyle, StyleAttributes};

/// The number of colors of the host terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorDepth {
    /// `NO_COLOR`, or a monochrome terminal: only signs and attributes are used.
    None,
    Sixteen,
    Palette,
    True,
}

impl ColorDepth {
    /// Reads `NO_COLOR`, `COLORTERM` and `TERM`.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Self {
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

// Colors of the person's own palette, which are legible on its background.
pub const RED: FrameColor = FrameColor(1);
pub const GREEN: FrameColor = FrameColor(2);
pub const YELLOW: FrameColor = FrameColor(3);
pub const MAGENTA: FrameColor = FrameColor(5);
pub const CYAN: FrameColor = FrameColor(6);

/// The default style.
pub fn plain() -> FrameStyle {
    FrameStyle::default()
}

/// The default style with these attributes.
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

pub fn add(style: FrameStyle, attributes: u16) -> FrameStyle {
    FrameStyle(
        style.0,
        style.1,
        style.2,
        StyleAttributes(style.3.0 | attributes),
    )
}

/// The style with its reverse attribute toggled.
pub fn reversed(style: FrameStyle) -> FrameStyle {
    FrameStyle(
        style.0,
        style.1,
        style.2,
        StyleAttributes(style.3.0 ^ REVERSE),
    )
}

/// A text color on a background color.
pub fn on(text: FrameColor, background: FrameColor, attributes: u16) -> FrameStyle {
    FrameStyle(
        text,
        background,
        FrameColor::default(),
        StyleAttributes(attributes),
    )
}

/// Writes the SGR sequence for a style; it does not depend on the style before.
pub fn write_sgr(style: FrameStyle, depth: ColorDepth, out: &mut Vec<u8>) {
    let mut sequence = String::from("\x1b[0");
    let StyleAttributes(attributes) = style.3;
    // 1 bold, 2 dim, 3 italic, 5 blink, 7 reverse, 8 hidden, 9 struck, 53 overlined.
    for (bit, code) in [1, 2, 3, 5, 7, 8, 9, 53].into_iter().enumerate() {
        if attributes & 1 << bit != 0 {
            sequence.push_str(&format!(";{code}"));
        }
    }
    colour(style.0, depth, 30, &mut sequence);
    colour(style.1, depth, 40, &mut sequence);
    let underline = attributes >> 8 & 7;
    if underline != 0 {
        sequence.push_str(";4");
    }
    sequence.push('m');
    // Terminals without support skip subparameters after a colon, so the plain underline comes first on its own.
    if (2..=5).contains(&underline) {
        sequence.push_str(&format!("\x1b[4:{underline}m"));
    }
    if underline != 0 {
        match (style.2, depth) {
            (_, ColorDepth::None | ColorDepth::Sixteen) | (FrameColor(..0), _) => {}
            (FrameColor(index @ ..256), _) => sequence.push_str(&format!("\x1b[58:5:{index}m")),
            (rgb, ColorDepth::True) => {
                let (r, g, b) = parts(rgb);
                sequence.push_str(&format!("\x1b[58:2::{r}:{g}:{b}m"));
            }
            (rgb, ColorDepth::Palette) => {
                sequence.push_str(&format!("\x1b[58:5:{}m", nearest_of_256(parts(rgb))));
            }
        }
    }
    out.extend_from_slice(sequence.as_bytes());
}

fn colour(FrameColor(number): FrameColor, depth: ColorDepth, base: u16, sequence: &mut String) {
    if number < 0 || depth == ColorDepth::None {
        return;
    }
    let rgb = || parts(FrameColor(number));
    let index = match (depth, number) {
        (ColorDepth::Sixteen, 0..16) | (ColorDepth::Palette | ColorDepth::True, 0..256) => {
            number as u8
        }
        (ColorDepth::Sixteen, 16..256) => nearest_of_16(palette_rgb(number as u8)),
        (ColorDepth::Sixteen, _) => nearest_of_16(rgb()),
        (ColorDepth::Palette, _) => nearest_of_256(rgb()),
        _ => {
            let (r, g, b) = rgb();
            sequence.push_str(&format!(";{};2;{r};{g};{b}", base + 8));
            return;
        }
    };
    match index {
        0..8 => sequence.push_str(&format!(";{}", base + u16::from(index))),
        8..16 => sequence.push_str(&format!(";{}", base + 52 + u16::from(index))),
        _ => sequence.push_str(&format!(";{};5;{index}", base + 8)),
    }
}

fn parts(FrameColor(number): FrameColor) -> (u8, u8, u8) {
    let [_, r, g, b] = number.to_be_bytes();
    (r, g, b)
}

// The levels of the palette's color cube, and xterm's first sixteen colors.
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

fn palette_rgb(index: u8) -> (u8, u8, u8) {
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
    // The eye distinguishes green best and blue least.
    3 * square(one.0, other.0) + 4 * square(one.1, other.1) + 2 * square(one.2, other.2)
}

fn nearest_of_16(rgb: (u8, u8, u8)) -> u8 {
    let near = (0..16).min_by_key(|index| distance(palette_rgb(*index), rgb));
    near.unwrap_or_default()
}

fn nearest_of_256(rgb: (u8, u8, u8)) -> u8 {
    // The first sixteen are configured by the person, so their colors are unknown.
    let near = (16..=255).min_by_key(|index| distance(palette_rgb(*index), rgb));
    near.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(style: FrameStyle, depth: ColorDepth) -> String {
        let mut out = Vec::new();
        write_sgr(style, depth, &mut out);
        String::from_utf8(out).unwrap().replace('\x1b', "^")
    }

    #[test]
    fn a_style_is_written_in_the_available_colors() {
        let orange = FrameColor(0x1_00_00_00 + 0xff_80_00);
        let style = on(orange, FrameColor(236), BOLD);
        for (depth, sequence) in [
            (ColorDepth::True, "^[0;1;38;2;255;128;0;48;5;236m"),
            (ColorDepth::Palette, "^[0;1;38;5;208;48;5;236m"),
            (ColorDepth::Sixteen, "^[0;1;33;40m"),
            (ColorDepth::None, "^[0;1m"),
        ] {
            assert_eq!(written(style, depth), sequence, "{depth:?}");
        }
        assert_eq!(
            written(coloured(FrameColor(9)), ColorDepth::Sixteen),
            "^[0;91m"
        );
        assert_eq!(written(plain(), ColorDepth::True), "^[0m");
    }

    #[test]
    fn a_kind_of_underline_falls_back_to_a_plain_one() {
        let curly = FrameStyle(
            FrameColor(-1),
            FrameColor(-1),
            FrameColor(1),
            StyleAttributes(3 << 8),
        );
        assert_eq!(written(curly, ColorDepth::Palette), "^[0;4m^[4:3m^[58:5:1m");
        let single = FrameStyle(
            FrameColor(-1),
            FrameColor(-1),
            FrameColor(-1),
            StyleAttributes(1 << 8),
        );
        assert_eq!(written(single, ColorDepth::True), "^[0;4m");
        assert_eq!(
            written(with(0xff), ColorDepth::True),
            "^[0;1;2;3;5;7;8;9;53m"
        );
    }

    #[test]
    fn the_color_depth_comes_from_the_environment() {
        let check = |set: &[(&str, &str)], depth: ColorDepth| {
            let found = ColorDepth::from_env(|name| {
                let value = set.iter().find(|(key, _)| *key == name);
                value.map(|(_, value)| (*value).to_owned())
            });
            assert_eq!(found, depth, "{set:?}");
        };
        check(&[("TERM", "xterm-256color")], ColorDepth::Palette);
        check(
            &[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")],
            ColorDepth::True,
        );
        check(&[("TERM", "xterm-direct")], ColorDepth::True);
        check(&[("TERM", "linux")], ColorDepth::Sixteen);
        check(&[("TERM", "vt100")], ColorDepth::None);
        check(
            &[("TERM", "xterm-256color"), ("NO_COLOR", "1")],
            ColorDepth::None,
        );
        check(
            &[("TERM", "xterm-256color"), ("NO_COLOR", "")],
            ColorDepth::Palette,
        );
    }
}
