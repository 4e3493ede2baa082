//! Builds a pane's terminal again from its files: the log, the sizes it had, and the checkpoints made on the way.
//!
//! The same bytes and sizes give the same lines and cursors, so a reader's cursor outlives the daemon that gave it.

#[cfg(test)]
mod tests;

use std::{
    fs, io,
    ops::ControlFlow,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    time::Instant,
};

use fugue_core::PaneRecord;
use fugue_holder::{LogRead, LogReader, record::SizeAt};
use fugue_term::{Offset, Scrollback, Terminal, TerminalEvent, TerminalOptions, TerminalSize};

/// How far back to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDepth {
    /// Enough for the screen and the latest lines.
    Recent,
    /// Enough for what was printed behind this offset.
    From(u64),
    /// Everything that the log still has.
    All,
}

/// A part of a pane's output that no file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputGap {
    /// The first line behind it.
    pub line: u64,
    pub from: u64,
    pub next: u64,
    pub bytes: u64,
}

/// Whether this follower leaves checkpoints behind. Only the pane's own does: one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPolicy {
    Every(u64),
    None,
}

// Ten thousand ordinary lines, twice over; read back in some ten milliseconds.
pub const RECENT_BYTES: u64 = 2 << 20;
// Small enough that a new daemon reads back little more than that, large enough that checkpoints are a trifle beside
// the log: a few kilobytes each.
pub const CHECKPOINT_EVERY: u64 = 1 << 20;
// One read of the log; also how much a pane feeds before others get their turn.
pub const BYTES_PER_TURN: usize = 64 * 1024;
// Lines are taken out of the terminal behind so many bytes. A sequence of five bytes can scroll a thousand blank rows, so
// this bounds what a hostile output can make the terminal hold to some ten megabytes.
const BYTES_PER_SCROLLBACK: usize = 16 * 1024;
// A log with more holes than this has its last ones told as one.
const MAX_GAPS: usize = 64;

/// A terminal that follows a pane's log.
pub struct LogFollower {
    pub terminal: Terminal,
    pub log: LogReader,
    sizes: Vec<SizeAt>,
    /// How long their file was.
    sizes_applied: usize,
    /// The process whose output is read now, of those that the pane has had.
    generation: u32,
    buffer: Vec<u8>,
    checkpoints: CheckpointPolicy,
    last_checkpoint: u64,
    gaps: Vec<OutputGap>,
}

/// What one turn brought.
pub struct FollowerTurn {
    pub facts: Vec<TerminalEvent>,
    /// There may be more to read at once.
    pub more: bool,
    /// There surely is.
    pub full: bool,
    pub grew: bool,
}

impl LogFollower {
    /// At the oldest place from which the wanted depth can be had; nothing is fed yet.
    pub fn open(
        dir: &Path,
        record: &PaneRecord,
        keep_lines: usize,
        depth: ReplayDepth,
        checkpoints: CheckpointPolicy,
    ) -> io::Result<Self> {
        let size = TerminalSize {
            rows: record.size.rows,
            cols: record.size.cols,
        };
        let options = TerminalOptions {
            keep_lines,
            secret: Some(secret(record)),
        };
        Self::open_as(dir, size, options, depth, checkpoints)
    }

    /// Of a pane of which its files are all that is known; `size` is for one that never had any.
    pub fn open_as(
        dir: &Path,
        size: TerminalSize,
        options: TerminalOptions,
        depth: ReplayDepth,
        checkpoints: CheckpointPolicy,
    ) -> io::Result<Self> {
        let log = LogReader::new(dir);
        let (first, end) = (log.first()?, log.end()?);
        let goal = match depth {
            ReplayDepth::Recent => end.saturating_sub(RECENT_BYTES).max(first),
            ReplayDepth::From(offset) => offset.max(first),
            ReplayDepth::All => first,
        };
        let sizes = SizeAt::read_all(dir)?;
        let size = sizes.first().map_or(size, |at| TerminalSize {
            rows: at.rows,
            cols: at.cols,
        });
        let from_checkpoint = best_checkpoint(dir, first, goal)?
            .and_then(|path| fs::read(path).ok())
            .and_then(|saved| Terminal::load(&saved, options.clone()));
        let terminal = from_checkpoint.unwrap_or_else(|| Terminal::new(size, options));
        let last_checkpoint = terminal.offset().0;
        Ok(Self {
            terminal,
            log,
            generation: generation_before(&sizes, last_checkpoint),
            // A checkpoint is made before the sizes of its own offset are applied.
            sizes_applied: sizes.partition_point(|size| size.offset < last_checkpoint),
            sizes,
            buffer: vec![0; BYTES_PER_TURN],
            checkpoints,
            last_checkpoint,
            gaps: Vec::new(),
        })
    }

