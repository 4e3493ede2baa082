//! Against a tmux server of the test's own.

use std::{path::Path, time::Duration};

use fugue_api::{PaneId, SessionName, Timestamp, wire::IdempotencyKey};
use fugue_core::TmuxPaneInfo;
use fugue_holder::{
    LogRead, LogReader,
    wire::{ChildState, InputKind, InputMessage, InputOutcome, InputState},
};
use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};
use tokio::time::timeout;

use fugue_holder::wire::HelloOk;

use super::*;
use crate::tmux::{lookup, testing::PrivateTmux};

const LIMIT: Duration = Duration::from_secs(30);

struct ListenerTestEnv {
    tmux: PrivateTmux,
    dir: tempfile::TempDir,
}

impl ListenerTestEnv {
    fn new() -> Self {
        Self {
            tmux: PrivateTmux::start(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A pane of a person's in a window of its own.
    fn pane(&self, command: &str) -> TmuxPaneInfo {
        let id = self.tmux.ask(&[
            "new-window",
            "-d",
            "-P",
            "-F",
            "#{pane_id}",
            "-t",
            "main:",
            "sh",
            "-c",
            command,
        ]);
        lookup::find(&id, &self.tmux.caller).unwrap()
    }

    fn whose(&self, found: &TmuxPaneInfo) -> TmuxTarget {
        let id = PaneId(found.pid.into());
        TmuxTarget {
            pane_dir: PaneDir {
                pane: id,
                dir: self.path(found),
                epoch: 1,
                generation: 1,
            },
            record: PaneRecord {
                id,
                session: SessionName::default(),
                name: "found".into(),
                command: found.command.clone(),
                cwd: found.cwd.clone(),
                size: found.size,
                created_at: Timestamp(0),
                made_by: IdempotencyKey([0; 16]),
                opened_by: None,
                secret: String::new(),
                tmux: Some(found.pane.clone()),
                agent: None,
                generation: 1,
                pid: found.pid,
                closing: false,
                ended: None,
                removing: false,
            },
            keep_lines: 10_000,
            log_cap: 64 << 20,
        }
    }

    fn path(&self, found: &TmuxPaneInfo) -> PathBuf {
        // A path is nothing to be read.
        self.dir.path().join(format!("#{{pid}} {}", found.pane.id))
    }

    async fn listen(&self, found: &TmuxPaneInfo) -> (TmuxBackend, HelloOk) {
        TmuxBackend::find(self.whose(found)).await.unwrap().unwrap()
    }

    fn shown(&self, found: &TmuxPaneInfo) -> Terminal {
        let size = TerminalSize {
            rows: found.size.rows,
            cols: found.size.cols,
        };
        let options = TerminalOptions {
            keep_lines: 100_000,
            secret: None,
        };
        let mut terminal = Terminal::new(size, options);
        terminal.feed(&log(&self.path(found)));
        terminal
    }
}

fn log(dir: &Path) -> Vec<u8> {
    let (mut reader, mut bytes, mut buffer) = (LogReader::new(dir), Vec::new(), vec![0; 1 << 16]);
    while let LogRead::Bytes(count) = reader.read_at(bytes.len() as u64, &mut buffer).unwrap() {
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}

fn lines(terminal: &Terminal) -> Vec<String> {
    let query = LineQuery {
        since: None,
        last: usize::MAX,
    };
    let lines = terminal.lines(&query).lines;
    lines.iter().map(|line| line.text.to_string()).collect()
}

/// Listens until a word is the one that is wanted.
async fn until<T>(
    listener: &mut TmuxBackend,
    mut wanted: impl FnMut(&BackendEvent) -> Option<T>,
) -> T {
    let heard = async {
        loop {
            let event = listener.next_event().await.unwrap();
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    };
    timeout(LIMIT, heard).await.expect("waited too long")
}

async fn until_printed(listener: &mut TmuxBackend, dir: &Path, wanted: &[u8]) {
    until(listener, |_| {
        let log = log(dir);
        log.windows(wanted.len())
            .any(|window| window == wanted)
            .then_some(())
    })
    .await;
}

async fn type_in(listener: &mut TmuxBackend, key: u8, bytes: &[u8]) -> InputState {
    let seq = listener.next_seq();
    listener.send(&ToHolder::Input(InputMessage {
        seq,
        key: [key; 16],
        kind: InputKind::Typed,
        bytes: bytes.to_vec(),
    }));
    until(listener, |event| match event {
        BackendEvent::Message(ToDaemon::InputState(state)) if state.seq == seq => Some(*state),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn a_log_begins_with_what_was_there_and_goes_on_with_every_byte() {
    let test_env = ListenerTestEnv::new();
    let long = "x".repeat(450);
    let script = format!(
        "seq 1 300; printf '\\033[31m{long}\\033[m\\ngr\\303\\274n '; read go; printf 'a\\0\\1\\\\b\\377\\n'; read end"
    );
    let found = test_env.pane(&script);
    // Until it has printed what is to be in the picture.
    loop {
        let shown = test_env
            .tmux
            .ask(&["capture-pane", "-p", "-t", &found.pane.id]);
        if shown.contains("grün") {
            break;
        }
    }
    let (mut listener, hello) = test_env.listen(&found).await;
    assert!(matches!(hello.state, ChildState::Running(who) if who.pid == found.pid.cast_signed()));
    let terminal = test_env.shown(&found);
    let mut expected: Vec<String> = (1..=300).map(|n| n.to_string()).collect();
    expected.extend([long, "grün".to_owned()]);
    let had = lines(&terminal);
    assert_eq!(
        had.iter().map(|line| line.trim_end()).collect::<Vec<_>>(),
        expected
    );
    let cursor = test_env.tmux.ask(&[
        "display-message",
        "-p",
        "-t",
        &found.pane.id,
        "#{cursor_y} #{cursor_x}",
    ]);
    let (y, x) = terminal.screen().cursor();
    assert_eq!(format!("{y} {x}"), cursor);

    let before = log(&test_env.path(&found)).len();
    assert_eq!(
        type_in(&mut listener, 1, b"on\r").await.outcome,
        InputOutcome::Written
    );
    until_printed(&mut listener, &test_env.path(&found), b"b\xff\r\n").await;
    assert_eq!(
        &log(&test_env.path(&found))[before..],
        b"on\r\na\0\x01\\b\xff\r\n"
    );
}

#[tokio::test]
async fn typing_is_exact_while_a_person_scrolls_back_and_is_done_once() {
    let test_env = ListenerTestEnv::new();
    let found = test_env.pane("stty raw -echo; printf ready; dd bs=1 count=9 2>/dev/null | od -An -tx1; printf over; read end");
    let (mut listener, _) = test_env.listen(&found).await;
    until_printed(&mut listener, &test_env.path(&found), b"ready").await;
    test_env.tmux.ask(&["copy-mode", "-t", &found.pane.id]);
    test_env.tmux.ask(&["set-buffer", "-b", "mine", "keep"]);
    let state = type_in(&mut listener, 1, b"a\0\x1b[A").await;
    assert_eq!(
        (state.outcome, state.written, state.total),
        (InputOutcome::Written, 5, 5)
    );
    let again = type_in(&mut listener, 1, b"a\0\x1b[A").await;
    assert_eq!(again.outcome, InputOutcome::Duplicate);
    // The next daemon knows it too.
    drop(listener);
    let (mut listener, _) = test_env.listen(&found).await;
    assert_eq!(
        type_in(&mut listener, 1, b"a\0\x1b[A").await.outcome,
        InputOutcome::Duplicate
    );
    type_in(&mut listener, 2, "\nü\r".as_bytes()).await;
    until_printed(&mut listener, &test_env.path(&found), b"over").await;
    let text = String::from_utf8_lossy(&log(&test_env.path(&found))).into_owned();
    assert!(text.contains("61 00 1b 5b 41 0a c3 bc 0d"), "{text}");
    assert_eq!(
        test_env.tmux.ask(&[
            "display-message",
            "-p",
            "-t",
            &found.pane.id,
            "#{pane_in_mode}"
        ]),
        "1"
    );
    assert_eq!(
        test_env.tmux.ask(&["list-buffers", "-F", "#{buffer_name}"]),
        "mine"
    );
}

#[tokio::test]
async fn a_flood_is_complete() {
    let test_env = ListenerTestEnv::new();
    let found = test_env.pane("read go; seq 1 1500000; printf over; read end");
    let (mut listener, _) = test_env.listen(&found).await;
    let before = log(&test_env.path(&found)).len();
    type_in(&mut listener, 1, b"\r").await;
    let mut seen = 0;
    until(&mut listener, |_| {
        let end = LogReader::new(test_env.path(&found)).end_offset().unwrap();
        // Looked at now and then: reading ten megabytes for each piece of them takes long.
        if end < seen + (1 << 20) && seen < 11_000_000 {
            return None;
        }
        seen = end;
        log(&test_env.path(&found)).ends_with(b"over").then_some(())
    })
    .await;
    let printed = log(&test_env.path(&found)).split_off(before);
    let expected: String = (1..=1_500_000).map(|n| format!("{n}\r\n")).collect();
    assert!(printed == format!("\r\n{expected}over").into_bytes());
}

#[tokio::test]
async fn what_was_printed_while_nobody_listened_is_there_once() {
    let test_env = ListenerTestEnv::new();
    let found = test_env.pane("n=0; while read upto; do while [ $n -lt $upto ]; do n=$((n+1)); echo \"line $n\"; done; done");
    let (mut listener, _) = test_env.listen(&found).await;
    type_in(&mut listener, 1, b"80\r").await;
    until_printed(&mut listener, &test_env.path(&found), b"line 80\r\n").await;
    drop(listener);
    test_env
        .tmux
        .ask(&["send-keys", "-t", &found.pane.id, "-l", "500\r"]);
    loop {
        let shown = test_env
            .tmux
            .ask(&["capture-pane", "-p", "-t", &found.pane.id]);
        if shown.contains("line 500") {
            break;
        }
    }
    let (mut listener, _) = test_env.listen(&found).await;
    type_in(&mut listener, 2, b"510\r").await;
    until_printed(&mut listener, &test_env.path(&found), b"line 510\r\n").await;
    let terminal = test_env.shown(&found);
    let had: Vec<String> = lines(&terminal)
        .into_iter()
        .filter(|line| line.starts_with("line"))
        .collect();
    let expected: Vec<String> = (1..=510).map(|n| format!("line {n}")).collect();
    assert_eq!(had, expected);
}

#[tokio::test]
async fn a_lost_link_and_a_pane_that_moves_are_found_again() {
    let test_env = ListenerTestEnv::new();
    let found = test_env.pane("read one; echo first; read two; echo second; read end");
    let (mut listener, _) = test_env.listen(&found).await;
    let client = test_env.tmux.ask(&["list-clients", "-F", "#{client_name}"]);
    test_env.tmux.ask(&["detach-client", "-t", &client]);
    let lost = async { while listener.next_event().await.is_ok() {} };
    timeout(LIMIT, lost).await.unwrap();
    listener.recover().await.unwrap();
    type_in(&mut listener, 1, b"\r").await;
    until_printed(&mut listener, &test_env.path(&found), b"first").await;

    test_env
        .tmux
        .ask(&["new-session", "-d", "-s", "other", "cat"]);
    test_env
        .tmux
        .ask(&["join-pane", "-d", "-s", &found.pane.id, "-t", "other:"]);
    let lost = async { while listener.next_event().await.is_ok() {} };
    timeout(LIMIT, lost).await.unwrap();
    listener.recover().await.unwrap();
    type_in(&mut listener, 2, b"\r").await;
    until_printed(&mut listener, &test_env.path(&found), b"second").await;
}

#[tokio::test]
async fn an_end_is_told_once_all_is_written_and_a_server_that_dies_ends_its_panes() {
    let test_env = ListenerTestEnv::new();
    let found = test_env.pane("read go; echo bye");
    let (mut listener, _) = test_env.listen(&found).await;
    type_in(&mut listener, 1, b"\r").await;
    let exited = until(&mut listener, |event| match event {
        BackendEvent::Message(ToDaemon::Exited(exited)) => Some(*exited),
        _ => None,
    })
    .await;
    assert_eq!(exited.ending, ProcessExit::Unknown);
    assert_eq!(exited.output_end, log(&test_env.path(&found)).len() as u64);
    assert!(listener.recorded_exit().is_some());
    assert!(
        TmuxBackend::find(test_env.whose(&found))
            .await
            .unwrap()
            .is_none()
    );

    let found = test_env.pane("trap '' HUP; cat");
    let (mut listener, _) = test_env.listen(&found).await;
    test_env.tmux.ask(&["kill-server"]);
    let lost = async {
        loop {
            match listener.next_event().await {
                Err(_) => {
                    let hello = listener.recover().await.unwrap();
                    assert!(matches!(hello.state, ChildState::Exited { .. }));
                    return;
                }
                Ok(BackendEvent::Message(ToDaemon::Exited(_))) => return,
                Ok(_) => {}
            }
        }
    };
    timeout(LIMIT, lost).await.unwrap();
}

#[tokio::test]
async fn its_size_is_followed_its_reader_is_known_and_closing_it_leaves_no_process() {
    let test_env = ListenerTestEnv::new();
    let found = test_env.pane("trap '' HUP TERM; sleep 1000 & printf 'name? '; read name");
    let (mut listener, hello) = test_env.listen(&found).await;
    assert_eq!((hello.rows, hello.cols), (found.size.rows, found.size.cols));
    until_printed(&mut listener, &test_env.path(&found), b"name? ").await;
    test_env
        .tmux
        .ask(&["split-window", "-h", "-d", "-t", &found.pane.id, "cat"]);
    let cols = until(&mut listener, |event| match event {
        BackendEvent::Message(ToDaemon::Resized { cols, .. }) => Some(*cols),
        _ => None,
    })
    .await;
    assert_eq!(cols, 100);
    let probe = loop {
        listener.send(&ToHolder::Probe { id: 1 });
        let probe = until(&mut listener, |event| match event {
            BackendEvent::Message(ToDaemon::Probed { probe, .. }) => Some(probe.clone()),
            _ => None,
        })
        .await;
        if probe.reader.is_some() {
            break probe;
        }
    };
    assert!(probe.canonical && probe.echo && probe.leader_in_fg);
    assert_eq!(
        probe.reader.map(|reader| reader.pid),
        Some(found.pid.cast_signed())
    );
    listener.send(&ToHolder::Close {
        id: 7,
        grace_ms: 50,
    });
    let (mut left, mut exited) = (None, false);
    until(&mut listener, |event| {
        match event {
            BackendEvent::Message(ToDaemon::Closed { id: 7, left: now }) => left = Some(*now),
            BackendEvent::Message(ToDaemon::Exited(_)) => exited = true,
            _ => {}
        }
        (left.is_some() && exited).then_some(())
    })
    .await;
    assert_eq!(left, Some(0));
}

#[tokio::test]
async fn an_alternate_screen_is_seen_as_it_is() {
    let test_env = ListenerTestEnv::new();
    let found = test_env.pane("echo before; printf '\\033[?1049h\\033[2J\\033[3;5Hfull\\033[?1000h'; read end; printf '\\033[?1049l'; echo after; read end");
    loop {
        let shown = test_env
            .tmux
            .ask(&["capture-pane", "-p", "-t", &found.pane.id]);
        if shown.contains("full") {
            break;
        }
    }
    let (mut listener, _) = test_env.listen(&found).await;
    let terminal = test_env.shown(&found);
    assert!(terminal.screen().is_alternate());
    let painted = String::from_utf8_lossy(&log(&test_env.path(&found))).into_owned();
    assert_eq!(terminal.screen().text().trim(), "full", "{painted:?}");
    assert_eq!(terminal.screen().cursor(), (2, 8));
    type_in(&mut listener, 1, b"\r").await;
    until_printed(&mut listener, &test_env.path(&found), b"after").await;
    let terminal = test_env.shown(&found);
    let text = terminal.screen().text();
    assert!(
        text.contains("before") && text.contains("after") && !text.contains("full"),
        "{text}"
    );
}
