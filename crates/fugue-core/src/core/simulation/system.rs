//! One history: core, a store in memory, model panes and model clients, moved by one random scheduler.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use fugue_api::{
    Error, EventId, PaneId, Timestamp, ToolCall,
    wire::{CallerIdentity, IdempotencyKey, Request, Response},
};

use super::{
    clients,
    model_pane::{ModelPane, ModelTask, pane_words},
    random::Random,
};
use crate::{
    AfterCommit, BootId, CallId, CallRequest, Change, ClockReading, Core, CoreInput, Effect,
    LaunchEnv, MemoryStore, PaneEvent, Record, StepCommit, StepEffects, TmuxLookup,
    core::tests::caller, settings::Settings,
};

mod checks;
mod effects;

pub(super) struct SimulatedSystem {
    pub random: Random,
    pub core: Core,
    pub store: MemoryStore,
    now: ClockReading,
    settings: Settings,
    /// Commits that the store has not written, oldest first.
    commits: VecDeque<StepCommit>,
    pub panes: BTreeMap<PaneId, ModelPane>,
    /// Results of background jobs.
    jobs: Vec<CoreInput>,
    pub calls: BTreeMap<CallId, OpenCall>,
    cancelled: BTreeSet<CallId>,
    /// Events that a client has and has not acked, by the call that got them.
    leases: BTreeMap<CallId, EventId>,
    next_call: u64,
    next_key: u64,
    newest_pane: PaneId,
    /// How often the process of a generation of a pane was started.
    starts: BTreeMap<(PaneId, u32), u32>,
    opening: BTreeMap<PaneId, u32>,
    refused_keys: Vec<IdempotencyKey>,
    pub story: Vec<String>,
    pub violations: Vec<String>,
}

/// A call that a client waits for.
pub(super) struct OpenCall {
    key: IdempotencyKey,
    who: CallerIdentity,
    tool: ToolCall,
    /// The call was made to an earlier daemon too.
    repeated: bool,
}

impl SimulatedSystem {
    pub fn new(seed: u64) -> Self {
        let now = ClockReading {
            wall: Timestamp(1_000_000),
            since_boot: Duration::ZERO,
            boot_id: BootId(1),
        };
        let settings = Settings {
            forget_beyond_panes: 6,
            ..Settings::default()
        };
        let mut store = MemoryStore::default();
        let (core, _) = Core::restore(settings.clone(), store.open(), now);
        Self {
            random: Random::new(seed),
            core,
            store,
            now,
            settings,
            commits: VecDeque::new(),
            panes: BTreeMap::new(),
            jobs: Vec::new(),
            calls: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            leases: BTreeMap::new(),
            next_call: 1,
            next_key: 1,
            newest_pane: PaneId(0),
            starts: BTreeMap::new(),
            opening: BTreeMap::new(),
            refused_keys: Vec::new(),
            story: Vec::new(),
            violations: Vec::new(),
        }
    }

    pub fn note(&mut self, line: impl Into<String>) {
        self.story.push(line.into());
    }

    pub fn violation(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(format!("VIOLATION: {what}"));
        self.violations.push(what);
    }

    /// One random step of the history.
    pub fn step(&mut self) {
        match self.random.below(100) {
            0..18 => {
                let (who, tool) = clients::any_call(self);
                self.next_key += 1;
                let mut key = [0; 16];
                key[..8].copy_from_slice(&self.next_key.to_be_bytes());
                self.call(OpenCall {
                    key: IdempotencyKey(key),
                    who,
                    tool,
                    repeated: false,
                });
            }
            18..40 => self.store_next(),
            40..61 => self.deliver_pane_event(),
            61..75 => self.pane_acts(),
            75..82 => self.finish_job(),
            82..86 => self.cancel_call(),
            86..91 => self.ack_event(),
            91..96 => self.pass_time(),
            96 => self.set_wall_clock(),
            97 => self.panic_task(),
            98 => self.restart(),
            _ if self.random.one_in(4) => self.reboot(),
            _ => {}
        }
        self.check();
    }

