//! The progress of a pipeline: for each step a heading, the output as it arrives, and the result.
//!
//! The output is read from the pane, between the shell marks around each step. Steps without marks (other shells, ended
//! runs) are printed from the result.

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

use super::{RunWait, WaitEnd, WaitEvent, marks::StepPiece, marks::StepReader};
use crate::{
    cli::CliContext,
    follow::{self, LinePrinter, RetryDelay},
    out::{CliOutput, WordTone, clean, format_duration},
    text::StyledText,
};

/// Where the output of a run begins in the output of the pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStart {
    /// At the beginning of the pane.
    Start,
    At(u64),
    /// Before the current end. `steps` steps have been started.
    CatchUp {
        steps: usize,
    },
    /// The run has ended, and the result contains the output.
    Never,
}

pub async fn show(
    cx: &CliContext,
    wait: &mut RunWait,
    begin: StreamStart,
) -> Result<WaitEnd, Error> {
    let mut printer = StepPrinter::new(&cx.out);
    // A full channel blocks the follower; unread output stays in the log.
    let (send, mut updates) = mpsc::channel(4);
    let mut send = Some(send).filter(|_| begin != StreamStart::Never);
    loop {
        tokio::select! {
            event = wait.next() => match event? {
                WaitEvent::News => {
                    if let Some(RunResult::Pipeline(known)) = &wait.known {
                        printer.steps.clone_from(&known.steps);
                        if let Some(send) = send.take() {
                            tokio::spawn(follow_pane(cx.client.clone(), known.pane_id, begin, send));
                        }
                    }
                }
                WaitEvent::Ended(WaitEnd::Interrupted) => {
                    printer.stop()?;
                    return Ok(WaitEnd::Interrupted);
                }
                WaitEvent::Ended(WaitEnd::Answered) => {
                    let Some(RunResult::Pipeline(result)) = &wait.known else {
                        return Ok(WaitEnd::Answered);
                    };
                    // The run may end before its first progress arrives.
                    if let Some(send) = send.take() {
                        tokio::spawn(follow_pane(cx.client.clone(), result.pane_id, begin, send));
                    }
                    if begin != StreamStart::Never {
                        tokio::select! {
                            rest = printer.rest(cx, result.pane_id, &mut updates) => rest?,
                            _ = wait.interrupts.recv() => {}
                        }
                    }
                    printer.finish(result)?;
                    return Ok(WaitEnd::Answered);
                }
            },
            Some(update) = updates.recv() => printer.apply(update),
        }
        printer.print()?;
    }
}

/// Output of the followed pane.
enum PaneUpdate {
    /// The size of the pane, the offset at which reading begins, and the offset of the end when following began.
    Pane {
        size: TerminalSize,
        from: u64,
        now: u64,
    },
    More(OutputChunk),
}

/// Follows the pane until the receiver is dropped.
async fn follow_pane(
    client: Client,
    pane: PaneId,
    begin: StreamStart,
    send: mpsc::Sender<PaneUpdate>,
) {
    let name = pane.to_string();
    let Ok(status) = follow::pane_status(&client, &name).await else {
        return;
    };
    let end = follow::offset(&status.cursor);
    let (mut from, now) = match begin {
        StreamStart::Start => (0, 0),
        StreamStart::At(at) => (at, at),
        StreamStart::CatchUp { steps: 0 } | StreamStart::Never => (end, end),
        StreamStart::CatchUp { .. } => (0, end),
    };
    let size = TerminalSize {
        rows: status.size.rows,
        cols: status.size.cols,
    };
    if send
        .send(PaneUpdate::Pane { size, from, now })
        .await
        .is_err()
    {
        return;
    }
    let mut pace = RetryDelay::new();
    loop {
        match follow::next_chunk(&client, &name, from).await {
            Ok(more) => {
                let (ended, nothing) = (more.ended, more.raw.is_empty());
                from = more.from + more.raw.len() as u64;
                if send.send(PaneUpdate::More(more)).await.is_err() {
                    return;
                }
                // A step with `exit` ends the shell, and the next shell may be starting.
                if ended {
                    pace.next().await;
                } else if !nothing {
                    pace = RetryDelay::new();
                }
            }
            // The shell is being started, which no event announces.
            Err(error) if error.kind == ErrorKind::Unavailable => pace.next().await,
            Err(_) => return,
        }
    }
}

