//! Input to a pane of a person's tmux: exact bytes, pasted from a buffer of fugue's own, which reach the program also while
//! a person scrolls back. Inputs are pasted one at a time, and each only once, however often the daemon repeats the request.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use fugue_holder::wire::{InputKind, InputMessage, InputOutcome, InputState, ToDaemon};

use super::{QueryPurpose, TmuxBackend};
use crate::tmux::control::quote;

pub(super) struct KeySender {
    dir: PathBuf,
    /// Idempotency keys of inputs that this or an earlier daemon gave to tmux. The outcome of the last may be unknown.
    keys: VecDeque<[u8; 16]>,
    waiting: VecDeque<InputMessage>,
    current: Option<InputState>,
    last_seq: u64,
}

// A daemon repeats only inputs that it had not seen acknowledged, which are far fewer.
const MAX_KEYS: usize = 256;

impl KeySender {
    pub(super) fn open(dir: &Path) -> Self {
        let known = fs::read(dir.join("typed")).unwrap_or_default();
        let keys: Vec<[u8; 16]> = known
            .chunks_exact(16)
            .filter_map(|key| key.try_into().ok())
            .collect();
        let latest = keys[keys.len().saturating_sub(MAX_KEYS)..].to_vec();
        Self {
            dir: dir.to_owned(),
            keys: latest.into(),
            waiting: VecDeque::new(),
            current: None,
            last_seq: 0,
        }
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Queues an input, or returns the outcome of an input that is not queued.
    pub(super) fn accept(&mut self, input: &InputMessage) -> Option<InputState> {
        let total = u32::try_from(input.bytes.len()).unwrap_or(u32::MAX);
        let state = |written, outcome| InputState {
            seq: input.seq,
            key: input.key,
            written,
            total,
            outcome,
        };
        // tmux itself answers programs' terminal queries.
        if let InputKind::Answer { .. } = input.kind {
            return Some(state(total, InputOutcome::Duplicate));
        }
        if self.keys.contains(&input.key) {
            return Some(state(total, InputOutcome::Duplicate));
        }
        if input.bytes.is_empty() {
            return Some(state(0, InputOutcome::Written));
        }
        self.waiting.push_back(input.clone());
        None
    }

    /// Reports all inputs that are not pasted as lost.
    pub(super) fn fail_all(&mut self) -> Vec<InputState> {
        let lost = |state: InputState| InputState {
            written: 0,
            outcome: InputOutcome::Lost,
            ..state
        };
        let under_way = self.current.take().map(lost);
        let waiting = self.waiting.drain(..).map(|input| lost(written(&input)));
        under_way.into_iter().chain(waiting).collect()
    }

    /// Forgets the current input after a lost connection, which may or may not have been pasted. Its outcome stays unknown.
    pub(super) fn forget_current(&mut self) {
        self.current = None;
    }

    /// Records the key of an input before the paste: if the daemon dies in between, the input is not pasted twice.
    fn record_key(&mut self, key: [u8; 16]) -> io::Result<()> {
        if self.keys.len() >= MAX_KEYS {
            self.keys.pop_front();
        }
        self.keys.push_back(key);
        let path = self.dir.join("typed");
        if fs::metadata(&path).is_ok_and(|file| file.len() > 64 * 16 * MAX_KEYS as u64) {
            let kept: Vec<u8> = self.keys.iter().flatten().copied().collect();
            let beside = self.dir.join("typed.new");
            private(&beside)?.write_all(&kept)?;
            return fs::rename(beside, path);
        }
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(&key)
    }
}

impl TmuxBackend {
    /// Pastes the next queued input, unless a paste is pending.
    pub(super) fn send_next_input(&mut self) {
        if self.sender.current.is_some() {
            return;
        }
        let Some(input) = self.sender.waiting.pop_front() else {
            return;
        };
        let path = self.sender.dir.join("input");
        let laid_out = self
            .sender
            .record_key(input.key)
            .and_then(|()| private(&path)?.write_all(&input.bytes));
        let state = written(&input);
        if let Err(error) = laid_out {
            tracing::warn!(pane = %self.target.pane_dir.pane, %error, "input not passed to tmux");
            let lost = InputState {
                written: 0,
                outcome: InputOutcome::Lost,
                ..state
            };
            self.messages.push_back(ToDaemon::InputState(lost));
            return;
        }
        let buffer = quote(self.buffer_name("in").as_bytes());
        // tmux expands a path as a format, in which `##` stands for `#`.
        let file = quote(&doubled(path.as_os_str().as_bytes(), b'#'));
        self.sender.current = Some(state);
        self.send_query(
            QueryPurpose::Input,
            &[
                &format!("load-buffer -b {buffer} {file}"),
                &format!("paste-buffer -d -r -b {buffer} -t {}", self.tmux.id.clone()),
            ],
        );
    }

    pub(super) fn finish_input(&mut self, ok: bool) {
        let _ = fs::remove_file(self.sender.dir.join("input"));
        let Some(mut state) = self.sender.current.take() else {
            return;
        };
        if !ok {
            state.written = 0;
            state.outcome = InputOutcome::Lost;
            let forget = format!(
                "delete-buffer -b {}",
                quote(self.buffer_name("in").as_bytes())
            );
            self.send_query(QueryPurpose::Cleanup, &[&forget]);
        }
        self.messages.push_back(ToDaemon::InputState(state));
    }

    /// The name of a paste buffer, distinct from a person's buffers and those of other daemons.
    pub(super) fn buffer_name(&self, what: &str) -> String {
        let place = &self.target.pane_dir;
        format!("fugue-{what}-{}-{}", place.pane, std::process::id())
    }
}

fn doubled(bytes: &[u8], which: u8) -> Vec<u8> {
    let twice = |byte: &u8| std::iter::repeat_n(*byte, if *byte == which { 2 } else { 1 });
    bytes.iter().flat_map(twice).collect()
}

fn written(input: &InputMessage) -> InputState {
    let total = u32::try_from(input.bytes.len()).unwrap_or(u32::MAX);
    InputState {
        seq: input.seq,
        key: input.key,
        written: total,
        total,
        outcome: InputOutcome::Written,
    }
}

fn private(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
}
