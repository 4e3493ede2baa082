//! A private environment for end-to-end tests: the real binary with a private HOME, private XDG directories and a
//! cleared environment.
//!
//! Nothing of the machine's user leaks into a test environment, and no process outlives a test: dropping a [`TestEnv`]
//! stops the daemon and the panes, and fails the test if a process is left. This crate does not depend on fugue's
//! internals, but on the verbs, their JSON output and the files that the specification names.

pub mod assessor_server;
mod fuzz_corpus;
pub mod mcp_client;
mod metrics;
mod process_ref;
mod program;
pub mod scripted_model;
mod seeded_rng;
mod skip;
pub mod supervisor;
pub mod test_agents;
mod test_clock;
mod test_env;
mod test_pty;
mod wait;

pub use fuzz_corpus::replay_corpus;
pub use metrics::{pin_to_one_core, report_metric};
pub use process_ref::{ProcessRef, ProcessWaiter};
pub use program::{ProgramOutput, RunningProgram};
pub use seeded_rng::SeededRng;
pub use skip::{MissingRequirement, skip};
pub use test_clock::{WallClock, boot_clock_launcher};
pub use test_env::{TestEnv, skip_on_tmux, test_backend};
pub use test_pty::TestPty;
pub use wait::{sleep_in_test, until, until_some};
