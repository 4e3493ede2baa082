//! The protocol of attached clients over the daemon's socket: frames, layouts, sizes and input.

mod attach_client;
mod drafts;
mod frames;
mod layout;
mod pane_connections;

use std::time::Duration;

use fugue_testkit::TestEnv;

const LIMIT: Duration = Duration::from_secs(120);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}
