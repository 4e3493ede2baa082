//! Rebuilds a pane's terminal from its files: the output log, the terminal sizes and the checkpoints.
//!
//! The same bytes and sizes give the same lines and cursors, so a client's cursor stays valid across daemons.

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
use fugue_holder::{LogRead, LogReader, record::SizeRecord};
use fugue_term::{Offset, Scrollback, Terminal, TerminalEvent, TerminalOptions, TerminalSize};
use sha2::{Digest, Sha256};

/// How far back a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDepth {
    /// Enough for the screen and the latest lines.
    Recent,
    /// Enough for the output after this offset.
    From(u64),
    /// Everything that the log still has.
    All,
}

/// A part of a pane's output that is missing from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputGap {
    /// The first line after the gap.
    pub line: u64,
    pub from: u64,
    pub next: u64,
    pub bytes: u64,
}

/// Whether a follower writes checkpoints. Only the pane's own follower does: one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPolicy {
    Every(u64),
    None,
}

// About twenty thousand ordinary lines, replayed in some ten milliseconds.
pub const RECENT_BYTES: u64 = 2 << 20;
// Small enough that a new daemon reads little more than this, large enough that checkpoints, a few kilobytes each, are
// negligible beside the log.
pub const CHECKPOINT_EVERY: u64 = 1 << 20;
// The size of a read of the log, after which other panes of the thread get their turn.
pub const BYTES_PER_TURN: usize = 64 * 1024;
// Lines are drained from the terminal after this many bytes. A sequence of five bytes can scroll a thousand blank rows, so
// this bounds what a hostile output can make the terminal hold to some ten megabytes.
const BYTES_PER_SCROLLBACK: usize = 16 * 1024;
// The limit of gaps per log. Further gaps are merged into the last one.
const MAX_GAPS: usize = 64;

/// A terminal that follows a pane's log.
pub struct LogFollower {
    pub terminal: Terminal,
    pub log: LogReader,
    sizes: Vec<SizeRecord>,
    /// The number of sizes that have been applied to the terminal.
    sizes_applied: usize,
    /// The generation of the child whose output is read now.
    generation: u32,
    buffer: Vec<u8>,
    checkpoints: CheckpointPolicy,
    last_checkpoint: u64,
    gaps: Vec<OutputGap>,
}

/// The result of one turn.
pub struct FollowerTurn {
    pub events: Vec<TerminalEvent>,
    /// More output may be readable at once.
    pub more: bool,
    /// The read was full, so more output is certain.
    pub full: bool,
    pub grew: bool,
}

impl LogFollower {
    /// Opens the log at the newest checkpoint that gives the requested depth. Nothing is fed yet.
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

    /// The same for a pane without a record; `size` is for a pane without recorded sizes.
    pub fn open_as(
        dir: &Path,
        size: TerminalSize,
        options: TerminalOptions,
        depth: ReplayDepth,
        checkpoints: CheckpointPolicy,
    ) -> io::Result<Self> {
        let log = LogReader::new(dir);
        let (first, end) = (log.first_offset()?, log.end_offset()?);
        let goal = match depth {
            ReplayDepth::Recent => end.saturating_sub(RECENT_BYTES).max(first),
            ReplayDepth::From(offset) => offset.max(first),
            ReplayDepth::All => first,
        };
        let sizes = SizeRecord::read_all(dir)?;
        let size = sizes.first().map_or(size, |at| TerminalSize {
            rows: at.rows,
            cols: at.cols,
        });
        let terminal = best_checkpoint(dir, first, goal, &options)?
            .unwrap_or_else(|| Terminal::new(size, options));
        let last_checkpoint = terminal.offset().0;
        Ok(Self {
            terminal,
            log,
            generation: generation_before(&sizes, last_checkpoint),
            // A checkpoint precedes the sizes of its own offset.
            sizes_applied: sizes.partition_point(|size| size.offset < last_checkpoint),
            sizes,
            buffer: vec![0; BYTES_PER_TURN],
            checkpoints,
            last_checkpoint,
            gaps: Vec::new(),
        })
    }

