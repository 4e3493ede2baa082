//! Ends what a pane has left running after its own process ended and its holder went.

use std::{path::Path, time::Duration};

use fugue_api::PaneId;
use fugue_hold::{
    Scope, close_leftovers,
    record::{ExitRecord, Meta},
};

use crate::tmux::make;

pub fn pane(pane: PaneId, dir: &Path, grace: Duration) {
    let mut scope = Scope::default();
    // Without its record there is nothing to recognise its processes by.
    // The last of its processes, one after the other, is the one that can have left something behind.
    let latest = (1..).map_while(|generation| Meta::read(dir, generation).ok().flatten());
    if let Some(meta) = latest.last() {
        scope.leader = meta
            .child
            .filter(|_| meta.boot == fugue_hold::record::boot_id());
        scope.marks = meta.marks;
    }
    match close_leftovers(scope, grace) {
        Ok(0) => {}
        Ok(left) => tracing::warn!(%pane, left, "processes of a closed pane could not be ended"),
        Err(error) => tracing::warn!(%pane, %error, "a closed pane could not be swept"),
    }
    view(dir);
}

/// Whether the last of its processes has ended.
fn has_ended(dir: &Path) -> bool {
    let latest = (1..).take_while(|generation| Meta::path(dir, *generation).exists());
    let ended = |generation: u32| ExitRecord::path(dir, generation).exists();
    latest.last().is_some_and(ended)
}

/// Removes what tmux still shows of panes that have ended.
pub fn ended_views(panes: &Path) {
    let dirs = std::fs::read_dir(panes).into_iter().flatten().flatten();
    let made = dirs.map(|dir| dir.path()).filter(|dir| has_ended(dir));
    let made: Vec<_> = made.filter_map(|dir| make::noted(&dir)).collect();
    make::remove_all(&made);
}

/// Removes what tmux shows of a pane, if tmux does.
pub fn view(dir: &Path) {
    if let Some(made) = make::noted(dir) {
        make::remove(&made);
    }
}
