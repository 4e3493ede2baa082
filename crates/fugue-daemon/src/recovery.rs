//! Recovers panes whose records are lost from the files in their directories.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use fugue_api::{Error, PaneId, SessionName, Timestamp, tools::PaneSize, wire::IdempotencyKey};
use fugue_core::{Change, PaneRecord};
use fugue_holder::record::ChildRecord;
use serde::Serialize;

use crate::{
    pane::launch,
    run::unusable_store_error,
    store::{
        self, IntegrityCheck, QuarantinedRow, Sqlite, Store, StoreContents, StoreError, StoreOrigin,
    },
};
use fugue_client::paths::UserPaths;

// The limit of pane ids in a note for people; the log has all of them.
const MAX_LISTED: usize = 10;

/// Writes a pane's record into its directory, from which it is recovered if the database is lost.
pub fn note_record(dir: &Path, record: &PaneRecord) -> io::Result<()> {
    let path = noted(dir);
    let beside = path.with_extension("new");
    fs::write(&beside, serde_json::to_vec(record)?)?;
    fs::rename(beside, path)
}

fn noted(dir: &Path) -> PathBuf {
    dir.join("pane.json")
}

/// Raises the id counters above all ids that name a directory, and adds missing records of panes: of every directory where
/// the database or the pane's record was lost, otherwise of panes whose process is alive.
pub fn find_panes(
    paths: &UserPaths,
    store: &mut Sqlite,
    opened: &mut StoreContents,
) -> Result<Vec<PaneId>, StoreError> {
    let dirs = pane_dirs(&paths.panes());
    let is_lost = opened.origin != StoreOrigin::Sound;
    let snapshot = &mut opened.snapshot;
    store.raise_counters(snapshot, is_lost);
    let highest = dirs.iter().map(|(pane, _)| pane.0).max().unwrap_or(0);
    snapshot.next_pane = snapshot.next_pane.max(highest + 1);
    let workers = numbers_in(&paths.workers()).max().unwrap_or(0);
    snapshot.next_worker = snapshot.next_worker.max(workers + 1);
    let plans = dirs
        .iter()
        .flat_map(|(_, dir)| numbers_in(&launch::steps_dir(dir)));
    let plans = plans.max().unwrap_or(0);
    snapshot.next_run = snapshot.next_run.max(plans + 1);
    let mut least_epoch = last_epoch(&paths.state) + 1;
    if is_lost && !dirs.is_empty() {
        // The last epoch may be lost too. The time in seconds is higher than the number of daemon starts.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        least_epoch = least_epoch.max(now.as_secs());
    }
    if snapshot.epoch < least_epoch {
        store.raise_epoch(least_epoch)?;
        snapshot.epoch = least_epoch;
    }
    note_epoch(&paths.state, snapshot.epoch);
    let known: BTreeSet<PaneId> = snapshot.panes.iter().map(|record| record.id).collect();
    let quarantined = |pane: PaneId| {
        let id = pane.0.to_string();
        let mut rows = opened.quarantined.iter();
        rows.any(|row| row.kind == "panes" && row.id == id)
    };
    let missing = dirs.iter().filter(|(pane, _)| !known.contains(pane));
    let found: Vec<PaneRecord> = missing
        .filter_map(|(pane, dir)| {
            let meta = latest_meta(dir)?;
            let wanted = is_lost || quarantined(*pane) || meta.is_child_alive();
            wanted.then(|| record_of(*pane, dir, &meta))
        })
        .collect();
    let panes: Vec<PaneId> = found.iter().map(|record| record.id).collect();
    let changes: Vec<Change> = found
        .iter()
        .map(|record| Change::put(record.clone()))
        .collect();
    if !changes.is_empty() {
        store.commit(&changes.iter().collect::<Vec<_>>())?;
    }
    let snapshot = &mut opened.snapshot;
    snapshot.panes.extend(found);
    snapshot.panes.sort_by_key(|record| record.id);
    Ok(panes)
}

/// The pane directories.
fn pane_dirs(panes: &Path) -> Vec<(PaneId, PathBuf)> {
    let entries = fs::read_dir(panes).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pane = entry.file_name().to_str()?.parse().ok()?;
            Some((pane, entry.path()))
        })
        .collect()
}

/// The numbers at the start of the file names in a directory.
fn numbers_in(dir: &Path) -> impl Iterator<Item = u64> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        name[..digits].parse().ok()
    })
}

fn latest_meta(dir: &Path) -> Option<ChildRecord> {
    let all = (1..).map_while(|generation| ChildRecord::read(dir, generation).ok().flatten());
    all.last()
}

