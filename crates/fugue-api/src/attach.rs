//! The attach protocol: viewers, the layout of a session, frames and keyboard input.
//!
//! Clients never receive a program's own bytes. A screen is sent as text with styles, rendered from the daemon's
//! terminal state.

use serde::{Deserialize, Serialize};

use crate::{PaneId, SessionName, pane_state::SourcedState, tools::PaneSize, wire::IdempotencyKey};

/// A random id of an attached client, unique for as long as the client is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub u64);

/// A request of an attached client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachRequest {
    /// Registers the client as a viewer of a session while this call is pending. `viewport` is the part of its screen that
    /// panes may use; the session has the size of the smallest interactive viewer. The response is sent when the last
    /// pane of the session has ended.
    JoinSession {
        client: ClientId,
        session: SessionName,
        viewport: PaneSize,
        role: ViewerRole,
    },
    /// Changes the size of the client's screen.
    SetSize {
        client: ClientId,
        viewport: PaneSize,
    },
    /// Waits until the layout of a session is newer than version `seen` (0: none), and returns it.
    GetLayout { session: SessionName, seen: u64 },
    /// Changes the layout of a session.
    ChangeLayout {
        session: SessionName,
        change: LayoutChange,
    },
    /// Waits until the screen of a pane differs from frame `seen` (0: none), and returns the difference.
    GetFrame {
        client: ClientId,
        pane: PaneId,
        seen: u64,
    },
    /// Like `GetFrame`, on a connection that `ConnectPane` has bound to a pane, with `most` responses: one per new frame.
    StreamFrames {
        client: ClientId,
        seen: u64,
        most: u32,
    },
    /// Binds this connection to a pane. It then carries only `GetFrame`, `StreamFrames` and `Type` requests of this pane, which the
    /// pane's own thread answers.
    ConnectPane { pane: PaneId, role: ViewerRole },
    /// Reads lines of a pane's text, from memory or from the output log.
    ReadLines {
        pane: PaneId,
        /// The number of the first line. Beyond the last line, the last `most` lines are returned.
        from: u64,
        most: u32,
    },
    /// Types a person's keys or paste, encoded for the program. The response is sent when the terminal has accepted
    /// the bytes.
    Type {
        client: ClientId,
        pane: PaneId,
        #[serde(with = "crate::wire::latin1")]
        bytes: Vec<u8>,
    },
    /// Waits until the overview is newer than version `seen`.
    WatchOverview { seen: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerRole {
    Interactive,
    /// Changes nothing, and has no influence on the size of the session.
    ReadOnly,
}

/// A change of a session's layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum LayoutChange {
    /// Splits the tile of pane `of` for the pane that the `create_pane` call with this key will create.
    Split {
        made_by: IdempotencyKey,
        of: PaneId,
        side: SplitSide,
    },
    /// Moves an edge of a tile outwards by `by` cells, or inwards if negative.
    MoveEdge {
        pane: PaneId,
        side: SplitSide,
        by: i16,
    },
    /// Exchanges the tiles of two panes.
    Swap { one: PaneId, other: PaneId },
    /// Shows a single pane in the whole area; `None` ends the zoom.
    Zoom { pane: Option<PaneId> },
    /// Gives all panes tiles of equal size.
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

/// A response to an attached client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachResponse {
    Layout { layout: SessionLayout },
    Frame { frame: Box<Frame> },
    Lines { lines: PaneLines },
    Overview { version: u64 },
}

/// The layout of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionLayout {
    pub version: u64,
    /// The size that the tiles and their borders fill.
    pub viewport: PaneSize,
    /// Tiles from left to right and top to bottom. A zoomed pane is the only tile.
    pub tiles: Vec<Tile>,
    pub zoomed: Option<PaneId>,
    /// The number of viewers.
    pub clients: u32,
}

/// The area of a pane: a title row, and the terminal below.
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

/// The screen of a pane, or its difference from the previous frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    pub number: u64,
    /// Whether rows that are missing from `rows` are blank; otherwise these rows are unchanged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    pub rows: Vec<FrameRow>,
    pub cursor: FrameCursor,
    /// The offset in the output log that the frame shows.
    pub offset: u64,
    /// The line number of the first screen row; earlier lines are scrollback.
    pub top_line: u64,
    /// Absent if unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<FrameHead>,
}

/// The parts of a frame that a typed key rarely changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameHead {
    /// The size of the terminal, which can differ from that of its tile.
    pub size: PaneSize,
    pub modes: FrameModes,
    pub title: String,
    pub state: SourcedState,
    /// The notice for a person whose draft holds back the input of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The pane has ended; this is its last frame.
    pub ended: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameRow(pub u16, pub Vec<StyledSpan>);

/// Text of one style.
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

/// -1: the default colour; below 256: a palette index; else 2^24 + RGB.
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

/// The terminal modes that decide how keys and mouse events are encoded.
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

/// A range of lines of a pane's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaneLines {
    /// The number of the first of `lines`.
    pub from: u64,
    pub lines: Vec<Vec<StyledSpan>>,
    /// The first line that is still stored. `end` is the number after the last line.
    pub kept_from: u64,
    pub end: u64,
}
