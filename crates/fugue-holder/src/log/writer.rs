//! Writes a log without a holder: for a pane of a person's own tmux, where the daemon only receives the output.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::LogSegments;
use crate::record::{ExitRecord, SizeRecord};
use crate::wire::ChildExit;

/// The only writer of the log of a person's tmux pane, and of the records beside the log. Elsewhere the holder's
/// `OutputPump` writes the log.
pub struct TmuxLogWriter {
    dir: PathBuf,
    generation: u32,
    segments: LogSegments,
}

impl TmuxLogWriter {
    /// Continues at the end of the log in `dir`.
    pub fn open(dir: &Path, generation: u32, cap: u64, segment: u64) -> io::Result<TmuxLogWriter> {
        Ok(TmuxLogWriter {
            dir: dir.to_owned(),
            generation,
            segments: LogSegments::open(dir, cap, segment)?,
        })
    }

    pub fn end_offset(&self) -> u64 {
        self.segments.end_offset()
    }

    /// Appends as many bytes as possible. Returns their number, and the error if not all could be written.
    pub fn append(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            let wrote = self.segments.writable_range().and_then(|(file, at, room)| {
                let most = usize::try_from(room).unwrap_or(usize::MAX);
                let rest = &bytes[written..];
                file.write_at(&rest[..rest.len().min(most)], at)
            });
            match wrote {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.segments.advance(count as u64);
                    written += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Records that the terminal has this size from the current end of the log on.
    pub fn append_size(&self, rows: u16, cols: u16) -> io::Result<()> {
        let size = SizeRecord {
            offset: self.end_offset(),
            rows,
            cols,
            generation: self.generation,
        };
        size.append(&self.dir, self.segments.first_offset())
    }

    /// Writes the exit record, for a daemon that starts later.
    pub fn write_exit(&self, exited: ChildExit) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let record = ExitRecord {
            exited,
            recorded_ms: now.map_or(0, |since| since.as_millis() as u64),
        };
        self.segments.sync()?;
        record.write(&self.dir, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogRead, LogReader};

    #[test]
    fn a_log_goes_on_over_files_and_writers() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..100u8).collect();
        for part in bytes.chunks(33) {
            let mut writer = TmuxLogWriter::open(dir.path(), 1, 1000, 10).unwrap();
            let (written, done) = writer.append(part);
            done.unwrap();
            assert_eq!(written, part.len());
        }
        let (mut reader, mut seen, mut buffer) = (LogReader::new(dir.path()), Vec::new(), [0; 7]);
        while let LogRead::Bytes(count) = reader.read_at(seen.len() as u64, &mut buffer).unwrap() {
            seen.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(seen, bytes);
        assert_eq!(reader.end_offset().unwrap(), 100);
    }

    #[test]
    fn a_reader_that_stops_where_it_is_said_to_be_the_end_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        // Segments of an earlier writer, which made smaller ones.
        let mut writer = TmuxLogWriter::open(dir.path(), 1, 1000, 3).unwrap();
        writer.append(b"0123456").1.unwrap();
        let mut writer = TmuxLogWriter::open(dir.path(), 1, 1000, 10).unwrap();
        let mut reader = LogReader::new(dir.path());
        reader.set_min_segment(10);
        let (mut written, mut seen, mut looks) = (7, 0, 0);
        for part in (1..=25).cycle().take(200) {
            writer.append(&vec![b'x'; part]).1.unwrap();
            written += part as u64;
            let mut buffer = [0; 64];
            loop {
                looks += 1;
                match reader.read_at(seen, &mut buffer).unwrap() {
                    LogRead::Bytes(count) => seen += count as u64,
                    LogRead::Gap { next, .. } => seen = next,
                    LogRead::End => break,
                }
                if reader.is_at_end() {
                    break;
                }
            }
            assert_eq!(seen, written);
        }
        // Within a segment that is not full, one read suffices.
        assert!(looks < 700, "{looks}");
    }
}
