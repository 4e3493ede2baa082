use std::{collections::HashMap, sync::Arc, time::Duration};

use fugue_api::{
    Error, ErrorKind, PaneId, RawReply, SessionName, Timestamp, ToolCall, ToolReply,
    tools::{ClosePane, PaneSize},
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};

use super::Core;
use crate::{
    AdoptMode, AfterCommit, BootId, CallId, CallRequest, Change, ClockReading, CoreInput, Effect,
    ExitStatus, LaunchEnv, MemoryStore, PaneAdoption, PaneEnd, PaneEvent, PaneRecord, Record,
    RecordId, StepEffects, StoreSnapshot, Undo, assess::WatchSettings, settings::Settings,
};
use fugue_api::OsText;

pub(crate) fn record(id: u64, name: &str) -> PaneRecord {
    PaneRecord {
        id: PaneId(id),
        session: SessionName::default(),
        name: name.into(),
        command: "true".into(),
        cwd: "/".into(),
        size: PaneSize {
            rows: 40,
            cols: 120,
        },
        created_at: Timestamp(0),
        made_by: IdempotencyKey([0; 16]),
        opened_by: None,
        secret: String::new(),
        agent: None,
        generation: 1,
        pid: 100,
        closing: false,
        ended: None,
        removing: false,
        tmux: None,
    }
}

pub(crate) fn ended() -> PaneEnd {
    PaneEnd {
        exit: ExitStatus::Code(0),
        at: Timestamp(0).into(),
        closed: false,
        cursor: crate::view::start(),
        title: String::new(),
    }
}

/// A script of inputs; effects come back as short words, so that a test reads as a story.
pub(crate) struct Story {
    pub(crate) core: Core,
    pub(crate) now: ClockReading,
    settings: Settings,
    /// What a daemon that comes after this one would find.
    disk: MemoryStore,
    /// Whose calls these are.
    pub(crate) who: CallerIdentity,
    /// The pane that whoever calls runs in.
    pub(crate) within: Option<PaneId>,
    /// What holds for watchers.
    pub(crate) watch: WatchSettings,
    /// What each call was told last.
    told: HashMap<u64, serde_json::Value>,
}

impl Story {
    pub(crate) fn new(settings: Settings) -> Self {
        let now = ClockReading {
            wall: Timestamp(1_000_000),
            since_boot: Duration::ZERO,
            boot_id: BootId(1),
        };
        Self {
            core: Core::restore(settings.clone(), StoreSnapshot::default(), now).0,
            now,
            settings,
            disk: MemoryStore::default(),
            who: CallerIdentity::Person {
                project: "project".into(),
            },
            within: None,
            watch: WatchSettings::default(),
            told: HashMap::new(),
        }
    }

    /// The one watcher that there is.
    pub(crate) fn core_watcher(&self) -> crate::WatcherRecord {
        self.core.watchers.only_watcher()
    }

    /// What a call was told, as a client sees it.
    #[track_caller]
    pub(crate) fn told(&self, call: u64) -> &serde_json::Value {
        self.told.get(&call).expect("the call was answered")
    }

    pub(crate) fn was_told(&self, call: u64) -> bool {
        self.told.contains_key(&call)
    }

    /// Everything that is on disk now.
    pub(crate) fn disk(&self) -> StoreSnapshot {
        self.disk.snapshot()
    }

    /// Changes what is on disk, as another version or damage would.
    pub(crate) fn change_disk(&mut self, change: impl FnOnce(&mut StoreSnapshot)) {
        let mut snapshot = self.disk.snapshot();
        change(&mut snapshot);
        self.disk = snapshot.into();
    }

    /// The wall clock is set; the boot clock never is.
    pub(crate) fn wall_clock_jumps(&mut self, to: u64) {
        self.now.wall = Timestamp(to);
    }

    /// The machine is started again; this daemon starts so long after.
    pub(crate) fn reboot(&mut self, since_boot: u64) -> String {
        self.now.boot_id.0 += 1;
        self.now.since_boot = Duration::from_millis(since_boot);
        self.restart()
    }

    /// From now on, somebody else calls.
    pub(crate) fn speaks(&mut self, who: CallerIdentity) -> &mut Self {
        self.who = who;
        self
    }

    /// The daemon is killed, and another one takes its place.
    pub(crate) fn restart(&mut self) -> String {
        let (core, effects) = Core::restore(self.settings.clone(), self.disk.open(), self.now);
        self.core = core;
        self.write(&effects);
        words(&effects)
    }

