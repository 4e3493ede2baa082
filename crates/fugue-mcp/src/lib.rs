//! MCP server over stdio and streamable HTTP, for any [`fugue_api::Handle`].
//!
//! Every tool call takes one route: transport, rmcp, [`McpServer`], `Handle`. Tools are defined in `fugue-api`; this crate
//! lists them and forwards their calls without knowledge of their results. It decides how long a call may wait, which
//! progress notifications a client receives, when an event is acked, and which HTTP requests are accepted.

mod ack;
mod call;
mod client_timeouts;
mod forms;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod http;
mod prompts;
mod resources;
pub mod schema;
mod server;
mod stdio;
mod tasks;
mod tools;

pub use client_timeouts::ClientTimeouts;
pub use server::{McpServer, TransportKind};
pub use stdio::serve as serve_stdio;
pub use tools::{INSTRUCTIONS, tool_listing};
