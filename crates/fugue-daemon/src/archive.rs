//! Replies for panes that have ended, from their files. Nothing of such a pane stays in memory.

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use fugue_api::{
    Error, ErrorKind, ToolReply,
    attach::{AttachResponse, Frame, FrameHead},
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{ReadMode, ReadPane, ReadPaneReply},
    wire::Response,
};
use fugue_core::{
    OutputRange, PaneEnd, PaneEvent, PaneRecord, PaneRequest,
    pane_machine::{expect_patterns, match_event},
    result::PartText,
    view,
};
use fugue_holder::LogReader;
use fugue_term::{ExpectSearch, InitialSearch, LineSelection, PatternMatch};

use crate::{
    engine::DaemonContext,
    frame::{self, LineRange, LinesBuilder},
    reading::{self, HistoryDepth, ReadOutcome, RecentText, TextPlan},
    replay::{CheckpointPolicy, LogFollower, RECENT_BYTES, ReplayDepth},
    whole::{self, CancelFlag, WholeLog, blocking, unreadable},
};

pub async fn answer(
    record: Box<PaneRecord>,
    request: PaneRequest,
    daemon: Arc<DaemonContext>,
) -> Result<Response, Error> {
    match request {
        PaneRequest::Read { args, ended } => {
            let state =
                ended.unwrap_or_else(|| SourcedState::new(PaneState::Exited, StateSource::Exit));
            let note = record.ended.as_ref().and_then(PaneEnd::note);
            let mut text = read(record, args, state, daemon).await?;
            text.note = reading::join_notes(note, text.note);
            Ok(Response::Tool {
                reply: ToolReply::ReadPane(text),
            })
        }
        PaneRequest::Follow { from } => blocking(move || follow(&record, from, &daemon)).await?,
        PaneRequest::Status(status) => Ok(Response::Tool {
            reply: ToolReply::GetStatus(fugue_api::tools::GetStatusReply::Pane(status)),
        }),
        PaneRequest::GetFrame { ended, .. } => {
            blocking(move || frame(&record, ended.as_deref(), &daemon)).await?
        }
        PaneRequest::ReadLines { from, most } => lines(record, from, most, daemon).await,
        PaneRequest::Send { .. }
        | PaneRequest::Type { .. }
        | PaneRequest::Connect { .. }
        | PaneRequest::Resize(_) => Err(Error::new(
            ErrorKind::Ended,
            format!("pane `{}` has ended", record.id),
        )),
    }
}

fn follow(record: &PaneRecord, from: u64, daemon: &DaemonContext) -> Result<Response, Error> {
    let mut log = LogReader::new(directory(record, daemon));
    let end = match &record.ended {
        Some(ended) => view::cursor(&ended.cursor)?,
        None => fugue_term::TextCursor::default(),
    };
    let chunk = reading::read_chunk(&mut log, from, end)?;
    Ok(Response::Output { chunk })
}

/// The end of a pane's text, in at most about so many characters. For a program that ended on the alternate screen, the
/// last screen, because such a program prints no other text. Blocks while the files are read.
pub fn tail(
    record: &PaneRecord,
    most_chars: usize,
    daemon: &DaemonContext,
) -> Result<String, Error> {
    let recent = open_recent(record, daemon)?;
    let args = ReadPane {
        pane_id: record.id.to_string(),
        lines: 60,
        since: None,
        mode: if recent.terminal.modes().alternate {
            ReadMode::Screen
        } else {
            ReadMode::Text
        },
        max_output_chars: u32::try_from(most_chars).unwrap_or(u32::MAX),
        grep: None,
    };
    let state = SourcedState::new(PaneState::Exited, StateSource::Exit);
    match read_from(recent, record, &args, &state, daemon)? {
        ReadOutcome::Done(reply) => Ok(reply.text),
        ReadOutcome::NeedsMore(plan) => {
            let _permit = daemon.whole_log_readers.wait()?;
            Ok(read_all(&plan, record, daemon, &CancelFlag::default())?.text)
        }
    }
}

