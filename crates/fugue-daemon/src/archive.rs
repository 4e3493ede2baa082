//! Answers for panes that have ended: their files are read, and nothing of them stays in memory.

use std::path::PathBuf;

use fugue_api::{
    Error, Kind, Reply,
    attach::{Frame, FrameHead, Looked},
    panes::{By, Mode, ReadPane, State, StateBy},
    wire::Answer,
};
use fugue_core::{PaneFact, PaneQuestion, PaneRecord, Want, result::Found, view};
use fugue_hold::LogReader;
use fugue_term::{Begun, Hit, Watch};

use crate::{
    engine::House,
    pane::watching,
    picture,
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
                Some(ended) => view::cursor(&ended.cursor)?,
                None => fugue_term::Cursor::default(),
            };
            let mut more = reading::more(&mut log, *from, end)?;
            more.ended = more.from + more.raw.len() as u64 >= end.offset.0;
            Ok(Answer::Followed { more })
        }
        PaneQuestion::Status(status) => Ok(Answer::Tool {
            reply: Reply::GetStatus(fugue_api::panes::Status::Pane(status.clone())),
        }),
        PaneQuestion::View { ended, .. } => frame(record, ended.as_deref(), house),
        PaneQuestion::Lines { from, most } => lines(record, *from, *most, house),
        PaneQuestion::Send { .. }
        | PaneQuestion::Type { .. }
        | PaneQuestion::Line { .. }
        | PaneQuestion::Resize(_) => Err(Error::new(
            Kind::Ended,
            format!("pane `{}` has ended", record.id),
        )),
    }
}

/// The end of what a pane printed, in at most about so many characters. Of a program that was ended on the alternate
/// screen that is what it showed last: nothing else of it is text.
pub fn tail(record: &PaneRecord, most_chars: usize, house: &House) -> String {
    let full_screen = open(record, house, house.settings.keep_lines, Depth::Recent)
        .is_ok_and(|follower| follower.terminal.modes().alternate);
    let args = ReadPane {
        pane_id: record.id.to_string(),
        lines: 60,
        since: None,
        mode: if full_screen {
            Mode::Screen
        } else {
            Mode::Text
        },
        max_output_chars: u32::try_from(most_chars).unwrap_or(u32::MAX),
        grep: None,
    };
    let state = StateBy::new(State::Exited, By::Exit);
    match read(record, &args, &state, house) {
        Ok(Answer::Tool {
            reply: Reply::ReadPane(read),
        }) => read.text,
        Ok(_) | Err(_) => String::new(),
    }
}

/// What a pane showed last.
fn frame(record: &PaneRecord, ended: Option<&StateBy>, house: &House) -> Result<Answer, Error> {
    let follower = open(record, house, house.settings.keep_lines, Depth::Recent)?;
    let (terminal, screen) = (&follower.terminal, follower.terminal.screen());
    let rows = (0..terminal.size().rows).map(|row| picture::row(&screen, row));
    let state = ended
        .cloned()
        .unwrap_or_else(|| StateBy::new(State::Exited, By::Exit));
    let frame = Box::new(Frame {
        number: house.epoch << 32,
        whole: true,
        rows: rows.filter(|row| !row.1.is_empty()).collect(),
        cursor: picture::cursor(terminal),
        offset: terminal.offset().0,
        top_line: terminal.top_line().0,
        head: Some(FrameHead {
            ended: true,
            ..picture::head(terminal, state)
        }),
    });
    Ok(Answer::Looked {
        found: Looked::Frame { frame },
    })
}

/// Lines with their looks. Blocks while it reads.
pub fn lines(record: &PaneRecord, from: u64, most: u32, house: &House) -> Result<Answer, Error> {
    let oldest = oldest_line(record, house).unwrap_or(0);
    for (keep_lines, depth) in [
        (house.settings.keep_lines, Depth::Recent),
        (usize::MAX, Depth::All),
    ] {
        let follower = open(record, house, keep_lines, depth)?;
        let kept = follower.terminal.first_kept().0;
        let oldest = match depth {
            Depth::Screen | Depth::Recent => oldest,
            Depth::All => kept,
        };
        if let Some(lines) = picture::lines(&follower.terminal, oldest, from, most) {
            return Ok(Answer::Looked {
                found: Looked::Lines { lines },
            });
        }
    }
    Err(Error::new(Kind::Internal, "the whole log is not enough"))
}

/// The first line that the files have.
pub fn oldest_line(record: &PaneRecord, house: &House) -> Option<u64> {
    let dir = directory(record, house);
    let start = Follower::open(&dir, record, 1, Depth::All, Checkpoints::None).ok()?;
    Some(start.terminal.first_kept().0)
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

/// A part of what a pane printed. Blocks while it reads.
pub fn stretch(record: &PaneRecord, want: &Want, most: usize, house: &House) -> Found {
    let end = record.ended.as_ref().map(|ended| &ended.cursor);
    if let Some(end) = end.filter(|end| **end == view::start()) {
        // It never printed anything.
        return Found {
            clip: Some(view::Clip::of::<&str>(&[], most)),
            lost_lines: 0,
            end: Some(end.clone()),
        };
    }
    let depths = [
        (house.settings.keep_lines, Depth::Recent, Past::Recent),
        (usize::MAX, Depth::All, Past::Whole),
    ];
    for (keep_lines, depth, past) in depths {
        let found = open(record, house, keep_lines, depth)
            .ok()
            .and_then(|follower| reading::stretch(&follower.terminal, past, want, most));
        if let Some(found) = found {
            return found;
        }
    }
    // Its files are gone.
    Found {
        clip: None,
        lost_lines: 0,
        end: None,
    }
}

/// Looks for a pattern in all that an ended pane ever printed. Blocks while it reads.
pub fn search(record: &PaneRecord, wanted: &fugue_core::Watch, house: &House) -> Vec<PaneFact> {
    let run = wanted.run.clone();
    let Some(mut watch) = watching::watch_for(wanted).map(Watch::new) else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    let hit = match open(record, house, house.settings.keep_lines, Depth::Recent) {
        Ok(recent) => match watch.begin(&recent.terminal) {
            Begun::Hit(hit) => Some(hit),
            Begun::Watching => watch.end(&recent.terminal),
            Begun::NeedsOlder => begin(record, &mut watch, house),
        },
        Err(_) => None,
    };
    if let Some(from) = watch.searched_from() {
        facts.push(PaneFact::Watching {
            run: run.clone(),
            from: view::shown(from),
        });
    }
    facts.push(match hit {
        Some(hit) => watching::sighted(&run, hit),
        None => PaneFact::NothingSeen { run },
    });
    facts
}

/// Begins a search that reaches further back than memory does. A pane that has ended is searched to its end.
pub fn begin(record: &PaneRecord, watch: &mut Watch, house: &House) -> Option<Hit> {
    let whole = open(record, house, usize::MAX, Depth::All).ok()?;
    match watch.begin(&whole.terminal) {
        Begun::Hit(hit) => Some(hit),
        Begun::Watching | Begun::NeedsOlder if record.ended.is_some() => watch.end(&whole.terminal),
        Begun::Watching | Begun::NeedsOlder => None,
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
