//! The vocabulary of fugue: tools, socket protocol, ids and errors.
//!
//! A tool is a struct with doc comments, in its own file below [`tools`]. The MCP schema, the CLI arguments and the socket
//! message are derived from this struct. This crate does no I/O, except for
//! [`random_bytes`], and decides nothing.

pub mod attach;
mod checks;
mod cli_values;
mod defaults;
mod error;
mod handle;
mod ids;
pub mod inbox_event;
pub mod input_encoding;
pub mod keys;
mod nearest;
mod os;
pub mod overview;
pub mod pane_placement;
pub mod pane_state;
mod random;
pub mod run_result;
pub mod settings;
mod tool;
pub mod tools;
pub mod wire;
pub mod worktree;

pub use error::{Error, ErrorKind};
pub use handle::{Delivery, EventAck, Handle};
pub use ids::{Cursor, EventId, PaneId, QuestionId, RunId, SessionName, Timestamp, UnixSeconds};
pub use nearest::nearest;
pub use os::OsText;
pub use random::{random_bytes, random_hex};
pub use tool::{
    CallResources, InboxTimeout, InboxWait, PaneArgument, PaneResources, PlacementArguments,
    RunReply, ShellPurpose, Tool, ToolDefinition, ToolGroup, ToolHints, ToolWait,
};
pub use tools::{RawReply, ToolCall, ToolReply, ToolVariant};
