//! Answers for panes that have ended: their files are read, and nothing of them stays in memory.

use std::path::PathBuf;

use fugue_api::{
    Error, Kind, Reply,
    panes::{By, ReadPane, State, StateBy},
    wire::Answer,
};
use fugue_core::{PaneQuestion, PaneRecord};
use fugue_hold::LogReader;

use crate::{
    engine::House,
    reading::{self, Past, Reading},
    replay::{Checkpoints, Depth, Follower},
};

/// Blocks while it reads.
pub fn answer(
    record: &PaneRecord,
    question: &PaneQuestion,
    house: &House,
) -> Result<Answer, Error> {
    match question {
        PaneQuestion::Read { args, ended } => {
            let state = ended
                .clone()
                .unwrap_or_else(|| StateBy::new(State::Exited, By::Exit));
            read(record, args, &state, house)
        }
        PaneQuestion::Follow { from } => {
            let mut log = LogReader::new(directory(record, house));
            let end = match &record.ended {
                Some(ended) => fugue_core::view::cursor(&ended.cursor)?,
                None => fugue_term::Cursor::default(),
            };
            let mut more = reading::more(&mut log, *from, end)?;
            more.ended = more.from + more.raw.len() as u64 >= end.offset.0;
            Ok(Answer::Followed { more })
        }
        PaneQuestion::Status(status) => Ok(Answer::Tool {
            reply: Reply::GetStatus(fugue_api::panes::Status::Pane(status.clone())),
        }),
        PaneQuestion::Send { .. } | PaneQuestion::Resize(_) => Err(Error::new(
            Kind::Ended,
            format!("pane `{}` has ended", record.id),
        )),
    }
}

/// Reads back from the log as far as it takes.
pub fn read(
    record: &PaneRecord,
    args: &ReadPane,
    state: &StateBy,
    house: &House,
) -> Result<Answer, Error> {
    let done = |reply| {
        Ok(Answer::Tool {
            reply: Reply::ReadPane(reply),
        })
    };
    let mut recent = open(record, house, house.settings.keep_lines, Depth::Recent)?;
    if let Reading::Done(reply) =
        reading::read(&recent.terminal, &mut recent.log, Past::Recent, args, state)?
    {
        return done(*reply);
    }
    drop(recent);
    // Every line is kept this once: a filter may want any of them.
    let mut whole = open(record, house, usize::MAX, Depth::All)?;
    match reading::read(&whole.terminal, &mut whole.log, Past::Whole, args, state)? {
        Reading::Done(reply) => done(*reply),
        Reading::NeedsMore => Err(Error::new(Kind::Internal, "the whole log is not enough")),
    }
}

fn open(
    record: &PaneRecord,
    house: &House,
    keep_lines: usize,
    depth: Depth,
) -> Result<Follower, Error> {
    let dir = directory(record, house);
    let unreadable = |error: std::io::Error| {
        Error::new(
            Kind::Unavailable,
            format!("the output of pane `{}` cannot be read: {error}", record.id),
        )
    };
    let mut follower =
        Follower::open(&dir, record, keep_lines, depth, Checkpoints::None).map_err(unreadable)?;
    follower.catch_up().map_err(unreadable)?;
    Ok(follower)
}

fn directory(record: &PaneRecord, house: &House) -> PathBuf {
    house.paths.panes().join(record.id.to_string())
}
