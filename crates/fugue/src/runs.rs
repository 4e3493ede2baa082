//! A run as somebody at this terminal waits for it: its news, its answer, and Ctrl-C, which ends the wait and never the
//! run.

pub mod commands;
mod marks;
mod report;
mod stream;
mod table;

use std::{pin::Pin, process::ExitCode};

use fugue_api::{
    Error, ErrorKind, Handle, RunId, Tool, ToolCall,
    run_result::{RunKind, RunResult},
    wire::{Request, Response, RunProgress},
};
use fugue_client::client::Client;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

pub use stream::Begin;

use crate::{cli::CliContext, follow::Pace};

/// Exit code of a wait whose time was over.
pub const TIMED_OUT: u8 = 124;
const INTERRUPTED: u8 = 130;

/// Calls a tool that starts a run, or waits for one, shows what happens meanwhile, and tells how it ended.
pub async fn see_through(
    cx: &CliContext,
    run: RunId,
    kind: RunKind,
    args: impl Tool<Reply: Into<RunResult>>,
    begin: Begin,
) -> Result<ExitCode, Error> {
    let mut wait = Wait::begin(cx, run, args)?;
    let ended = match kind {
        _ if cx.out.is_json() => wait.ended().await?,
        RunKind::Expect => wait.ended().await?,
        RunKind::Parallel if cx.out.is_quiet() => wait.ended().await?,
        RunKind::Parallel if cx.out.can_redraw() => table::live(cx, &mut wait).await?,
        RunKind::Parallel => table::plain(cx, &mut wait).await?,
        RunKind::Pipeline => stream::show(cx, &mut wait, begin).await?,
    };
    let goes_on = format!("`fugue wait {}` picks it up again", wait.run);
    let code = match (&ended, &wait.known) {
        (Ended::Answered, Some(result)) => report::exit_code(result),
        (Ended::Answered | Ended::Interrupted, _) => INTERRUPTED,
    };
    match (&ended, &wait.known) {
        (_, Some(known)) if cx.out.is_json() => cx.out.document(known)?,
        (_, None) if cx.out.is_json() => cx.out.error(
            &Error::new(ErrorKind::Unavailable, "interrupted before the run began").hint(&goes_on),
        ),
        (Ended::Answered, Some(result)) => {
            report::tell(cx, result)?;
            if result.is_running() {
                cx.out.note(&format!("still running; {goes_on}"));
            }
        }
        (Ended::Answered | Ended::Interrupted, known) => {
            if cx.out.can_redraw() {
                // The `^C` of the terminal's own echo.
                cx.out.bytes(b"\r\x1b[K")?;
            }
            cx.out.note(&match known {
                Some(_) => format!("interrupted; the run goes on, and {goes_on}"),
                None => format!("interrupted; if the run had begun, {goes_on}"),
            });
        }
    }
    Ok(ExitCode::from(code))
}

/// An id of our own, so that a run can be picked up again whatever happens to the call that starts it.
pub fn fresh_id() -> Result<RunId, Error> {
    let mut random = [0; 8];
    match rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(RunId::fresh(random)),
        _ => Err(Error::new(
            ErrorKind::Internal,
            "the kernel gave no random numbers",
        )),
    }
}

/// How much output a result may have. A program gets as much as a model would; people see failures whole, and more
/// than they can read is cut where it is shown.
pub fn most_chars(cx: &CliContext, wanted: Option<u32>) -> u32 {
    wanted.unwrap_or(if cx.out.is_json() { 10_000 } else { 200_000 })
}

/// How a run stands, as soon as that is another than `seen`.
pub async fn news(client: &Client, run: &RunId, seen: u64) -> Result<RunProgress, Error> {
    let ask = Request::RunNews {
        run: run.clone(),
        seen,
    };
    match client.ask(ask).await? {
        Response::RunNews { news } => Ok(news),
        other => Err(Error::new(
            ErrorKind::Internal,
            format!("the daemon answered something else: {other:?}"),
        )),
    }
}

/// How a wait ended.
pub enum Ended {
    /// What is known is the answer.
    Answered,
    Interrupted,
}

/// What happens while one waits.
pub enum Event {
    /// Something is known that was not.
    News,
    Ended(Ended),
}

/// One wait for a run.
pub struct Wait {
    run: RunId,
    /// The latest news, without outputs; at the end the answer.
    known: Option<RunResult>,
    answer: Pin<Box<dyn Future<Output = Result<RunResult, Error>>>>,
    // Only the latest news count, so it is no queue.
    told: watch::Receiver<Option<RunResult>>,
    more_news: bool,
    interrupts: Signal,
}

impl Wait {
    fn begin<T: Tool<Reply: Into<RunResult>>>(
        cx: &CliContext,
        run: RunId,
        args: T,
    ) -> Result<Self, Error> {
        let request: ToolCall = args.into();
        // Before anything is started: from here on Ctrl-C says how to pick it up again.
        let interrupts = signal(SignalKind::interrupt())
            .map_err(|error| Error::new(ErrorKind::Internal, format!("Ctrl-C: {error}")))?;
        let (tell, told) = watch::channel(None);
        tokio::spawn(listen(cx.client.clone(), run.clone(), tell));
        let client = cx.client.clone();
        let pick_up = format!("`fugue wait {run}` picks it up again, if it had begun");
        let answer = Box::pin(async move {
            let answer = client
                .call(request)
                .await
                .and_then(|delivery| delivery.reply.read_as::<T>())
                .map(Into::into);
            answer.map_err(|error| match error.kind {
                ErrorKind::Unavailable if error.message.contains("daemon") => error.hint(pick_up),
                _ => error,
            })
        });
        Ok(Self {
            run,
            known: None,
            answer,
            told,
            more_news: true,
            interrupts,
        })
    }

    /// May be dropped and called again without losing anything.
    async fn next(&mut self) -> Result<Event, Error> {
        tokio::select! {
            biased;
            answer = &mut self.answer => {
                self.known = Some(answer?);
                Ok(Event::Ended(Ended::Answered))
            }
            _ = self.interrupts.recv() => Ok(Event::Ended(Ended::Interrupted)),
            told = self.told.changed(), if self.more_news => {
                match told {
                    Ok(()) => self.known = self.told.borrow_and_update().clone(),
                    Err(_) => self.more_news = false,
                }
                Ok(Event::News)
            }
        }
    }

    async fn ended(&mut self) -> Result<Ended, Error> {
        loop {
            match self.next().await? {
                Event::News => {}
                Event::Ended(ended) => return Ok(ended),
            }
        }
    }
}

/// Asks for news until there will be none.
async fn listen(client: Client, run: RunId, tell: watch::Sender<Option<RunResult>>) {
    let mut seen = 0;
    let mut pace = Pace::new();
    loop {
        match news(&client, &run, seen).await {
            Ok(news) => {
                let over = !news.run.is_running();
                seen = news.version;
                if tell.send(Some(news.run)).is_err() || over {
                    return;
                }
            }
            // Not recorded yet, or refused: the answer tells.
            Err(error) if error.kind == ErrorKind::NotFound => pace.next().await,
            Err(_) => return,
        }
    }
}
