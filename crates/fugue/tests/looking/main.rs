//! Those who look at panes over the daemon's socket, as `fugue attach` does: what they see, in how much room, and what
//! becomes of what they type.

mod arranging;
mod eye;
mod frames;
mod lines;
mod manners;

use std::time::Duration;

use fugue_testkit::TestEnv;

const LIMIT: Duration = Duration::from_secs(120);

fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}
