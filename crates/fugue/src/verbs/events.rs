use std::{
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use fugue_api::{
    Error, EventId, Handle, Timestamp,
    inbox_event::{CompletionStatus, InboxEvent, RunCompletion, WorkerCompletion},
    overview::QuestionRow,
    tools::{ExpectStatus, WaitForEvent, WaitForEventReply, WaitOutcome, WaitTimeout},
    wire::{InboxListing, InboxRow, Request, Response},
};

use crate::{
    cli::CliContext,
    out::{InterruptSignal, WordTone, clean, format_age},
    verbs::ls::{HOW_TO_ANSWER, QUESTION_HEADINGS, question_row},
};

/// List the events of an inbox, follow them, or take the next one.
///
/// Listing and following take no event, and show the questions that wait for a person. Exit code 124 after a timeout of `wait`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  fugue events\n  fugue events wait --types worker_complete --timeout 10m\n  fugue events -f --types '*'"
)]
pub struct EventsArgs {
    /// Wait for the next event and take it.
    #[arg(value_enum)]
    what: Option<EventsAction>,
    /// Print events as they arrive.
    #[arg(short, long, conflicts_with = "what")]
    follow: bool,
    /// Session id of another inbox; default that of this project or worker.
    #[arg(long, value_name = "SESSION")]
    pub inbox: Option<String>,
    #[command(flatten)]
    filter: WaitForEvent,
    /// Also list events that were taken.
    #[arg(long, conflicts_with_all = ["what", "follow"])]
    all: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum EventsAction {
    Wait,
}

// The limit of listed events, and the size of a page.
const MAX_LISTED_EVENTS: usize = 1_000;
// The timeout of one wait; `--follow` then waits again.
const FOLLOW_SECS: f64 = 3_600.0;

impl EventsArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        match (self.what, self.follow) {
            (Some(EventsAction::Wait), _) => self.wait(cx).await,
            (None, true) => self.follow(cx).await,
            (None, false) => self.list(cx).await,
        }
    }

    fn args(&self, timeout_secs: f64, after: Option<EventId>) -> WaitForEvent {
        WaitForEvent {
            timeout_secs,
            after_event_id: after,
            ..self.filter.clone()
        }
    }

    async fn wait(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let args = self.filter;
        let mut interrupt = InterruptSignal::new()?;
        let delivery = tokio::select! {
            delivery = cx.client.call(args.into()) => delivery?,
            () = interrupt.pressed() => return Ok(ExitCode::from(130)),
        };
        let told = delivery.reply.read_as::<WaitForEvent>()?;
        if cx.out.is_json() {
            cx.out.document(&told)?;
        } else {
            show(cx, &told)?;
        }
        // The event is acked after it was printed.
        if let Some(ack) = delivery.ack {
            ack.complete().await;
        }
        Ok(match told.what {
            WaitOutcome::Event(_) => ExitCode::SUCCESS,
            WaitOutcome::Nothing(_) => ExitCode::from(124),
        })
    }

    async fn follow(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let mut interrupt = InterruptSignal::new()?;
        let mut after = EventId(0);
        let known = list_events(cx, after).await?;
        for row in known.events {
            after = row.event_id;
            let args = self.args(0.0, None);
            if row.taken || !args.takes(&row.event) {
                continue;
            }
            print(cx, row)?;
        }
        let mut questions = Vec::new();
        loop {
            let args = self.args(FOLLOW_SECS, Some(after));
            let known = questions.iter().map(|row: &QuestionRow| row.question_id);
            let delivery = tokio::select! {
                delivery = cx.client.call(args.into()) => delivery?,
                open = cx.client.questions(known.collect()) => {
                    let open = open?;
                    for question in open.iter().filter(|question| !questions.contains(question)) {
                        print_question(cx, question)?;
                    }
                    questions = open;
                    continue;
                }
                () = interrupt.pressed() => return Ok(ExitCode::from(130)),
            };
            let told = delivery.reply.read_as::<WaitForEvent>()?;
            if let (Some(event_id), WaitOutcome::Event(event)) = (told.event_id, told.what) {
                after = event_id;
                let row = InboxRow {
                    event_id,
                    at: told.at.map_or(Timestamp(0), Timestamp::from),
                    taken: false,
                    dropped_events: told.dropped_events,
                    event,
                };
                print(cx, row)?;
            }
        }
    }

    async fn list(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let args = self.args(0.0, None);
        let wanted = |row: &InboxRow| (self.all || !row.taken) && args.takes(&row.event);
        let mut inbox = list_events(cx, EventId(0)).await?;
        let mut last = inbox.events.last().map(|row| row.event_id);
        inbox.events.retain(wanted);
        // Many taken events may precede the matching ones.
        while let Some(after) =
            last.filter(|_| inbox.more && inbox.events.len() < MAX_LISTED_EVENTS)
        {
            let page = list_events(cx, after).await?;
            last = page.events.last().map(|row| row.event_id);
            inbox.more = page.more;
            inbox.events.extend(page.events.into_iter().filter(wanted));
        }
        if cx.out.is_json() {
            cx.out.document(&inbox)?;
            return Ok(ExitCode::SUCCESS);
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        if !inbox.questions.is_empty() {
            let rows = inbox.questions.iter().map(|row| question_row(row, now));
            cx.out
                .table(&QUESTION_HEADINGS, &rows.collect::<Vec<_>>())?;
            cx.out.note(HOW_TO_ANSWER);
        }
        if inbox.events.is_empty() {
            cx.out.note(&format!(
                "no matching events in the inbox {}",
                inbox.session_id
            ));
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<Vec<(String, WordTone)>> = inbox
            .events
            .iter()
            .map(|row| {
                let (word, tone) = kind(&row.event);
                let tone = if row.taken { WordTone::Faint } else { tone };
                vec![
                    (row.event_id.to_string(), WordTone::Plain),
                    (format_age(now.saturating_sub(row.at.0)), WordTone::Faint),
                    (word, tone),
                    (
                        row.event.sender().unwrap_or("-").to_owned(),
                        WordTone::Plain,
                    ),
                    (text(&row.event), WordTone::Plain),
                ]
            })
            .collect();
        cx.out
            .table(&["EVENT", "AGE", "TYPE", "FROM", "WHAT"], &rows)?;
        if inbox.more {
            cx.out
                .note("there are more; `fugue events wait` takes the first");
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list_events(cx: &CliContext, after: EventId) -> Result<InboxListing, Error> {
    match cx
        .client
        .ask(Request::Inbox {
            after,
            most: MAX_LISTED_EVENTS,
        })
        .await?
    {
        Response::Inbox { inbox } => Ok(inbox),
        other => Err(Error::unexpected(&other)),
    }
}

fn print(cx: &CliContext, row: InboxRow) -> Result<(), Error> {
    let told = WaitForEventReply {
        event_id: Some(row.event_id),
        at: Some(row.at.into()),
        what: WaitOutcome::Event(row.event),
        dropped_events: row.dropped_events,
        pending: Default::default(),
    };
    if cx.out.is_json() {
        cx.out.document(&told)
    } else {
        show(cx, &told)
    }
}

fn print_question(cx: &CliContext, question: &QuestionRow) -> Result<(), Error> {
    if cx.out.is_json() {
        return cx.out.document(question);
    }
    cx.out.line(format!(
        "{id} question to a person {from}: {body}",
        id = question.question_id,
        from = clean(&question.from),
        body = clean(&question.body),
    ))?;
    cx.out.note(HOW_TO_ANSWER);
    Ok(())
}

fn show(cx: &CliContext, told: &WaitForEventReply) -> Result<(), Error> {
    match &told.what {
        WaitOutcome::Nothing(WaitTimeout::Timeout { waited_secs, .. }) => {
            cx.out.note(&format!("no event in {waited_secs:.0} s"));
        }
        WaitOutcome::Event(event) => {
            let id = told.event_id.map(|id| id.to_string()).unwrap_or_default();
            let (word, _) = kind(event);
            let from = event.sender().map(|from| format!(" {}", clean(from)));
            cx.out.line(format!(
                "{id} {word}{}: {}",
                from.unwrap_or_default(),
                text(event)
            ))?;
            if let InboxEvent::WorkerComplete(completion) = event {
                for change in &completion.changes {
                    cx.out.line(format!("  {}", clean(change)))?;
                }
            }
        }
    }
    if told.dropped_events > 0 {
        cx.out.note(&format!(
            "stands for {} older events of the same source, which a full inbox dropped",
            told.dropped_events
        ));
    }
    let queued: u64 = told.pending.values().sum();
    if queued > 0 {
        cx.out.note(&format!("{queued} more are queued"));
    }
    Ok(())
}

fn kind(event: &InboxEvent) -> (String, WordTone) {
    let (word, tone) = match event {
        InboxEvent::WorkerComplete(WorkerCompletion { status, .. }) => match status {
            CompletionStatus::Success => ("complete", WordTone::Good),
            CompletionStatus::Error => ("failed", WordTone::Bad),
        },
        InboxEvent::Message { .. } => ("message", WordTone::Plain),
        InboxEvent::Question { .. } => ("question", WordTone::Needy),
        InboxEvent::Answer { .. } => ("answer", WordTone::Plain),
        InboxEvent::WorkerNeedsInput { .. } => ("needs input", WordTone::Needy),
        InboxEvent::WorkerIdle { .. } => ("idle", WordTone::Needy),
        InboxEvent::WorkerPaused { .. } => ("paused", WordTone::Needy),
        InboxEvent::WorkerLate { .. } => ("late", WordTone::Needy),
        InboxEvent::RunComplete(_) => ("run", WordTone::Plain),
        InboxEvent::Watcher { .. } => ("watcher", WordTone::Plain),
    };
    (word.to_owned(), tone)
}

/// The end of a run; of an expect also the pane and the line with the match.
fn run_text(completion: &RunCompletion) -> String {
    let result = match completion {
        RunCompletion::Other { run_id, status } => return format!("{run_id} {status}"),
        RunCompletion::Expect(result) => result,
    };
    let status = match result.status {
        ExpectStatus::Matched => "matched",
        ExpectStatus::Failed => "failed",
        ExpectStatus::Timeout => "timeout",
        ExpectStatus::Exited => "exited",
        ExpectStatus::Cancelled => "cancelled",
        ExpectStatus::Running => "running",
    };
    let run = result.run_id.as_ref().map(ToString::to_string);
    let pane = result.pane_id.map(|pane| pane.to_string());
    let words = [run, pane, Some(status.to_owned()), result.line.clone()];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The content of an event in one line.
fn text(event: &InboxEvent) -> String {
    let said = match event {
        InboxEvent::WorkerComplete(completion) => {
            let how = match (completion.exit_code, &completion.signal) {
                (Some(code), _) if code != 0 => format!("exit {code} "),
                (_, Some(signal)) => format!("{signal} "),
                (_, None) => String::new(),
            };
            format!("{how}{}", completion.message)
        }
        InboxEvent::Message { body, .. } | InboxEvent::Answer { body, .. } => body.clone(),
        InboxEvent::Question {
            question_id, body, ..
        } => format!("{question_id}: {body}"),
        InboxEvent::WorkerNeedsInput { prompt, .. } => prompt.clone(),
        InboxEvent::WorkerIdle { message, .. } => message.clone(),
        InboxEvent::WorkerPaused {
            resume_at, message, ..
        } => {
            let until = resume_at.as_ref();
            let until = until.map_or(String::new(), |at| format!("until {at}: "));
            format!("{until}{message}")
        }
        InboxEvent::WorkerLate { .. } => "its deadline has passed; it goes on".to_owned(),
        InboxEvent::RunComplete(completion) => run_text(completion),
        InboxEvent::Watcher {
            pane_id,
            decision,
            injection,
            reason,
        } => {
            let more = injection.as_ref().or(reason.as_ref());
            format!("{pane_id} {decision} {}", more.map_or("", String::as_str))
        }
    };
    clean(&said.split_whitespace().collect::<Vec<_>>().join(" "))
}
