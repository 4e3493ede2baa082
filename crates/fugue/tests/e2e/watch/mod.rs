//! The watcher, end to end: a real bash in a real pane, a model behind a real server on loopback, and its tools as
//! clients call them.

mod flow;
mod interrupted;
mod kit;
mod model;
mod pane;
mod tmux;
mod tools;
mod worker;
