//! Reads a pane's log by offset, while it grows and while its oldest files go. Each reader owns only its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{list_segments, segment_path};

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
    /// No later file was in the directory when the end of this one was first reached. A file that comes after it begins
    /// where this one ends.
    newest: bool,
}

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogRead {
    /// This many bytes of the buffer are filled; never 0.
    Bytes(usize),
    /// The bytes `from..next` are in no file: the oldest files were dropped, or a part of the log is lost. `from` is at
    /// or before the offset that was asked for.
    Gap { from: u64, next: u64 },
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
    pub fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<LogRead> {
        self.at_end = false;
        if buf.is_empty() {
            return Ok(LogRead::End);
        }
        if self.open.as_ref().is_some_and(|open| offset < open.start) {
            self.open = None;
        }
        // The file we know, the one after it, the one that a look at the directory names. Were there a fourth, the
        // log has grown since, and the eventfd says so.
        for _ in 0..4 {
            if let Some(open) = &self.open {
                let got = match open.file.read_at(buf, offset - open.start) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    got => got?,
                };
                if got > 0 {
                    let end = offset - open.start + got as u64;
                    self.at_end = got < buf.len() && open.newest && end < self.least;
                    return Ok(LogRead::Bytes(got));
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
                if offset == end && open.newest && meta.nlink() > 0 {
                    return Ok(LogRead::End);
                }
            }
            match self.find(offset)? {
                Found::At(open) => self.open = Some(open),
                Found::Nothing(read) => return Ok(read),
            }
        }
        Ok(LogRead::End)
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

    /// The file that has the byte at `offset`, or the newest one if that is where the log ends.
    fn find(&self, offset: u64) -> io::Result<Found> {
        // Again if a file was dropped or grew between two looks; each time round the log has moved on.
        loop {
            let segments = list_segments(&self.dir)?;
            let later = segments.iter().find(|s| s.start > offset);
            let Some(segment) = segments.iter().rev().find(|s| s.start <= offset) else {
                return Ok(Found::Nothing(match later {
                    Some(later) => LogRead::Gap {
                        from: offset,
                        next: later.start,
                    },
                    None => LogRead::End,
                }));
            };
            let Some(mut open) = self.open_file(segment.start)? else {
                continue;
            };
            // Files are written one after the other, so the length of one that has a later one is final by now.
            let end = open.start + open.file.metadata()?.len();
            match later {
                Some(later) if offset >= end => {
                    return Ok(Found::Nothing(LogRead::Gap {
                        from: end,
                        next: later.start,
                    }));
                }
                None if offset > end => return Ok(Found::Nothing(LogRead::End)),
                Some(_) | None => {
                    open.newest = later.is_none();
                    return Ok(Found::At(open));
                }
            }
        }
    }
}

enum Found {
    At(Open),
    Nothing(LogRead),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogWriter;

    /// All that a reader gets of a log: its bytes and its gaps.
    fn read_all(reader: &mut LogReader) -> (Vec<u8>, Vec<(u64, u64)>) {
        let (mut bytes, mut gaps, mut at, mut buffer) = (Vec::new(), Vec::new(), 0, [0; 7]);
        loop {
            match reader.read_at(at, &mut buffer).unwrap() {
                LogRead::Bytes(count) => {
                    bytes.extend_from_slice(&buffer[..count]);
                    at += count as u64;
                }
                LogRead::Gap { from, next } => {
                    assert!(from <= at && next > at, "{from}..{next} at {at}");
                    gaps.push((from, next));
                    at = next;
                }
                LogRead::End => return (bytes, gaps),
            }
        }
    }

    #[test]
    fn a_missing_or_short_file_is_a_gap_and_what_follows_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..100).collect();
        let mut writer = LogWriter::open(dir.path(), 1, 1000, 10).unwrap();
        writer.append(&bytes).1.unwrap();
        // A reader that is on its way when the files go, and one that comes later.
        let mut early = LogReader::new(dir.path());
        assert_eq!(early.read_at(0, &mut [0; 5]).unwrap(), LogRead::Bytes(5));
        for start in [30, 40] {
            std::fs::remove_file(segment_path(dir.path(), start)).unwrap();
        }
        let short = File::options()
            .write(true)
            .open(segment_path(dir.path(), 70));
        short.unwrap().set_len(4).unwrap();
        let kept = [&bytes[..30], &bytes[50..74], &bytes[80..]].concat();
        for reader in [&mut early, &mut LogReader::new(dir.path())] {
            assert_eq!(read_all(reader), (kept.clone(), vec![(30, 50), (74, 80)]));
        }
        // One who begins inside a gap is told all of it.
        let mut inside = LogReader::new(dir.path());
        assert_eq!(
            inside.read_at(42, &mut [0; 5]).unwrap(),
            LogRead::Gap { from: 30, next: 50 }
        );
        // At the end, new output is found as ever.
        writer.append(b"more").1.unwrap();
        assert_eq!(early.read_at(100, &mut [0; 5]).unwrap(), LogRead::Bytes(4));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::open(dir.path(), 1, 1000, 10).unwrap();
        writer.append(&[b'x'; 30]).1.unwrap();
        std::fs::remove_file(segment_path(dir.path(), 10)).unwrap();
        // A directory can be opened and not read.
        std::fs::create_dir(segment_path(dir.path(), 10)).unwrap();
        let mut reader = LogReader::new(dir.path());
        assert_eq!(reader.read_at(0, &mut [0; 64]).unwrap(), LogRead::Bytes(10));
        assert!(reader.read_at(10, &mut [0; 64]).is_err());
    }
}