/// The last screen of a pane.
fn frame(
    record: &PaneRecord,
    ended: Option<&SourcedState>,
    daemon: &DaemonContext,
) -> Result<Response, Error> {
    let follower = open_recent(record, daemon)?;
    let (terminal, screen) = (&follower.terminal, follower.terminal.screen());
    let rows = (0..terminal.size().rows).map(|row| frame::row(&screen, row));
    let state = ended
        .cloned()
        .unwrap_or_else(|| SourcedState::new(PaneState::Exited, StateSource::Exit));
    let frame = Box::new(Frame {
        number: daemon.epoch << 32,
        whole: true,
        rows: rows.filter(|row| !row.1.is_empty()).collect(),
        cursor: frame::cursor(terminal),
        offset: terminal.offset().0,
        top_line: terminal.top_line().0,
        head: Some(FrameHead {
            ended: true,
            ..frame::head(terminal, state)
        }),
    });
    Ok(Response::Attach {
        response: AttachResponse::Frame { frame },
    })
}

/// Lines with their styles.
pub async fn lines(
    record: Box<PaneRecord>,
    from: u64,
    most: u32,
    daemon: Arc<DaemonContext>,
) -> Result<Response, Error> {
    let of = (record.clone(), daemon.clone());
    let recent = blocking(move || {
        let (record, daemon) = of;
        let oldest = oldest_line(&record, &daemon).unwrap_or(0);
        let follower = open_recent(&record, &daemon)?;
        let range = LineRange::new(&follower.terminal, oldest, from, most);
        Ok::<_, Error>((frame::lines(&follower.terminal, range), range))
    });
    let lines = match recent.await?? {
        (Some(lines), _) => lines,
        (None, range) => {
            let readers = daemon.clone();
            let work =
                move |cancelled: &CancelFlag| older_lines(&record, range, &daemon, cancelled);
            readers.whole_log_readers.run(work).await?
        }
    };
    Ok(Response::Attach {
        response: AttachResponse::Lines { lines },
    })
}

