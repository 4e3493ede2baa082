//! A pipeline while it runs: a heading for each step, its output as it comes, and how it ended.
//!
//! The output is read from the pane, between the marks that its shell sets around each step. Whatever could not be seen
//! there (a shell that sets none, a run that is over) is taken from the result.

use std::collections::VecDeque;

use fugue_api::{
    Error, ErrorKind, PaneId,
    run_result::RunResult,
    tools::{PipelineResult, StepResult, StepStatus},
    wire::OutputChunk,
};
use fugue_client::client::Client;
use fugue_term::TerminalSize;
use tokio::sync::mpsc;

use super::{Ended, Event, Wait, marks::Piece, marks::Reader};
use crate::{
    cli::CliContext,
    follow::{self, Pace, Printer},
    out::{Out, Tone, clean, took},
    text::Styled,
};

/// Where in its pane's output a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the pane itself.
    Start,
    At(u64),
    /// Somewhere before now; it has reached so many steps.
    CatchUp {
        steps: usize,
    },
    /// It is over, and its result has everything.
    Never,
}

pub async fn show(cx: &CliContext, wait: &mut Wait, begin: Begin) -> Result<Ended, Error> {
    let mut shown = Shown::new(&cx.out);
    // A full channel holds the follower back: what it reads is on disk.
    let (send, mut heard) = mpsc::channel(4);
    let mut send = Some(send).filter(|_| begin != Begin::Never);
    loop {
        tokio::select! {
            event = wait.next() => match event? {
                Event::News => {
                    if let Some(RunResult::Pipeline(known)) = &wait.known {
                        shown.steps.clone_from(&known.steps);
                        if let Some(send) = send.take() {
                            tokio::spawn(hear(cx.client.clone(), known.pane_id, begin, send));
                        }
                    }
                }
                Event::Ended(Ended::Interrupted) => {
                    shown.stop()?;
                    return Ok(Ended::Interrupted);
                }
                Event::Ended(Ended::Answered) => {
                    let Some(RunResult::Pipeline(result)) = &wait.known else {
                        return Ok(Ended::Answered);
                    };
                    // It may have been over before there was any news of it.
                    if let Some(send) = send.take() {
                        tokio::spawn(hear(cx.client.clone(), result.pane_id, begin, send));
                    }
                    if begin != Begin::Never {
                        tokio::select! {
                            rest = shown.rest(cx, result.pane_id, &mut heard) => rest?,
                            _ = wait.interrupts.recv() => {}
                        }
                    }
                    shown.finish(result)?;
                    return Ok(Ended::Answered);
                }
            },
            Some(heard) = heard.recv() => shown.hear(heard),
        }
        shown.print()?;
    }
}

/// What comes from the pane.
enum Heard {
    /// How large it is, where reading begins, and up to where its output is from before now.
    Pane {
        size: TerminalSize,
        from: u64,
        now: u64,
    },
    More(OutputChunk),
}

/// Follows the pane for as long as somebody listens.
async fn hear(client: Client, pane: PaneId, begin: Begin, send: mpsc::Sender<Heard>) {
    let name = pane.to_string();
    let Ok(status) = follow::status(&client, &name).await else {
        return;
    };
    let end = follow::offset(&status.cursor);
    let (mut from, now) = match begin {
        Begin::Start => (0, 0),
        Begin::At(at) => (at, at),
        Begin::CatchUp { steps: 0 } | Begin::Never => (end, end),
        Begin::CatchUp { .. } => (0, end),
    };
    let size = TerminalSize {
        rows: status.size.rows,
        cols: status.size.cols,
    };
    if send.send(Heard::Pane { size, from, now }).await.is_err() {
        return;
    }
    let mut pace = Pace::new();
    loop {
        match follow::more(&client, &name, from).await {
            Ok(more) => {
                let (ended, nothing) = (more.ended, more.raw.is_empty());
                from = more.from + more.raw.len() as u64;
                if send.send(Heard::More(more)).await.is_err() {
                    return;
                }
                // A step's `exit` ends the shell, and another may be on its way.
                if ended {
                    pace.next().await;
                } else if !nothing {
                    pace = Pace::new();
                }
            }
            // Its shell is being started, which nothing announces.
            Err(error) if error.kind == ErrorKind::Unavailable => pace.next().await,
            Err(_) => return,
        }
    }
}

/// What is known of the steps, and how much of it is out.
struct Shown {
    out: Out,
    printer: Printer,
    reader: Option<Reader>,
    /// Not yet printed.
    pieces: VecDeque<Piece>,
    /// What the news say.
    steps: Vec<StepResult>,
    plan: Option<u64>,
    /// The pane's output is from before our time up to here.
    now: u64,
    at: u64,
    /// So many steps have their heading, and so many their end.
    headed: u64,
    ended: u64,
}

