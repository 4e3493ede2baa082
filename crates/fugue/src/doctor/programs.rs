//! Programs: shells and their integration, tmux, the assessor of watchers.

use std::path::{Path, PathBuf};

use fugue_api::{pane_placement::Backend, wire::SettingNames};
use fugue_daemon::{
    inspection,
    shell::{self, ShellKind},
};

use super::{ANSWER_TIMEOUT, Cure, DoctorContext, Finding};

const INTEGRATED: [&str; 3] = ["bash", "zsh", "fish"];

pub fn check_shells(context: &DoctorContext) -> Vec<Finding> {
    let find = |name: &str| inspection::find_program(name, &context.caller);
    let here: Vec<&str> = INTEGRATED
        .into_iter()
        .filter(|name| find(name).is_some())
        .collect();
    let mut found = vec![match (here.is_empty(), find("sh")) {
        (true, None) => Finding::fail(
            "shells",
            "neither bash, zsh, fish nor sh is on the PATH: no command can be run",
            install(context, "bash"),
        ),
        (true, Some(_)) => Finding::warn(
            "shells",
            "only sh is here: its prompts are not marked, and only a pipeline's own shell takes steps",
            install(context, "bash"),
        ),
        (false, _) => Finding::ok(
            "shells",
            format!("{} with marked prompts and steps", here.join(", ")),
        ),
    }];
    if let Some(own) = inspection::text_variable(&context.caller, "SHELL")
        && let ShellKind::Posix | ShellKind::Other = ShellKind::from_path(Path::new(&own))
    {
        let with = here.first().copied().unwrap_or("bash");
        found.push(Finding::warn(
            "shells",
            format!("your shell {own} has no marked prompts: whether it is idle is known by silence, and its last command by nothing"),
            Cure::Person(format!("you: open panes with `fugue new --shell {with}`")),
        ));
    }
    let dir = context.paths.shell_files();
    let outdated = match dir.exists() {
        true => shell::outdated_files(&dir),
        false => Vec::new(),
    };
    if !outdated.is_empty() {
        found.push(Finding::warn(
            "shells",
            format!(
                "files of the shell integration are missing or of another version: {}",
                names(&outdated)
            ),
            Cure::Command("fugue daemon restart".to_owned()),
        ));
    }
    found
}

fn names(files: &[PathBuf]) -> String {
    let names = files.iter().map(|file| file.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

pub fn check_tmux(context: &DoctorContext) -> Vec<Finding> {
    let error = match inspection::check_tmux(&context.caller, ANSWER_TIMEOUT) {
        Ok(version) => return vec![Finding::ok("tmux", version)],
        Err(error) => error,
    };
    let is_default = context.settings().backend == Backend::Tmux;
    let message = match is_default {
        true => format!(
            "{}; `backend = \"tmux\"` puts every pane there",
            error.message
        ),
        false => format!("{}; only panes in tmux need it", error.message),
    };
    let cure = install(context, "tmux");
    vec![match is_default {
        true => Finding::fail("tmux", message, cure),
        false => Finding::warn("tmux", message, cure),
    }]
}

pub fn check_assessor(context: &DoctorContext) -> Vec<Finding> {
    let lookup = |name: &str| inspection::text_variable(&context.caller, name);
    let settings = context
        .settings()
        .watch
        .overlaid(SettingNames::Prefixed, lookup);
    let checked = settings.and_then(|settings| {
        inspection::check_assessor(&settings, &context.caller).map(|()| settings)
    });
    vec![match checked {
        Ok(settings) => Finding::ok(
            "assessor",
            format!("watchers ask {}", settings.assess_model),
        ),
        Err(error) => Finding::warn(
            "assessor",
            format!("no watcher can be started: {}", error.message),
            Cure::Person(format!("you: {}", error.hint.unwrap_or_default())),
        ),
    }]
}

/// The command of this system's package manager.
fn install(context: &DoctorContext, package: &str) -> Cure {
    const MANAGERS: [(&str, &str); 5] = [
        ("apt-get", "sudo apt-get install"),
        ("dnf", "sudo dnf install"),
        ("pacman", "sudo pacman -S"),
        ("apk", "sudo apk add"),
        ("zypper", "sudo zypper install"),
    ];
    let is_here = |manager: &str| {
        inspection::find_program(manager, &context.caller).is_some()
            || Path::new("/usr/bin").join(manager).exists()
    };
    match MANAGERS.iter().find(|(manager, _)| is_here(manager)) {
        Some((_, command)) => Cure::Command(format!("{command} {package}")),
        None => Cure::Person(format!("whoever runs this machine: install {package}")),
    }
}
