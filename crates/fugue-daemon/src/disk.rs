//! Disk space: how much is free, how much files take, and the floor below which nothing is started.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use fugue_api::{Error, ErrorKind};
use fugue_core::settings::Settings;

// On a small disk the floor is at most this part of it.
const MAX_FLOOR_FRACTION: u64 = 20;

/// Free space for this user on the disk of a path.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Refuses to start something while the disk of the output logs has less free space than the floor.
pub fn check_floor(state: &Path, settings: &Settings) -> Result<(), Error> {
    let floor = settings.free_disk_floor_bytes();
    let (free, floor) = match rustix::fs::statvfs(state) {
        Ok(stat) => (
            stat.f_bavail.saturating_mul(stat.f_frsize),
            floor.min(stat.f_blocks.saturating_mul(stat.f_frsize) / MAX_FLOOR_FRACTION),
        ),
        Err(error) => {
            tracing::warn!(path = %state.display(), %error, "free disk space is unknown");
            return Ok(());
        }
    };
    if free >= floor {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Exhausted,
        format!(
            "nothing was started: {} MB are free on the disk of {}, and the floor is {} MB (`free_disk_floor_mb`)",
            free >> 20,
            state.display(),
            floor >> 20
        ),
    )
    .hint("running panes go on; `fugue gc --ended` forgets ended panes with their output, or lower the floor"))
}

/// Disk space that a file, or a directory with all that is in it, takes.
pub fn used_bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    let own = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    own + entries.map(|entry| used_bytes(&entry.path())).sum::<u64>()
}
