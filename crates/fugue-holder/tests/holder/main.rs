//! Real holders, real children, no mocks and no sleeps: every wait is for a message, bytes or an exit, with a limit.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests may fail as loudly as the tests, and figures are printed"
)]

mod close;
mod kills;
mod limits;
mod output;
mod probe;
mod start;
mod talk;
mod view;
mod world;
