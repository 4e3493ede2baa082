//! The agents: which are installed, and whether fugue is registered with them.

use super::{Cure, DoctorContext, Finding};
use crate::agent_settings::{self, HookState, InstalledAgent, Registration};

pub fn check(context: &DoctorContext) -> Vec<Finding> {
    let (installed, missing): (Vec<_>, Vec<_>) = agent_settings::KNOWN_AGENTS
        .iter()
        .map(|agent| (agent.name, agent.inspect(&context.caller)))
        .partition(|(_, found)| found.is_some());
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let mut found: Vec<Finding> = Vec::new();
    if installed.is_empty() {
        let person = "you: install one, for workers and to have fugue's tools in it; panes and runs need none";
        let message = format!("none of {} is on the PATH", names.join(", "));
        found.push(Finding::warn(
            "agents",
            message,
            Cure::Person(person.to_owned()),
        ));
    }
    for agent in installed.into_iter().filter_map(|(_, agent)| agent) {
        found.push(registration(&agent));
        found.push(hooks(&agent));
    }
    if !names.is_empty() && !found.is_empty() {
        found.push(Finding::ok(
            "agents",
            format!("not installed: {}", names.join(", ")),
        ));
    }
    found
}

fn registration(agent: &InstalledAgent) -> Finding {
    let version = agent.version.as_deref().unwrap_or("of an unknown version");
    let about = format!("{} {version}", agent.name);
    match &agent.registration {
        Registration::Here { file } => Finding::ok(
            "agents",
            format!("{about}: fugue is an MCP server in {}", file.display()),
        ),
        Registration::Broken { file, why } => Finding::fail(
            "agents",
            format!(
                "{about}: the MCP server fugue in {} cannot start: {why}",
                file.display()
            ),
            Cure::Person(format!(
                "you: correct or remove the entry, then `{}`",
                agent.register
            )),
        ),
        Registration::Unreadable { file, why } => Finding::fail(
            "agents",
            format!("{about}: {} cannot be read: {why}", file.display()),
            Cure::Person(format!("you: correct {}", file.display())),
        ),
        Registration::None => Finding::warn(
            "agents",
            format!("{about}: fugue is not registered as its MCP server"),
            Cure::Command(agent.register.to_owned()),
        ),
    }
}

fn hooks(agent: &InstalledAgent) -> Finding {
    let name = agent.name;
    match &agent.hooks {
        HookState::Here { file } => Finding::ok(
            "hooks",
            format!("{name}: fugue's hooks are in {}", file.display()),
        ),
        HookState::SwitchedOff { file, key } => Finding::fail(
            "hooks",
            format!(
                "{name}: `{key}` in {} switches all hooks off: no worker of this agent reports its end",
                file.display()
            ),
            Cure::Person(format!("you: remove `{key}` from {}", file.display())),
        ),
        HookState::None { file } => Finding::warn(
            "hooks",
            format!(
                "{name}: no hook of fugue in {}: the state of an agent that you start yourself is read from its screen; workers bring their own hooks",
                file.display()
            ),
            Cure::Person(format!(
                "you: add `fugue hook {name}` to its hooks {}",
                agent.hook_events.join(", ")
            )),
        ),
    }
}
