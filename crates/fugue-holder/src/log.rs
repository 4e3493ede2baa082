//! The pane's output on disk: files `out.<offset of their first byte>` that follow each other without a gap. The end
//! of the log is the last file's start plus its size, so anyone can find it again after any crash.

mod pump;
mod reader;
mod segments;
mod writer;

pub(crate) use pump::{Moved, Pump, Stall};
pub use reader::{LogRead, LogReader};
pub(crate) use segments::Segments;
pub use writer::LogWriter;

use std::io;
use std::path::{Path, PathBuf};

/// The path of the file whose first byte is at `start`.
pub(crate) fn segment_path(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("out.{start:016x}"))
}

/// One file of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// All files of the log in `dir`, oldest first.
pub(crate) fn list_segments(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(digits) = name.to_str().and_then(|n| n.strip_prefix("out.")) else {
            continue;
        };
        if digits.len() != 16 {
            continue;
        }
        let Ok(start) = u64::from_str_radix(digits, 16) else {
            continue;
        };
        match entry.metadata() {
            Ok(meta) => found.push(Segment {
                start,
                len: meta.len(),
            }),
            // Dropped by the holder since the directory was read.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    found.sort_by_key(|s| s.start);
    Ok(found)
}