    /// A client makes a call, or repeats it after a restart.
    fn call(&mut self, open: OpenCall) {
        let call = CallId(self.next_call);
        self.next_call += 1;
        self.note(format!("call {}: {}", call.0, clients::words(&open.tool)));
        let asked = self.request(
            &open,
            Request::Tool {
                call: open.tool.clone(),
            },
        );
        // A repeated call may start anew what was refused before.
        self.refused_keys.retain(|key| *key != open.key);
        // The time of the step is the only difference that a refused call may leave.
        self.core.cx.out.begin(self.now);
        let before = (self.random.one_in(3)).then(|| format!("{:?}", self.core));
        self.calls.insert(call, open);
        let effects = self.core.step(CoreInput::Call { call, asked }, self.now);
        let refused = effects.effects.iter().any(
            |effect| matches!(effect, Effect::Reply { call: of, answer: Err(_) } if *of == call),
        );
        if refused
            && effects
                .commit
                .as_ref()
                .is_some_and(|commit| !commit.changes.is_empty())
        {
            self.violation(format!("refused call {} has changes to store", call.0));
        }
        if refused && before.is_some_and(|before| before != format!("{:?}", self.core)) {
            self.violation(format!("refused call {} has changed core", call.0));
        }
        self.perform(effects);
    }

    fn request(&mut self, open: &OpenCall, ask: Request) -> CallRequest {
        let count = match &open.tool {
            ToolCall::RunParallel(args) => args.commands.len(),
            _ => 1,
        };
        let secret = match open.key.0[7] % 4 {
            0 => "secret",
            _ => "",
        };
        let launch_env = LaunchEnv {
            cwd: "/".into(),
            shell: "/bin/bash".into(),
            secret: secret.into(),
            tmux: None,
        };
        CallRequest {
            key: open.key,
            who: open.who.clone(),
            within: None,
            caller: caller(),
            request: ask,
            launch_envs: Ok(vec![launch_env; count]),
            watch: Some(Box::default()),
            tmux: TmuxLookup::None,
        }
    }

    fn input(&mut self, input: CoreInput) {
        let effects = self.core.step(input, self.now);
        self.perform(effects);
    }

    fn perform(&mut self, step: StepEffects) {
        for effect in step.effects {
            self.perform_effect(effect);
        }
        if let Some(commit) = step.commit {
            if commit.changes.is_empty() && self.commits.is_empty() {
                self.perform_stored(commit.then);
            } else {
                self.commits.push_back(commit);
            }
        }
    }

    fn perform_stored(&mut self, effects: Vec<AfterCommit>) {
        for effect in effects {
            self.perform_after_commit(effect);
        }
    }

    /// The store writes its oldest commit, or refuses it if its start can be undone.
    fn store_next(&mut self) {
        let Some(commit) = self.commits.pop_front() else {
            return;
        };
        if commit.undo.is_some() && self.random.one_in(8) {
            return self.refuse_commit(commit);
        }
        self.store.commit(&commit.changes);
        self.perform_stored(commit.then);
    }

    fn refuse_commit(&mut self, commit: StepCommit) {
        self.note(format!("commit refused: {:?}", commit.undo));
        let keys = commit.changes.iter().filter_map(|change| match change {
            Change::Put(Record::Start(start)) => Some(start.key),
            Change::Put(_) | Change::Remove(_) | Change::SetCounter(..) => None,
        });
        self.refused_keys.extend(keys);
        let then = commit.then.iter();
        let waiting: Vec<CallId> = then
            .flat_map(|effect| self.core.calls_waiting_on(effect))
            .collect();
        if let Some(what) = commit.undo {
            let why = "no space".to_owned();
            self.input(CoreInput::NotStored { what, why });
        }
        // As the engine does for calls that the dropped effects would have answered.
        for call in waiting {
            if self.calls.remove(&call).is_some() {
                self.note(format!("call {} refused by the store", call.0));
                self.cancelled.insert(call);
                self.input(CoreInput::Cancelled { call });
            }
        }
    }

