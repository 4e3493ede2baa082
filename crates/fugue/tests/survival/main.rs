//! What survives kills, failing system calls, power cuts and load. These tests run one at a time: side by side they would
//! only measure each other.

mod faults;
mod kills;
mod limits;
mod logs;
mod many;
mod runs_survive;
mod team_survive;
