//! The command line: arguments, dispatch to the verbs, and errors.

use std::{io::Write, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind as ClapErrorKind};
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
    #[command(alias = "a")]
    Attach(verbs::attach::AttachArgs),
    #[command(alias = "open")]
    New(verbs::new::NewArgs),
    #[command(aliases = ["list", "ps"])]
    Ls(verbs::ls::LsArgs),
    #[command(alias = "type")]
    Send(verbs::send::SendArgs),
    #[command(aliases = ["cat", "logs"])]
    Read(verbs::read::ReadArgs),
    #[command(alias = "info")]
    Status(verbs::status::StatusArgs),
    #[command(aliases = ["kill", "rm"])]
    Close(verbs::close::CloseArgs),
    Resize(verbs::resize::ResizeArgs),
    Expect(verbs::expect::ExpectArgs),
    #[command(alias = "run")]
    Parallel(verbs::parallel::ParallelArgs),
    Pipeline(verbs::pipeline::PipelineArgs),
    Wait(verbs::wait::WaitArgs),
    Cancel(verbs::cancel::CancelArgs),
    Spawn(verbs::spawn::SpawnArgs),
    #[command(subcommand)]
    Worktree(verbs::worktree::WorktreeCommand),
    #[command(alias = "inbox")]
    Events(verbs::events::EventsArgs),
    Notify(verbs::notify::NotifyArgs),
    #[command(alias = "tell")]
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
    #[command(aliases = ["clean", "prune"])]
    Gc(verbs::gc::GcArgs),
    Doctor(verbs::doctor::DoctorArgs),
    #[command(subcommand, alias = "settings")]
    Config(verbs::config::ConfigCommand),
    #[command(alias = "completion")]
    Completions(verbs::completions::CompletionsArgs),
    Schema(verbs::schema::SchemaArgs),
    Help(verbs::help::HelpArgs),
    #[command(hide = true)]
    Man(verbs::man::ManArgs),
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

/// The whole command line.
pub fn command() -> clap::Command {
    Cli::command()
}

pub fn main() -> ExitCode {
    verbs::completions::complete_if_asked();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error),
    };
    let out = CliOutput::new(cli.json, cli.quiet);
    let verb = cli.verb.unwrap_or(Verb::Attach(Default::default()));
    let outcome = match verb {
        // These need neither a home directory nor a daemon: packages are built with them.
        Verb::Completions(verb) => verb.run(&out),
        Verb::Schema(verb) => verb.run(&out),
        Verb::Help(verb) => verb.run(&out),
        Verb::Man(verb) => verb.run(&out),
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
            Verb::Worktree(verb) => verb.run(&cx).await,
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
            Verb::Doctor(verb) => verb.run(&cx).await,
            Verb::Config(verb) => verb.run(&cx).await,
            Verb::AssessCorpus(verb) => verb.run(&cx).await,
            // Handled before the runtime is created.
            Verb::Completions(_) | Verb::Schema(_) | Verb::Help(_) | Verb::Man(_) => {
                Ok(ExitCode::SUCCESS)
            }
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

#[cfg(test)]
mod tests {
    use fugue_api::ToolCall;

    use super::*;

    #[test]
    fn every_tool_has_a_verb() {
        let command = command();
        for tool in ToolCall::definitions() {
            let verb = command.find_subcommand(tool.verb);
            assert!(
                verb.is_some(),
                "no verb `{}` for `{}`",
                tool.verb,
                tool.name
            );
        }
    }

    /// The words of a command line with single quotes.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut is_quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                c => words.last_mut().unwrap().push(c),
            }
        }
        words
    }

    /// The example lines of a verb, without the explanations behind them.
    fn examples(verb: &clap::Command) -> Vec<String> {
        let help = verb.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let lines = help.lines().filter_map(|line| line.strip_prefix("  fugue"));
        let line = |line: &str| format!("fugue{}", line.split("      (").next().unwrap_or(line));
        // What follows belongs to the shell.
        lines
            .map(line)
            .map(|line| line.split(" > ").next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn the_arguments_of_all_verbs_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_has_an_example_that_is_accepted() {
        let command = command();
        let verbs = command.get_subcommands();
        for verb in verbs {
            let examples = examples(verb);
            assert!(!examples.is_empty(), "{}", verb.get_name());
            for example in examples {
                let parsed = Cli::try_parse_from(words(&example));
                let name = parsed.as_ref().map(|_| example.split(' ').nth(1));
                match name {
                    Ok(name) => assert_eq!(name, Some(verb.get_name())),
                    Err(error) => panic!("{example}: {error}"),
                }
            }
        }
    }

    #[test]
    fn the_help_of_every_verb_fits_a_screen() {
        let mut command = command();
        command.build();
        for verb in command.get_subcommands_mut() {
            let name = verb.get_name().to_owned();
            let help = verb.clone().term_width(100).render_help().to_string();
            let lines = help.lines().count();
            assert!(lines <= 40, "{name}: {lines} lines\n{help}");
        }
    }

    #[test]
    fn names_that_people_try_are_accepted() {
        for (tried, verb) in [
            ("kill", "close"),
            ("rm", "close"),
            ("list", "ls"),
            ("ps", "ls"),
            ("open", "new"),
            ("type", "send"),
            ("cat", "read"),
            ("logs", "read"),
            ("info", "status"),
            ("a", "attach"),
            ("run", "parallel"),
            ("inbox", "events"),
            ("tell", "message"),
            ("clean", "gc"),
            ("prune", "gc"),
            ("settings", "config"),
            ("completion", "completions"),
        ] {
            let command = command();
            let found = command.find_subcommand(tried);
            assert_eq!(found.map(clap::Command::get_name), Some(verb), "{tried}");
        }
    }
}
