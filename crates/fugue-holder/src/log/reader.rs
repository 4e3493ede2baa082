//! Reads a pane's log by offset, while it grows and while its oldest segments are dropped. The position belongs to the
//! reader.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::{list_segments, segment_path};

/// A reader of the log in one pane's directory.
pub struct LogReader {
    dir: PathBuf,
    open: Option<OpenSegment>,
    /// No segment except the newest is smaller than this.
    min_segment: u64,
    at_end: bool,
}

struct OpenSegment {
    start: u64,
    file: File,
    /// The directory had no later segment when the end of this one was first reached. A segment created later begins
    /// where this one ends.
    is_newest: bool,
}

impl OpenSegment {
    /// The first hole at or after `offset` that begins in these bytes, in offsets of the log. The writer makes no holes:
    /// the file was truncated below the writer, or the machine lost power before these blocks were written.
    fn find_hole(&self, offset: u64, bytes: &[u8]) -> io::Result<Option<Range<u64>>> {
        // Holes are read as zeros. Zeros that a program has printed are rare and are stored.
        let Some(zero) = bytes.iter().position(|byte| *byte == 0) else {
            return Ok(None);
        };
        let length = self.file.metadata()?.len();
        let end = offset - self.start + bytes.len() as u64;
        let hole = self.seek(SeekFrom::Hole(offset - self.start + zero as u64))?;
        let Some(hole) = hole.filter(|hole| *hole < end && *hole < length) else {
            return Ok(None);
        };
        let data = self.seek(SeekFrom::Data(hole))?.unwrap_or(length);
        Ok((hole < data).then_some(self.start + hole..self.start + data))
    }

    /// `None` where there is no such place, or the file system does not tell.
    fn seek(&self, place: SeekFrom) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.file, place) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogRead {
    /// Number of bytes in the buffer; never 0.
    Bytes(usize),
    /// The bytes `from..next` are in no file: the oldest segments were dropped, or a part of the log is lost. `from` is
    /// at or before the requested offset.
    Gap { from: u64, next: u64 },
    /// No more bytes at present. The eventfd signals new ones.
    End,
}

impl LogReader {
    pub fn new(dir: impl Into<PathBuf>) -> LogReader {
        LogReader {
            dir: dir.into(),
            open: None,
            min_segment: 0,
            at_end: false,
        }
    }

    /// Declares that the writer makes no segment smaller than `segment` from now on, except for the newest.
    pub fn set_min_segment(&mut self, segment: u64) {
        self.min_segment = segment;
    }