    /// Feeds a bounded piece of what is new.
    pub fn turn(&mut self) -> io::Result<FollowerTurn> {
        let at = self.terminal.offset().0;
        self.apply_sizes(at);
        let piece = self.piece(at, u64::MAX);
        let read = self.log.read_at(at, &mut self.buffer[..piece])?;
        self.take(read, piece)
    }

    /// How much may be fed before something else is to be done.
    fn piece(&self, at: u64, to: u64) -> usize {
        let to = self.next_size_after(at).map_or(to, |next| next.min(to));
        let room = usize::try_from(to.saturating_sub(at)).unwrap_or(BYTES_PER_TURN);
        room.min(BYTES_PER_TURN)
    }

    fn take(&mut self, read: LogRead, piece: usize) -> io::Result<FollowerTurn> {
        match read {
            LogRead::Bytes(count) => {
                let facts = self.terminal.feed(&self.buffer[..count]);
                self.checkpoint();
                Ok(FollowerTurn {
                    facts,
                    more: !self.log.is_at_end(),
                    full: count == piece,
                    grew: true,
                })
            }
            LogRead::Gap { from, next } => {
                self.skip(from, next);
                Ok(FollowerTurn {
                    facts: Vec::new(),
                    more: true,
                    full: true,
                    grew: true,
                })
            }
            LogRead::End => Ok(FollowerTurn {
                facts: Vec::new(),
                more: false,
                full: false,
                grew: false,
            }),
        }
    }

    /// More was printed while no daemon ran than the log may hold, or a part of the log is lost.
    fn skip(&mut self, from: u64, next: u64) {
        let bytes = next - from;
        tracing::warn!(dir = %self.log.dir().display(), from, bytes, "output is missing from the log");
        self.terminal.skip_to(Offset(next));
        let line = self.terminal.top_line().0;
        let full = self.gaps.len() == MAX_GAPS;
        match self.gaps.last_mut().filter(|_| full) {
            Some(last) => {
                last.next = next;
                last.bytes += bytes;
            }
            None => self.gaps.push(OutputGap {
                line,
                from,
                next,
                bytes,
            }),
        }
    }

    /// What was found missing on the way, oldest first.
    pub fn gaps(&self) -> &[OutputGap] {
        &self.gaps
    }

