//! The writer's side of the log: the current segment, and the removal of old ones.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::durable::sync_file;

use super::{LogSegment, list_segments, segment_path};

/// The files of the log and their limits.
pub(crate) struct LogSegments {
    dir: PathBuf,
    /// Complete segments before the current one, oldest first.
    older: VecDeque<LogSegment>,
    current: LogSegment,
    file: File,
    cap: u64,
    segment: u64,
}

impl LogSegments {
    /// Continues at the end of the files in `dir`.
    pub(crate) fn open(dir: &Path, cap: u64, segment: u64) -> io::Result<LogSegments> {
        let mut older: VecDeque<LogSegment> = list_segments(dir)?.into();
        let current = older.pop_back().unwrap_or(LogSegment { start: 0, len: 0 });
        let file = open_segment(dir, current.start)?;
        let mut segments = LogSegments {
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

    /// A segment is at most half the cap, so that an older segment can always be dropped.
    pub(crate) fn set_limits(&mut self, cap: u64, segment: u64) {
        self.segment = segment.max(1);
        self.cap = cap.max(2 * self.segment);
    }

    pub(crate) fn end_offset(&self) -> u64 {
        self.current.start + self.current.len
    }

    /// Returns the current file, the write position and the number of bytes that fit. Begins the next segment if the
    /// current one is full.
    pub(crate) fn writable_range(&mut self) -> io::Result<(&File, u64, u64)> {
        if self.current.len >= self.segment {
            self.begin_next()?;
        }
        Ok((
            &self.file,
            self.current.len,
            self.segment - self.current.len,
        ))
    }

    pub(crate) fn advance(&mut self, by: u64) {
        self.current.len += by;
    }

    fn begin_next(&mut self) -> io::Result<()> {
        let start = self.end_offset();
        let file = open_segment(&self.dir, start)?;
        self.older.push_back(self.current);
        self.current = LogSegment { start, len: 0 };
        self.file = file;
        self.drop_oldest();
        Ok(())
    }

    /// Drops old segments until the current one can fill up without exceeding the cap.
    fn drop_oldest(&mut self) {
        while let Some(oldest) = self.older.front() {
            let kept = self.end_offset() - oldest.start;
            if kept + self.segment <= self.cap {
                return;
            }
            // A file that cannot be removed is retried by the next holder; the log continues.
            let _ = std::fs::remove_file(segment_path(&self.dir, oldest.start));
            self.older.pop_front();
        }
    }

    /// Syncs the whole log against a power cut. Segments that the kernel has already written back cost little.
    pub(crate) fn sync(&self) -> io::Result<()> {
        for segment in &self.older {
            match File::open(segment_path(&self.dir, segment.start)) {
                Ok(file) => sync_file(&file)?,
                // Removed from outside, and so not to be kept.
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
    pub(crate) fn first_offset(&self) -> u64 {
        self.older.front().unwrap_or(&self.current).start
    }
}

/// Without O_APPEND: splice refuses to write to such a file.
fn open_segment(dir: &Path, start: u64) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(segment_path(dir, start))
}
