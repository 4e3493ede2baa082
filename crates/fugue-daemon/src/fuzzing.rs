//! Properties of parsers for any bytes from outside, as functions that panic on a violation: for fuzz targets, and for the
//! tests that replay their corpora. One file per target.

mod answers;
mod config;
mod frames;
mod hooks;
mod records;
mod screens;
mod steps;
mod tmux;

pub use answers::answers;
pub use config::config;
pub use frames::frames;
pub use hooks::hooks;
pub use records::records;
pub use screens::screens;
pub use steps::steps;
pub use tmux::tmux;

#[cfg(test)]
mod tests {
    use fugue_testkit::replay;

    #[test]
    fn the_corpora_hold() {
        replay("answers", super::answers);
        replay("config", super::config);
        replay("frames", super::frames);
        replay("hooks", super::hooks);
        replay("records", super::records);
        replay("screens", super::screens);
        replay("steps", super::steps);
        replay("tmux", super::tmux);
    }
}
