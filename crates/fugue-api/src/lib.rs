//! Everything that crosses a door of fugue, said once: requests, replies, ids and errors.
//!
//! A tool is one struct with doc comments. The MCP schema, the CLI's arguments and the socket message all come
//! from it. This crate never does I/O and never decides; it only says what the words are.

pub mod attach;
mod error;
mod handle;
mod ids;
pub mod input_encoding;
pub mod keys;
mod os;
pub mod panes;
pub mod runs;
pub mod team;
mod tool;
pub mod watch;
pub mod wire;

pub use error::{Error, ErrorKind};
pub use handle::{Delivery, EventAck, Handle};
pub use ids::{Cursor, EventId, PaneId, QuestionId, RunId, SessionName, Timestamp};
pub use os::OsText;
pub use tool::{RawReply, Tool, ToolCall, ToolDefinition, ToolHints, ToolReply};