    fn hear(&mut self, effects: &StepEffects) {
        let at_once = effects.effects.iter().filter_map(|effect| match effect {
            Effect::Reply { call, answer } => Some((call, answer)),
            _ => None,
        });
        let then = effects.commit.iter().flat_map(|commit| &commit.then);
        let later = then.filter_map(|effect| match effect {
            AfterCommit::Reply { call, answer }
            | AfterCommit::Deliver { call, answer, .. }
            | AfterCommit::ReplyResult { call, answer, .. } => Some((call, answer)),
            _ => None,
        });
        for (call, answer) in at_once.chain(later) {
            let told = match answer {
                Ok(Response::Tool { reply }) => {
                    serde_json::from_str(RawReply::new(reply).unwrap().json().get()).unwrap()
                }
                Ok(other) => serde_json::to_value(other).unwrap(),
                Err(error) => serde_json::to_value(error).unwrap(),
            };
            self.told.insert(call.0, told);
        }
    }

    fn write(&mut self, effects: &StepEffects) {
        self.hear(effects);
        if let Some(commit) = &effects.commit {
            self.disk.commit(&commit.changes);
        }
        assert_eq!(
            self.disk.unneeded_environments(),
            [],
            "environments that no record needs"
        );
    }

    pub(crate) fn after(&mut self, ms: u64) -> &mut Self {
        self.now.wall.0 += ms;
        self.now.since_boot += Duration::from_millis(ms);
        self
    }

    pub(crate) fn step(&mut self, input: CoreInput) -> String {
        words(&self.effects(input))
    }

    pub(crate) fn effects(&mut self, input: CoreInput) -> StepEffects {
        let effects = self.core.step(input, self.now);
        self.write(&effects);
        effects
    }

    /// Something that only our own programs ask.
    pub(crate) fn ask_for(&mut self, call: u64, ask: Request) -> String {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&call.to_le_bytes());
        let asked = CallRequest {
            key: IdempotencyKey(key),
            who: self.who.clone(),
            within: self.within,
            caller: caller(),
            request: ask,
            launch_envs: Ok(Vec::new()),
            watch: None,
            tmux: crate::TmuxLookup::None,
        };
        self.step(CoreInput::Call {
            call: CallId(call),
            asked,
        })
    }

    pub(crate) fn ask(&mut self, call: u64, key: u8, secret: &str, request: ToolCall) -> String {
        let asked = self.asked_with(key, secret, request);
        self.step(CoreInput::Call {
            call: CallId(call),
            asked,
        })
    }

    /// A call as the daemon hands it in.
    pub(crate) fn asked(&self, key: u64, request: ToolCall) -> CallRequest {
        self.asked_with(key as u8, "", request)
    }

    fn asked_with(&self, key: u8, secret: &str, request: ToolCall) -> CallRequest {
        let world = LaunchEnv {
            cwd: "/".into(),
            shell: "/bin/bash".into(),
            secret: secret.into(),
            tmux: None,
        };
        let worlds = match &request {
            ToolCall::RunParallel(args) => args.commands.len(),
            _ => 1,
        };
        CallRequest {
            key: IdempotencyKey([key; 16]),
            who: self.who.clone(),
            within: self.within,
            caller: caller(),
            request: Request::Tool { call: request },
            launch_envs: Ok(vec![world; worlds]),
            watch: Some(Box::new(self.watch.clone())),
            tmux: crate::TmuxLookup::None,
        }
    }

    /// The same, where one byte is not enough to tell the calls apart.
    pub(crate) fn ask_keyed(&mut self, call: u64, key: u128, request: ToolCall) -> String {
        let asked = CallRequest {
            key: IdempotencyKey(key.to_le_bytes()),
            who: self.who.clone(),
            within: self.within,
            caller: caller(),
            request: Request::Tool { call: request },
            launch_envs: Ok(Vec::new()),
            watch: None,
            tmux: crate::TmuxLookup::None,
        };
        self.step(CoreInput::Call {
            call: CallId(call),
            asked,
        })
    }

    pub(crate) fn fact(&mut self, pane: u64, fact: PaneEvent) -> String {
        self.step(CoreInput::Pane {
            pane: PaneId(pane),
            event: fact,
        })
    }

    fn create(&mut self, call: u64, secret: &str) -> String {
        let args = serde_json::json!({"command": "make all"});
        let Ok(request) = ToolCall::parse("create_pane", args) else {
            panic!("a good request")
        };
        self.ask(call, call as u8, secret, request)
    }

    fn close(&mut self, call: u64, pane: &str) -> String {
        self.ask(
            call,
            99,
            "",
            ToolCall::ClosePane(ClosePane {
                pane_id: pane.into(),
                grace_ms: 10,
            }),
        )
    }
}