fn older_lines(
    record: &PaneRecord,
    range: LineRange,
    daemon: &DaemonContext,
    cancelled: &CancelFlag,
) -> Result<fugue_api::attach::PaneLines, Error> {
    let log = whole_log(record, daemon, None, cancelled);
    let mut follower = log.open()?;
    let range = range.kept_from(follower.terminal.first_kept().0);
    let mut lines = LinesBuilder::new(range);
    log.stream(&mut follower, |scrollback, _, _| {
        let Some(first) = lines.next_line() else {
            return ControlFlow::Break(());
        };
        for (no, runs) in scrollback.styled_lines(first) {
            if lines.next_line() == Some(no) {
                lines.push(runs);
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(lines.finish(&follower.terminal))
}

/// The oldest line in the files.
pub fn oldest_line(record: &PaneRecord, daemon: &DaemonContext) -> Option<u64> {
    let dir = directory(record, daemon);
    let start =
        LogFollower::open(&dir, record, 1, ReplayDepth::All, CheckpointPolicy::None).ok()?;
    Some(start.terminal.first_kept().0)
}

/// Reads as much of the log as the request needs.
async fn read(
    record: Box<PaneRecord>,
    args: Box<ReadPane>,
    state: SourcedState,
    daemon: Arc<DaemonContext>,
) -> Result<ReadPaneReply, Error> {
    let of = (record.clone(), daemon.clone());
    let recent = blocking(move || {
        let (record, daemon) = of;
        let recent = open_recent(&record, &daemon)?;
        read_from(recent, &record, &args, &state, &daemon)
    });
    match recent.await?? {
        ReadOutcome::Done(reply) => Ok(*reply),
        ReadOutcome::NeedsMore(plan) => read_whole(plan, record, daemon).await,
    }
}

/// Reads text from the whole log that a terminal's memory did not have.
pub async fn read_whole(
    plan: Box<TextPlan>,
    record: Box<PaneRecord>,
    daemon: Arc<DaemonContext>,
) -> Result<ReadPaneReply, Error> {
    let readers = daemon.clone();
    let work = move |cancelled: &CancelFlag| read_all(&plan, &record, &daemon, cancelled);
    let (mut reply, waited) = readers.whole_log_readers.run_noting_wait(work).await?;
    reply.note = reading::join_notes(reply.note, waited);
    Ok(reply)
}

fn read_all(
    plan: &TextPlan,
    record: &PaneRecord,
    daemon: &DaemonContext,
    cancelled: &CancelFlag,
) -> Result<ReadPaneReply, Error> {
    // Output of a live pane since the request is not part of the reply.
    let to = record.ended.is_none().then(|| plan.end());
    let mut log = whole_log(record, daemon, to, cancelled);
    plan.read(&mut log, HistoryDepth::Whole)?
        .ok_or_else(|| Error::new(ErrorKind::Internal, "the whole log is not enough"))
}

fn read_from(
    mut recent: LogFollower,
    record: &PaneRecord,
    args: &ReadPane,
    state: &SourcedState,
    daemon: &DaemonContext,
) -> Result<ReadOutcome, Error> {
    let offset = recent.terminal.offset().0;
    let tail = whole::short_tail(record, &directory(record, daemon), offset)?;
    let gaps = recent.gaps().to_vec();
    let mut text = RecentText {
        terminal: &recent.terminal,
        gaps: &gaps,
        tail,
    };
    reading::read(&mut text, &mut recent.log, args, state)
}

/// A part of a pane's output.
pub async fn read_range(
    record: Box<PaneRecord>,
    want: OutputRange,
    most: usize,
    daemon: Arc<DaemonContext>,
) -> PartText {
    let dir = directory(&record, &daemon);
    let ends = blocking(move || match dir.try_exists() {
        Ok(false) => None,
        Ok(true) | Err(_) => Some(LogReader::new(&dir).end_offset().unwrap_or(u64::MAX)),
    });
    let end = ends.await.unwrap_or(Some(u64::MAX));
    let ended_at = record.ended.as_ref().map(|ended| &ended.cursor);
    let never_printed = ended_at.filter(|end| **end == view::start());
    let end = match (end, never_printed) {
        (None | Some(0), Some(start)) => {
            return PartText {
                clip: Some(view::PartClip::Ends(view::Clip::from_lines::<&str>(
                    &[],
                    most,
                ))),
                end: Some(start.clone()),
                ..PartText::nothing()
            };
        }
        (None, None) => return PartText::nothing(),
        (Some(end), _) => end,
    };
    let depth = match reading::selection_of(&want) {
        (LineSelection::From(_) | LineSelection::Since(_), _) => ReplayDepth::All,
        (LineSelection::Between(from, _), _) => ReplayDepth::From(from.offset.0),
    };
    let length = match depth {
        ReplayDepth::From(offset) => end.saturating_sub(offset),
        ReplayDepth::Recent | ReplayDepth::All => end,
    };
    let readers = daemon.clone();
    let work = move |cancelled: &CancelFlag| {
        let mut log = WholeLog {
            depth,
            ..whole_log(&record, &daemon, None, cancelled)
        };
        if depth != ReplayDepth::All
            && let Some(found) = reading::read_range(&mut log, HistoryDepth::Recent, &want, most)?
        {
            return Ok(found);
        }
        log.depth = ReplayDepth::All;
        reading::read_range(&mut log, HistoryDepth::Whole, &want, most)?
            .ok_or_else(|| Error::new(ErrorKind::Internal, "the whole log is not enough"))
    };
    // A short log is read at once.
    let found = if length <= RECENT_BYTES {
        blocking(move || work(&CancelFlag::default()))
            .await
            .and_then(|found| found)
    } else {
        readers.whole_log_readers.run(work).await
    };
    found.unwrap_or_else(|error| PartText {
        error: Some(error.message),
        ..PartText::nothing()
    })
}

/// Searches the whole output of an ended pane for a pattern.
pub async fn search(
    record: Box<PaneRecord>,
    wanted: &fugue_core::ExpectRequest,
    daemon: Arc<DaemonContext>,
) -> Vec<PaneEvent> {
    let run = wanted.run.clone();
    let Some(watch) = expect_patterns(wanted).map(ExpectSearch::new) else {
        return Vec::new();
    };
    let id = record.id;
    let (hit, from) = match search_for(record, watch, daemon).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(pane = %id, %error, "an ended pane cannot be searched");
            (None, None)
        }
    };
    match hit {
        Some(hit) => vec![match_event(&run, from, hit)],
        None => {
            let started = from.map(|from| PaneEvent::ExpectStarted {
                run: run.clone(),
                from: view::shown(from),
            });
            let nothing = PaneEvent::ExpectExhausted { run };
            started.into_iter().chain([nothing]).collect()
        }
    }
}

async fn search_for(
    record: Box<PaneRecord>,
    mut watch: ExpectSearch,
    daemon: Arc<DaemonContext>,
) -> Result<(Option<PatternMatch>, Option<fugue_term::TextCursor>), Error> {
    let of = (record.clone(), daemon.clone());
    let recent = blocking(move || {
        let (record, daemon) = of;
        let recent = open_recent(&record, &daemon)?;
        Ok::<_, Error>(match watch.search_existing(&recent.terminal) {
            InitialSearch::Match(hit) => (Some(Some(hit)), watch),
            InitialSearch::NoMatch => (Some(watch.finish(&recent.terminal)), watch),
            InitialSearch::NeedsOlder => (None, watch),
        })
    });
    let (hit, watch) = match recent.await?? {
        (Some(hit), watch) => (hit, watch),
        (None, watch) => begin(record, watch, daemon).await?,
    };
    Ok((hit, watch.searched_from()))
}

/// Begins a search that needs older output than the terminal has. An ended pane is searched to its end.
pub async fn begin(
    record: Box<PaneRecord>,
    mut watch: ExpectSearch,
    daemon: Arc<DaemonContext>,
) -> Result<(Option<PatternMatch>, ExpectSearch), Error> {
    let readers = daemon.clone();
    let work = move |cancelled: &CancelFlag| {
        let log = whole_log(&record, &daemon, None, cancelled);
        let mut follower = log.open()?;
        let mut hit = None;
        log.stream(&mut follower, |scrollback, terminal, _| {
            hit = watch.search_older(scrollback, terminal);
            match hit {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        })?;
        let terminal = &follower.terminal;
        let hit = hit.or_else(|| match watch.search_existing(terminal) {
            InitialSearch::Match(hit) => Some(hit),
            InitialSearch::NoMatch | InitialSearch::NeedsOlder if record.ended.is_some() => {
                watch.finish(terminal)
            }
            InitialSearch::NoMatch | InitialSearch::NeedsOlder => None,
        });
        Ok((hit, watch))
    };
    readers.whole_log_readers.run(work).await
}

/// A terminal with the screen and the latest lines.
fn open_recent(record: &PaneRecord, daemon: &DaemonContext) -> Result<LogFollower, Error> {
    let dir = directory(record, daemon);
    let keep_lines = daemon.settings().keep_lines;
    let mut follower = LogFollower::open(
        &dir,
        record,
        keep_lines,
        ReplayDepth::Recent,
        CheckpointPolicy::None,
    )
    .map_err(|error| unreadable(record, &error))?;
    follower
        .catch_up()
        .map_err(|error| unreadable(record, &error))?;
    Ok(follower)
}

/// All of a pane's output, up to an offset or the end of its log.
fn whole_log<'a>(
    record: &'a PaneRecord,
    daemon: &DaemonContext,
    to: Option<u64>,
    cancelled: &'a CancelFlag,
) -> WholeLog<'a> {
    WholeLog {
        record,
        dir: directory(record, daemon),
        depth: ReplayDepth::All,
        to,
        cancelled,
    }
}

fn directory(record: &PaneRecord, daemon: &DaemonContext) -> PathBuf {
    daemon.paths.panes().join(record.id.to_string())
}
