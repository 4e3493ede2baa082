//! The output log of a pane: files `out.<offset of the first byte>`, contiguous. The end of the log is the start of the
//! last file plus its size, and can be determined by any process after any crash.

mod pump;
mod reader;
mod segments;
mod writer;

pub(crate) use pump::{LogStall, OutputPump, PumpStatus, splice_in};
pub use reader::{LogRead, LogReader};
pub(crate) use segments::LogSegments;
pub use writer::TmuxLogWriter;

use std::io;
use std::path::{Path, PathBuf};

/// Path of the segment whose first byte has the offset `start`.
pub(crate) fn segment_path(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("out.{start:016x}"))
}

/// One file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogSegment {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// Lists all segments of the log in `dir`, oldest first.
pub(crate) fn list_segments(dir: &Path) -> io::Result<Vec<LogSegment>> {
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
            Ok(meta) => found.push(LogSegment {
                start,
                len: meta.len(),
            }),
            // The holder dropped the file after the directory was read.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    found.sort_by_key(|s| s.start);
    Ok(found)
}
