//! Background jobs of watchers: commands and assessments. Each can be stopped at once.

use std::{
    collections::HashMap, ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc,
    time::Duration,
};

use fugue_api::{OsText, random_bytes, wire::CallerEnv};
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
use fugue_client::paths::UserPaths;

/// The variable that every process of a watcher has. Its value is the state directory of the daemon.
pub const JOB_MARK: &str = "FUGUE_ERRAND_OF";

/// The running job of each watcher.
pub struct WatcherJobs {
    mark: OsString,
    tasks: HashMap<u64, AbortHandle>,
}

// A call waits for the next step, and most clients time out after 60 s.
const ASSESSMENT_TIMEOUT: Duration = Duration::from_secs(45);

/// A command of a watcher.
pub struct WatcherJob {
    pub watcher: u64,
    pub step: u64,
    pub command: String,
    pub cwd: PathBuf,
    pub caller: Arc<CallerEnv>,
    pub limit: Duration,
}

impl WatcherJobs {
    pub fn new(paths: &UserPaths) -> Self {
        Self {
            mark: paths.state.clone().into_os_string(),
            tasks: HashMap::new(),
        }
    }

    /// Kills commands that a killed daemon has left running, as their results are lost.
    pub fn sweep(paths: &UserPaths) {
        let mut mark = format!("{JOB_MARK}=").into_bytes();
        mark.extend(paths.state.as_os_str().as_bytes());
        match close_leftovers(ProcessScope::new(None, vec![mark]), Duration::ZERO) {
            Ok(0) => {}
            Ok(left) => tracing::warn!(left, "watcher commands of an earlier daemon not killed"),
            Err(error) => tracing::warn!(%error, "watcher commands of an earlier daemon not found"),
        }
    }

    fn marked(&self, caller: &CallerEnv) -> Arc<CallerEnv> {
        let mut caller = caller.clone();
        let ours = |key: &OsText| *key == OsText::Text(JOB_MARK.into());
        caller.env.retain(|(key, _)| !ours(key));
        let mark = OsText::from(self.mark.clone());
        caller.env.push((OsText::Text(JOB_MARK.into()), mark));
        Arc::new(caller)
    }

    pub fn run(&mut self, mut job: WatcherJob, events: mpsc::Sender<EngineEvent>) {
        job.caller = self.marked(&job.caller);
        let watcher = job.watcher;
        let task = tokio::spawn(async move {
            let ran = run_command(&job).await;
            let input = CoreInput::WatcherCommandEnded {
                watcher: job.watcher,
                step: job.step,
                ran,
            };
            let _ = events.send(EngineEvent::JobDone(input)).await;
        });
        self.begin(watcher, task.abort_handle());
    }

    pub fn start_assessment(
        &mut self,
        job: AssessmentJob,
        caller: &CallerEnv,
        events: mpsc::Sender<EngineEvent>,
    ) {
        let watcher = job.watcher;
        let caller = self.marked(caller);
        let task = tokio::spawn(async move {
            let judged = assess_pane(&job, &caller).await;
            let input = CoreInput::Assessed {
                watcher: job.watcher,
                step: job.step,
                judged,
            };
            let _ = events.send(EngineEvent::JobDone(input)).await;
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

async fn run_command(job: &WatcherJob) -> CommandEnd {
    let env = launch::inherited(&job.caller);
    let running = run(&job.command, job.cwd.clone(), env);
    match timeout(job.limit, running).await {
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
            ending: format!("was ended after {} s", job.limit.as_secs()),
            output: String::new(),
        },
    }
}

async fn assess_pane(job: &AssessmentJob, caller: &CallerEnv) -> Assessment {
    let model = match job.judge {
        AssessmentKind::Decide => &job.settings.assess_model,
        AssessmentKind::NextStep => job.settings.next_step_model(),
    };
    let limit = Duration::from_secs_f64(job.settings.assess_timeout_sec);
    let limit = match job.judge {
        AssessmentKind::Decide => limit,
        AssessmentKind::NextStep => limit.min(ASSESSMENT_TIMEOUT),
    };
    let asked = Assessor::new(model, caller, limit)
        .and_then(|assessor| Ok((assessor, QuoteFence::new(random_bytes()?))))
        .map_err(|error| error.message);
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
