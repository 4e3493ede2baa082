//! The pane that a person types into, read from its log by the one who shows it: the echo of a key takes no detour either.
//!
//! A mirror is a convenience. Whatever is seen in it comes with the daemon's frames as well, a moment later; of a frame
//! and a glimpse the one counts that has seen more of the log.

#[cfg(test)]
mod tests;

use std::{io, os::fd::OwnedFd, path::Path};

use fugue_api::{
    attach::{FrameCursor, FrameModes, FrameRow},
    panes::PaneSize,
};
use fugue_term::{Options, Size};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    picture,
    replay::{CHECKPOINT_EVERY, Checkpoints, Depth, Follower},
    watched::watched,
};

pub struct Mirror {
    follower: Follower,
    grew: AsyncFd<OwnedFd>,
    /// The screen as it was at some offset.
    known: Known,
}

#[derive(Default)]
struct Known {
    rows: Vec<u64>,
    at: u64,
    /// It had looked like that since then.
    since: u64,
    /// How many sizes it had had: a new one draws everything anew.
    resizes: u64,
}

impl Known {
    fn of(follower: &Follower) -> Self {
        let terminal = &follower.terminal;
        Self {
            rows: terminal.screen().known_by().collect(),
            at: terminal.offset().0,
            since: terminal.changed().0,
            resizes: follower.resizes(),
        }
    }
}

/// What a pane shows, as far as a key and its echo change it.
#[derive(Clone, Debug, PartialEq)]
pub struct Glimpse {
    /// How much of the log was read for it.
    pub offset: u64,
    pub size: PaneSize,
    pub modes: FrameModes,
    /// Those that may be different.
    pub rows: Vec<FrameRow>,
    pub cursor: FrameCursor,
    pub top_line: u64,
}

/// More was printed than is worth reading here, or it cannot be read.
#[derive(Debug)]
pub struct Lost;

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Self {
        Self
    }
}

// From the last checkpoint on, in a pane that prints no faster than it is read.
const MOST_AT_FIRST: u64 = 2 * CHECKPOINT_EVERY;
// What is read in one go, by one who has a person's keys to look after: fractions of a millisecond.
const MOST_AT_ONCE: u64 = 64 * 1024;
// Further than that behind, a checkpoint is nearer than what was read last.
const MOST_BEHIND: u64 = 256 * 1024;

impl Mirror {
    /// `grew` is bumped when the log has grown. Blocks while it reads what is on the screen.
    pub fn open(dir: &Path, grew: OwnedFd) -> Result<Self, Lost> {
        let options = Options {
            // Nobody scrolls back here.
            keep_lines: 1,
            secret: None,
        };
        let size = Size { rows: 24, cols: 80 };
        let mut mirror = Self {
            follower: Follower::open_as(dir, size, options, Depth::Screen, Checkpoints::None)?,
            grew: watched(grew, Interest::READABLE)?,
            known: Known::default(),
        };
        mirror.read_on(u64::MAX, MOST_AT_FIRST)?;
        Ok(mirror)
    }

    /// Waits until the log has grown.
    pub async fn grew(&mut self) {
        match self.grew.readable().await {
            // How often it was bumped does not matter, and each time wakes us anew.
            Ok(mut ready) => ready.clear_ready(),
            Err(_) => std::future::pending().await,
        }
    }

    /// What is there to be seen beyond what is shown, which is known up to an offset.
    pub fn look(&mut self, shown: u64) -> Result<Option<Glimpse>, Lost> {
        if shown > self.offset() {
            self.read_on(shown, MOST_BEHIND)?;
            self.known = Known::of(&self.follower);
        }
        self.read_on(u64::MAX, MOST_AT_ONCE)?;
        let terminal = &self.follower.terminal;
        if self.offset() <= shown || terminal.modes().synchronized {
            return Ok(None);
        }
        let was = std::mem::replace(&mut self.known, Known::of(&self.follower));
        let is_shown = (was.since..=was.at).contains(&shown) && was.resizes == self.known.resizes;
        let screen = terminal.screen();
        let rows = self.known.rows.iter().enumerate();
        let rows = rows
            .filter(|(row, by)| !is_shown || was.rows.get(*row) != Some(by))
            .filter_map(|(row, _)| u16::try_from(row).ok())
            .map(|row| picture::row(&screen, row));
        let size = terminal.size();
        Ok(Some(Glimpse {
            offset: self.offset(),
            size: PaneSize {
                rows: size.rows,
                cols: size.cols,
            },
            modes: picture::modes(&terminal.modes()),
            rows: rows.collect(),
            cursor: picture::cursor(terminal),
            top_line: terminal.top_line().0,
        }))
    }

    fn offset(&self) -> u64 {
        self.follower.terminal.offset().0
    }

    fn read_on(&mut self, to: u64, most: u64) -> Result<(), Lost> {
        let from = self.offset();
        while self.offset() < to && self.follower.turn_alone(to)?.full {
            if self.offset() - from > most {
                return Err(Lost);
            }
        }
        Ok(())
    }
}
