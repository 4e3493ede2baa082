//! The command line: arguments, dispatch to the verbs, and errors.

use std::{io::Write, process::ExitCode};

use clap::{Parser, Subcommand, error::ErrorKind as ClapErrorKind};
use fugue_api::{
    Error,
    wire::{CallerIdentity, SettingNames},
};
use fugue_client::{client::Client, paths::UserPaths};

use crate::{
    identity::{self, ProcessRole},
    out::CliOutput,
    text::clean_lines,
    verbs,
};

/// Terminals for agents and people: panes that survive their clients, and calls that wait for results.
#[derive(Parser)]
#[command(name = "fugue", version, disable_help_subcommand = true)]
struct Cli {
    /// Print one JSON document on stdout, and errors as JSON on stderr.
    #[arg(long, global = true)]
    json: bool,
    /// Print only the requested data.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Default: attach.
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    Attach(verbs::attach::AttachArgs),
    New(verbs::new::NewArgs),
    Ls(verbs::ls::LsArgs),
    Send(verbs::send::SendArgs),
    Read(verbs::read::ReadArgs),
    Status(verbs::status::StatusArgs),
    Close(verbs::close::CloseArgs),
    Resize(verbs::resize::ResizeArgs),
    Expect(verbs::expect::ExpectArgs),
    Parallel(verbs::parallel::ParallelArgs),
    Pipeline(verbs::pipeline::PipelineArgs),
    Wait(verbs::wait::WaitArgs),
    Cancel(verbs::cancel::CancelArgs),
    Spawn(verbs::spawn::SpawnArgs),
    Events(verbs::events::EventsArgs),
    Notify(verbs::notify::NotifyArgs),
    Message(verbs::message::MessageArgs),
    Ask(verbs::ask::AskArgs),
    Answer(verbs::answer::AnswerArgs),
    Hook(verbs::hook::HookArgs),
    Watch(verbs::watch::WatchArgs),
    Look(verbs::look::LookArgs),
    Pause(verbs::pause::PauseArgs),
    Clear(verbs::clear::ClearArgs),
    Mcp(verbs::mcp::McpArgs),
    #[command(subcommand)]
    Daemon(verbs::daemon::DaemonCommand),
    Gc(verbs::gc::GcArgs),
    #[command(subcommand)]
    Config(verbs::config::ConfigCommand),
    AssessCorpus(verbs::corpus::AssessCorpusArgs),
}

impl Verb {
    /// The identity that the verb calls with.
    fn who(&self, paths: &UserPaths) -> Result<CallerIdentity, Error> {
        match self {
            Self::Mcp(verb) => {
                identity::caller_identity(verb.session.as_deref(), verb.role(), paths)
            }
            Self::Events(verb) => {
                identity::caller_identity(verb.inbox.as_deref(), ProcessRole::Person, paths)
            }
            _ => identity::caller_identity(None, ProcessRole::Person, paths),
        }
    }
}

/// The context of all verbs: output, paths and the client.
pub struct CliContext {
    pub out: CliOutput,
    pub paths: UserPaths,
    pub client: Client,
    /// Whether a worker runs this verb.
    pub is_worker: bool,
}

pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error),
    };
    let out = CliOutput::new(cli.json, cli.quiet);
    let verb = cli.verb.unwrap_or(Verb::Attach(Default::default()));
    let outcome = match verb {
        // The daemon creates a runtime itself.
        Verb::Daemon(verbs::daemon::DaemonCommand::Run) => verbs::daemon::run(),
        // A hook succeeds also without HOME or in a deleted directory, because a failing hook disturbs the agent.
        verb @ Verb::Hook(_) => Ok(run(verb, &out).unwrap_or(ExitCode::SUCCESS)),
        verb => run(verb, &out),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            out.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(verb: Verb, out: &CliOutput) -> Result<ExitCode, Error> {
    let paths = UserPaths::for_current_user()?;
    let who = verb.who(&paths)?;
    let is_worker = matches!(who, CallerIdentity::Worker { .. });
    let mut caller = verbs::caller()?;
    if matches!(verb, Verb::Mcp(_)) {
        caller.setting_names = SettingNames::Short;
    }
    let client = Client::new(paths.clone(), caller, who);
    let cx = CliContext {
        out: out.clone(),
        paths,
        client,
        is_worker,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::internal(error.to_string()))?;
    let outcome = runtime.block_on(async {
        match verb {
            Verb::Attach(verb) => verb.run(&cx).await,
            Verb::New(verb) => verb.run(&cx).await,
            Verb::Ls(verb) => verb.run(&cx).await,
            Verb::Send(verb) => verb.run(&cx).await,
            Verb::Read(verb) => verb.run(&cx).await,
            Verb::Status(verb) => verb.run(&cx).await,
            Verb::Close(verb) => verb.run(&cx).await,
            Verb::Resize(verb) => verb.run(&cx).await,
            Verb::Expect(verb) => verb.run(&cx).await,
            Verb::Parallel(verb) => verb.run(&cx).await,
            Verb::Pipeline(verb) => verb.run(&cx).await,
            Verb::Wait(verb) => verb.run(&cx).await,
            Verb::Cancel(verb) => verb.run(&cx).await,
            Verb::Spawn(verb) => verb.run(&cx).await,
            Verb::Events(verb) => verb.run(&cx).await,
            Verb::Notify(verb) => verb.run(&cx).await,
            Verb::Message(verb) => verb.run(&cx).await,
            Verb::Ask(verb) => verb.run(&cx).await,
            Verb::Answer(verb) => verb.run(&cx).await,
            Verb::Hook(verb) => verb.run(&cx).await,
            Verb::Watch(verb) => verb.run(&cx).await,
            Verb::Look(verb) => verb.run(&cx).await,
            Verb::Pause(verb) => verb.run(&cx).await,
            Verb::Clear(verb) => verb.run(&cx).await,
            Verb::Mcp(verb) => verb.run(&cx).await,
            Verb::Daemon(verb) => verb.run(&cx).await,
            Verb::Gc(verb) => verb.run(&cx).await,
            Verb::Config(verb) => verb.run(&cx).await,
            Verb::AssessCorpus(verb) => verb.run(&cx).await,
        }
    });
    // Does not wait for blocking threads, which may wait for a lock or a daemon.
    runtime.shutdown_background();
    outcome
}

/// Prints help and version on stdout. Wrong arguments have exit code 2, with `--json` as JSON.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|arg| arg == "--json");
    match error.kind() {
        ClapErrorKind::DisplayHelp | ClapErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ if wants_json => {
            let text = error.render().to_string();
            let message = text.trim().strip_prefix("error: ").unwrap_or(text.trim());
            let (message, rest) = message.split_once("\n\n").unwrap_or((message, ""));
            let mut refusal = Error::invalid(message.replace('\n', " "));
            if !rest.is_empty() {
                refusal = refusal.hint(rest.replace("\n\n", " ").replace('\n', " "));
            }
            CliOutput::new(true, false).error(&refusal);
            ExitCode::from(2)
        }
        _ => {
            // The message repeats the wrong arguments: with control characters it is cleaned, else printed with colours.
            let text = error.render().to_string();
            let cleaned = clean_lines(text.trim_end());
            if cleaned == text.trim_end() {
                let _ = error.print();
            } else {
                let _ = writeln!(std::io::stderr(), "{cleaned}");
            }
            ExitCode::from(2)
        }
    }
}
