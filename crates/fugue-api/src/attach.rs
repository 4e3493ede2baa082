//! What an attached client and the daemon say to each other: who looks on, how a session's panes lie, what they show,
//! and what a person types.
//!
//! A client never gets a program's own bytes: a screen comes as text with its looks, made from the daemon's model of it.

use serde::{Deserialize, Serialize};

use crate::{PaneId, SessionName, pane_state::SourcedState, tools::PaneSize, wire::IdempotencyKey};

/// A client for as long as it is attached: random, so that no two are the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub u64);

/// What an attached client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachRequest {
    /// The client looks at a session for as long as this call is open, on a screen with so much room for panes. The
    /// smallest of those who look on rules; one that only reads does not count. Answered when the session has no pane
    /// any more.
    Attend {
        client: ClientId,
        session: SessionName,
        room: PaneSize,
        role: ViewerRole,
    },
    /// Its screen has another size now.
    Fit { client: ClientId, room: PaneSize },
    /// Waits until a session's panes lie differently than in version `seen` (0: never seen), and says how.
    Arrangement { session: SessionName, seen: u64 },
    /// Changes how they lie.
    Arrange {
        session: SessionName,
        change: LayoutChange,
    },
    /// Waits until a pane shows something else than in the frame `seen` that this client has (0: none), and gives what
    /// is different.
    View {
        client: ClientId,
        pane: PaneId,
        seen: u64,
    },
    /// The same on a line, and after it the next frames as they come: so many answers in all.
    Views {
        client: ClientId,
        seen: u64,
        most: u32,
    },
    /// Makes the connection that this is asked on the pane's own. On it nothing but `View`, `Views` and `Type` of this
    /// pane is asked, and the pane answers by itself, so that a key and its echo take the shortest way.
    Line { pane: PaneId, role: ViewerRole },
    /// Lines of a pane's text, wherever they are kept.
    Lines {
        pane: PaneId,
        /// The number of the first; beyond the last line: the last ones.
        from: u64,
        most: u32,
    },
    /// A person's keys or paste, as the program is to read them. Answered when the terminal took them.
    Type {
        client: ClientId,
        pane: PaneId,
        #[serde(with = "crate::wire::latin1")]
        bytes: Vec<u8>,
    },
    /// Waits until something has changed in what `Ask::Everything` tells beyond version `seen`.
    News { seen: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerRole {
    Interactive,
    /// Changes nothing, sizes neither.
    ReadOnly,
}

/// A change of how a session's panes lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "arrange", rename_all = "snake_case")]
pub enum LayoutChange {
    /// The pane that the call with this key is about to make goes beside another one, which gives up half of its room.
    Beside {
        made_by: IdempotencyKey,
        of: PaneId,
        side: SplitSide,
    },
    /// An edge of a pane goes outwards by so many cells, or inwards.
    Push {
        pane: PaneId,
        side: SplitSide,
        by: i16,
    },
    /// Two panes change places.
    Swap { one: PaneId, other: PaneId },
    /// One pane has all the room, or again only its own.
    Zoom { pane: Option<PaneId> },
    /// All of them as evenly as it goes.
    Tiled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitSide {
    Left,
    Right,
    Above,
    Below,
}

/// What an attached client is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachResponse {
    Arrangement { arrangement: SessionLayout },
    Frame { frame: Box<Frame> },
    Lines { lines: PaneLines },
    News { version: u64 },
}

/// How a session's panes lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionLayout {
    pub version: u64,
    /// All the room there is; tiles and the lines between them fill it.
    pub room: PaneSize,
    /// In reading order. While one is zoomed it is the only one.
    pub tiles: Vec<Tile>,
    pub zoomed: Option<PaneId>,
    /// How many clients look on.
    pub clients: u32,
}

/// The place of one pane. Its first row is its title's; the terminal is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tile {
    pub pane: PaneId,
    pub place: Rect,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    pub row: u16,
    pub col: u16,
    pub rows: u16,
    pub cols: u16,
}

/// What a pane shows: everything, or what is different from the frame before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    pub number: u64,
    /// Rows that are not in `rows` are blank instead of as before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    pub rows: Vec<FrameRow>,
    pub cursor: FrameCursor,
    /// How much the pane had printed.
    pub offset: u64,
    /// The number of the screen's first line in the pane's text; lines before it are scrollback.
    pub top_line: u64,
    /// Left out where all of it is as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<FrameHead>,
}

/// What a key and its echo leave as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameHead {
    /// The terminal's own, which need not be its tile's.
    pub size: PaneSize,
    pub modes: FrameModes,
    pub title: String,
    pub state: SourcedState,
    /// An agent's input waits, because a person has begun to type: what a person is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// It has ended, and nothing will change any more.
    pub ended: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameRow(pub u16, pub Vec<StyledSpan>);

/// Text that looks the same all along.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StyledSpan(pub String, pub FrameStyle);

/// Colours of text, background and underline, then attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameStyle(
    pub FrameColor,
    pub FrameColor,
    pub FrameColor,
    pub StyleAttributes,
);

/// -1: the terminal's own; below 256: of the palette; else 2^24 + RGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FrameColor(pub i32);

/// Bits 0 to 7: bold, dim, italic, blink, reverse, hidden, struck, overlined; from bit 8 the kind of underline: none,
/// single, double, curly, dotted, dashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StyleAttributes(pub u16);

impl Default for FrameColor {
    fn default() -> Self {
        Self(-1)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCursor {
    pub row: u16,
    pub col: u16,
    pub visible: bool,
    /// The number of `CSI n SP q`.
    pub shape: u8,
}

/// What the program wants to hear of keys and mouse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameModes {
    pub alternate: bool,
    pub bracketed_paste: bool,
    pub app_cursor: bool,
    pub app_keypad: bool,
    pub focus: bool,
    /// The kitty keyboard flags in force.
    pub keyboard: u8,
    pub mouse: FrameMouseMode,
    pub mouse_format: FrameMouseEncoding,
    /// The whole screen is shown in reverse.
    pub reverse: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameMouseMode {
    #[default]
    Nothing,
    Presses,
    Clicks,
    Drags,
    Motion,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameMouseEncoding {
    #[default]
    Bytes,
    Utf8,
    Sgr,
}

/// A stretch of a pane's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaneLines {
    /// The number of the first of `lines`.
    pub from: u64,
    pub lines: Vec<Vec<StyledSpan>>,
    /// The first line that is still kept, and the one behind the last.
    pub kept_from: u64,
    pub end: u64,
}