impl Shown {
    fn new(out: &Out) -> Self {
        Self {
            out: out.clone(),
            printer: Printer::new(out),
            reader: None,
            pieces: VecDeque::new(),
            steps: Vec::new(),
            plan: None,
            now: 0,
            at: 0,
            headed: 0,
            ended: 0,
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Pane { size, from, now } => {
                self.reader = Some(Reader::new(size));
                (self.at, self.now) = (from, now);
            }
            Heard::More(more) => {
                self.at = more.from + more.raw.len() as u64;
                let Some(reader) = &mut self.reader else {
                    return;
                };
                for piece in reader.feed(more.from, &more.raw) {
                    self.take(piece);
                }
            }
        }
    }

    /// A pane may have run other pipelines before this one. They are over, so the last one is ours.
    fn take(&mut self, piece: Piece) {
        let plan = piece.plan();
        match self.plan {
            Some(ours) if ours == plan => {}
            Some(_) if self.at > self.now && self.headed > 0 => return,
            Some(_) | None => {
                self.pieces.clear();
                self.plan = Some(plan);
            }
        }
        self.pieces.push_back(piece);
    }

    /// Prints as much as is known.
    fn print(&mut self) -> Result<(), Error> {
        if self.at < self.now {
            return Ok(());
        }
        let mut ready = Vec::new();
        while let Some(piece) = self.pieces.pop_front() {
            match piece {
                Piece::Begin { step, heading, .. } => {
                    self.headed = step;
                    ready.extend(self.heading(&heading));
                }
                Piece::Line { text, .. } => ready.push(self.out.output(text)),
                Piece::End { step, .. } => match self.step(step) {
                    Some(known) if known.status != StepStatus::Running => {
                        ready.extend(self.ending(known));
                        self.ended = step;
                    }
                    // The news are not here yet; the output was faster.
                    Some(_) | None => {
                        self.pieces.push_front(piece);
                        break;
                    }
                },
            }
        }
        let open = match self.pieces.is_empty() {
            true => self.reader.as_ref().and_then(Reader::open),
            false => None,
        };
        self.printer.print(ready, open)
    }

    /// Nobody waits any more.
    fn stop(&mut self) -> Result<(), Error> {
        let open = self.reader.as_mut().map(Reader::close);
        let open = open.into_iter().flatten();
        self.printer
            .print(open.map(|line| self.out.output(line)), None)
    }

    /// Reads what the pane had printed when the run was over.
    async fn rest(
        &mut self,
        cx: &CliContext,
        pane: PaneId,
        heard: &mut mpsc::Receiver<Heard>,
    ) -> Result<(), Error> {
        let Ok(status) = follow::status(&cx.client, &pane.to_string()).await else {
            return Ok(());
        };
        let end = follow::offset(&status.cursor);
        while self.at < end {
            match heard.recv().await {
                Some(heard) => self.hear(heard),
                None => break,
            }
            self.print()?;
        }
        Ok(())
    }

    fn finish(&mut self, result: &PipelineResult) -> Result<(), Error> {
        self.steps.clone_from(&result.steps);
        self.now = 0;
        self.print()?;
        let running = |step: &StepResult| step.status == StepStatus::Running;
        let mut ready: Vec<Styled> = Vec::new();
        if self.headed > self.ended {
            ready.extend(
                self.reader
                    .as_mut()
                    .map(Reader::close)
                    .into_iter()
                    .flatten()
                    .map(|line| self.out.output(line)),
            );
            let last = self.step(self.headed).filter(|step| !running(step));
            ready.extend(last.and_then(|step| self.ending(step)));
        }
        for (step, number) in result.steps.iter().zip(1..) {
            if number <= self.headed {
                continue;
            }
            let command = step.command.lines().next().unwrap_or_default();
            let heading = format!("── {number} {}: {}", clean(&step.name), clean(command));
            ready.extend(self.heading(&heading));
            ready.extend(step.output.lines().map(Styled::output));
            if step.omitted_lines > 0 {
                let (lines, pane) = (step.omitted_lines, result.pane_id);
                let more = format!("… {lines} lines are left out; `fugue read {pane}` has them");
                ready.push(self.out.toned(&more, Tone::Faint));
            }
            if !running(step) {
                ready.extend(self.ending(step));
            }
        }
        self.printer.print(ready, None)
    }

    fn step(&self, number: u64) -> Option<&StepResult> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.steps.get(index)
    }

    fn heading(&self, text: &str) -> Option<Styled> {
        (!self.out.is_quiet()).then(|| self.out.toned(text, Tone::Strong))
    }

    fn ending(&self, step: &StepResult) -> Option<Styled> {
        if self.out.is_quiet() {
            return None;
        }
        let (how, tone) = match (step.status, step.exit_code, &step.signal) {
            (StepStatus::Timeout, ..) => ("timeout".to_owned(), Tone::Bad),
            (_, Some(0), _) => ("exit 0".to_owned(), Tone::Good),
            (_, Some(code), _) => (format!("exit {code}"), Tone::Bad),
            (_, None, Some(signal)) => (signal.clone(), Tone::Bad),
            (_, None, None) => ("exit ?".to_owned(), Tone::Bad),
        };
        let note = step
            .note
            .as_deref()
            .map(|note| format!(" · {}", clean(note)));
        let said = format!(
            "── {how} · {}{}",
            took(step.duration_ms),
            note.unwrap_or_default()
        );
        Some(self.out.toned(&said, tone))
    }
}
