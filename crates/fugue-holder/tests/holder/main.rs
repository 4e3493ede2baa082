//! Tests with real holders and real children, without mocks and sleeps: every wait is for a message, bytes or an exit,
//! with a time limit.
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
mod protocol;
mod start;
mod test_pane;
mod tmux_view;
