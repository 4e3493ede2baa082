//! Real agents (Claude Code, Codex, Gemini CLI) with a scripted model: they run one at a time, because an agent takes a
//! core or two while it starts.
//!
//! `scripts/mcp-tools` installs the agents; a test whose agent is not installed is skipped by name. `scripts/test` runs one
//! case of each kind per vendor, `scripts/test --agents` runs them all.

mod dialogs;
mod doctor;
mod launch;
mod lead_claude;
mod mcp_agents;
mod states;
mod team;
mod workers;
