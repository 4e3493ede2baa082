//! Speaks MCP, over stdio or streamable HTTP, for whoever answers calls ([`fugue_api::Handle`]).
//!
//! Tools are not written here: they are listed from their definitions in `fugue-api`, and a call is read, passed on and
//! answered the same way whichever it is. This crate never decides what a tool does; it decides how long a client is
//! kept waiting, what it hears meanwhile, and who may come in by HTTP.

mod calls;
mod direct;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod http;
mod out;
mod patience;
mod receipts;
pub mod schema;
mod server;
mod stdio;
mod tools;
mod wait;

pub use patience::Patience;
pub use server::{Door, Server};
pub use stdio::serve as serve_stdio;
pub use tools::{INSTRUCTIONS, listed};
