//! The data plane: a few threads, each with its own runtime, that own panes without locks.

use std::{any::Any, io, pin::Pin, thread};

use fugue_api::PaneId;
use tokio::{
    runtime,
    sync::mpsc,
    task::{LocalSet, spawn_local},
};

/// Creates a pane's task on the thread that runs the task; the task never leaves that thread.
pub type ShardTask = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

pub struct PaneShards {
    shards: Vec<mpsc::UnboundedSender<(PaneId, ShardTask)>>,
}

/// A pane's task that panicked, with the panic's message. The other tasks of its thread go on.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskPanic {
    pub pane: PaneId,
    pub message: String,
}

// More threads gain nothing: the kernel's terminal layer is the bottleneck.
const MAX_SHARDS: usize = 4;

impl PaneShards {
    /// `panicked` receives every task that panics; bounded by the number of panes.
    pub fn start(panicked: &mpsc::UnboundedSender<TaskPanic>) -> io::Result<Self> {
        let count = thread::available_parallelism()
            .map_or(2, Into::into)
            .min(MAX_SHARDS);
        let start = |number| start_one(number, panicked.clone());
        let shards = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Self { shards })
    }

    /// Assigns a pane to a thread by its number, so that neighbouring panes share no thread.
    pub fn spawn(&self, pane: PaneId, task: ShardTask) {
        let shard = (pane.0 % self.shards.len() as u64) as usize;
        // A shard ends only with the process.
        let _ = self.shards[shard].send((pane, task));
    }
}

fn start_one(
    number: usize,
    panicked: mpsc::UnboundedSender<TaskPanic>,
) -> io::Result<mpsc::UnboundedSender<(PaneId, ShardTask)>> {
    let (sender, mut tasks) = mpsc::unbounded_channel::<(PaneId, ShardTask)>();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new()
        .name(format!("shard-{number}"))
        .spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                while let Some((pane, task)) = tasks.recv().await {
                    spawn_local(supervise(pane, task, panicked.clone()));
                }
            });
        })?;
    Ok(sender)
}

async fn supervise(pane: PaneId, task: ShardTask, panicked: mpsc::UnboundedSender<TaskPanic>) {
    let Err(error) = spawn_local(async move { task().await }).await else {
        return;
    };
    // Nothing cancels a pane's task but the end of the process.
    let Ok(panic) = error.try_into_panic() else {
        return;
    };
    let message = message_of(panic.as_ref());
    tracing::error!(%pane, message, "pane task panicked");
    let _ = panicked.send(TaskPanic { pane, message });
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc as channel;
    use std::time::Duration;

    #[test]
    fn a_task_that_panics_is_reported_and_the_others_of_its_thread_go_on() {
        let (panicked, mut reports) = mpsc::unbounded_channel();
        let shards = PaneShards::start(&panicked).unwrap();
        let (sender, received) = channel::channel();
        let (go_on, mut goes_on) = mpsc::unbounded_channel::<()>();
        // All of one thread, whatever their number.
        let pane = |n: u64| PaneId(1 + n * shards.shards.len() as u64);
        shards.spawn(
            pane(0),
            Box::new(move || {
                Box::pin(async move {
                    goes_on.recv().await;
                    sender.send("alive").unwrap();
                })
            }),
        );
        shards.spawn(
            pane(1),
            Box::new(|| Box::pin(async { panic!("row {} is gone", 7) })),
        );
        let report = reports.blocking_recv().unwrap();
        assert_eq!(
            report,
            TaskPanic {
                pane: pane(1),
                message: "row 7 is gone".into()
            }
        );
        go_on.send(()).unwrap();
        assert_eq!(received.recv_timeout(Duration::from_secs(60)), Ok("alive"));
    }
}
