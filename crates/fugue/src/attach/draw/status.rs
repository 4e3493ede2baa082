//! The last row: where we are, what is the matter, and what can be pressed.

use fugue_api::attach::{FrameColor, FrameStyle, ViewerRole};

use crate::attach::{
    canvas::{Canvas, Caret, fit, width},
    clean,
    looks::{BOLD, Depth, RED, REVERSE, YELLOW, on, with},
    model::{Direction, Gone, Link, Mode, Model, Tone},
};

struct Bar {
    plain: FrameStyle,
    strong: FrameStyle,
    warn: FrameStyle,
    bad: FrameStyle,
}

impl Bar {
    fn of(depth: Depth) -> Self {
        match depth {
            // The text's own colours, turned around, are legible anywhere.
            Depth::None | Depth::Sixteen => Self {
                plain: with(REVERSE),
                strong: with(REVERSE | BOLD),
                warn: with(REVERSE | BOLD),
                bad: with(REVERSE | BOLD),
            },
            Depth::Palette | Depth::True => {
                let (text, ground) = (FrameColor(252), FrameColor(236));
                Self {
                    plain: on(text, ground, 0),
                    strong: on(FrameColor(255), ground, BOLD),
                    warn: on(FrameColor(16), YELLOW, BOLD),
                    bad: on(FrameColor(255), RED, BOLD),
                }
            }
        }
    }
}

pub fn draw(model: &Model, depth: Depth, canvas: &mut Canvas) {
    let area = model.places().status;
    if area.rows == 0 {
        return;
    }
    let bar = Bar::of(depth);
    let (row, edge) = (area.row, area.cols);
    canvas.fill(area, ' ', bar.plain);
    let mut col = 0;
    let mut add = |canvas: &mut Canvas, text: &str, look: FrameStyle| {
        col = canvas.text_cut(row, col, text, look, edge);
        col
    };

    if let Some(prompt) = prompt(model) {
        let end = add(canvas, &format!(" {prompt}"), bar.strong);
        canvas.caret = Some(Caret {
            row,
            col: end.min(edge.saturating_sub(1)),
            shape: 0,
        });
        return;
    }
    if let Mode::Close(pane) = &model.mode {
        let name = model.row(*pane).map(|row| clean::line(&row.name));
        let name = name.unwrap_or_default();
        add(
            canvas,
            &format!(" close {pane} {name} and all that runs in it? y/n "),
            bar.warn,
        );
        return;
    }
    add(
        canvas,
        &format!(" {} ", clean::line(&model.session.0)),
        bar.strong,
    );
    match model.link {
        Link::Up => {}
        Link::Down(Gone::Died) => {
            add(canvas, " reconnecting ", bar.bad);
        }
        Link::Down(Gone::Stopped) => {
            add(
                canvas,
                " the daemon was stopped; any key starts it ",
                bar.bad,
            );
        }
    }
    if matches!(model.mode, Mode::Prefix) {
        add(canvas, " C-b ", bar.warn);
    }
    if model.role == ViewerRole::ReadOnly {
        add(canvas, " read-only ", bar.warn);
    }
    if let Some(pane) = model.peek {
        add(
            canvas,
            &format!(" {pane} has ended: C-b q goes back "),
            bar.warn,
        );
    }
    let view = model.focused_view();
    if let Some(held) = view.and_then(|view| view.held.as_ref()) {
        add(canvas, &format!(" ‖ {} ", clean::line(held)), bar.warn);
    }
    let left = match &model.message {
        // Which stands here for a while.
        Some(_) => add(canvas, "", bar.plain),
        None => add(canvas, &about(model), bar.plain),
    };

    let hints = hints(model, usize::from(edge.saturating_sub(left)));
    let start = edge.saturating_sub(width(&hints) as u16);
    if let Some(message) = &model.message {
        let look = match message.tone {
            Tone::Plain => bar.strong,
            Tone::Bad => bar.bad,
        };
        // A message may take the hints' place.
        let text = format!(" {} ", message.text);
        let fits = usize::from(left) + width(&text) <= usize::from(start);
        canvas.text_cut(row, left, &text, look, edge);
        if !fits {
            return;
        }
    }
    canvas.text(row, start, &hints, bar.plain, edge);
}

/// What is typed behind `/` or `?`.
fn prompt(model: &Model) -> Option<String> {
    if !matches!(model.mode, Mode::Pane) {
        return None;
    }
    let (direction, text) = model.focused_view()?.scroll.as_ref()?.prompt.as_ref()?;
    let sign = match direction {
        Direction::Forward => '/',
        Direction::Back => '?',
    };
    // The end of it is what is being typed.
    let room = usize::from(model.size.cols).saturating_sub(4);
    let mut shown = text.as_str();
    while width(shown) > room {
        let mut chars = shown.chars();
        chars.next();
        shown = chars.as_str();
    }
    Some(format!("{sign}{shown}"))
}

/// The pane in focus, and who else looks on.
fn about(model: &Model) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(pane) = model.shown_focus() {
        let name = model.row(pane).map(|row| clean::line(&row.name));
        let name = name.filter(|name| *name != pane.to_string());
        parts.push(match name {
            Some(name) => format!("{pane} {}", fit(&name, 24)),
            None => pane.to_string(),
        });
    }
    let clients = model.arrangement.as_ref().map_or(0, |all| all.clients);
    if clients > 1 {
        parts.push(format!("{clients} clients"));
    }
    if let Some(view) = model.focused_view()
        && let Some(find) = view.scroll.as_ref().and_then(|scroll| scroll.find.as_ref())
    {
        let count = view.scroll.as_ref().and_then(|scroll| scroll.count());
        let what = fit(&clean::line(&find.what), 20);
        parts.push(match count {
            None => format!("searching for {what}"),
            Some((_, 0)) => format!("{what}: nothing"),
            Some((at, all)) => {
                let more = if find.more { "+" } else { "" };
                format!("{what}: line {at} of {all}{more}")
            }
        });
    }
    let needy = needy(model);
    if !needy.is_empty() {
        parts.push(needy);
    }
    format!(" {} ", parts.join(" · "))
}

/// Who else waits for a person.
fn needy(model: &Model) -> String {
    let here = model.shown_focus();
    let waiting = model.facts.panes.iter().filter(|pane| {
        pane.state.state == fugue_api::pane_state::PaneState::NeedsInput
            && Some(pane.pane_id) != here
    });
    match waiting.count() {
        0 => String::new(),
        1 => "▲ 1 needs input".into(),
        count => format!("▲ {count} need input"),
    }
}

fn hints(model: &Model, room: usize) -> String {
    let scroll = model.focused_view().and_then(|view| view.scroll.as_ref());
    let all: &[&str] = match (&model.mode, scroll) {
        (Mode::Prefix, _) => &[
            " d detach  % \" split  arrows move  z zoom  w panes  [ scroll  ? help ",
            " d detach  w panes  ? help ",
        ],
        (Mode::Pane, Some(scroll)) if scroll.anchor.is_some() => {
            &[" y copies  Esc lets go  q leaves ", " y copies "]
        }
        (Mode::Pane, Some(_)) => &[
            " / ? search  n N next  v select  y copy  g G ends  q leaves ",
            " / search  v select  q leaves ",
        ],
        _ => &[" C-b ? help  C-b d detach ", " C-b ? help "],
    };
    let fits = all.iter().find(|text| width(text) <= room);
    fits.map(|text| (*text).to_owned()).unwrap_or_default()
}