pub(crate) fn caller() -> Arc<CallerEnv> {
    Arc::new(CallerEnv {
        cwd: OsText::Text("/".into()),
        env: Vec::new(),
        umask: 0o22,
        setting_names: fugue_api::wire::SettingNames::Prefixed,
    })
}

pub(crate) fn opened() -> PaneEvent {
    PaneEvent::Opened {
        pid: 7,
        cursor: crate::view::start(),
        tmux: None,
    }
}

pub(crate) fn exited(code: i32) -> PaneEvent {
    PaneEvent::Ended {
        exit: ExitStatus::Code(code),
        cursor: crate::view::start(),
        title: String::new(),
        alone: false,
        sweeps: true,
    }
}

/// The same of a pane that had not heard that it is being closed.
pub(crate) fn exited_unasked(code: i32) -> PaneEvent {
    match exited(code) {
        PaneEvent::Ended {
            exit,
            cursor,
            title,
            alone,
            ..
        } => PaneEvent::Ended {
            exit,
            cursor,
            title,
            alone,
            sweeps: false,
        },
        other => other,
    }
}

#[test]
fn a_pane_that_ends_by_itself_while_it_is_closed_is_swept_all_the_same() {
    let mut story = Story::new(Settings::default());
    story.create(1, "");
    story.fact(1, opened());
    assert_eq!(story.close(2, "p1"), "close p1, commit 1");
    assert_eq!(story.fact(1, exited_unasked(0)), "sweep p1, commit 1");
    assert_eq!(story.fact(1, PaneEvent::Swept), "closed 2 Some(0)");
}

/// A reply in short words.
fn answer_words(call: CallId, answer: &Result<Response, Error>) -> String {
    match answer {
        Ok(Response::Tool {
            reply: ToolReply::CreatePane(made),
        }) => format!("answer {} {} ready={}", call.0, made.pane_id, made.ready),
        Ok(Response::Tool {
            reply: ToolReply::ClosePane(gone),
        }) => format!("closed {} {:?}", call.0, gone.exit_code),
        Ok(Response::Tool {
            reply: ToolReply::WaitForEvent(told),
        }) => match told.event_id {
            Some(event) => format!("show {} {event}", call.0),
            None => format!("nothing for {}", call.0),
        },
        Ok(Response::Tool {
            reply: ToolReply::AskQuestion(asked),
        }) => format!("asked {} {:?}", call.0, asked.status),
        Ok(Response::Tool {
            reply: ToolReply::SendMessage(sent),
        }) => {
            let why = sent.reason.iter().map(|why| format!(": {why}"));
            let why: String = why.collect();
            format!(
                "sent {} {} {:?}{why}",
                call.0, sent.event_id, sent.delivered
            )
        }
        Ok(_) => format!("answer {}", call.0),
        Err(error) => format!("refuse {} {:?}", call.0, error.kind),
    }
}

fn adoption_words(adoption: &PaneAdoption) -> String {
    let id = adoption.record.id;
    match (&adoption.how, &adoption.steps) {
        (AdoptMode::RawOutput { .. }, _) => format!("adopt {id} as raw output"),
        (AdoptMode::Terminal, Some(_)) => format!("adopt {id} with its steps"),
        (AdoptMode::Terminal, None) => format!("adopt {id}"),
    }
}

fn effect_words(effect: &Effect) -> String {
    match effect {
        Effect::Reply { call, answer } => answer_words(*call, answer),
        Effect::AwaitQuiet { pane, quiet, .. } => format!("await {quiet:?} of quiet in {pane}"),
        Effect::CancelQuiet { pane, .. } => format!("forget quiet in {pane}"),
        Effect::CollectChanges { worker, .. } => format!("work out {worker}"),
        Effect::AwaitIdle { pane, .. } => format!("await rest of {pane}"),
        Effect::AdoptPane(adoption) => adoption_words(adoption),
        Effect::AskPane { pane, .. } => format!("ask {pane}"),
        Effect::AskArchive { record, .. } => format!("archive {}", record.id),
        Effect::CompleteOverview { .. } => "survey".into(),
        Effect::ClosePane { pane, .. } => format!("close {pane}"),
        Effect::EndProcesses { pane, .. } => format!("sweep {pane}"),
        Effect::ListGarbage { inventory, .. } => format!("plan {:?}", inventory.forgotten),
        Effect::CancelExpect { pane, .. } => format!("unwatch {pane}"),
        Effect::StopSteps { pane, .. } => format!("stop {pane}"),
        Effect::ResizePane { pane, size } => format!("fit {pane} {}x{}", size.rows, size.cols),
        Effect::ShowAgentState {
            pane,
            agent_state: says,
        } => match says {
            Some(says) => format!("{pane} says {:?}", says.prompt.as_deref().unwrap_or("")),
            None => format!("{pane} says nothing"),
        },
    }
}

