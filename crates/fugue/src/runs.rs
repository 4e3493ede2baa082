//! Waiting for a run at the terminal: progress, result, and Ctrl-C, which ends the wait but not the run.

pub mod commands;
mod marks;
mod report;
mod stream;
mod table;

use std::{pin::Pin, process::ExitCode};

use fugue_api::{
    Error, ErrorKind, EventAck, Handle, RunId, Tool, ToolCall, random_bytes,
    run_result::{RunKind, RunResult},
    wire::{Request, Response, RunProgress},
};
use fugue_client::client::Client;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

pub use report::{exit_code, print as print_result};
pub use stream::StreamStart;

use crate::{cli::CliContext, follow::RetryDelay};

/// Exit code after a timeout.
pub const TIMED_OUT: u8 = 124;
/// Exit code after Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Calls a tool that starts or awaits a run, shows the progress, and reports the result.
pub async fn wait_and_report(
    cx: &CliContext,
    run: RunId,
    kind: RunKind,
    args: impl Tool<Reply: Into<RunResult>>,
    begin: StreamStart,
) -> Result<ExitCode, Error> {
    let mut wait = RunWait::begin(cx, run, args)?;
    let ended = match kind {
        _ if cx.out.is_json() => wait.ended().await?,
        RunKind::Expect => wait.ended().await?,
        RunKind::Parallel if cx.out.is_quiet() => wait.ended().await?,
        RunKind::Parallel if cx.out.can_redraw() => table::show_table(cx, &mut wait).await?,
        RunKind::Parallel => table::print_ended_tasks(cx, &mut wait).await?,
        RunKind::Pipeline => stream::show(cx, &mut wait, begin).await?,
    };
    let continue_hint = format!("`fugue wait {}` continues the wait", wait.run);
    let code = match (&ended, &wait.known) {
        (WaitEnd::Answered, Some(result)) => exit_code(result),
        (WaitEnd::Answered | WaitEnd::Interrupted, _) => INTERRUPTED,
    };
    match (&ended, &wait.known) {
        (_, Some(known)) if cx.out.is_json() => cx.out.document(known)?,
        (_, None) if cx.out.is_json() => cx
            .out
            .error(&Error::unavailable("interrupted before the run began").hint(&continue_hint)),
        (WaitEnd::Answered, Some(result)) => {
            report::print(cx, result)?;
            if result.is_running() {
                cx.out.note(&format!("still running; {continue_hint}"));
            }
        }
        (WaitEnd::Answered | WaitEnd::Interrupted, known) => {
            if cx.out.can_redraw() {
                // Erases the `^C` that the terminal echoes.
                cx.out.bytes(b"\r\x1b[K")?;
            }
            cx.out.note(&match known {
                Some(_) => format!("interrupted; the run continues, and {continue_hint}"),
                None => format!("interrupted; if the run had begun, {continue_hint}"),
            });
        }
    }
    // The result is acked after it was printed.
    if let Some(ack) = wait.ack {
        ack.complete().await;
    }
    Ok(ExitCode::from(code))
}

/// Generates the id of a run in the client, so that `fugue wait` finds the run even if the starting call fails.
pub fn new_run_id() -> Result<RunId, Error> {
    random_bytes().map(RunId::fresh)
}

/// The limit of output in a result. With `--json` it is that of a tool call; for people failures are printed whole.
pub fn max_output_chars(cx: &CliContext, requested: Option<u32>) -> u32 {
    requested.unwrap_or(if cx.out.is_json() { 10_000 } else { 200_000 })
}

/// Waits until a run is newer than version `seen`, and returns the progress.
pub async fn fetch_progress(client: &Client, run: &RunId, seen: u64) -> Result<RunProgress, Error> {
    let ask = Request::RunProgress {
        run: run.clone(),
        seen,
    };
    match client.ask(ask).await? {
        Response::RunProgress { progress } => Ok(progress),
        other => Err(Error::unexpected(&other)),
    }
}

/// How the wait for a run ended.
pub enum WaitEnd {
    /// The run has returned its result.
    Answered,
    Interrupted,
}

/// An event during the wait.
pub enum WaitEvent {
    /// The progress has changed.
    News,
    Ended(WaitEnd),
}

/// The result of a run, and the ack of the event about the run's end, which the result replaces.
type AckedResult = (RunResult, Option<EventAck>);

/// The wait for a run.
pub struct RunWait {
    run: RunId,
    /// The latest progress, without outputs; at the end the result.
    known: Option<RunResult>,
    answer: Pin<Box<dyn Future<Output = Result<AckedResult, Error>>>>,
    /// The ack that is due when the result has been printed.
    ack: Option<EventAck>,
    // A watch channel and not a queue, because only the latest progress matters.
    told: watch::Receiver<Option<RunResult>>,
    more_news: bool,
    interrupts: Signal,
}

impl RunWait {
    fn begin<T: Tool<Reply: Into<RunResult>>>(
        cx: &CliContext,
        run: RunId,
        args: T,
    ) -> Result<Self, Error> {
        let request: ToolCall = args.into();
        // Registered before the run starts, so that Ctrl-C always prints how to continue.
        let interrupts = signal(SignalKind::interrupt())
            .map_err(|error| Error::internal(format!("Ctrl-C: {error}")))?;
        let (tell, told) = watch::channel(None);
        tokio::spawn(forward_progress(cx.client.clone(), run.clone(), tell));
        let client = cx.client.clone();
        let pick_up = format!("`fugue wait {run}` continues the wait, if the run had begun");
        let answer = Box::pin(async move {
            let answer = client.call(request).await.and_then(|delivery| {
                let result = delivery.reply.read_as::<T>()?.into();
                Ok((result, delivery.ack))
            });
            answer.map_err(|error| match error.kind {
                ErrorKind::Unavailable if error.message.contains("daemon") => error.hint(pick_up),
                _ => error,
            })
        });
        Ok(Self {
            run,
            known: None,
            answer,
            ack: None,
            told,
            more_news: true,
            interrupts,
        })
    }

    /// Waits for the next event. Cancel-safe.
    async fn next(&mut self) -> Result<WaitEvent, Error> {
        tokio::select! {
            biased;
            answer = &mut self.answer => {
                let (result, ack) = answer?;
                self.known = Some(result);
                self.ack = ack;
                Ok(WaitEvent::Ended(WaitEnd::Answered))
            }
            _ = self.interrupts.recv() => Ok(WaitEvent::Ended(WaitEnd::Interrupted)),
            told = self.told.changed(), if self.more_news => {
                match told {
                    Ok(()) => self.known = self.told.borrow_and_update().clone(),
                    Err(_) => self.more_news = false,
                }
                Ok(WaitEvent::News)
            }
        }
    }

    async fn ended(&mut self) -> Result<WaitEnd, Error> {
        loop {
            match self.next().await? {
                WaitEvent::News => {}
                WaitEvent::Ended(ended) => return Ok(ended),
            }
        }
    }
}

/// Forwards the progress of a run until it ends.
async fn forward_progress(client: Client, run: RunId, tell: watch::Sender<Option<RunResult>>) {
    let mut seen = 0;
    let mut pace = RetryDelay::new();
    loop {
        match fetch_progress(&client, &run, seen).await {
            Ok(progress) => {
                let over = !progress.run.is_running();
                seen = progress.version;
                if tell.send(Some(progress.run)).is_err() || over {
                    return;
                }
            }
            // The run is not stored yet, or was refused, which the reply reports.
            Err(error) if error.kind == ErrorKind::NotFound => pace.next().await,
            Err(_) => return,
        }
    }
}
