use std::{collections::BTreeMap, process::ExitCode};

use fugue_api::{
    Error, Handle, RunId,
    run_result::RunResult,
    tools::{CreatePane, CreatePaneReply, ExpectResult, ExpectStatus},
};

use crate::{cli::CliContext, out::InterruptSignal, runs, verbs};

/// Open a pane with a shell or a command, and print its id.
///
/// With --ready, the line with the match is printed as well. Exit code then: 0 after a match, 1 if the command ended
/// before, 124 after a timeout, 130 after Ctrl-C. The pane stays open in each case.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  fugue new -n sh\n  fugue new -n build -c web -e CI=1 -- 'make -j4'\n  fugue new -n web --ready 'https?://\\S+' --timeout 2m -- npm run dev"
)]
pub struct NewArgs {
    #[command(flatten)]
    pane: CreatePane,
    #[command(flatten)]
    env: EnvArgs,
    /// One word is a command line for the shell; several words are a program and its arguments.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl NewArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let command = match self.command.as_slice() {
            [] => None,
            [line] => Some(line.clone()),
            words => Some(
                words
                    .iter()
                    .map(|word| verbs::quoted(word))
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        };
        let args = CreatePane {
            command,
            env: self.env.into_map(),
            ..self.pane
        };
        if args.ready.is_some() {
            let run = runs::new_run_id()?;
            return open_and_wait(cx, args, run).await;
        }
        let made = verbs::call(cx, args).await?;
        if cx.out.is_json() {
            cx.out.document(&made)?;
        } else {
            cx.out.line(made.pane_id.to_string())?;
            if let Some(note) = &made.note {
                cx.out.note(&format!("not ready: {note}"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Opens a pane and waits for the pattern of `--ready`.
async fn open_and_wait(cx: &CliContext, args: CreatePane, run: RunId) -> Result<ExitCode, Error> {
    let args = CreatePane {
        run_id: Some(run.clone()),
        ..args
    };
    let mut interrupt = InterruptSignal::new()?;
    let delivery = tokio::select! {
        delivery = cx.client.call(args.clone().into()) => delivery?,
        () = interrupt.pressed() => {
            cx.out.note(&format!(
                "interrupted; the command continues, and `fugue wait {run}` continues the wait"
            ));
            return Ok(ExitCode::from(runs::INTERRUPTED));
        }
    };
    let reply = delivery.reply.read_as::<CreatePane>()?;
    let pane = reply.pane_id;
    let (document, result) = (reply.clone(), RunResult::Expect(result_of(reply, args)));
    if cx.out.is_json() {
        cx.out.document(&document)?;
    } else {
        cx.out.line(pane.to_string())?;
        runs::print_result(cx, &result)?;
    }
    // The result is acked after it was printed.
    if let Some(ack) = delivery.ack {
        ack.complete().await;
    }
    Ok(ExitCode::from(runs::exit_code(&result)))
}

/// The result of the wait for the pattern, which is that of an expect.
fn result_of(reply: CreatePaneReply, args: CreatePane) -> ExpectResult {
    ExpectResult {
        status: reply.status.unwrap_or(ExpectStatus::Matched),
        run_id: reply.run_id,
        pane_id: Some(reply.pane_id),
        pattern: args.ready.unwrap_or_default(),
        matched: reply.matched,
        line: reply.line,
        duration_ms: args.timeout_ms,
        cursor: reply.cursor,
        output: reply.output,
        omitted_chars: reply.omitted_chars,
        exit_code: reply.exit_code,
        signal: reply.signal,
        via: None,
        note: reply.note,
    }
}

/// Environment variables, which the command line gives one by one and a tool call as a map.
#[derive(clap::Args)]
pub struct EnvArgs {
    /// Set an environment variable.
    #[arg(short, long = "env", value_name = "K=V", value_parser = parse_variable)]
    env: Vec<(String, String)>,
}

impl EnvArgs {
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.env.into_iter().collect()
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("wanted NAME=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
