//! A private world for end-to-end tests: the real binary, an own HOME, own XDG directories, a cleared environment.
//!
//! Nothing of the machine's user leaks into a world, and nothing of a world is left when it goes: dropping one stops
//! its daemon and panes and fails the test if a process stayed behind. This crate never looks inside fugue; it
//! knows the verbs, the JSON they print and the files the specification names.

pub mod agents;
mod chance;
mod clock;
mod corpus;
mod figures;
pub mod mcp;
pub mod model;
mod proc;
pub mod providers;
mod pty;
mod run;
mod skip;
pub mod supervisor;
mod time;
mod world;

pub use chance::SeededRng;
pub use clock::{WallClock, boot_clock_ahead};
pub use corpus::replay;
pub use figures::{figure, stay_on_one_core};
pub use proc::{ProcessRef, ProcessWaiter};
pub use pty::Pty;
pub use run::{ProgramOutput, RunningProgram};
pub use skip::{MissingRequirement, skip};
pub use time::{let_pass, until, until_some};
pub use world::{TestEnv, backend, native_only};
