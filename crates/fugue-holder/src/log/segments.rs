//! The writer's side of the log: which file is written now, and which old ones go.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::durable::sync_file;

use super::{Segment, list_segments, segment_path};

/// The log's files and their limits.
pub(crate) struct Segments {
    dir: PathBuf,
    /// Whole files before the current one, oldest first.
    older: VecDeque<Segment>,
    current: Segment,
    file: File,
    cap: u64,
    segment: u64,
}

impl Segments {
    /// Goes on where the files in `dir` end.
    pub(crate) fn open(dir: &Path, cap: u64, segment: u64) -> io::Result<Segments> {
        let mut older: VecDeque<Segment> = list_segments(dir)?.into();
        let current = older.pop_back().unwrap_or(Segment { start: 0, len: 0 });
        let file = open_segment(dir, current.start)?;
        let mut segments = Segments {
            dir: dir.to_owned(),
            older,
            current,
            file,
            cap: 0,
            segment: 1,
        };
        segments.set_limits(cap, segment);
        Ok(segments)
    }

    /// A file is at most half the cap, so that there is always an older one to drop.
    pub(crate) fn set_limits(&mut self, cap: u64, segment: u64) {
        self.segment = segment.max(1);
        self.cap = cap.max(2 * self.segment);
    }

    pub(crate) fn end(&self) -> u64 {
        self.current.start + self.current.len
    }

    /// The file to write to, where in it, and how much fits. Begins the next file when this one is full.
    pub(crate) fn room(&mut self) -> io::Result<(&File, u64, u64)> {
        if self.current.len >= self.segment {
            self.begin_next()?;
        }
        Ok((
            &self.file,
            self.current.len,
            self.segment - self.current.len,
        ))
    }

    pub(crate) fn grew(&mut self, by: u64) {
        self.current.len += by;
    }

    fn begin_next(&mut self) -> io::Result<()> {
        let start = self.end();
        let file = open_segment(&self.dir, start)?;
        self.older.push_back(self.current);
        self.current = Segment { start, len: 0 };
        self.file = file;
        self.drop_oldest();
        Ok(())
    }

    /// Makes room for the current file to become full without passing the cap.
    fn drop_oldest(&mut self) {
        while let Some(oldest) = self.older.front() {
            let kept = self.end() - oldest.start;
            if kept + self.segment <= self.cap {
                return;
            }
            // A file that cannot be removed is tried again with the next holder; the log goes on.
            let _ = std::fs::remove_file(segment_path(&self.dir, oldest.start));
            self.older.pop_front();
        }
    }

    /// Makes all of the log survive a power cut. Files that the kernel has written already cost little.
    pub(crate) fn sync(&self) -> io::Result<()> {
        for segment in &self.older {
            match File::open(segment_path(&self.dir, segment.start)) {
                Ok(file) => sync_file(&file)?,
                // Removed by somebody else, and so not to be kept.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        if self.current.len > 0 {
            sync_file(&self.file)?;
        }
        Ok(())
    }

    /// The offset of the oldest byte that is kept.
    pub(crate) fn first(&self) -> u64 {
        self.older.front().unwrap_or(&self.current).start
    }
}

/// Not O_APPEND: splice refuses to write to such a file.
fn open_segment(dir: &Path, start: u64) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(segment_path(dir, start))
}
