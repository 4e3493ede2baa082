use std::fs;

use fugue_api::{Timestamp, wire::IdempotencyKey};
use fugue_client::paths::UserPaths;
use fugue_core::{AdoptMode, ExitStatus, PaneRecord};
use fugue_holder::{
    TmuxLogWriter, identify,
    record::{ExitRecord, boot_id},
    spawn::{ChildProcess, SessionLeadership, SpawnCommand},
    wire::ChildExit,
};
use rustix::process::{Signal, pidfd_send_signal};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::{
    config::LoadedSettings,
    engine::{DaemonContext, EngineEvent},
    pane,
    pending_calls::{OutgoingReply, Responder, UnreadReplies},
    shards::ShardTask,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The length of a frame before its document.
const LENGTH_BYTES: usize = 4;
const OUTPUT: &[u8] = b"one\r\n\x1b[31mtwo\x1b[m\r\nthree";

/// A pane with some output and a child without a holder, which is served as raw output.
struct RawPane {
    _state: tempfile::TempDir,
    dir: std::path::PathBuf,
    child: ChildProcess,
    handle: pane::PaneHandle,
    engine_events: mpsc::Receiver<EngineEvent>,
    replies_tx: mpsc::UnboundedSender<OutgoingReply>,
    replies: mpsc::UnboundedReceiver<OutgoingReply>,
}

impl RawPane {
    fn new() -> (Self, ShardTask) {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join("panes/p1");
        fs::create_dir_all(&dir).unwrap();
        let mut log = TmuxLogWriter::open(&dir, 1, 1 << 20, 1 << 16).unwrap();
        log.append(OUTPUT).1.unwrap();
        let child = SpawnCommand::new("sleep")
            .args(["1000"])
            .session(SessionLeadership::Own)
            .start()
            .unwrap();
        let meta = ChildRecord {
            generation: 1,
            holder: 0,
            child: identify(child.pid),
            boot: boot_id(),
            rows: 24,
            cols: 80,
            log_cap: 1 << 20,
            segment: 1 << 16,
            marks: Vec::new(),
        };
        fs::write(ChildRecord::path(&dir, 1), meta.to_text()).unwrap();
        let record: PaneRecord = serde_json::from_value(json!({
            "id": "p1", "session": "main", "name": "raw", "command": "sleep 1000", "cwd": "/",
            "size": {"rows": 24, "cols": 80}, "created_at": Timestamp(0), "made_by": IdempotencyKey([0; 16]), "secret": "",
            "generation": 1, "pid": child.pid, "closing": false, "ended": null,
        }))
        .unwrap();
        let paths = UserPaths {
            state: state.path().to_owned(),
            config: state.path().join("config.toml"),
        };
        let daemon = DaemonContext::new(paths, LoadedSettings::default(), 1, None);
        let (events, engine_events) = mpsc::channel(16);
        let how = AdoptMode::RawOutput {
            panic: "index out of bounds".to_owned(),
        };
        let (handle, task) = pane::adopt(record, None, how, daemon.into(), events);
        let (replies_tx, replies) = mpsc::unbounded_channel();
        let pane = Self {
            _state: state,
            dir,
            child,
            handle,
            engine_events,
            replies_tx,
            replies,
        };
        (pane, task)
    }

    fn kill(&self) {
        let _ = pidfd_send_signal(&self.child.pidfd, Signal::KILL);
    }

    async fn ask(&mut self, request: PaneRequest) -> Value {
        let unread = UnreadReplies::with_limit(1 << 20);
        let responder = Responder::new(1, self.replies_tx.clone(), unread);
        self.handle
            .send(PaneCommand::Request { request, responder });
        let reply = self.replies.recv().await.unwrap();
        // A frame is its length and a JSON document.
        serde_json::from_slice(&reply.bytes[LENGTH_BYTES..]).unwrap()
    }

    async fn read(&mut self, mode: ReadMode) -> Value {
        let args = Box::new(ReadPane {
            pane_id: "p1".to_owned(),
            lines: 2,
            since: None,
            mode,
            max_output_chars: 1000,
            grep: None,
        });
        self.ask(PaneRequest::Read { args, ended: None }).await
    }

    async fn next_event(&mut self) -> PaneEvent {
        match self.engine_events.recv().await {
            Some(EngineEvent::Pane(_, event)) => event,
            Some(_) => panic!("an event that is not of the pane"),
            None => panic!("the task ended without an event"),
        }
    }

    async fn end(&mut self) -> (ExitStatus, TextCursor, bool) {
        match self.next_event().await {
            PaneEvent::Ended {
                exit,
                cursor,
                sweeps,
                lost_by_reboot,
                ..
            } => {
                assert!(!lost_by_reboot);
                (exit, view::cursor(&cursor).unwrap(), sweeps)
            }
            event => panic!("{event:?}"),
        }
    }
}

impl Drop for RawPane {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Runs a script beside the pane's task, until both have ended.
async fn play(pane_and_task: (RawPane, ShardTask), script: impl AsyncFnOnce(&mut RawPane)) {
    let (mut pane, task) = pane_and_task;
    let both = async { tokio::join!(task(), script(&mut pane)) };
    timeout(TEST_TIMEOUT, both).await.expect("the pane ends");
}

#[tokio::test]
async fn raw_output_is_read_the_rest_is_refused_and_close_ends_the_child() {
    play(RawPane::new(), async |pane: &mut RawPane| {
        let raw = pane.read(ReadMode::Raw).await.to_string();
        assert!(raw.contains(r"\u001b[31mtwo\u001b[m\r\nthree"), "{raw}");
        assert!(!raw.contains("one"), "two lines were wanted: {raw}");
        for mode in [ReadMode::Text, ReadMode::Screen, ReadMode::LastCommand] {
            let refused = pane.read(mode).await.to_string();
            assert!(refused.contains("failed twice"), "{refused}");
            assert!(refused.contains("mode `raw`"), "{refused}");
        }
        let typed = PaneRequest::Type {
            bytes: b"x".to_vec(),
            key: IdempotencyKey([1; 16]),
        };
        let refused = pane.ask(typed).await.to_string();
        assert!(refused.contains("only its raw output can be read"), "{refused}");
        let status = serde_json::from_value(json!({
            "pane_id": "p1", "name": "raw", "session": "main", "backend": "native", "command": "sleep 1000", "pid": 1,
            "cwd": "/", "size": {"rows": 24, "cols": 80}, "title": "", "state": "running", "by": "exit", "idle_ms": 0,
            "cursor": view::start(), "created_at": Timestamp(0),
        }));
        let status = pane.ask(PaneRequest::Status(status.unwrap())).await.to_string();
        assert!(status.contains("`index out of bounds`"), "{status}");
        pane.handle.send(PaneCommand::Close {
            grace: Duration::from_secs(5),
        });
        let (exit, cursor, sweeps) = pane.end().await;
        assert_eq!((exit, sweeps), (ExitStatus::Unknown, true));
        assert_eq!(cursor.offset.0, OUTPUT.len() as u64);
        assert!(matches!(pane.next_event().await, PaneEvent::Swept));
        assert!(pane.child.try_wait().unwrap().is_some(), "the child runs");
    })
    .await;
}

#[tokio::test]
async fn the_recorded_exit_is_reported() {
    play(RawPane::new(), async |pane: &mut RawPane| {
        let recorded = ExitRecord {
            exited: ChildExit {
                ending: ProcessExit::Code(7),
                output_end: OUTPUT.len() as u64,
            },
            recorded_ms: 0,
        };
        // The holder writes the record under another name.
        let new = pane.dir.join("exit.new");
        fs::write(&new, recorded.to_text()).unwrap();
        fs::rename(new, ExitRecord::path(&pane.dir, 1)).unwrap();
        pane.kill();
        let (exit, _, sweeps) = pane.end().await;
        assert_eq!((exit, sweeps), (ExitStatus::Code(7), false));
    })
    .await;
}
