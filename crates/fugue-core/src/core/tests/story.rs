//! Scripts of inputs for tests of core: a story feeds inputs, keeps a store, and shows effects as short words.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fugue_api::{
    Error, PaneId, RawReply, SessionName, Timestamp, ToolCall, ToolReply,
    tools::{ClosePane, PaneSize},
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};

use crate::{
    AdoptMode, AfterCommit, BootId, CallId, CallRequest, Change, ClockReading, Core, CoreInput,
    Effect, ExitStatus, LaunchEnv, MemoryStore, PaneAdoption, PaneEnd, PaneEvent, PaneRecord,
    Record, RecordId, StepEffects, StoreSnapshot, assess::WatchSettings, settings::Settings,
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
        lost_by_reboot: false,
    }
}

/// A script of inputs; effects come back as short words, so that a test reads as a story.
pub(crate) struct Story {
    pub(crate) core: Core,
    pub(crate) now: ClockReading,
    pub(super) settings: Settings,
    /// What a daemon that comes after this one would find.
    pub(super) disk: MemoryStore,
    /// Whose calls these are.
    pub(crate) who: CallerIdentity,
    /// The pane that whoever calls runs in.
    pub(crate) within: Option<PaneId>,
    /// What holds for watchers.
    pub(crate) watch: WatchSettings,
    /// What each call was told last.
    pub(super) told: HashMap<u64, serde_json::Value>,
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
    pub(crate) fn ask_for(&mut self, call: u64, request: Request) -> String {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&call.to_le_bytes());
        let asked = CallRequest {
            key: IdempotencyKey(key),
            who: self.who.clone(),
            within: self.within,
            caller: caller(),
            request,
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
        let launch_env = LaunchEnv {
            cwd: "/".into(),
            shell: "/bin/bash".into(),
            secret: secret.into(),
            tmux: None,
        };
        let count = match &request {
            ToolCall::RunParallel(args) => args.commands.len(),
            _ => 1,
        };
        CallRequest {
            key: IdempotencyKey([key; 16]),
            who: self.who.clone(),
            within: self.within,
            caller: caller(),
            request: Request::Tool { call: request },
            launch_envs: Ok(vec![launch_env; count]),
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

    pub(super) fn create(&mut self, call: u64, secret: &str) -> String {
        let args = serde_json::json!({"command": "make all"});
        let Ok(request) = ToolCall::parse("create_pane", args) else {
            panic!("a good request")
        };
        self.ask(call, call as u8, secret, request)
    }

    pub(super) fn close(&mut self, call: u64, pane: &str) -> String {
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
        lost_by_reboot: false,
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
            lost_by_reboot: false,
        },
        other => other,
    }
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
        Effect::Worktrees { request, live, .. } => format!("{request:?} of {live:?}"),
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
            answer:
                answer @ Ok(Response::Tool {
                    reply: ToolReply::CreatePane(_),
                }),
            ..
        } => answer_words(*call, answer),
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
            serde_json::Value::Null => one["status"].as_str().unwrap_or("exited").to_owned(),
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
pub(super) fn words(effects: &StepEffects) -> String {
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