    /// Feeds a bounded piece of new output.
    pub fn read_turn(&mut self) -> io::Result<FollowerTurn> {
        let at = self.terminal.offset().0;
        self.apply_sizes(at);
        let piece = self.piece_length(at, u64::MAX);
        let read = self.log.read_at(at, &mut self.buffer[..piece])?;
        self.feed(read, piece)
    }

    /// How much may be fed before the next size is applied, at most one turn.
    fn piece_length(&self, at: u64, to: u64) -> usize {
        let to = self.next_size_after(at).map_or(to, |next| next.min(to));
        let room = usize::try_from(to.saturating_sub(at)).unwrap_or(BYTES_PER_TURN);
        room.min(BYTES_PER_TURN)
    }

    fn feed(&mut self, read: LogRead, piece: usize) -> io::Result<FollowerTurn> {
        match read {
            LogRead::Bytes(count) => {
                let events = self.terminal.feed(&self.buffer[..count]);
                self.checkpoint();
                Ok(FollowerTurn {
                    events,
                    more: !self.log.is_at_end(),
                    full: count == piece,
                    grew: true,
                })
            }
            LogRead::Gap { from, next } => {
                self.skip(from, next);
                Ok(FollowerTurn {
                    events: Vec::new(),
                    more: true,
                    full: true,
                    grew: true,
                })
            }
            LogRead::End => Ok(FollowerTurn {
                events: Vec::new(),
                more: false,
                full: false,
                grew: false,
            }),
        }
    }

    /// Records a gap: a part of the log is lost, or more was printed than the log may hold before this reader reached it,
    /// because no daemon ran or because the program prints faster than the daemon reads.
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

    /// The gaps so far, oldest first.
    pub fn gaps(&self) -> &[OutputGap] {
        &self.gaps
    }

    /// Feeds the log up to an offset. Lines that have left the screen are drained from the terminal and passed to `each`, with
    /// the gaps so far, until `each` breaks. The lines that are left at the end stay in the terminal.
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
            let piece = self.piece_length(at, to);
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

    /// Feeds the whole log, and returns the events for a live pane.
    pub fn catch_up(&mut self) -> io::Result<Vec<TerminalEvent>> {
        let mut events = Vec::new();
        loop {
            let turn = self.read_turn()?;
            events.extend(turn.events);
            if !turn.more {
                return Ok(events);
            }
        }
    }

    /// The last growth of the log, which may have been under an earlier daemon.
    pub fn last_written(&self) -> Option<Instant> {
        let files = fs::read_dir(self.log.dir()).ok()?.flatten();
        let logs = files.filter(|file| file.file_name().as_bytes().starts_with(b"out."));
        let latest = logs
            .filter_map(|file| file.metadata().ok()?.modified().ok())
            .max()?;
        Instant::now().checked_sub(latest.elapsed().ok()?)
    }

    /// Reads the sizes file again after a change.
    pub fn reload_sizes(&mut self) -> io::Result<()> {
        let sizes = SizeRecord::read_all(self.log.dir())?;
        if !sizes.starts_with(&self.sizes[..self.sizes_applied]) {
            // The oldest sizes were removed from the file.
            let last = self.sizes_applied.checked_sub(1);
            let last =
                last.and_then(|last| sizes.iter().rposition(|size| *size == self.sizes[last]));
            self.sizes_applied = last.map_or(0, |last| last + 1);
        }
        self.sizes = sizes;
        self.apply_sizes(self.terminal.offset().0);
        Ok(())
    }

