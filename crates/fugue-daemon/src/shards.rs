//! The data plane: a few threads, each with its own runtime, that own panes without locks.

use std::{io, pin::Pin, thread};

use fugue_api::PaneId;
use tokio::{runtime, sync::mpsc, task::LocalSet};

/// Makes a pane's task on the thread that will run it; the task itself never leaves that thread.
pub type Task = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

pub struct Shards {
    shards: Vec<mpsc::UnboundedSender<Task>>,
}

// More threads than this gain nothing: the kernel's terminal layer is the wall.
const MOST_SHARDS: usize = 4;

impl Shards {
    pub fn start() -> io::Result<Self> {
        let count = thread::available_parallelism()
            .map_or(2, Into::into)
            .min(MOST_SHARDS);
        let shards = (0..count).map(start_one).collect::<io::Result<_>>()?;
        Ok(Self { shards })
    }

    /// Panes are dealt out by their number, so neighbours share no thread.
    pub fn spawn(&self, pane: PaneId, task: Task) {
        let shard = (pane.0 % self.shards.len() as u64) as usize;
        // A shard ends only with the process.
        let _ = self.shards[shard].send(task);
    }
}

fn start_one(number: usize) -> io::Result<mpsc::UnboundedSender<Task>> {
    let (sender, mut tasks) = mpsc::unbounded_channel::<Task>();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new()
        .name(format!("shard-{number}"))
        .spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                while let Some(task) = tasks.recv().await {
                    tokio::task::spawn_local(task());
                }
            });
        })?;
    Ok(sender)
}
