//! The version of the overview: calls wait for the next one.

use std::collections::HashMap;

use fugue_api::{PaneId, SessionName, attach::AttachResponse, wire::Response};

use super::attach_reply;
use crate::{CallId, Change, Effect, PaneRecord, Record, RecordId, context::StepBuilder};

/// The version of all rows together, and the calls that have seen it.
#[derive(Default, Debug)]
pub(super) struct OverviewVersion {
    version: u64,
    waiting: Vec<CallId>,
    rows: HashMap<PaneId, OverviewRow>,
}

/// The fields of a pane record that its row shows.
#[derive(PartialEq, Debug)]
struct OverviewRow {
    name: String,
    session: SessionName,
    runs: bool,
    ended: Option<bool>,
}

/// Which rows one step has changed.
#[derive(Default)]
pub(super) struct ChangedRows {
    pub panes: bool,
    pub workers: bool,
    pub rows: bool,
}

impl OverviewVersion {
    pub fn from(version: u64) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    pub fn wait(&mut self, call: CallId, seen: u64, out: &mut StepBuilder) {
        if seen == self.version {
            self.waiting.push(call);
        } else {
            out.perform(self.reply(call));
        }
    }

    pub fn forget(&mut self, gone: CallId) {
        self.waiting.retain(|call| *call != gone);
    }

    pub fn publish(&mut self, out: &mut StepBuilder) {
        self.version += 1;
        for call in std::mem::take(&mut self.waiting) {
            let version = self.version;
            let response = AttachResponse::Overview { version };
            out.when_stored()
                .reply(call, Ok(Response::Attach { response }));
        }
    }

    /// Derives the changed rows from the changes of a step, since every change of a row is stored.
    pub fn changes(&mut self, changes: &[Change]) -> ChangedRows {
        let mut changed = ChangedRows::default();
        for change in changes {
            match change {
                // A forgotten pane keeps its record until its directory is removed, but has no row.
                Change::Put(Record::Pane(record)) if record.removing => {
                    self.remove_row(record.id, &mut changed);
                }
                Change::Remove(RecordId::Pane(pane)) => self.remove_row(*pane, &mut changed),
                Change::Put(Record::Pane(record)) => {
                    changed.panes = true;
                    let row = OverviewRow::from_record(record);
                    if self.rows.get(&record.id) != Some(&row) {
                        self.rows.insert(record.id, row);
                        changed.rows = true;
                    }
                }
                Change::Put(Record::Worker(_)) | Change::Remove(RecordId::Worker(_)) => {
                    changed.workers = true;
                    changed.rows = true;
                }
                Change::Put(Record::Run(_) | Record::Watcher(_) | Record::Question(_))
                | Change::Remove(RecordId::Run(_) | RecordId::Watcher(_) | RecordId::Question(_)) =>
                {
                    changed.rows = true;
                }
                Change::Put(
                    Record::Event(_)
                    | Record::Layout(_)
                    | Record::Start(_)
                    | Record::Environment { .. },
                )
                | Change::Remove(
                    RecordId::Event(_)
                    | RecordId::Layout(_)
                    | RecordId::Start(_)
                    | RecordId::Environment(_),
                )
                | Change::SetCounter(..) => {}
            }
        }
        changed
    }

    fn remove_row(&mut self, pane: PaneId, changed: &mut ChangedRows) {
        self.rows.remove(&pane);
        changed.panes = true;
        changed.rows = true;
    }

    fn reply(&self, call: CallId) -> Effect {
        let version = self.version;
        attach_reply(call, AttachResponse::Overview { version })
    }
}

impl OverviewRow {
    fn from_record(record: &PaneRecord) -> Self {
        Self {
            name: record.name.clone(),
            session: record.session.clone(),
            runs: record.pid != 0,
            ended: record.ended.as_ref().map(|ended| ended.closed),
        }
    }
}
