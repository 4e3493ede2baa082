//! Ends the processes that a pane has left running after its child and its holder ended, and removes its directory.

use std::{
    collections::HashSet,
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use fugue_api::PaneId;
use fugue_holder::{
    PaneLiveness, ProcessScope, close_leftovers, end_holder, find_holder,
    record::{ChildRecord, ExitRecord},
    wait_for_exit,
};

use crate::tmux::placement;

pub fn pane(pane: PaneId, dir: &Path, grace: Duration) {
    // The children of a pane run one after the other, so only the last one can have left processes behind.
    let latest = (1..).map_while(|generation| ChildRecord::read(dir, generation).ok().flatten());
    let scope = match latest.last() {
        Some(meta) => {
            let is_of_this_boot = meta.boot == fugue_holder::record::boot_id();
            ProcessScope::new(meta.child.filter(|_| is_of_this_boot), meta.marks)
        }
        // The records were removed; the child's processes are those below the holder.
        None => find_holder(dir).map_or_else(ProcessScope::default, ProcessScope::below_holder),
    };
    match close_leftovers(scope, grace) {
        Ok(0) => {}
        Ok(left) => tracing::warn!(%pane, left, "processes of a closed pane could not be ended"),
        Err(error) => tracing::warn!(%pane, %error, "a closed pane could not be swept"),
    }
    view(dir);
}

/// The outcome of removing a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirRemoval {
    Removed,
    /// A process of the pane lives or cannot be inspected, or the directory cannot be removed now.
    Kept,
}

/// Removes a pane's directory, unless its holder or its recorded child lives. Every removal is done here. Waits a moment for
/// a holder that is ending.
pub fn remove_pane_dir(dir: &Path) -> DirRemoval {
    view(dir);
    let mut liveness = PaneLiveness::check(dir);
    if liveness == PaneLiveness::Holder
        && let Some(holder) = find_holder(dir)
    {
        let _ = wait_for_exit(holder, HOLDER_EXIT_TIMEOUT);
        liveness = PaneLiveness::check(dir);
    }
    if liveness != PaneLiveness::Dead {
        tracing::warn!(dir = %dir.display(), ?liveness, "pane directory kept");
        return DirRemoval::Kept;
    }
    match std::fs::remove_dir_all(dir) {
        Ok(()) => DirRemoval::Removed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => DirRemoval::Removed,
        Err(error) => {
            tracing::warn!(dir = %dir.display(), %error, "pane directory could not be removed");
            DirRemoval::Kept
        }
    }
}

/// Removes directories of panes without a record, when nothing was written to them for as long as an ended pane is kept.
/// A younger directory may be the only remains of a pane whose record was lost.
pub fn unrecorded(panes: &Path, recorded: &HashSet<PaneId>, age: Duration) {
    for entry in std::fs::read_dir(panes).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.parse::<PaneId>().ok());
        let Some(id) = id.filter(|id| !recorded.contains(id)) else {
            continue;
        };
        let dir = entry.path();
        let old = last_written(&dir).and_then(|at| at.elapsed().ok());
        let removed =
            old.is_some_and(|old| old >= age) && remove_pane_dir(&dir) == DirRemoval::Removed;
        tracing::warn!(pane = %id, removed, "pane directory without a record");
    }
}

/// The latest modification time in a directory.
fn last_written(dir: &Path) -> Option<SystemTime> {
    let modified = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|meta| meta.modified())
            .ok()
    };
    let files = std::fs::read_dir(dir).ok()?.flatten();
    let files = files.filter_map(|file| modified(&file.path()));
    files.chain(modified(dir)).max()
}

// A holder that is continued records its child's exit and ends at once.
const HOLDER_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends a pane whose holder does not answer: first its recorded processes, then the holder.
pub fn pane_and_holder(id: PaneId, dir: &Path, grace: Duration) {
    pane(id, dir, grace);
    if let Some(holder) = find_holder(dir)
        && let Err(error) = end_holder(holder, HOLDER_EXIT_TIMEOUT)
    {
        tracing::warn!(pane = %id, %error, "holder could not be ended");
    }
}

/// Ends the panes whose directories were removed while no daemon ran: nobody could find them again. Returns how many.
pub fn without_directory(panes: &Path) -> usize {
    let found = fugue_holder::holders_without_directory(panes);
    for (dir, holder) in &found {
        tracing::warn!(dir = %dir.display(), holder = holder.pid, "pane directory removed: its processes are ended");
        if let Err(error) = close_leftovers(ProcessScope::below_holder(*holder), Duration::ZERO) {
            tracing::warn!(dir = %dir.display(), %error, "its processes could not be found");
        }
        if let Err(error) = end_holder(*holder, HOLDER_EXIT_TIMEOUT) {
            tracing::warn!(dir = %dir.display(), %error, "its holder could not be ended");
        }
    }
    found.len()
}

/// Whether the pane's last child has ended.
fn has_ended(dir: &Path) -> bool {
    let latest = (1..).take_while(|generation| ChildRecord::path(dir, *generation).exists());
    let ended = |generation: u32| ExitRecord::path(dir, generation).exists();
    latest.last().is_some_and(ended)
}

/// Removes the tmux panes of panes that have ended.
pub fn ended_views(panes: &Path) {
    let dirs = std::fs::read_dir(panes).into_iter().flatten().flatten();
    let made = dirs.map(|dir| dir.path()).filter(|dir| has_ended(dir));
    let made: Vec<_> = made.filter_map(|dir| placement::noted(&dir)).collect();
    placement::remove_all(&made);
}

/// Removes the tmux pane of a pane, if it has one.
pub fn view(dir: &Path) {
    if let Some(made) = placement::noted(dir) {
        placement::remove(&made);
    }
}
