//! Agents that the user's `config.toml` defines by a command.

use fugue_api::Error;
use serde_json::json;

use super::{AgentDriver, AgentLaunch, AgentTemplate, WorkerAssignment, files};

const PLACEHOLDERS: [&str; 7] = [
    "prompt",
    "prompt_file",
    "mcp_config",
    "model",
    "dir",
    "cwd",
    "fugue",
];

/// An agent that `[agents.NAME]` in the user's `config.toml` defines.
#[derive(Debug)]
pub struct TemplateAgent {
    name: String,
    template: AgentTemplate,
}

impl TemplateAgent {
    /// Refuses a template without a program or with an unknown placeholder.
    pub fn new(name: &str, template: &AgentTemplate) -> Result<Self, Error> {
        check(name, template)?;
        Ok(Self {
            name: name.to_owned(),
            template: template.clone(),
        })
    }
}

impl AgentDriver for TemplateAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare_launch(&self, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
        let template = &self.template;
        let used = |name: &str| {
            let words = template.command.iter().chain(template.env.values());
            words
                .flat_map(|word| pieces(word))
                .any(|(_, placeholder)| placeholder == Some(name))
        };
        let mut prompt_file = String::new();
        if used("prompt_file") {
            let path = files::write(assignment.dir, "prompt.txt", assignment.prompt)?;
            prompt_file = files::text(&path);
        }
        let mut mcp_config = String::new();
        if used("mcp_config") {
            let servers = json!({"mcpServers": {"fugue": files::server(assignment)}}).to_string();
            mcp_config = files::text(&files::write(assignment.dir, "mcp.json", &servers)?);
        }
        if assignment.model.is_some() && !used("model") {
            return Err(
                Error::invalid("model: this agent's `command` has no place for it")
                    .hint("put {model} into its `command` in config.toml, or leave `model` out"),
            );
        }
        let fill = |word: &String| -> String {
            let mut filled = String::new();
            for (text, placeholder) in pieces(word) {
                filled.push_str(text);
                match placeholder {
                    Some("prompt") => filled.push_str(assignment.prompt),
                    Some("prompt_file") => filled.push_str(&prompt_file),
                    Some("mcp_config") => filled.push_str(&mcp_config),
                    Some("model") => filled.push_str(assignment.model.unwrap_or_default()),
                    Some("dir") => filled.push_str(&files::text(assignment.dir)),
                    Some("cwd") => filled.push_str(&files::text(assignment.cwd)),
                    Some("fugue") => filled.push_str(&files::text(assignment.fugue)),
                    // `check` has refused all other names.
                    Some(_) | None => {}
                }
            }
            filled
        };
        let mut argv: Vec<String> = template.command.iter().map(fill).collect();
        argv.extend(assignment.args.iter().cloned());
        Ok(AgentLaunch {
            argv,
            env: template
                .env
                .iter()
                .map(|(name, value)| (name.clone(), fill(value)))
                .collect(),
        })
    }
}

/// Checks a template's program and placeholders, so that a mistake is reported before anything is started.
fn check(name: &str, template: &AgentTemplate) -> Result<(), Error> {
    if template.command.first().is_none_or(String::is_empty) {
        return Err(wrong(name, "`command` has no program"));
    }
    let words = template.command.iter().chain(template.env.values());
    for (_, placeholder) in words.flat_map(|word| pieces(word)) {
        if let Some(unknown) = placeholder.filter(|found| !PLACEHOLDERS.contains(found)) {
            return Err(wrong(name, &format!("no placeholder `{{{unknown}}}`")));
        }
    }
    Ok(())
}

fn wrong(name: &str, what: &str) -> Error {
    Error::invalid(format!("config.toml: agents.{name}: {what}")).hint(format!(
        "the placeholders are {{{}}}",
        PLACEHOLDERS.join("}, {")
    ))
}

/// Splits a word into texts, each with the following placeholder. Braces around anything but a name are text.
fn pieces(word: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(open) = word[at..].find('{').map(|place| at + place) {
        let inner = &word[open + 1..];
        let name = inner
            .find(|c: char| !c.is_ascii_lowercase() && c != '_')
            .filter(|end| *end > 0 && inner[*end..].starts_with('}'))
            .map(|end| &inner[..end]);
        at = open + 1;
        if let Some(name) = name {
            found.push((&word[from..open], Some(name)));
            at = open + name.len() + 2;
            from = at;
        }
    }
    found.push((&word[from..], None));
    found
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::Path};

    use super::*;

    fn template(command: &[&str]) -> AgentTemplate {
        AgentTemplate {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            env: BTreeMap::new(),
        }
    }

    fn check_filled(command: &[&str], expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let identity = BTreeMap::new();
        let assignment = WorkerAssignment {
            prompt: "do {model} $(it)",
            model: Some("m"),
            args: &[],
            dir: dir.path(),
            cwd: Path::new("/w"),
            worktree_of: None,
            fugue: Path::new("/bin/fugue"),
            identity: &identity,
            env: &BTreeMap::new(),
            shell: Path::new("/bin/sh"),
        };
        let agent = TemplateAgent::new("x", &template(command)).unwrap();
        let launch = agent.prepare_launch(&assignment).unwrap();
        let dir = dir.path().to_string_lossy();
        let expected: Vec<String> = expected.iter().map(|w| w.replace("DIR", &dir)).collect();
        assert_eq!(launch.argv, expected);
    }

    #[test]
    fn placeholders_are_filled_once_and_braces_stay() {
        check_filled(
            &[
                "a",
                "{prompt}",
                "-m{model}",
                "{}",
                "{\"a\":1}",
                "{ prompt }",
                "${HOME}",
            ],
            &[
                "a",
                "do {model} $(it)",
                "-mm",
                "{}",
                "{\"a\":1}",
                "{ prompt }",
                "${HOME}",
            ],
        );
        check_filled(
            &[
                "{fugue}",
                "{cwd}{dir}",
                "f={prompt_file}",
                "{mcp_config}",
                "{model}",
            ],
            &[
                "/bin/fugue",
                "/wDIR",
                "f=DIR/prompt.txt",
                "DIR/mcp.json",
                "m",
            ],
        );
    }

    #[test]
    fn an_unknown_placeholder_is_named() {
        let error = check("aider", &template(&["aider", "{promt}"])).unwrap_err();
        assert!(
            error
                .message
                .contains("agents.aider: no placeholder `{promt}`"),
            "{error}"
        );
        assert!(error.hint.unwrap().contains("{prompt_file}"));
        assert!(check("aider", &template(&[])).is_err());
    }
}
