mod story;

pub(crate) use story::{Story, caller, ended, exited, exited_unasked, opened, record};

use std::{collections::HashMap, time::Duration};

use fugue_api::{Error, ErrorKind, PaneId, Timestamp, ToolCall, wire::CallerIdentity};
use serde_json::json;

use super::Core;
use crate::{
    BootId, CallId, Change, ClockReading, CoreInput, MemoryStore, PaneEnd, PaneEvent, Record,
    RecordId, StoreSnapshot, Undo, assess::WatchSettings, settings::Settings,
};
use story::words;

#[test]
fn a_pane_that_ends_by_itself_while_it_is_closed_is_swept_all_the_same() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.fact(1, opened());
    assert_eq!(story.close(2, "p1"), "close p1, commit 1");
    assert_eq!(story.fact(1, exited_unasked(0)), "sweep p1, commit 1");
    assert_eq!(story.fact(1, PaneEvent::Swept), "closed 2 Some(0)");
}

#[test]
fn a_pane_is_recorded_before_anything_is_started() {
    let mut story = Story::new(Settings::default());
    assert_eq!(story.create(1, ""), "commit 2, open p1");
    assert_eq!(story.fact(1, opened()), "commit 1, answer 1 p1 ready=true");
}

#[test]
fn a_shell_is_ready_at_its_first_prompt() {
    let mut story = Story::new(Settings::default());
    story.create(1, "secret");
    assert_eq!(story.fact(1, opened()), "commit 1");
    assert_eq!(
        story.fact(
            1,
            PaneEvent::Prompted {
                cursor: crate::view::start()
            }
        ),
        "answer 1 p1 ready=true"
    );
    assert_eq!(
        story.fact(
            1,
            PaneEvent::Prompted {
                cursor: crate::view::start()
            }
        ),
        ""
    );
}

#[test]
fn a_shell_that_asks_or_dawdles_is_handed_over_as_not_ready() {
    let mut story = Story::new(Settings::default());
    story.create(1, "secret");
    story.fact(1, opened());
    assert_eq!(
        story.fact(
            1,
            PaneEvent::AttentionBeforePrompt {
                cursor: crate::view::start()
            }
        ),
        "answer 1 p1 ready=false"
    );
    story.create(2, "secret");
    story.fact(2, opened());
    assert_eq!(story.after(9_999).step(CoreInput::TimerExpired), "");
    assert_eq!(
        story.after(1).step(CoreInput::TimerExpired),
        "answer 2 p2 ready=false"
    );
}

#[test]
fn a_shell_that_ends_at_once_answers_its_caller() {
    let mut story = Story::new(Settings::default());
    story.create(1, "secret");
    story.fact(1, opened());
    assert_eq!(
        story.fact(1, exited(3)),
        "commit 1, answer 1 p1 ready=false"
    );
}

#[test]
fn asking_twice_with_one_key_makes_one_pane() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    let again = ToolCall::parse("create_pane", serde_json::json!({"command": "make all"})).unwrap();
    assert_eq!(story.ask(2, 1, "", again.clone()), "");
    assert_eq!(
        story.fact(1, opened()),
        "commit 1, answer 1 p1 ready=true, answer 2 p1 ready=true"
    );
    assert_eq!(story.ask(3, 1, "", again), "answer 3 p1 ready=true");
}

#[test]
fn a_pane_whose_task_panics_is_rebuilt_once_and_then_kept_as_raw_output() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.fact(1, opened());
    let panicked = || PaneEvent::TaskPanicked {
        message: "row 7 is gone".into(),
    };
    assert_eq!(story.fact(1, panicked()), "adopt p1");
    assert_eq!(story.fact(1, panicked()), "adopt p1 as raw output");
    assert_eq!(story.fact(1, panicked()), "adopt p1 as raw output");
    assert_eq!(story.core.live_panes().count(), 1);
}

#[test]
fn a_forgotten_pane_keeps_its_record_until_its_directory_is_gone() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    let error = Error::new(ErrorKind::Exhausted, "no terminal left");
    let effects = story.core.step(
        CoreInput::Pane {
            pane: PaneId(1),
            event: PaneEvent::OpenFailed(error),
        },
        story.now,
    );
    let changes = effects.commit.expect("a commit").changes;
    let [Change::Put(Record::Pane(record)), ..] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert!(record.removing);
    // The daemon dies here; the next one knows what is still to be removed.
    let snapshot = StoreSnapshot {
        panes: vec![(**record).clone()],
        ..StoreSnapshot::default()
    };
    let (mut core, effects) = Core::restore(Settings::default(), snapshot, story.now);
    assert_eq!(words(&effects), "forget p1");
    assert_eq!(core.live_panes().count(), 0);
    let removed = CoreInput::Pane {
        pane: PaneId(1),
        event: PaneEvent::Removed,
    };
    let effects = core.step(removed, story.now);
    let changes = effects.commit.expect("a commit").changes;
    assert_eq!(changes, [Change::Remove(RecordId::Pane(PaneId(1)))]);
}

