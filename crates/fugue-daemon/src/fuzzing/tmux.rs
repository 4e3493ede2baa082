use fugue_term::{Terminal, TerminalOptions, TerminalSize};

use crate::tmux::{
    capture::{PaneCapture, TmuxPaneState},
    control::{ControlEvent, ControlParser},
    lookup::TmuxPaneRow,
    tiles::{self, TileRect, WindowLayout},
};

/// Any bytes from a tmux server: messages of control mode do not depend on how the stream was cut and are no longer than the
/// input, layouts are equal after a round trip, and a capture draws a screen of its own size.
///
/// The first byte chooses the parser for the rest.
pub fn tmux(bytes: &[u8]) {
    let [what, rest @ ..] = bytes else { return };
    let text = String::from_utf8_lossy(rest);
    match what % 8 {
        0..4 => control(rest, usize::from(what >> 3) + 1),
        4 => layout(&text),
        // More nested splits than a window can hold.
        5 => layout(&format!(
            "0,{}{text}",
            "9x9,0,0{".repeat(usize::from(what >> 3) * 500)
        )),
        6 => picture(&text),
        _ => text.lines().for_each(|line| {
            let _ = TmuxPaneRow::parse(line, "/tmp/tmux-0/default");
        }),
    }
}

fn control(bytes: &[u8], piece: usize) {
    let whole = ControlParser::default().feed(bytes);
    let mut parser = ControlParser::default();
    let pieces = bytes.chunks(piece);
    let cut: Vec<ControlEvent> = pieces.flat_map(|piece| parser.feed(piece)).collect();
    assert_eq!(whole, cut, "what is said depends on the cutting");
    let length = |said: &ControlEvent| match said {
        ControlEvent::Answer { body, .. } => body.len(),
        ControlEvent::Output { bytes, .. } => bytes.len(),
        ControlEvent::Changed | ControlEvent::Exit => 1,
    };
    assert!(whole.iter().map(length).sum::<usize>() <= bytes.len());
    for said in whole {
        let ControlEvent::Output { pane, bytes } = &said else {
            continue;
        };
        let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let line = format!("%output %{pane} {escaped}\n");
        assert_eq!(ControlParser::default().feed(line.as_bytes()), [said]);
    }
}

fn layout(text: &str) {
    let Some(layout) = WindowLayout::parse(text) else {
        return;
    };
    assert_eq!(WindowLayout::parse(&layout.text()).as_ref(), Some(&layout));
    let order = layout.order();
    let share = layout.share(&order);
    for pane in order.iter().take(3) {
        layout.crossing(*pane);
    }
    if let Some(TileRect { cols, rows, .. }) = share {
        tiles::halves(cols, rows);
    }
    if let Some(evened) = layout.evened(&order) {
        assert_eq!(WindowLayout::parse(&evened.text()).as_ref(), Some(&evened));
        assert_eq!(evened.order(), order, "a pane was lost or moved");
        assert_eq!(evened.share(&order), share);
        assert_eq!(evened.evened(&order).as_ref(), Some(&evened));
    }
}

/// The state in numbers, then texts after lines of `--`. As in tmux's captures, they hold only text and colours.
fn picture(text: &str) {
    let clean = text.replace(|c: char| c.is_control() && c != '\n', "");
    let mut parts = clean
        .split("\n--\n")
        .map(|part| part.replace("^[", "\x1b["));
    let Some(state) = parts.next().as_deref().and_then(TmuxPaneState::parse) else {
        return;
    };
    let mut part = || parts.next().unwrap_or_default();
    let picture = PaneCapture {
        state: state.clone(),
        all: part(),
        rows: part(),
        behind: part(),
        front: part(),
        history: part(),
    };
    let known: Vec<String> = part().lines().map(str::to_owned).collect();
    let size = TerminalSize {
        rows: state.rows.min(50),
        cols: state.cols.min(100),
    };
    let mut terminal = Terminal::new(size, TerminalOptions::default());
    terminal.feed(&picture.whole());
    let (news, _) = picture.since(&known);
    terminal.feed(&news);
}