/// The record that the daemon wrote into the directory, otherwise a partial one from the holder's own files.
fn record_of(pane: PaneId, dir: &Path, meta: &ChildRecord) -> PaneRecord {
    let noted = fs::read(noted(dir)).ok();
    let noted = noted.and_then(|text| serde_json::from_slice::<PaneRecord>(&text).ok());
    let record = noted.filter(|record| record.id == pane).unwrap_or_else(|| {
        let made = fs::metadata(dir).and_then(|found| found.modified());
        let made = made.unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH);
        let made = made.unwrap_or_default().as_millis();
        PaneRecord {
            id: pane,
            session: SessionName::default(),
            name: format!("recovered-{pane}"),
            command: "unknown: its record is lost".to_owned(),
            cwd: "/".to_owned(),
            size: PaneSize {
                rows: meta.rows,
                cols: meta.cols,
            },
            created_at: Timestamp(u64::try_from(made).unwrap_or(u64::MAX)),
            made_by: IdempotencyKey([0; 16]),
            opened_by: None,
            secret: String::new(),
            tmux: None,
            agent: None,
            generation: meta.generation,
            pid: 0,
            closing: false,
            ended: None,
            removing: false,
        }
    });
    PaneRecord {
        generation: meta.generation,
        pid: meta.child.map_or(0, |child| child.pid.cast_unsigned()),
        ..record
    }
}

/// The epoch of the last daemon, also if the database is lost: holders accept commands of the highest epoch only.
fn last_epoch(state: &Path) -> u64 {
    let noted = fs::read_to_string(state.join("epoch")).unwrap_or_default();
    noted.trim().parse().unwrap_or(0)
}

fn note_epoch(state: &Path, epoch: u64) {
    let beside = state.join("epoch.new");
    let written = fs::write(&beside, format!("{epoch}\n"))
        .and_then(|()| fs::rename(&beside, state.join("epoch")));
    if let Err(error) = written {
        tracing::warn!(%error, "epoch file not written");
    }
}

/// Notes for the user about losses and repairs when the store was opened.
pub fn notes(opened: &StoreContents, found: &[PaneId]) -> Vec<String> {
    let mut notes = Vec::new();
    let aside = |kept_aside: &Option<PathBuf>| match kept_aside {
        Some(path) => format!("; it is kept as {}", path.display()),
        None => String::new(),
    };
    match &opened.origin {
        StoreOrigin::Sound | StoreOrigin::New => {}
        StoreOrigin::Backup { reason, kept_aside } => notes.push(format!(
            "{reason}; the last backup took its place, and what was recorded since is lost{}",
            aside(kept_aside)
        )),
        StoreOrigin::Empty { reason, kept_aside } => notes.push(format!(
            "{reason}; there was no usable backup, so an empty database took its place{}",
            aside(kept_aside)
        )),
    }
    let rows = opened.quarantined.iter().take(MAX_LISTED);
    notes.extend(rows.map(|row| {
        format!(
            "record {} of {} could not be read and was set aside: {}",
            row.id, row.kind, row.error
        )
    }));
    let more = opened.quarantined.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        notes.push(format!("{more} more records were set aside"));
    }
    if !found.is_empty() {
        let names: Vec<String> = found
            .iter()
            .take(MAX_LISTED)
            .map(PaneId::to_string)
            .collect();
        let more = found.len().saturating_sub(MAX_LISTED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        notes.push(format!(
            "panes without a record were found again in their directories: {}{more}",
            names.join(", ")
        ));
    }
    notes
}

/// The note about panes that were ended because their directories had been removed.
pub fn removed_note(ended: usize) -> String {
    format!(
        "the state directory had been removed while no daemon ran; its panes could not be found again, so their processes \
         were ended (panes: {ended})"
    )
}

/// The result of a repair.
#[derive(Debug, Serialize)]
pub struct RepairReport {
    #[serde(flatten)]
    pub origin: StoreOrigin,
    /// Records that this repair moved into the quarantine.
    pub quarantined: Vec<QuarantinedRow>,
    /// All records in the quarantine.
    pub quarantined_records: u64,
    pub panes_found: Vec<PaneId>,
    pub panes: usize,
    /// The result in sentences.
    pub notes: Vec<String>,
}

/// Checks the whole database and repairs it as far as possible. The caller holds the daemon's lock, so that no daemon runs.
pub fn repair(paths: &UserPaths) -> Result<RepairReport, Error> {
    let unusable = |error| unusable_store_error(paths, &error);
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    paths.prepare()?;
    let (mut store, mut opened) =
        store::open(&paths.database(), IntegrityCheck::Whole).map_err(unusable)?;
    let panes_found = find_panes(paths, &mut store, &mut opened).map_err(unusable)?;
    let notes = notes(&opened, &panes_found);
    Ok(RepairReport {
        notes,
        quarantined_records: opened.quarantine_count,
        panes: opened.snapshot.panes.len(),
        origin: opened.origin,
        quarantined: opened.quarantined,
        panes_found,
    })
}