    fn deliver_pane_event(&mut self) {
        let ready = self
            .panes
            .iter()
            .filter(|(_, pane)| !pane.events.is_empty());
        let ready: Vec<PaneId> = ready.map(|(id, _)| *id).collect();
        if ready.is_empty() {
            return;
        }
        let pane = self.random.pick(&ready);
        let model = self.panes.get_mut(&pane);
        let Some(event) = model.and_then(|model| model.events.pop_front()) else {
            return;
        };
        self.note(pane_words(pane, &event));
        self.input(CoreInput::Pane { pane, event });
    }

    fn pane_acts(&mut self) {
        let active = |pane: &ModelPane| pane.is_running() || pane.task != ModelTask::Absent;
        let ready = self.panes.iter().filter(|(_, pane)| active(pane));
        let ready: Vec<PaneId> = ready.map(|(id, _)| *id).collect();
        if ready.is_empty() {
            return;
        }
        let id = self.random.pick(&ready);
        self.pane_acts_now(id);
    }

    fn pane_acts_now(&mut self, id: PaneId) {
        let Some(pane) = self.panes.get_mut(&id) else {
            return;
        };
        if pane.is_running() {
            return pane.act(&mut self.random);
        }
        if pane.open(&mut self.random) {
            self.count_start(id);
        }
    }

    fn count_start(&mut self, id: PaneId) {
        let generation = self.opening.get(&id).copied().unwrap_or_default();
        let count = self.starts.entry((id, generation)).or_default();
        *count += 1;
        if *count > 1 {
            self.violation(format!("generation {generation} of {id} was started twice"));
        }
    }

    fn finish_job(&mut self) {
        if !self.jobs.is_empty() {
            let at = self.random.below(self.jobs.len());
            let job = self.jobs.swap_remove(at);
            self.input(job);
        }
    }

    fn cancel_call(&mut self) {
        let open: Vec<CallId> = self
            .calls
            .keys()
            .chain(self.leases.keys())
            .copied()
            .collect();
        if open.is_empty() {
            return;
        }
        let call = self.random.pick(&open);
        self.note(format!("call {} cancelled", call.0));
        self.calls.remove(&call);
        self.leases.remove(&call);
        self.cancelled.insert(call);
        self.input(CoreInput::Cancelled { call });
    }

    fn ack_event(&mut self) {
        let Some((_, event)) = self.leases.pop_first() else {
            return;
        };
        let call = CallId(self.next_call);
        self.next_call += 1;
        self.note(format!("{event} acked by call {}", call.0));
        let (who, tool) = clients::wait(self.random.next());
        let open = OpenCall {
            key: IdempotencyKey([0xff; 16]),
            who,
            tool,
            repeated: false,
        };
        let asked = self.request(&open, Request::AckEvent { event });
        self.cancelled.insert(call);
        self.input(CoreInput::Call { call, asked });
    }

    fn pass_time(&mut self) {
        let ms = self.random.pick(&[1, 100, 5_000, 20_000, 100_000]);
        self.advance(Duration::from_millis(ms));
    }

    fn advance(&mut self, by: Duration) {
        self.now.since_boot += by;
        self.now.wall.0 += by.as_millis() as u64;
        let due = self.core.next_deadline();
        if due.is_some_and(|due| due <= self.now.since_boot) {
            self.note(format!("timers expire at {:?}", self.now.since_boot));
            self.input(CoreInput::TimerExpired);
        }
    }

    /// A person or the network sets the wall clock.
    fn set_wall_clock(&mut self) {
        let hours = self.random.pick(&[0, 1, 1_000]);
        self.now.wall = Timestamp(hours * 3_600_000);
        self.note(format!("the wall clock is set to {hours} hours"));
    }

    /// The task of a pane panics. The report of that is not ordered with the events of the pane.
    fn panic_task(&mut self) {
        let attached = self.panes.iter();
        let attached = attached.filter(|(_, pane)| pane.is_running());
        let attached: Vec<PaneId> = attached.map(|(id, _)| *id).collect();
        if attached.is_empty() {
            return;
        }
        let pane = self.random.pick(&attached);
        self.note(format!("the task of {pane} panics"));
        if let Some(model) = self.panes.get_mut(&pane) {
            model.panic(&mut self.random);
        }
        let message = "row 7 is gone".to_owned();
        let event = PaneEvent::TaskPanicked { message };
        self.jobs.push(CoreInput::Pane { pane, event });
    }