/// The known steps, and the progress of printing.
struct StepPrinter {
    out: CliOutput,
    printer: LinePrinter,
    reader: Option<StepReader>,
    /// Pieces that are not printed yet.
    pieces: VecDeque<StepPiece>,
    /// The steps of the latest progress.
    steps: Vec<StepResult>,
    plan: Option<u64>,
    /// Output before this offset is older than this process.
    now: u64,
    at: u64,
    /// The number of steps with a printed heading; `ended` is the number of steps with a printed result.
    headed: u64,
    ended: u64,
}

impl StepPrinter {
    fn new(out: &CliOutput) -> Self {
        Self {
            out: out.clone(),
            printer: LinePrinter::new(out),
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

    fn apply(&mut self, update: PaneUpdate) {
        match update {
            PaneUpdate::Pane { size, from, now } => {
                self.reader = Some(StepReader::new(size));
                (self.at, self.now) = (from, now);
            }
            PaneUpdate::More(more) => {
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

    /// Adds a piece. Pieces of earlier pipelines in the same pane are discarded: this run is the last pipeline.
    fn take(&mut self, piece: StepPiece) {
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

    /// Prints all complete pieces.
    fn print(&mut self) -> Result<(), Error> {
        if self.at < self.now {
            return Ok(());
        }
        let mut ready = Vec::new();
        while let Some(piece) = self.pieces.pop_front() {
            match piece {
                StepPiece::Begin { step, heading, .. } => {
                    self.headed = step;
                    ready.extend(self.heading(&heading));
                }
                StepPiece::Line { text, .. } => ready.push(self.out.output(text)),
                StepPiece::End { step, .. } => match self.step(step) {
                    Some(known) if known.status != StepStatus::Running => {
                        ready.extend(self.ending(known));
                        self.ended = step;
                    }
                    // The output arrived before the progress with the exit code.
                    Some(_) | None => {
                        self.pieces.push_front(piece);
                        break;
                    }
                },
            }
        }
        let open = match self.pieces.is_empty() {
            true => self.reader.as_ref().and_then(StepReader::open),
            false => None,
        };
        self.printer.print(ready, open)
    }

    /// Prints the incomplete line after an interrupt.
    fn stop(&mut self) -> Result<(), Error> {
        let open = self.reader.as_mut().map(StepReader::close);
        let open = open.into_iter().flatten();
        self.printer
            .print(open.map(|line| self.out.output(line)), None)
    }

    /// Reads the output up to the end of the pane at the end of the run.
    async fn rest(
        &mut self,
        cx: &CliContext,
        pane: PaneId,
        updates: &mut mpsc::Receiver<PaneUpdate>,
    ) -> Result<(), Error> {
        let Ok(status) = follow::pane_status(&cx.client, &pane.to_string()).await else {
            return Ok(());
        };
        let end = follow::offset(&status.cursor);
        while self.at < end {
            match updates.recv().await {
                Some(update) => self.apply(update),
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
        let mut ready: Vec<StyledText> = Vec::new();
        if self.headed > self.ended {
            ready.extend(
                self.reader
                    .as_mut()
                    .map(StepReader::close)
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
            ready.extend(step.output.lines().map(StyledText::output));
            if step.omitted_lines > 0 {
                let (lines, pane) = (step.omitted_lines, result.pane_id);
                let more = format!("… {lines} lines are left out; `fugue read {pane}` has them");
                ready.push(self.out.toned(&more, WordTone::Faint));
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

    fn heading(&self, text: &str) -> Option<StyledText> {
        (!self.out.is_quiet()).then(|| self.out.toned(text, WordTone::Strong))
    }

    fn ending(&self, step: &StepResult) -> Option<StyledText> {
        if self.out.is_quiet() {
            return None;
        }
        let (how, tone) = match (step.status, step.exit_code, &step.signal) {
            (StepStatus::Timeout, ..) => ("timeout".to_owned(), WordTone::Bad),
            (StepStatus::Cancelled, ..) => ("cancelled".to_owned(), WordTone::Faint),
            (_, Some(0), _) => ("exit 0".to_owned(), WordTone::Good),
            (_, Some(code), _) => (format!("exit {code}"), WordTone::Bad),
            (_, None, Some(signal)) => (signal.clone(), WordTone::Bad),
            (_, None, None) => ("exit ?".to_owned(), WordTone::Bad),
        };
        let note = step
            .note
            .as_deref()
            .map(|note| format!(" · {}", clean(note)));
        let said = format!(
            "── {how} · {}{}",
            format_duration(step.duration_ms),
            note.unwrap_or_default()
        );
        Some(self.out.toned(&said, tone))
    }
}