    /// Applies all sizes up to an offset in order, also several at the same offset: text that a smaller size cuts off does not
    /// come back at the next larger size.
    fn apply_sizes(&mut self, at: u64) {
        let due = self.sizes[self.sizes_applied..].iter();
        for size in due.take_while(|size| size.offset <= at) {
            self.sizes_applied += 1;
            if size.generation > self.generation {
                self.generation = size.generation;
                self.terminal.reset_for_new_process();
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

    /// Writes a checkpoint at intervals, so that the log can be read from there.
    fn checkpoint(&mut self) {
        let at = self.terminal.offset().0;
        match self.checkpoints {
            CheckpointPolicy::Every(bytes) if at >= self.last_checkpoint + bytes => {}
            CheckpointPolicy::Every(_) | CheckpointPolicy::None => return,
        }
        // The terminal cannot be saved in the middle of an escape sequence; the next turn tries again.
        let Some(saved) = self.terminal.save() else {
            return;
        };
        self.last_checkpoint = at;
        if let Err(error) = write_checkpoint(self.log.dir(), at, &saved) {
            tracing::debug!(%error, "checkpoint not written");
        }
    }
}

/// The generation of the child whose output ends at an offset. The size record of a child that begins at the offset is
/// applied later.
fn generation_before(sizes: &[SizeRecord], offset: u64) -> u32 {
    let before = sizes.iter().filter(|size| size.offset < offset);
    let first = sizes.first().map_or(1, |size| size.generation);
    before.map(|size| size.generation).max().unwrap_or(first)
}

/// The secret of valid shell marks. For a pane without shell integration, a value that no program has, so that no mark is
/// valid.
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
    io::Write::write_all(&mut file, &checkpoint_digest(dir, offset, saved))?;
    fs::rename(temporary, checkpoint_path(dir, offset))?;
    let first = LogReader::new(dir).first_offset()?;
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

/// The newest checkpoint at or before the goal, or, where the log's beginning is gone, the oldest checkpoint that the log
/// continues. A damaged one counts as none.
fn best_checkpoint(
    dir: &Path,
    first: u64,
    goal: u64,
    options: &TerminalOptions,
) -> io::Result<Option<Terminal>> {
    let mut usable = checkpoints(dir)?;
    usable.retain(|(at, _)| *at >= first);
    let after = usable.split_off(usable.partition_point(|(at, _)| *at <= goal));
    let after = after.into_iter().filter(|_| first > 0);
    let mut candidates = usable.into_iter().rev().chain(after);
    Ok(candidates.find_map(|(at, path)| load_checkpoint(dir, at, &path, options)))
}

fn load_checkpoint(
    dir: &Path,
    offset: u64,
    path: &Path,
    options: &TerminalOptions,
) -> Option<Terminal> {
    let file = match fs::read(path) {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "checkpoint cannot be read");
            return None;
        }
    };
    let terminal = verified_checkpoint(dir, offset, &file)
        .and_then(|saved| Terminal::load(saved, options.clone()));
    if terminal.is_none() {
        tracing::warn!(path = %path.display(), "checkpoint damaged or of another version");
    }
    terminal
}

/// The checkpoint in a file, if the digest at the end of the file matches.
fn verified_checkpoint<'a>(dir: &Path, offset: u64, file: &'a [u8]) -> Option<&'a [u8]> {
    let length = file.len().checked_sub(<Sha256 as Digest>::output_size())?;
    let (saved, digest) = file.split_at(length);
    (checkpoint_digest(dir, offset, saved)[..] == *digest).then_some(saved)
}

/// The digest of a checkpoint with its pane and offset, so that a damaged file, or one of another pane, is not restored as
/// this pane's text. A program that may write the file can compute the digest as well; the digest is no signature.
fn checkpoint_digest(dir: &Path, offset: u64, saved: &[u8]) -> [u8; 32] {
    let pane = dir.file_name().unwrap_or_default().as_bytes();
    Sha256::new()
        .chain_update((pane.len() as u64).to_le_bytes())
        .chain_update(pane)
        .chain_update(offset.to_le_bytes())
        .chain_update(saved)
        .finalize()
        .into()
}
