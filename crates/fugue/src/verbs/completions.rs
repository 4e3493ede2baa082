use std::{ffi::OsStr, process::ExitCode, time::Duration};

use clap::Command;
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, CompletionCandidate},
    env::{Bash, EnvCompleter, Fish, Zsh},
};
use fugue_api::{
    Error, ToolReply,
    overview::Overview,
    tools::GetStatusReply,
    wire::{Request, Response},
};
use fugue_client::{client::Client, paths::UserPaths};

use crate::{
    cli,
    identity::{self, ProcessRole},
    out::{CliOutput, clean},
    verbs::{self, state_word},
};

/// Print the completion script of a shell, with panes, runs and workers that exist when Tab is pressed.
///
/// The script asks `fugue` at each Tab, so it belongs to the installed version. In the files of the shells:
///
///   bash  ~/.bashrc: source <(fugue completions bash)
///   zsh   ~/.zshrc, behind compinit: source <(fugue completions zsh)
///   fish  ~/.config/fish/config.fish: fugue completions fish | source
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  fugue completions bash > ~/.local/share/bash-completion/completions/fugue"
)]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    shell: CompletedShell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

/// Set by the script when it asks for completions.
const ASKED: &str = "FUGUE_COMPLETE";
// A person waits at the prompt, and a script without panes is better than one that hangs.
const DAEMON_TIMEOUT: Duration = Duration::from_millis(500);

impl CompletionsArgs {
    pub fn run(self, out: &CliOutput) -> Result<ExitCode, Error> {
        let shell: &dyn EnvCompleter = match self.shell {
            CompletedShell::Bash => &Bash,
            CompletedShell::Zsh => &Zsh,
            CompletedShell::Fish => &Fish,
        };
        let mut script = Vec::new();
        shell
            .write_registration(ASKED, "fugue", "fugue", "fugue", &mut script)
            .map_err(|error| Error::internal(error.to_string()))?;
        out.bytes(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the completions and ends the process, if a completion script asks for them.
pub fn complete_if_asked() {
    // The engine parses the whole command line again, so nothing is built for other calls.
    if std::env::var_os(ASKED).is_some() {
        CompleteEnv::with_factory(|| with_candidates(cli::command()))
            .var(ASKED)
            .bin("fugue")
            .completer("fugue")
            .complete();
    }
}

/// Finds the names of one kind.
type NameFinder = fn(&Overview) -> Vec<CompletionCandidate>;

/// What an argument names, by the name of its value in the help.
const NAMED: &[(&str, NameFinder)] = &[
    ("PANE", panes),
    ("PANE or SESSION", panes_and_sessions),
    ("RUN", runs),
    ("SESSION", sessions),
    ("W", workers),
];

/// Gives the arguments that name something of the daemon's the names that exist.
fn with_candidates(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let is_named = |name: &str| {
                let names = arg.get_value_names().unwrap_or_default();
                names.iter().any(|value| value.as_str() == name)
            };
            match NAMED.iter().find(|(name, _)| is_named(name)) {
                Some(&(_, candidates)) => arg.add(ArgValueCandidates::new(move || {
                    overview().as_ref().map(candidates).unwrap_or_default()
                })),
                None => arg,
            }
        })
        .mut_subcommands(with_candidates)
}

/// What exists now. `None` without a daemon that answers at once; none is started.
fn overview() -> Option<Overview> {
    let paths = UserPaths::for_current_user().ok()?;
    let who = identity::caller_identity(None, ProcessRole::Person, &paths).ok()?;
    let client = Client::new(paths, verbs::caller().ok()?, who);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let asked = runtime.block_on(async {
        tokio::time::timeout(DAEMON_TIMEOUT, client.ask_listening(Request::Overview)).await
    });
    runtime.shutdown_background();
    match asked {
        Ok(Ok(Some(Response::Tool {
            reply: ToolReply::GetStatus(GetStatusReply::All(overview)),
        }))) => Some(overview),
        _ => None,
    }
}

fn panes(overview: &Overview) -> Vec<CompletionCandidate> {
    let mut found = Vec::new();
    for pane in &overview.panes {
        let (state, _) = state_word(&pane.state);
        let id = pane.pane_id.to_string();
        found.extend(candidate(&pane.name, &format!("{id}, {state}")));
        found.extend(candidate(&id, &format!("{}, {state}", pane.name)));
    }
    found
}

fn sessions(overview: &Overview) -> Vec<CompletionCandidate> {
    let panes = overview.panes.iter();
    let mut names: Vec<String> = panes.map(|pane| pane.session.to_string()).collect();
    names.sort();
    names.dedup();
    let named = names.iter().filter_map(|name| candidate(name, "session"));
    named.collect()
}

fn panes_and_sessions(overview: &Overview) -> Vec<CompletionCandidate> {
    let mut all = panes(overview);
    all.extend(sessions(overview));
    all
}

fn runs(overview: &Overview) -> Vec<CompletionCandidate> {
    let runs = overview.runs.iter();
    runs.filter_map(|run| candidate(&run.run_id.to_string(), &run.status))
        .collect()
}

fn workers(overview: &Overview) -> Vec<CompletionCandidate> {
    let workers = overview.workers.iter();
    workers
        .filter_map(|worker| candidate(&worker.worker_id, "worker"))
        .collect()
}

/// A name as a completion, with an explanation. `None` for a name that shows something else than it is.
fn candidate(name: &str, about: &str) -> Option<CompletionCandidate> {
    (!name.is_empty() && clean(name) == name)
        .then(|| CompletionCandidate::new(OsStr::new(name)).help(Some(clean(about).into())))
}