fn after_commit_words(effect: &AfterCommit) -> String {
    match effect {
        AfterCommit::Reply { call, answer } => answer_words(*call, answer),
        AfterCommit::Deliver { call, event, .. } => format!("hand {} {event}", call.0),
        AfterCommit::RunWatcherCommand { command, .. } => format!("run {command}"),
        AfterCommit::Assess { job, .. } => format!("judge {:?}", job.judge),
        AfterCommit::CancelWatcherJob { .. } => "stop judging".into(),
        AfterCommit::ClosePane { pane, .. } => format!("close {pane}"),
        AfterCommit::EndProcesses { pane, .. } => format!("sweep {pane}"),
        AfterCommit::Inject { pane, line, .. } => {
            format!("inject {:?} into {pane}", line.as_str())
        }
        AfterCommit::PrepareWorker { worker, .. } => format!("prepare {}", worker.id),
        AfterCommit::UnprepareWorker { worker, .. } => format!("unprepare {}", worker.id),
        AfterCommit::TypeMessage { pane, event, .. } => format!("type {event} into {pane}"),
        AfterCommit::RemoveWorkerFiles { worker } => format!("forget {}", worker.id),
        AfterCommit::OpenPane { record, .. } => format!("open {}", record.id),
        AfterCommit::AdoptPane(adoption) => adoption_words(adoption),
        AfterCommit::AskPane { pane, .. } => format!("ask {pane}"),
        AfterCommit::RemovePaneDir { pane } => format!("forget {pane}"),
        AfterCommit::CollectGarbage { inventory, .. } => {
            format!("collect {:?}", inventory.forgotten)
        }
        AfterCommit::StartExpect { pane, .. } => format!("watch {pane}"),
        AfterCommit::SearchArchive { record, .. } => format!("search {}", record.id),
        AfterCommit::RunSteps { pane, .. } => format!("steps {pane}"),
        AfterCommit::ReplyResult {
            call,
            answer: Ok(Response::Tool { reply }),
            ..
        } => {
            let reply = RawReply::new(reply).unwrap();
            result_words(*call, &serde_json::from_str(reply.json().get()).unwrap())
        }
        AfterCommit::ReplyResult { call, answer, .. } => answer_words(*call, answer),
        AfterCommit::ComposeReply { call, result, .. } => {
            result_words(*call, &serde_json::to_value(result).unwrap())
        }
    }
}

fn result_words(call: CallId, result: &serde_json::Value) -> String {
    let ends = |list: &str| {
        let list = result[list].as_array()?;
        let one = |one: &serde_json::Value| match &one["exit_code"] {
            serde_json::Value::Null => one["status"].as_str().unwrap().to_owned(),
            code => code.to_string(),
        };
        Some(list.iter().map(one).collect::<Vec<_>>().join("+"))
    };
    let ends = ends("results").or(ends("steps")).unwrap_or_default();
    let status = result["status"].as_str().unwrap();
    format!("result {} {status} {ends}", call.0)
        .trim_end()
        .to_owned()
}

/// What is done at once, then the commit with the number of its changes, then what waits for the commit.
fn words(effects: &StepEffects) -> String {
    let mut words: Vec<String> = effects.effects.iter().map(effect_words).collect();
    if let Some(commit) = &effects.commit {
        // The records of starts and of environments go without saying.
        let unspoken = |change: &&Change| match change {
            Change::Put(record) => matches!(record, Record::Start(_) | Record::Environment { .. }),
            Change::Remove(id) => matches!(id, RecordId::Start(_) | RecordId::Environment(_)),
            Change::SetCounter(..) => false,
        };
        let unspoken = commit.changes.iter().filter(unspoken).count();
        if !commit.changes.is_empty() {
            words.push(format!("commit {}", commit.changes.len() - unspoken));
        }
        words.extend(commit.then.iter().map(after_commit_words));
    }
    words.join(", ")
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