    /// The machine is restarted: the boot clock begins anew, and no process is left.
    fn reboot(&mut self) {
        self.note("the machine is restarted");
        for pane in self.panes.values_mut() {
            pane.lose_process();
        }
        self.now.boot_id.0 += 1;
        self.now.since_boot = Duration::from_secs(20);
        self.restart();
    }

    /// The daemon dies and another one starts. Commits at the head of the queue may have reached the disk.
    fn restart(&mut self) {
        let stored = self.random.below(self.commits.len() + 1);
        self.note(format!(
            "restart; {stored} of {} commits are stored",
            self.commits.len()
        ));
        // The removal of a refused start may be among the lost commits.
        if stored < self.commits.len() {
            self.refused_keys.clear();
        }
        for commit in self.commits.drain(..).take(stored) {
            self.store.commit(&commit.changes);
        }
        self.jobs.clear();
        self.leases.clear();
        self.newest_pane = PaneId(0);
        let panes: Vec<PaneId> = self.panes.keys().copied().collect();
        for id in panes {
            let pane = self.panes.get_mut(&id);
            if pane.is_some_and(|pane| pane.lose_task(&mut self.random)) {
                self.count_start(id);
            }
        }
        let snapshot = self.store.open();
        let (core, effects) = Core::restore(self.settings.clone(), snapshot, self.now);
        self.core = core;
        self.perform(effects);
        for (call, open) in std::mem::take(&mut self.calls) {
            self.cancelled.insert(call);
            if self.random.below(4) > 0 {
                self.call(OpenCall {
                    repeated: true,
                    ..open
                });
            }
        }
    }

    fn reply(&mut self, call: CallId, answer: &Result<Response, Error>) {
        if self.cancelled.contains(&call) {
            return;
        }
        let Some(open) = self.calls.remove(&call) else {
            return self.violation(format!("call {} is answered twice", call.0));
        };
        let words = match answer {
            Ok(_) => "answered".to_owned(),
            Err(error) => format!("refused: {}", error.message),
        };
        self.note(format!("call {} {words}", call.0));
        match answer {
            Ok(_) => self.check_stored(call, &open),
            Err(error) if open.repeated && error.message.contains("other arguments") => {
                self.violation(format!("repeated call {} is taken for another", call.0));
            }
            Err(_) => {}
        }
    }

    fn deliver(&mut self, call: CallId, answer: &Result<Response, Error>, event: EventId) {
        self.lease(call, event);
        self.reply(call, answer);
    }

    /// Lets everything come to its end: commits are stored, processes end, and time passes.
    pub fn finish(&mut self) {
        self.note("everything comes to its end");
        for _ in 0..200 {
            while !self.commits.is_empty() {
                let commit = self.commits.pop_front().unwrap_or_default();
                self.store.commit(&commit.changes);
                self.perform_stored(commit.then);
            }
            let panes: Vec<PaneId> = self.panes.keys().copied().collect();
            for id in panes {
                self.pane_acts_now(id);
            }
            while self.panes.values().any(|pane| !pane.events.is_empty()) {
                self.deliver_pane_event();
            }
            while !self.jobs.is_empty() {
                self.finish_job();
            }
            self.advance(Duration::from_secs(10));
            self.check();
            if self.calls.is_empty() && self.commits.is_empty() && self.jobs.is_empty() {
                break;
            }
        }
        let open: Vec<String> = self
            .calls
            .iter()
            .map(|(call, open)| format!("{} {}", call.0, clients::words(&open.tool)))
            .collect();
        if !open.is_empty() {
            let runs = self.core.runs.all.values();
            let runs = runs.filter(|run| !run.record.over);
            let runs: Vec<String> = runs.map(|run| format!("{:?}", run.record)).collect();
            self.story.extend(runs);
            self.violation(format!("never answered: {}", open.join(", ")));
        }
        self.check_refused_starts();
    }
}
