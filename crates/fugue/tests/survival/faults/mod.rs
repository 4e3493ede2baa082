//! Fault sweep (one system call fails once) and power-cut model, both on the real binary under a syscall supervisor.

mod errors;
mod powercut;
mod readonly;
mod shadow;
mod story;
mod sweep;
