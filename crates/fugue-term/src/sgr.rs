//! Select graphic rendition (`CSI … m`): the style of the text that follows.

use crate::cell::{CellAttribute, Color, Style, Underline};
use crate::parser::CsiSequence;

/// Applies a sequence to the pen. Unknown parameters are skipped.
pub(crate) fn apply(pen: &mut Style, csi: &CsiSequence) {
    let mut params = csi.params();
    while let Some(param) = params.next() {
        match param[0] {
            0 => *pen = Style::default(),
            1 => pen.add(CellAttribute::Bold),
            2 => pen.add(CellAttribute::Dim),
            3 => pen.add(CellAttribute::Italic),
            4 => pen.set_underline(underline(param.get(1).copied().unwrap_or(1))),
            5 | 6 => pen.add(CellAttribute::Blink),
            7 => pen.add(CellAttribute::Reverse),
            8 => pen.add(CellAttribute::Hidden),
            9 => pen.add(CellAttribute::Strike),
            21 => pen.set_underline(Underline::Double),
            22 => {
                pen.remove(CellAttribute::Bold);
                pen.remove(CellAttribute::Dim);
            }
            23 => pen.remove(CellAttribute::Italic),
            24 => pen.set_underline(Underline::None),
            25 => pen.remove(CellAttribute::Blink),
            27 => pen.remove(CellAttribute::Reverse),
            28 => pen.remove(CellAttribute::Hidden),
            29 => pen.remove(CellAttribute::Strike),
            n @ 30..=37 => pen.set_fg(Color::Indexed((n - 30) as u8)),
            n @ 40..=47 => pen.set_bg(Color::Indexed((n - 40) as u8)),
            n @ 90..=97 => pen.set_fg(Color::Indexed((n - 90 + 8) as u8)),
            n @ 100..=107 => pen.set_bg(Color::Indexed((n - 100 + 8) as u8)),
            39 => pen.set_fg(Color::Default),
            49 => pen.set_bg(Color::Default),
            53 => pen.add(CellAttribute::Overline),
            55 => pen.remove(CellAttribute::Overline),
            59 => pen.set_underline_color(Color::Default),
            which @ (38 | 48 | 58) => {
                let color = if param.len() > 1 {
                    with_colons(&param[1..])
                } else {
                    with_semicolons(&mut params)
                };
                // An invalid colour leaves the pen unchanged.
                let Some(color) = color else { continue };
                match which {
                    38 => pen.set_fg(color),
                    48 => pen.set_bg(color),
                    _ => pen.set_underline_color(color),
                }
            }
            _ => (),
        }
    }
}

fn underline(kind: u16) -> Underline {
    match kind {
        0 => Underline::None,
        2 => Underline::Double,
        3 => Underline::Curly,
        4 => Underline::Dotted,
        5 => Underline::Dashed,
        _ => Underline::Single,
    }
}

/// The part after 38 in `38:2::r:g:b`, `38:2:r:g:b` or `38:5:n`.
fn with_colons(parts: &[u16]) -> Option<Color> {
    match *parts {
        [5, index, ..] => indexed(index),
        [2, _, r, g, b, ..] | [2, r, g, b] => rgb(r, g, b),
        _ => None,
    }
}

/// The same with semicolons, where each part is a parameter.
fn with_semicolons<'a>(params: &mut impl Iterator<Item = &'a [u16]>) -> Option<Color> {
    let mut next = || params.next().map(|param| param[0]);
    match next()? {
        5 => indexed(next()?),
        2 => rgb(next()?, next()?, next()?),
        _ => None,
    }
}

fn indexed(index: u16) -> Option<Color> {
    u8::try_from(index).ok().map(Color::Indexed)
}

fn rgb(r: u16, g: u16, b: u16) -> Option<Color> {
    let part = |n: u16| u8::try_from(n).ok();
    Some(Color::Rgb(part(r)?, part(g)?, part(b)?))
}
