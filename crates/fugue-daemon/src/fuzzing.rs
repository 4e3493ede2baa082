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
    use fugue_testkit::replay_corpus;

    #[test]
    fn the_corpora_hold() {
        replay_corpus("answers", super::answers);
        replay_corpus("config", super::config);
        replay_corpus("frames", super::frames);
        replay_corpus("hooks", super::hooks);
        replay_corpus("records", super::records);
        replay_corpus("screens", super::screens);
        replay_corpus("steps", super::steps);
        replay_corpus("tmux", super::tmux);
    }
}
