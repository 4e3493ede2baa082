//! Records for the tests of stores.

use fugue_api::{
    EventId, PaneId, QuestionId, RunId, SessionName, Timestamp,
    tools::PaneSize,
    wire::{CallerEnv, IdempotencyKey},
};
use fugue_core::{
    Change, Counter, EnvironmentOwner, EventRecord, ExitStatus, LayoutRecord, PaneEnd, PaneRecord,
    QuestionRecord, Record, RunRecord, StartRecord, StartTarget, WatcherRecord, WorkerRecord,
    layout::SplitLayout,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A variable of an environment with this value must not be found in a database.
pub const SECRET: &str = "hunter2";

pub fn pane(id: u64, command: &str) -> PaneRecord {
    PaneRecord {
        id: PaneId(id),
        session: SessionName::default(),
        name: format!("pane {id} ✓"),
        command: command.into(),
        cwd: "/".into(),
        size: PaneSize {
            rows: 40,
            cols: 120,
        },
        created_at: Timestamp(1_000),
        made_by: IdempotencyKey([7; 16]),
        opened_by: None,
        secret: "s".into(),
        agent: None,
        generation: 1,
        pid: 1,
        closing: false,
        ended: None,
        removing: false,
        tmux: None,
    }
}

pub fn caller(variable: &str) -> CallerEnv {
    let text = |text: &str| std::ffi::OsString::from(text).into();
    CallerEnv {
        cwd: text("/"),
        env: vec![(text(variable), text(SECRET))],
        umask: 0o22,
        setting_names: fugue_api::wire::SettingNames::Prefixed,
    }
}

/// Any change of any kind of record. Ids are few, so that records are replaced and removed.
pub fn any_change() -> impl Strategy<Value = Change> {
    let record = || (any_record(), 0..4u64, ".{0,3}", 0..4usize);
    prop_oneof![
        6 => record().prop_map(|(make, id, text, variant)| Change::Put(make(id, &text, variant))),
        2 => record().prop_map(|(make, id, text, variant)| Change::Remove(make(id, &text, variant).id())),
        1 => (any_counter(), any::<u32>()).prop_map(|(counter, value)| Change::SetCounter(counter, value.into())),
    ]
}

/// Makes a record from an id, a text and the number of a variant.
type MakeRecord = fn(u64, &str, usize) -> Record;

fn any_record() -> impl Strategy<Value = MakeRecord> {
    // More often than the others, so that environments meet their records.
    let mut makers: Vec<MakeRecord> = vec![any_environment, any_run];
    let mut next = Some(any_pane as MakeRecord);
    while let Some(make) = next {
        makers.push(make);
        next = kind_after(&make(0, "", 0));
    }
    prop::sample::select(makers)
}

/// The maker of the kind of record that follows in the order of [`Record`], so that no kind is left out.
fn kind_after(record: &Record) -> Option<MakeRecord> {
    match record {
        Record::Pane(_) => Some(any_run),
        Record::Run(_) => Some(any_event),
        Record::Event(_) => Some(any_worker),
        Record::Worker(_) => Some(any_question),
        Record::Question(_) => Some(any_watcher),
        Record::Watcher(_) => Some(any_layout),
        Record::Layout(_) => Some(any_start),
        Record::Start(_) => Some(any_environment),
        Record::Environment { .. } => None,
    }
}

fn any_counter() -> impl Strategy<Value = Counter> {
    prop::sample::select(vec![
        Counter::NextPane,
        Counter::NextRun,
        Counter::NextEvent,
        Counter::NextWorker,
        Counter::NextQuestion,
        Counter::NextWatcher,
    ])
}

fn read<T: serde::de::DeserializeOwned>(record: Value) -> T {
    serde_json::from_value(record).expect("a record")
}

fn key(id: u64) -> Value {
    json!(IdempotencyKey([id as u8 * 80; 16]))
}

fn time() -> Value {
    json!(Timestamp(1_700_000_000_000))
}

fn run_id(id: u64) -> RunId {
    RunId(["", "r", "../r", "Ü r"][id as usize].into())
}

fn any_pane(id: u64, text: &str, variant: usize) -> Record {
    let ended = PaneEnd {
        exit: [
            ExitStatus::Code(3),
            ExitStatus::Signal("SIGKILL".into()),
            ExitStatus::Unknown,
        ][variant % 3]
            .clone(),
        at: Timestamp(1_000).into(),
        closed: variant == 1,
        cursor: fugue_core::view::start(),
        title: text.into(),
        lost_by_reboot: variant == 2,
    };
    Record::from(PaneRecord {
        ended: (variant > 0).then_some(ended),
        removing: variant == 3,
        ..pane(id, text)
    })
}

fn any_run(id: u64, text: &str, variant: usize) -> Record {
    let commands = json!([{"command": text, "env": {"KEY": SECRET}}, {"command": "true"}]);
    let work = match variant {
        0 | 1 => json!({"parallel": {"args": {"commands": commands}, "tasks": [
            {"pane": PaneId(id), "outcome": {"not_started": text}, "ended_at": time(),
             "world": {"cwd": "/", "shell": "/bin/sh", "secret": ""}},
        ]}}),
        2 => {
            json!({"pipeline": {"args": {"commands": [{"command": "true"}, {"command": text}]}, "pane": PaneId(id), "steps": [],
            "fresh_from": 0, "stopping": false, "stopped": true, "trouble": text}})
        }
        _ => json!({"expect": {"args": {"pane_id": "p1", "pattern": text}, "pane": PaneId(id),
            "outcome": "timed_out"}}),
    };
    Record::from(read::<RunRecord>(json!({
        "id": run_id(id), "number": id, "made_by": key(id), "owner": text, "started_at": time(),
        "work": work, "settled_at": null, "over": variant == 1, "fetched": variant == 2,
    })))
}

fn any_event(id: u64, text: &str, variant: usize) -> Record {
    let event = match variant {
        0 => json!({"type": "message", "from": text, "body": text}),
        1 => json!({"type": "question", "from": text, "question_id": QuestionId(id), "body": text}),
        2 => json!({"type": "worker_late", "worker_id": text, "instance": id}),
        _ => json!({"type": "run_complete", "run_id": run_id(id), "status": text}),
    };
    Record::from(read::<EventRecord>(json!({
        "id": EventId(id), "inbox": text, "at": time(), "event": event, "made_by": key(id),
        "to_type": variant == 1, "taken": variant == 2, "dropped_events": variant,
    })))
}

fn any_worker(id: u64, text: &str, variant: usize) -> Record {
    let ready = json!({"argv": [text], "env": {"KEY": SECRET}, "cwd": "/", "hooks": true,
        "repo": {"root": "/", "commit": ""}});
    let phase = ["preparing", "opening", "live", "failed"][variant];
    Record::from(read::<WorkerRecord>(json!({
        "number": id, "id": text, "instance": 1, "agent": "shell", "lead": text, "made_by": key(id),
        "started_at": time(), "pane": PaneId(id), "turn": variant, "reported": variant == 3,
        "args": {"name": "w", "prompt": text, "env": {"TOKEN": SECRET}},
        "world": {"cwd": "/", "shell": "/bin/sh", "secret": ""},
        "ready": if variant == 0 { Value::Null } else { ready },
        "phase": phase,
        "late_told": false, "owed": [{"status": "success", "message": text, "turn": 1}],
    })))
}

fn any_question(id: u64, text: &str, variant: usize) -> Record {
    Record::from(read::<QuestionRecord>(json!({
        "id": QuestionId(id), "made_by": key(id), "asker": text, "asked_at": time(), "body": text,
        "answer": (variant > 1).then_some(text), "addressee": (variant > 2).then_some(text),
    })))
}

fn any_watcher(id: u64, text: &str, variant: usize) -> Record {
    let stage = match variant {
        0 => json!("active"),
        1 => json!({"sleeping": {"until": time()}}),
        2 => json!({"running": {"command": text}}),
        _ => json!({"paused": {"reason": text}}),
    };
    Record::from(read::<WatcherRecord>(json!({
        "number": id, "pane": PaneId(id), "owner": text, "settings": {"default_wait_sec": 0.5},
        "done_when": text, "cwd": "/", "transcript": [], "stage": stage, "step": variant,
        "reports": [null, text], "refuted": 0, "asked_at": [time()], "decision": text,
    })))
}

fn any_layout(id: u64, _text: &str, variant: usize) -> Record {
    let panes: Vec<PaneId> = (0..=id).map(PaneId).collect();
    let size = PaneSize { rows: 24, cols: 80 };
    Record::from(LayoutRecord {
        session: SessionName(["main", "a", "Ä", "z z"][id as usize].into()),
        layout: (variant > 0).then(|| SplitLayout::tiled(&panes, size)),
        zoomed: (variant > 1).then_some(PaneId(id)),
    })
}

fn any_start(id: u64, _text: &str, variant: usize) -> Record {
    let what = match variant {
        0 | 1 => StartTarget::Pane(PaneId(id)),
        2 => StartTarget::Run(run_id(id)),
        _ => StartTarget::Worker(id),
    };
    Record::from(StartRecord {
        key: IdempotencyKey([id as u8 * 80; 16]),
        at: Timestamp(1_700_000_000_000).into(),
        what,
    })
}

fn any_environment(id: u64, text: &str, variant: usize) -> Record {
    let owner = match variant {
        0 | 1 => EnvironmentOwner::Run(run_id(id)),
        2 => EnvironmentOwner::Worker(id),
        _ => EnvironmentOwner::Watcher(id),
    };
    let caller = caller(text).into();
    Record::Environment { owner, caller }
}