    /// Feeds what there is up to an offset. The lines that have left the screen are taken out of the terminal and given to
    /// `each`, with the gaps so far, until it breaks off; those that are left at the end are still in the terminal.
    pub fn stream(
        &mut self,
        to: u64,
        mut each: impl FnMut(&Scrollback, &Terminal, &[OutputGap]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        loop {
            let at = self.terminal.offset().0;
            self.apply_sizes(at);
            if at >= to {
                return Ok(());
            }
            let piece = self.piece(at, to);
            match self.log.read_at(at, &mut self.buffer[..piece])? {
                LogRead::Bytes(count) => {
                    for part in self.buffer[..count].chunks(BYTES_PER_SCROLLBACK) {
                        self.terminal.feed(part);
                        let scrollback = self.terminal.take_scrollback();
                        if each(&scrollback, &self.terminal, &self.gaps).is_break() {
                            return Ok(());
                        }
                    }
                }
                LogRead::Gap { next, .. } if next > to => return Ok(()),
                LogRead::Gap { from, next } => self.skip(from, next),
                LogRead::End => return Ok(()),
            }
        }
    }

    /// Feeds everything there is, and gives what a live pane must still hear of.
    pub fn catch_up(&mut self) -> io::Result<Vec<TerminalEvent>> {
        let mut facts = Vec::new();
        loop {
            let turn = self.turn()?;
            facts.extend(turn.facts);
            if !turn.more {
                return Ok(facts);
            }
        }
    }

    /// When the log last grew, which may have been under an earlier daemon.
    pub fn last_written(&self) -> Option<Instant> {
        let files = fs::read_dir(self.log.dir()).ok()?.flatten();
        let logs = files.filter(|file| file.file_name().as_bytes().starts_with(b"out."));
        let latest = logs
            .filter_map(|file| file.metadata().ok()?.modified().ok())
            .max()?;
        Instant::now().checked_sub(latest.elapsed().ok()?)
    }

    /// The sizes file has changed.
    pub fn reload_sizes(&mut self) -> io::Result<()> {
        let sizes = SizeAt::read_all(self.log.dir())?;
        if !sizes.starts_with(&self.sizes[..self.sizes_applied]) {
            // The oldest were forgotten.
            let last = self.sizes_applied.checked_sub(1);
            let last =
                last.and_then(|last| sizes.iter().rposition(|size| *size == self.sizes[last]));
            self.sizes_applied = last.map_or(0, |last| last + 1);
        }
        self.sizes = sizes;
        self.apply_sizes(self.terminal.offset().0);
        Ok(())
    }

    /// Each of them, also where nothing was printed in between: what is cut off at one comes back at none.
    fn apply_sizes(&mut self, at: u64) {
        let due = self.sizes[self.sizes_applied..].iter();
        for size in due.take_while(|size| size.offset <= at) {
            self.sizes_applied += 1;
            if size.generation > self.generation {
                self.generation = size.generation;
                self.terminal.renew();
            }
            let size = TerminalSize {
                rows: size.rows,
                cols: size.cols,
            };
            if self.terminal.size() != size {
                self.terminal.resize(size);
            }
        }
    }

    fn next_size_after(&self, at: u64) -> Option<u64> {
        self.sizes
            .iter()
            .map(|size| size.offset)
            .find(|offset| *offset > at)
    }

    /// A small file now and then, so that the log can be read without all that came before.
    fn checkpoint(&mut self) {
        let at = self.terminal.offset().0;
        match self.checkpoints {
            CheckpointPolicy::Every(bytes) if at >= self.last_checkpoint + bytes => {}
            CheckpointPolicy::Every(_) | CheckpointPolicy::None => return,
        }
        // In the middle of an escape sequence there is none; the next turn brings one.
        let Some(saved) = self.terminal.save() else {
            return;
        };
        self.last_checkpoint = at;
        if let Err(error) = write_checkpoint(self.log.dir(), at, &saved) {
            tracing::debug!(%error, "a checkpoint could not be written; reading back takes longer");
        }
    }
}

/// Whose output ends at an offset. A process that begins there has not been made room for yet.
fn generation_before(sizes: &[SizeAt], offset: u64) -> u32 {
    let before = sizes.iter().filter(|size| size.offset < offset);
    let first = sizes.first().map_or(1, |size| size.generation);
    before.map(|size| size.generation).max().unwrap_or(first)
}

/// What a mark must carry to count. A pane without shell integration has one as well, which nobody knows.
fn secret(record: &PaneRecord) -> String {
    if record.announces_prompts() {
        return record.secret.clone();
    }
    record
        .made_by
        .0
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn checkpoint_path(dir: &Path, offset: u64) -> PathBuf {
    dir.join(format!("check.{offset:016x}"))
}

fn write_checkpoint(dir: &Path, offset: u64, saved: &[u8]) -> io::Result<()> {
    let temporary = dir.join("check.new");
    let mut file = fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&temporary)?;
    io::Write::write_all(&mut file, saved)?;
    fs::rename(temporary, checkpoint_path(dir, offset))?;
    let first = LogReader::new(dir).first()?;
    for (at, path) in checkpoints(dir)? {
        if at < first {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn checkpoints(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let offset = name
            .to_str()
            .and_then(|name| name.strip_prefix("check."))
            .filter(|digits| digits.len() == 16);
        if let Some(offset) = offset.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            found.push((offset, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The newest one at or before the goal; where the log's beginning is gone, the oldest one that it can follow.
fn best_checkpoint(dir: &Path, first: u64, goal: u64) -> io::Result<Option<PathBuf>> {
    let usable: Vec<_> = checkpoints(dir)?
        .into_iter()
        .filter(|(at, _)| *at >= first)
        .collect();
    let before = usable.iter().rev().find(|(at, _)| *at <= goal);
    let after = usable.iter().find(|_| first > 0);
    Ok(before.or(after).map(|(_, path)| path.clone()))
}