#[test]
fn a_pane_that_could_not_be_opened_or_recorded_leaves_nothing() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    let error = Error::new(ErrorKind::Exhausted, "no terminal left");
    assert_eq!(
        story.fact(1, PaneEvent::OpenFailed(error)),
        "commit 1, forget p1, refuse 1 Exhausted"
    );
    story.create(2, "");
    assert_eq!(
        story.step(CoreInput::NotStored {
            what: Undo::Pane(PaneId(2)),
            why: "disk full".into()
        }),
        "refuse 2 Exhausted, commit 1"
    );
    assert_eq!(story.close(3, "p2"), "refuse 3 NotFound");
    assert_eq!(
        story.create(4, ""),
        "commit 2, open p3",
        "an id is never used twice"
    );
}

#[test]
fn closing_a_pane_that_fails_to_open_is_answered() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.close(2, "p1");
    let error = Error::new(ErrorKind::Exhausted, "no terminal left");
    story.fact(1, PaneEvent::OpenFailed(error));
    assert_eq!(story.told(2)["kind"], "exhausted");
}

#[test]
fn a_refused_start_is_not_stored_by_a_later_commit() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.close(2, "p1");
    story.step(CoreInput::NotStored {
        what: Undo::Pane(PaneId(1)),
        why: "disk full".into(),
    });
    assert!(story.disk().panes.is_empty());
}

#[test]
fn a_repeated_call_joins_its_finished_run_whose_variables_are_not_stored_any_more() {
    let mut story = Story::new(Settings::default());
    let commands = serde_json::json!([{"command": "make", "env": {"KEY": "value"}}]);
    let args = serde_json::json!({"commands": commands, "cleanup": false});
    let run = ToolCall::parse("fugue_run_parallel", args).unwrap();
    story.ask(1, 1, "", run.clone());
    story.fact(1, opened());
    story.fact(1, exited(0));
    story.restart();
    assert_eq!(story.ask(2, 1, "", run), "result 2 completed 0");
}

#[test]
fn a_pipeline_whose_shell_never_started_ends_after_its_deadline() {
    let mut story = Story::new(Settings::default());
    let args = serde_json::json!({"commands": [{"command": "make"}], "timeout_ms": 1_000});
    let run = ToolCall::parse("fugue_run_pipeline", args).unwrap();
    story.ask(1, 1, "", run.clone());
    story.restart();
    story.ask(2, 1, "", run);
    story.after(1_000).step(CoreInput::TimerExpired);
    let error = Error::new(ErrorKind::Ended, "the daemon died before it was started");
    let told = story.fact(1, PaneEvent::NeverStarted(error));
    assert!(told.contains("result 2 timeout"), "{told}");
}

#[test]
fn a_pipeline_past_its_deadline_ends_with_the_pane_that_a_person_closes() {
    let mut story = Story::new(Settings::default());
    let args = serde_json::json!({
        "commands": [{"command": "make"}], "timeout_ms": 1_000, "cleanup": false
    });
    let run = ToolCall::parse("fugue_run_pipeline", args).unwrap();
    story.ask(1, 1, "", run);
    story.fact(1, opened());
    story.after(1_000).step(CoreInput::TimerExpired);
    story.close(2, "p1");
    story.fact(1, exited(0));
    let told = story.fact(1, PaneEvent::Swept);
    assert!(told.contains("result 1 timeout"), "{told}");
}

#[test]
fn a_pane_id_is_not_reused_if_only_the_pane_was_stored() {
    let snapshot = StoreSnapshot {
        panes: vec![record(7, "a")],
        next_pane: 7,
        ..StoreSnapshot::default()
    };
    let mut story = Story::new(Settings::default());
    story.change_disk(|disk| *disk = snapshot);
    story.restart();
    assert_eq!(story.create(1, ""), "commit 2, open p8");
}

#[test]
fn ids_of_runs_events_and_workers_are_not_reused_if_only_their_records_were_stored() {
    let mut story = Story::new(Settings::default());
    story.speaks(CallerIdentity::Session { id: "lead".into() });
    let parse = |tool, args| ToolCall::parse(tool, args).unwrap();
    let spawn = |name| {
        let args = serde_json::json!({"name": name, "prompt": "go", "agent": "shell"});
        parse("spawn_worker", args)
    };
    let run = |id| {
        let commands = serde_json::json!([{"command": "make"}]);
        let args = serde_json::json!({"commands": commands, "run_id": id});
        parse("fugue_run_parallel", args)
    };
    let send = || {
        let args = serde_json::json!({"to": "a-shell", "body": "hello"});
        parse("send_message", args)
    };
    story.ask(1, 1, "", spawn("a"));
    story.ask(2, 2, "", run("one"));
    story.ask(3, 3, "", send());
    story.change_disk(|disk| {
        (disk.next_pane, disk.next_run) = (0, 0);
        (disk.next_worker, disk.next_event) = (0, 0);
    });
    story.restart();
    story.ask(4, 4, "", spawn("b"));
    story.ask(5, 5, "", run("two"));
    story.ask(6, 6, "", send());
    let disk = story.disk();
    let mut runs: Vec<u64> = disk.runs.iter().map(|run| run.record.number).collect();
    runs.sort_unstable();
    assert_eq!(runs, [1, 2]);
    let mut workers: Vec<(u64, u64)> = disk
        .workers
        .iter()
        .map(|worker| (worker.record.number, worker.record.pane.0))
        .collect();
    workers.sort_unstable();
    assert_eq!(workers, [(1, 1), (2, 3)]);
    assert_eq!(disk.events.len(), 2);
}

