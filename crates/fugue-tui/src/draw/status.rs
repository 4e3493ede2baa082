//! The status line: session, connection, messages and key hints.

use fugue_api::attach::{FrameColor, FrameStyle, ViewerRole};

use crate::{
    buffer::{CellBuffer, CursorMark, fit, width},
    clean,
    model::{AttachModel, ConnectionState, DaemonLoss, InputMode, MessageTone, SearchDirection},
    style::{BOLD, ColorDepth, RED, REVERSE, YELLOW, on, with},
};

struct StatusStyles {
    plain: FrameStyle,
    strong: FrameStyle,
    warn: FrameStyle,
    bad: FrameStyle,
}

impl StatusStyles {
    fn for_depth(depth: ColorDepth) -> Self {
        match depth {
            // The default colors reversed are legible on any background.
            ColorDepth::None | ColorDepth::Sixteen => Self {
                plain: with(REVERSE),
                strong: with(REVERSE | BOLD),
                warn: with(REVERSE | BOLD),
                bad: with(REVERSE | BOLD),
            },
            ColorDepth::Palette | ColorDepth::True => {
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

pub fn draw(model: &AttachModel, depth: ColorDepth, buffer: &mut CellBuffer) {
    let area = model.areas().status;
    if area.rows == 0 {
        return;
    }
    let bar = StatusStyles::for_depth(depth);
    let (row, edge) = (area.row, area.cols);
    buffer.fill(area, ' ', bar.plain);
    let mut col = 0;
    let mut add = |buffer: &mut CellBuffer, text: &str, style: FrameStyle| {
        col = buffer.text_cut(row, col, text, style, edge);
        col
    };

    if let Some(prompt) = prompt(model) {
        let end = add(buffer, &format!(" {prompt}"), bar.strong);
        buffer.caret = Some(CursorMark {
            row,
            col: end.min(edge.saturating_sub(1)),
            shape: 0,
        });
        return;
    }
    if let InputMode::Close(pane) = &model.mode {
        let name = model.row(*pane).map(|row| clean::line(&row.name));
        let name = name.unwrap_or_default();
        add(
            buffer,
            &format!(" close {pane} {name} and all that runs in it? y/n "),
            bar.warn,
        );
        return;
    }
    add(
        buffer,
        &format!(" {} ", clean::line(&model.session.0)),
        bar.strong,
    );
    for (text, style) in notices(model, &bar) {
        add(buffer, &text, style);
    }
    let left = match &model.message {
        // The message takes this space for a while.
        Some(_) => add(buffer, "", bar.plain),
        None => add(buffer, &about(model), bar.plain),
    };

    let hints = hints(model, usize::from(edge.saturating_sub(left)));
    let start = edge.saturating_sub(width(&hints) as u16);
    if let Some(message) = &model.message {
        let style = match message.tone {
            MessageTone::Plain => bar.strong,
            MessageTone::Bad => bar.bad,
        };
        // A long message replaces the hints.
        let text = format!(" {} ", message.text);
        let fits = usize::from(left) + width(&text) <= usize::from(start);
        buffer.text_cut(row, left, &text, style, edge);
        if !fits {
            return;
        }
    }
    buffer.text(row, start, &hints, bar.plain, edge);
}

/// The states that the person must know of: connection, prefix, role, ended pane, draft.
fn notices(model: &AttachModel, bar: &StatusStyles) -> Vec<(String, FrameStyle)> {
    let mut notices = Vec::new();
    match model.connection {
        ConnectionState::Up => {}
        ConnectionState::Down(DaemonLoss::Died) => {
            notices.push((" reconnecting ".to_owned(), bar.bad));
        }
        ConnectionState::Down(DaemonLoss::Stopped) => {
            let text = " the daemon was stopped; any key starts it ";
            notices.push((text.to_owned(), bar.bad));
        }
    }
    if matches!(model.mode, InputMode::Prefix) {
        notices.push((" C-b ".to_owned(), bar.warn));
    }
    if model.role == ViewerRole::ReadOnly {
        notices.push((" read-only ".to_owned(), bar.warn));
    }
    if let Some(pane) = model.peek {
        let text = format!(" {pane} has ended: C-b q goes back ");
        notices.push((text, bar.warn));
    }
    let view = model.focused_view();
    if let Some(held) = view.and_then(|view| view.held.as_ref()) {
        notices.push((format!(" ‖ {} ", clean::line(held)), bar.warn));
    }
    notices
}

/// The search prompt with its text.
fn prompt(model: &AttachModel) -> Option<String> {
    if !matches!(model.mode, InputMode::Pane) {
        return None;
    }
    let (direction, text) = model.focused_view()?.scroll.as_ref()?.prompt.as_ref()?;
    let sign = match direction {
        SearchDirection::Forward => '/',
        SearchDirection::Back => '?',
    };
    // The end of a long text stays visible.
    let room = usize::from(model.size.cols).saturating_sub(4);
    let mut shown = text.as_str();
    while width(shown) > room {
        let mut chars = shown.chars();
        chars.next();
        shown = chars.as_str();
    }
    Some(format!("{sign}{shown}"))
}

/// The pane in focus, the number of clients, the search, and other panes that need input.
fn about(model: &AttachModel) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(pane) = model.shown_focus() {
        let name = model.row(pane).map(|row| clean::line(&row.name));
        let name = name.filter(|name| *name != pane.to_string());
        parts.push(match name {
            Some(name) => format!("{pane} {}", fit(&name, 24)),
            None => pane.to_string(),
        });
    }
    let clients = model.layout.as_ref().map_or(0, |all| all.clients);
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
            Some((_, 0)) => format!("{what}: no match"),
            Some((at, all)) => {
                let more = if find.more { "+" } else { "" };
                format!("{what}: line {at} of {all}{more}")
            }
        });
    }
    let waiting = needs_input(model);
    if !waiting.is_empty() {
        parts.push(waiting);
    }
    format!(" {} ", parts.join(" · "))
}

/// The number of other panes that need input.
fn needs_input(model: &AttachModel) -> String {
    let here = model.shown_focus();
    let waiting = model.overview.panes.iter().filter(|pane| {
        pane.state.state == fugue_api::pane_state::PaneState::NeedsInput
            && Some(pane.pane_id) != here
    });
    match waiting.count() {
        0 => String::new(),
        1 => "▲ 1 needs input".into(),
        count => format!("▲ {count} need input"),
    }
}

fn hints(model: &AttachModel, room: usize) -> String {
    let scroll = model.focused_view().and_then(|view| view.scroll.as_ref());
    let all: &[&str] = match (&model.mode, scroll) {
        (InputMode::Prefix, _) => &[
            " d detach  % \" split  arrows move  z zoom  w panes  [ scroll  ? help ",
            " d detach  w panes  ? help ",
        ],
        (InputMode::Pane, Some(scroll)) if scroll.anchor.is_some() => {
            &[" y copy  Esc cancel  q quit ", " y copy "]
        }
        (InputMode::Pane, Some(_)) => &[
            " / ? search  n N next  v select  y copy  g G ends  q quit ",
            " / search  v select  q quit ",
        ],
        _ => &[" C-b ? help  C-b d detach ", " C-b ? help "],
    };
    let fits = all.iter().find(|text| width(text) <= room);
    fits.map(|text| (*text).to_owned()).unwrap_or_default()
}
