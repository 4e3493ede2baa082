//! Syncs: what must be on disk before a child's end is told, so that a power cut takes nothing that was answered.

use std::fs::File;
use std::io;
use std::path::Path;

/// Syncs a file's bytes.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    allow_unsupported(file.sync_data())
}

/// Syncs the names in a pane's directory, and the directory's own name.
pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    for dir in [Some(dir), dir.parent()].into_iter().flatten() {
        allow_unsupported(File::open(dir)?.sync_all())?;
    }
    Ok(())
}

/// A filesystem that cannot sync (EINVAL), or that is read-only by now, keeps what it has; trying again cannot help.
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
