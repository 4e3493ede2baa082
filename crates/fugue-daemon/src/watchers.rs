//! What watchers have done outside: commands that are run and models that are asked. Each can be ended at once.

use std::{
    collections::HashMap, ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc,
    time::Duration,
};

use fugue_api::{OsText, wire::CallerEnv};
use fugue_core::{
    Assessment, AssessmentJob, AssessmentKind, CommandEnd, CoreInput,
    assess::{DoneCheck, QuoteFence, Situation},
};
use fugue_holder::{ProcessScope, close_leftovers};
use tokio::{sync::mpsc, task::AbortHandle, time::timeout};

use crate::{
    assess::{Assessor, assess, run},
    engine::EngineEvent,
    pane::launch,
};
use fugue_client::paths::Paths;

/// Every process that runs for a watcher has this variable, with the directory of the daemon it runs for.
pub const WHOSE: &str = "FUGUE_ERRAND_OF";

/// What goes on for each watcher.
pub struct Errands {
    whose: OsString,
    tasks: HashMap<u64, AbortHandle>,
}

// A client waits for the next step, and most give up on a call after 60 s.
const NEXT_STEP: Duration = Duration::from_secs(45);

/// A command to run.
pub struct Errand {
    pub watcher: u64,
    pub step: u64,
    pub command: String,
    pub cwd: PathBuf,
    pub caller: Arc<CallerEnv>,
    pub limit: Duration,
}

impl Errands {
    pub fn of(paths: &Paths) -> Self {
        Self {
            whose: paths.state.clone().into_os_string(),
            tasks: HashMap::new(),
        }
    }

    /// Ends what a daemon that was killed has left running: nobody hears how it ends any more.
    pub fn sweep(paths: &Paths) {
        let mut mark = format!("{WHOSE}=").into_bytes();
        mark.extend(paths.state.as_os_str().as_bytes());
        match close_leftovers(ProcessScope::new(None, vec![mark]), Duration::ZERO) {
            Ok(0) => {}
            Ok(left) => tracing::warn!(left, "commands of watchers could not be ended"),
            Err(error) => tracing::warn!(%error, "commands of watchers cannot be looked for"),
        }
    }

    fn marked(&self, caller: &CallerEnv) -> Arc<CallerEnv> {
        let mut caller = caller.clone();
        let ours = |key: &OsText| *key == OsText::Text(WHOSE.into());
        caller.env.retain(|(key, _)| !ours(key));
        let whose = OsText::from(self.whose.clone());
        caller.env.push((OsText::Text(WHOSE.into()), whose));
        Arc::new(caller)
    }

    pub fn run(&mut self, mut errand: Errand, says: mpsc::Sender<EngineEvent>) {
        errand.caller = self.marked(&errand.caller);
        let watcher = errand.watcher;
        let task = tokio::spawn(async move {
            let ran = ran(&errand).await;
            let input = CoreInput::WatcherCommandEnded {
                watcher: errand.watcher,
                step: errand.step,
                ran,
            };
            let _ = says.send(EngineEvent::Worker(input)).await;
        });
        self.begin(watcher, task.abort_handle());
    }

    pub fn judge(
        &mut self,
        job: AssessmentJob,
        caller: &CallerEnv,
        says: mpsc::Sender<EngineEvent>,
    ) {
        let watcher = job.watcher;
        let caller = self.marked(caller);
        let task = tokio::spawn(async move {
            let judged = judged(&job, &caller).await;
            let input = CoreInput::Assessed {
                watcher: job.watcher,
                step: job.step,
                judged,
            };
            let _ = says.send(EngineEvent::Worker(input)).await;
        });
        self.begin(watcher, task.abort_handle());
    }

    fn begin(&mut self, watcher: u64, task: AbortHandle) {
        self.tasks.retain(|_, task| !task.is_finished());
        self.stop(watcher);
        self.tasks.insert(watcher, task);
    }

    pub fn stop(&mut self, watcher: u64) {
        if let Some(task) = self.tasks.remove(&watcher) {
            task.abort();
        }
    }
}

async fn ran(errand: &Errand) -> CommandEnd {
    let env = launch::inherited(&errand.caller);
    let running = run(&errand.command, errand.cwd.clone(), env);
    match timeout(errand.limit, running).await {
        Ok(Ok((code, ending, output))) => CommandEnd {
            code,
            ending,
            output,
        },
        Ok(Err(error)) => CommandEnd {
            code: None,
            ending: format!("could not be started: {error}"),
            output: String::new(),
        },
        Err(_) => CommandEnd {
            code: None,
            ending: format!("was ended after {} s", errand.limit.as_secs()),
            output: String::new(),
        },
    }
}

async fn judged(job: &AssessmentJob, caller: &CallerEnv) -> Assessment {
    let model = match job.judge {
        AssessmentKind::Decide => &job.settings.assess_model,
        AssessmentKind::NextStep => job.settings.next_step_model(),
    };
    let limit = Duration::from_secs_f64(job.settings.assess_timeout_sec);
    let limit = match job.judge {
        AssessmentKind::Decide => limit,
        AssessmentKind::NextStep => limit.min(NEXT_STEP),
    };
    let asked = Assessor::new(model, caller, limit)
        .map_err(|error| error.message)
        .and_then(|assessor| Ok((assessor, QuoteFence::new(random()?))));
    let situation = Situation {
        plan: job.transcript.plan().unwrap_or_default(),
        transcript: &job.transcript,
        wait_output: job.wait_output.as_deref(),
        pane_tail: &job.pane_tail,
        tail_lines: job.settings.tail_lines,
        verdict: job.verdict.as_ref().map(|checked| DoneCheck {
            command: job.done_when.as_deref().unwrap_or_default(),
            ending: &checked.ending,
            output: &checked.output,
        }),
        now: job.now,
    };
    match (job.judge, asked) {
        (AssessmentKind::Decide, Err(why)) => Assessment::Decision(Err(why)),
        (AssessmentKind::NextStep, Err(why)) => Assessment::NextStep(Err(why)),
        (AssessmentKind::Decide, Ok((assessor, fence))) => {
            let decision = assess(&assessor, &situation.assess(&fence)).await;
            Assessment::Decision(decision.map_err(|error| error.to_string()))
        }
        (AssessmentKind::NextStep, Ok((assessor, fence))) => {
            let next = assess(&assessor, &situation.next_step(&fence)).await;
            Assessment::NextStep(next.map_err(|error| error.to_string()))
        }
    }
}

fn random() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes),
        _ => Err("the kernel gave no random numbers".to_owned()),
    }
}