    /// Reads at `offset`. Continue until `End` before waiting for the eventfd: a read also ends where a segment ends.
    pub fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<LogRead> {
        self.at_end = false;
        if buf.is_empty() {
            return Ok(LogRead::End);
        }
        if self.open.as_ref().is_some_and(|open| offset < open.start) {
            self.open = None;
        }
        // The open segment, the next segment, and the segment that the directory listing names. If a fourth is needed,
        // the log has grown since, and the eventfd signals the growth.
        for _ in 0..4 {
            if let Some(open) = &self.open {
                let got = match open.file.read_at(buf, offset - open.start) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    got => got?,
                };
                if got > 0 {
                    match open.find_hole(offset, &buf[..got])? {
                        None => {}
                        Some(hole) if hole.start > offset => {
                            return Ok(LogRead::Bytes((hole.start - offset) as usize));
                        }
                        Some(hole) => {
                            return Ok(LogRead::Gap {
                                from: offset,
                                next: hole.end,
                            });
                        }
                    }
                    let end = offset - open.start + got as u64;
                    self.at_end = got < buf.len() && open.is_newest && end < self.min_segment;
                    return Ok(LogRead::Bytes(got));
                }
                let meta = open.file.metadata()?;
                let end = open.start + meta.len();
                // The segment grew between the two calls. The eventfd will signal that too, but the bytes can be read
                // now.
                if offset < end {
                    continue;
                }
                // The common case: at the end of the newest segment. The failed lookup of the next file is cached by
                // the kernel.
                if offset > open.start
                    && let Some(next) = self.open_segment_at(offset)?
                {
                    self.open = Some(next);
                    continue;
                }
                // The newest segment is never dropped, so a dropped segment is not the newest.
                if offset == end && open.is_newest && meta.nlink() > 0 {
                    return Ok(LogRead::End);
                }
            }
            match self.find_segment(offset)? {
                SegmentLookup::Segment(open) => self.open = Some(open),
                SegmentLookup::NotFound(read) => return Ok(read),
            }
        }
        Ok(LogRead::End)
    }

    /// Whether the last read is known to have reached the end of the log, so that the caller can wait for the eventfd.
    pub fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// The oldest offset that is kept.
    pub fn first_offset(&self) -> io::Result<u64> {
        Ok(list_segments(&self.dir)?.first().map_or(0, |s| s.start))
    }

    /// The offset after the newest byte.
    pub fn end_offset(&self) -> io::Result<u64> {
        Ok(list_segments(&self.dir)?
            .last()
            .map_or(0, |s| s.start + s.len))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn open_segment_at(&self, start: u64) -> io::Result<Option<OpenSegment>> {
        match File::open(segment_path(&self.dir, start)) {
            Ok(file) => Ok(Some(OpenSegment {
                start,
                file,
                is_newest: false,
            })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Finds the segment that contains `offset`, or the newest segment if the log ends at `offset`.
    fn find_segment(&self, offset: u64) -> io::Result<SegmentLookup> {
        // Repeats if a segment was dropped or grew between the listing and the open; the log has advanced each time.
        loop {
            let segments = list_segments(&self.dir)?;
            let later = segments.iter().find(|s| s.start > offset);
            let Some(segment) = segments.iter().rev().find(|s| s.start <= offset) else {
                return Ok(SegmentLookup::NotFound(match later {
                    Some(later) => LogRead::Gap {
                        from: offset,
                        next: later.start,
                    },
                    None => LogRead::End,
                }));
            };
            let Some(mut open) = self.open_segment_at(segment.start)? else {
                continue;
            };
            // Segments are written in order, so the length of a segment that has a successor is final.
            let end = open.start + open.file.metadata()?.len();
            match later {
                Some(later) if offset >= end => {
                    return Ok(SegmentLookup::NotFound(LogRead::Gap {
                        from: end,
                        next: later.start,
                    }));
                }
                None if offset > end => return Ok(SegmentLookup::NotFound(LogRead::End)),
                Some(_) | None => {
                    open.is_newest = later.is_none();
                    return Ok(SegmentLookup::Segment(open));
                }
            }
        }
    }
}

enum SegmentLookup {
    Segment(OpenSegment),
    NotFound(LogRead),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::TmuxLogWriter;

    /// Reads a whole log: its bytes and its gaps.
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
        let mut writer = TmuxLogWriter::open(dir.path(), 1, 1000, 10).unwrap();
        writer.append(&bytes).1.unwrap();
        // A reader that has started when the files are removed, and one that starts afterwards.
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
        // A reader that starts inside a gap gets the whole gap.
        let mut inside = LogReader::new(dir.path());
        assert_eq!(
            inside.read_at(42, &mut [0; 5]).unwrap(),
            LogRead::Gap { from: 30, next: 50 }
        );
        // New output at the end is found as usual.
        writer.append(b"more").1.unwrap();
        assert_eq!(early.read_at(100, &mut [0; 5]).unwrap(), LogRead::Bytes(4));
    }

    #[test]
    fn a_hole_in_a_file_is_a_gap_and_printed_zeros_are_bytes() {
        const BLOCK: u64 = 1 << 16;
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TmuxLogWriter::open(dir.path(), 1, 1 << 22, 1 << 21).unwrap();
        let printed = [vec![b'a'; 2 * BLOCK as usize], vec![0; BLOCK as usize]].concat();
        writer.append(&printed).1.unwrap();
        let mut reader = LogReader::new(dir.path());
        assert_eq!(read_all(&mut reader), (printed.clone(), vec![]));
        // Truncated, and then written to at the writer's own offset.
        let file = File::options()
            .write(true)
            .open(segment_path(dir.path(), 0))
            .unwrap();
        file.set_len(BLOCK).unwrap();
        let end = printed.len() as u64;
        file.write_all_at(b"later", end).unwrap();
        let kept = [&printed[..BLOCK as usize], b"later"].concat();
        for reader in [&mut reader, &mut LogReader::new(dir.path())] {
            let (bytes, gaps) = read_all(reader);
            assert_eq!(gaps.first().map(|gap| gap.0), Some(BLOCK));
            assert_eq!(gaps.last().map(|gap| gap.1), Some(end));
            assert!(bytes == kept, "{} bytes", bytes.len());
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TmuxLogWriter::open(dir.path(), 1, 1000, 10).unwrap();
        writer.append(&[b'x'; 30]).1.unwrap();
        std::fs::remove_file(segment_path(dir.path(), 10)).unwrap();
        // A directory can be opened but not read.
        std::fs::create_dir(segment_path(dir.path(), 10)).unwrap();
        let mut reader = LogReader::new(dir.path());
        assert_eq!(reader.read_at(0, &mut [0; 64]).unwrap(), LogRead::Bytes(10));
        assert!(reader.read_at(10, &mut [0; 64]).is_err());
    }
}
