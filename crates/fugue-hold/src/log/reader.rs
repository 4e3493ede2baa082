//! Reads a pane's log by offset, while it grows and while its oldest files go. Each reader owns only its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{Segment, list_segments, segment_path};

/// A reader of the log in one pane's directory.
pub struct LogReader {
    dir: PathBuf,
    open: Option<Open>,
    /// No file but the newest is smaller than this.
    least: u64,
    at_end: bool,
}

struct Open {
    start: u64,
    file: File,
    /// When it was last looked for, there was no file behind it.
    newest: bool,
}

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// This many bytes of the buffer are filled; never 0.
    Bytes(usize),
    /// The offset is no longer kept; `next` is the oldest byte that is.
    Gap { next: u64 },
    /// Nothing more now. The eventfd tells when to ask again.
    End,
}

impl LogReader {
    pub fn new(dir: impl Into<PathBuf>) -> LogReader {
        LogReader {
            dir: dir.into(),
            open: None,
            least: 0,
            at_end: false,
        }
    }

    /// Whoever writes the log from here on makes no file smaller than this, but for the newest.
    pub fn written_in(&mut self, segment: u64) {
        self.least = segment;
    }

    /// Reads what is at `offset`. Read on until `End` before waiting for the eventfd: a read also ends where a file
    /// ends.
    pub fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<Read> {
        self.at_end = false;
        if buf.is_empty() {
            return Ok(Read::End);
        }
        if self.open.as_ref().is_some_and(|open| offset < open.start) {
            self.open = None;
        }
        // The file we know, the one after it, the one that a look at the directory names. Were there a fourth, the
        // log has grown since, and the eventfd says so.
        for _ in 0..4 {
            if let Some(open) = &self.open {
                let got = open.file.read_at(buf, offset - open.start)?;
                if got > 0 {
                    let end = offset - open.start + got as u64;
                    self.at_end = got < buf.len() && open.newest && end < self.least;
                    return Ok(Read::Bytes(got));
                }
                let meta = open.file.metadata()?;
                let end = open.start + meta.len();
                // It grew between the two calls: the next wake-up is on its way, but why wait.
                if offset < end {
                    continue;
                }
                // The steady state: at the end of the newest file. That the next file is missing costs a lookup
                // that the kernel has cached.
                if offset > open.start
                    && let Some(next) = self.open_file(offset)?
                {
                    self.open = Some(next);
                    continue;
                }
                // The newest file is never dropped, so a dropped one is not the newest.
                if offset == end && meta.nlink() > 0 {
                    if let Some(open) = &mut self.open {
                        open.newest = true;
                    }
                    return Ok(Read::End);
                }
            }
            match self.find(offset)? {
                Found::At(open) => self.open = Some(open),
                Found::Nothing(read) => return Ok(read),
            }
        }
        Ok(Read::End)
    }

    /// Whether the bytes that were read last are surely the last ones, so that the eventfd may be waited for.
    pub fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// The oldest offset that is kept.
    pub fn first(&self) -> io::Result<u64> {
        Ok(list_segments(&self.dir)?.first().map_or(0, |s| s.start))
    }

    /// The offset after the newest byte.
    pub fn end(&self) -> io::Result<u64> {
        Ok(list_segments(&self.dir)?
            .last()
            .map_or(0, |s| s.start + s.len))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn open_file(&self, start: u64) -> io::Result<Option<Open>> {
        match File::open(segment_path(&self.dir, start)) {
            Ok(file) => Ok(Some(Open {
                start,
                file,
                newest: false,
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn find(&self, offset: u64) -> io::Result<Found> {
        // Again if the file went between the look and the open; each time round the log has moved on.
        loop {
            let segments = list_segments(&self.dir)?;
            let Some(oldest) = segments.first() else {
                return Ok(Found::Nothing(Read::End));
            };
            if offset < oldest.start {
                return Ok(Found::Nothing(Read::Gap { next: oldest.start }));
            }
            let holds = |s: &&Segment| s.start <= offset;
            let Some(segment) = segments.iter().rev().find(holds) else {
                return Ok(Found::Nothing(Read::End));
            };
            if offset > segment.start + segment.len {
                return Ok(Found::Nothing(Read::End));
            }
            if let Some(open) = self.open_file(segment.start)? {
                return Ok(Found::At(open));
            }
        }
    }
}

enum Found {
    At(Open),
    Nothing(Read),
}
