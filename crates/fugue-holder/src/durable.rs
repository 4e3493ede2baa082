//! Syncs to disk: output and exit record must be durable before the daemon learns of the child's exit, so that a power
//! cut loses nothing that was reported.

use std::fs::File;
use std::io;
use std::path::Path;

/// Syncs the contents of a file.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    allow_unsupported(file.sync_data())
}

/// Syncs the entries of a pane's directory, and the entry of the directory in its parent.
pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    for dir in [Some(dir), dir.parent()].into_iter().flatten() {
        allow_unsupported(File::open(dir)?.sync_all())?;
    }
    Ok(())
}

/// Ignores errors that a retry cannot cure: the filesystem does not support sync (EINVAL), or has become read-only.
fn allow_unsupported(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
                    | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}
