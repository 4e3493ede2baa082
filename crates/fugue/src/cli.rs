//! The command line: what can be said, and how refusals look.

use std::{io::Write, process::ExitCode};

use clap::{Parser, Subcommand, error::ErrorKind as ClapErrorKind};
use fugue_api::{
    Error, ErrorKind,
    wire::{CallerIdentity, SettingNames},
};
use fugue_client::{client::Client, paths::Paths};

use crate::{
    identity::{self, Role},
    out::Out,
    text::clean_lines,
    verbs,
};

/// Terminals for agents and people: panes that outlive everything, one blocking call at a time.
#[derive(Parser)]
#[command(name = "fugue", version, disable_help_subcommand = true)]
struct Cli {
    /// One JSON document on stdout, errors as JSON on stderr.
    #[arg(long, global = true)]
    json: bool,
    /// Say nothing but what was asked for.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Left out: attach.
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
    /// Whose inbox it has.
    fn who(&self, paths: &Paths) -> Result<CallerIdentity, Error> {
        match self {
            Self::Mcp(verb) => identity::who(verb.session.as_deref(), verb.role(), paths),
            Self::Events(verb) => identity::who(verb.inbox.as_deref(), Role::Person, paths),
            _ => identity::who(None, Role::Person, paths),
        }
    }
}

/// What a verb has to work with.
pub struct CliContext {
    pub out: Out,
    pub paths: Paths,
    pub client: Client,
    /// A worker of somebody's calls.
    pub who_is_worker: bool,
}

pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_words(&error),
    };
    let out = Out::new(cli.json, cli.quiet);
    let verb = cli.verb.unwrap_or(Verb::Attach(Default::default()));
    let outcome = match verb {
        // The daemon brings its own runtime.
        Verb::Daemon(verbs::daemon::DaemonCommand::Run) => verbs::daemon::run(),
        // Whatever is wrong with its world (no HOME, a directory that is gone), the agent must not notice.
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

fn run(verb: Verb, out: &Out) -> Result<ExitCode, Error> {
    let paths = Paths::of_this_user()?;
    let who = verb.who(&paths)?;
    let who_is_worker = matches!(who, CallerIdentity::Worker { .. });
    let mut caller = verbs::caller()?;
    if matches!(verb, Verb::Mcp(_)) {
        caller.setting_names = SettingNames::Short;
    }
    let client = Client::new(paths.clone(), caller, who);
    let cx = CliContext {
        out: out.clone(),
        paths,
        client,
        who_is_worker,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
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
            Verb::Config(verb) => verb.run(&cx),
            Verb::AssessCorpus(verb) => verb.run(&cx).await,
        }
    });
    // A thread that waits for a lock or a daemon must not keep a verb that has its answer.
    runtime.shutdown_background();
    outcome
}

/// Help and versions go to stdout and are no failure; a wrong word is exit 2, as JSON where that was asked for.
fn refuse_words(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|word| word == "--json");
    match error.kind() {
        ClapErrorKind::DisplayHelp | ClapErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ if wants_json => {
            let text = error.render().to_string();
            let said = text.trim().strip_prefix("error: ").unwrap_or(text.trim());
            let (message, rest) = said.split_once("\n\n").unwrap_or((said, ""));
            let mut refusal = Error::invalid(message.replace('\n', " "));
            if !rest.is_empty() {
                refusal = refusal.hint(rest.replace("\n\n", " ").replace('\n', " "));
            }
            Out::new(true, false).error(&refusal);
            ExitCode::from(2)
        }
        _ => {
            // The words that were wrong are repeated, in clap's colours if they are only text.
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
