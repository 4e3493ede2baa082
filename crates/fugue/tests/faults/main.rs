//! What survives when the kernel refuses a single call, and when the power goes: a fault sweep and a power-cut model,
//! both on the real binary under a syscall supervisor.

mod errors;
mod powercut;
mod readonly;
mod shadow;
mod story;
mod sweep;
