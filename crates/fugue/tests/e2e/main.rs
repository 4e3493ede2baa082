//! The real binary, driven from outside: verbs, MCP tools, tmux. Every test has its own HOME and its own daemon, and tests
//! run side by side.
//!
//! Each folder of `crates/fugue/tests` with a `main.rs` is one test binary, and each binary links the whole program. A new
//! file of end-to-end tests is therefore a module here, not a file beside this folder. Tests that need a machine for
//! themselves are modules of `survival`; tests of real agents are modules of `agents`.

mod adopt;
mod assess_corpus;
mod authority;
mod checkpoints;
mod cli_output;
mod clocks;
mod doctor;
mod expects;
mod help;
mod hostile;
mod mcp;
mod mcp_clients;
mod mcp_forms;
mod mcp_http;
mod mcp_tasks;
mod one_daemon;
mod panes;
mod quota;
mod reading;
mod ready;
mod runs;
mod runs_cli;
mod secrets;
mod settings;
mod shells;
mod socket;
mod states;
mod store;
mod submit;
mod team;
mod team_workers;
mod tmux;
mod tmux_shown;
mod tokens;
mod upgrade;
mod watch;
mod worker_changes;
mod worker_environment;
mod worktrees;