#[test]
fn closing_is_answered_when_no_process_is_left() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.fact(1, opened());
    assert_eq!(story.close(2, "p1"), "close p1, commit 1");
    assert_eq!(
        story.close(3, "make"),
        "close p1",
        "a second caller may be less patient"
    );
    assert_eq!(story.fact(1, exited(0)), "commit 1");
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "closed 2 Some(0), closed 3 Some(0)"
    );
    assert_eq!(story.close(4, "p1"), "closed 4 Some(0)");
}

#[test]
fn an_exited_pane_is_swept_when_it_is_closed() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.fact(1, opened());
    story.fact(1, exited(4));
    assert_eq!(story.close(2, "p1"), "sweep p1");
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "closed 2 Some(4), commit 1"
    );
}

#[test]
fn a_cancelled_call_is_not_answered_and_its_work_goes_on() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    assert_eq!(story.step(CoreInput::Cancelled { call: CallId(1) }), "");
    assert_eq!(story.fact(1, opened()), "commit 1");
}

#[test]
fn ended_panes_are_read_from_their_files_and_take_no_input() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.fact(1, opened());
    story.fact(1, exited(0));
    let read = ToolCall::parse("read_pane", serde_json::json!({"pane_id": "p1"})).unwrap();
    assert_eq!(story.ask(2, 2, "", read), "archive p1");
    let send = ToolCall::parse(
        "send_input",
        serde_json::json!({"pane_id": "p1", "input": "x"}),
    )
    .unwrap();
    assert_eq!(story.ask(3, 3, "", send), "refuse 3 Ended");
}

#[test]
fn ended_panes_are_forgotten_by_age_and_by_number() {
    let mut story = Story::new(Settings {
        forget_beyond_panes: 2,
        ..Settings::default()
    });
    for pane in 1..=3 {
        story.create(pane, "");
        story.fact(pane, opened());
    }
    for pane in 1..=2 {
        assert_eq!(
            story.after(1).fact(pane, exited(0)).split(", ").next(),
            Some("commit 1")
        );
    }
    assert_eq!(story.after(1).fact(3, exited(0)), "commit 2, forget p1");
    assert_eq!(
        story.after(86_400_000).step(CoreInput::TimerExpired),
        "commit 2, forget p2, forget p3"
    );
    // Whoever asks for one is told why it is gone.
    for pane in 1..=3 {
        story.fact(pane, PaneEvent::Removed);
    }
    for (call, pane, says) in [
        (10, "p1", "no pane `p1` any more: it has ended"),
        (11, "p4", "no pane `p4`; 0"),
    ] {
        let request = ToolCall::parse("get_status", json!({"pane_id": pane})).unwrap();
        story.ask(call, call as u8, "", request);
        let told = story.told(call);
        assert_eq!(told["kind"], "not_found");
        let message = told["message"].as_str().unwrap();
        assert!(message.starts_with(says), "{message}");
        let hint = told["hint"].as_str().unwrap();
        assert_eq!(hint.contains("`logs_quota_mb`"), pane == "p1", "{hint}");
    }
}

#[test]
fn what_an_earlier_daemon_left_is_adopted() {
    let mut old = record(5, "old");
    let then = ClockReading {
        wall: Timestamp(900_000),
        since_boot: Duration::ZERO,
        boot_id: BootId(1),
    };
    old.ended = Some(PaneEnd {
        at: then.moment(),
        ..ended()
    });
    let snapshot = StoreSnapshot {
        panes: vec![record(3, "a"), old],
        next_pane: 9,
        epoch: 4,
        ..StoreSnapshot::default()
    };
    let now = ClockReading {
        wall: Timestamp(1_000_000),
        since_boot: Duration::from_millis(100_000),
        boot_id: BootId(1),
    };
    let (core, effects) = Core::restore(Settings::default(), snapshot, now);
    assert_eq!(words(&effects), "adopt p3");
    let mut story = Story {
        core,
        now,
        settings: Settings::default(),
        disk: MemoryStore::default(),
        who: CallerIdentity::Person {
            project: "project".into(),
        },
        within: None,
        watch: WatchSettings::default(),
        told: HashMap::new(),
    };
    assert_eq!(story.create(1, ""), "commit 2, open p9");
}
