//! Garbage collection: finds unused files in the state directory and removes them. A dry run is the same search without the
//! removal.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use fugue_api::{
    PaneId,
    wire::{GarbageItem, GarbageKind, GarbageReport},
};
use fugue_core::Inventory;
use fugue_holder::PaneLiveness;

use crate::{
    disk,
    reap::{self, DirRemoval},
    workers::worktrees,
};
use fugue_client::paths::UserPaths;

/// Finds unused files and, except in a dry run, removes them. `removed` is called for the directory of each forgotten pane,
/// because the record is dropped only after the directory is removed.
pub fn collect(
    inventory: &Inventory,
    dry_run: bool,
    paths: &UserPaths,
    removed: impl Fn(PaneId, DirRemoval),
) -> GarbageReport {
    let mut items = plan(inventory, paths);
    if !dry_run {
        for item in items.iter_mut().filter(|item| item.kept.is_none()) {
            let path = paths.state.join(&item.path);
            if let Err(error) = remove(item.kind, &path) {
                tracing::warn!(path = %path.display(), %error, "garbage not removed");
                item.kept = Some(error.to_string());
            }
            let name = path.file_name().and_then(|name| name.to_str());
            if item.kind == GarbageKind::EndedPane
                && let Some(pane) = name.and_then(|name| name.parse().ok())
            {
                let is_kept = item.kept.is_some();
                removed(
                    pane,
                    if is_kept {
                        DirRemoval::Kept
                    } else {
                        DirRemoval::Removed
                    },
                );
            }
        }
    }
    let removed = items.iter().filter(|item| item.kept.is_none());
    GarbageReport {
        dry_run,
        freed_bytes: removed.map(|item| item.bytes).sum(),
        free_disk_bytes: disk::free_bytes(&paths.panes()).unwrap_or(0),
        items,
    }
}

fn plan(inventory: &Inventory, paths: &UserPaths) -> Vec<GarbageItem> {
    let mut items = Vec::new();
    let mut add = |kind, path: PathBuf, reason, kept| {
        let below = path.strip_prefix(&paths.state).unwrap_or(&path);
        items.push(GarbageItem {
            kind,
            path: below.to_string_lossy().into_owned(),
            bytes: disk::used_bytes(&path),
            reason,
            kept,
        });
    };
    for (id, reason) in &inventory.forgotten {
        let dir = paths.panes().join(id.to_string());
        add(GarbageKind::EndedPane, dir, Some(*reason), None);
    }
    for (name, dir) in entries(&paths.panes()) {
        let Ok(id) = name.parse::<PaneId>() else {
            continue;
        };
        if id < inventory.next_pane && !inventory.panes.contains(&id) {
            let kept = match PaneLiveness::check(&dir) {
                PaneLiveness::Dead => None,
                PaneLiveness::Holder | PaneLiveness::Child(_) => {
                    Some("a process of this pane lives".to_owned())
                }
                PaneLiveness::Unknown(error) => Some(format!(
                    "whether a process of this pane lives is unknown: {error}"
                )),
            };
            add(GarbageKind::StrayPane, dir, None, kept);
        }
    }
    for (name, dir) in entries(&paths.workers()) {
        let Ok(number) = name.parse::<u64>() else {
            continue;
        };
        if number < inventory.next_worker && !inventory.workers.contains(&number) {
            add(GarbageKind::StrayWorker, dir, None, None);
        }
    }
    for worktree in worktrees::rows(&inventory.live_workers, paths) {
        if worktree.is_unneeded() {
            let name = &worktree.name;
            let kept = format!("`fugue worktree rm {name}` removes it");
            add(
                GarbageKind::Worktree,
                worktree.directory.into(),
                None,
                Some(kept),
            );
        }
    }
    for (name, file) in entries(&paths.state) {
        if name.starts_with("fugue.db.damaged-") {
            add(GarbageKind::DamagedDatabase, file, None, None);
        }
    }
    items
}

fn remove(kind: GarbageKind, path: &Path) -> io::Result<()> {
    let removed = match kind {
        GarbageKind::EndedPane | GarbageKind::StrayPane => match reap::remove_pane_dir(path) {
            DirRemoval::Removed => Ok(()),
            DirRemoval::Kept => Err(io::Error::other(
                "a process of this pane may live, or the directory could not be removed; daemon.log says which",
            )),
        },
        GarbageKind::StrayWorker => fs::remove_dir_all(path),
        // Always kept: a person removes it by name.
        GarbageKind::Worktree => Ok(()),
        GarbageKind::DamagedDatabase => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Names and paths below a directory, in order. A directory that cannot be read has none.
fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let found = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<(String, PathBuf)> = found
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn a_directory_without_a_record_goes_unless_a_holder_has_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let paths = UserPaths {
            state: dir.path().join("state"),
            config: dir.path().join("config.toml"),
        };
        for id in 1..=5 {
            let dir = paths.panes().join(format!("p{id}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("out.0"), vec![b'x'; 10_000]).unwrap();
        }
        let holder = File::create(paths.panes().join("p2/hold.lock")).unwrap();
        flock(&holder, FlockOperation::LockExclusive).unwrap();
        let inventory = Inventory {
            panes: [PaneId(1)].into(),
            next_pane: PaneId(5),
            workers: [].into(),
            next_worker: 1,
            live_workers: [].into(),
            forgotten: [].into(),
        };
        let found = |collected: &GarbageReport| -> Vec<(String, bool)> {
            let items = collected.items.iter();
            items
                .map(|item| (item.path.clone(), item.kept.is_some()))
                .collect()
        };
        let planned = collect(&inventory, true, &paths, |_, _| {});
        let wanted = [("panes/p2", true), ("panes/p3", false), ("panes/p4", false)];
        let wanted = wanted.map(|(path, kept)| (path.to_owned(), kept));
        assert_eq!(found(&planned), wanted);
        let done = collect(&inventory, false, &paths, |_, _| {});
        assert_eq!(done.items, planned.items);
        assert!(done.freed_bytes >= 20_000 && done.freed_bytes == planned.freed_bytes);
        let left: Vec<String> = entries(&paths.panes())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(left, ["p1", "p2", "p5"]);
    }
}
