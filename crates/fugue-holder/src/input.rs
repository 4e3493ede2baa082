//! The input queue: each input is written once and in order, even if the daemon sends it repeatedly. No I/O: the PTY is
//! a function that accepts some of the bytes.

use std::collections::VecDeque;

use rustix::io::Errno;

use crate::wire::{InputKind, InputMessage, InputOutcome, InputState};

// More than any paste by hand, and small enough for a small process.
const MAX_QUEUED_INPUT_BYTES: usize = 1 << 20;
// A daemon repeats only inputs that were in flight when its connection broke, which are far fewer.
const MAX_RECENT_INPUTS: usize = 256;

/// Queued inputs, and the keys of recent ones.
#[derive(Default)]
pub(crate) struct HolderInputQueue {
    queue: VecDeque<QueuedInput>,
    queued_bytes: usize,
    recent: VecDeque<RecentInput>,
    last_seq: u64,
    answered_upto: u64,
}

struct QueuedInput {
    seq: u64,
    key: [u8; 16],
    bytes: Vec<u8>,
    written: usize,
}

struct RecentInput {
    key: [u8; 16],
    written: u32,
    total: u32,
}

impl HolderInputQueue {
    /// Continues after a dead holder. The fate of inputs that the dead holder had in flight is unknown; the daemon
    /// reports them.
    pub(crate) fn resume(last_seq: u64, answered_upto: u64) -> HolderInputQueue {
        HolderInputQueue {
            last_seq,
            answered_upto,
            ..HolderInputQueue::default()
        }
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub(crate) fn answered_upto(&self) -> u64 {
        self.answered_upto
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns how much of an input with this key was written, if the key is known.
    pub(crate) fn find_duplicate(&self, seq: u64, key: [u8; 16]) -> Option<InputState> {
        let RecentInput { written, total, .. } = *self.recent.iter().find(|s| s.key == key)?;
        Some(InputState {
            seq,
            key,
            written,
            total,
            outcome: InputOutcome::Duplicate,
        })
    }

    /// Accepts an input. `Some` is the final state; `None` means that the input is queued and `write` reports its
    /// state.
    pub(crate) fn accept(&mut self, input: InputMessage) -> Option<InputState> {
        let InputMessage {
            seq,
            key,
            kind,
            bytes,
        } = input;
        let total = bytes.len() as u32;
        let state = |written, total, outcome| {
            Some(InputState {
                seq,
                key,
                written,
                total,
                outcome,
            })
        };
        if let Some(duplicate) = self.find_duplicate(seq, key) {
            return Some(duplicate);
        }
        if let InputKind::Answer { at } = kind
            && at <= self.answered_upto
        {
            return state(total, total, InputOutcome::Duplicate);
        }
        // An old sequence number with an unknown key: the key was dropped from `recent`, and the fate of that input is
        // unknown.
        if seq <= self.last_seq || self.queued_bytes + bytes.len() > MAX_QUEUED_INPUT_BYTES {
            return state(0, total, InputOutcome::Lost);
        }
        self.last_seq = seq;
        if let InputKind::Answer { at } = kind {
            self.answered_upto = at;
        }
        self.push_recent(RecentInput {
            key,
            written: 0,
            total,
        });
        self.queued_bytes += bytes.len();
        self.queue.push_back(QueuedInput {
            seq,
            key,
            bytes,
            written: 0,
        });
        None
    }

    /// Queues keys that a person pressed in the terminal that shows the pane. Their outcome is not reported.
    pub(crate) fn push_view_keys(&mut self, bytes: Vec<u8>) {
        self.queued_bytes += bytes.len();
        self.queue.push_back(QueuedInput {
            seq: 0,
            key: [0; 16],
            bytes,
            written: 0,
        });
    }

    /// Passes queued bytes to `write` until the PTY would block. Returns the state of each finished input.
    pub(crate) fn write(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Result<usize, Errno>,
    ) -> Vec<InputState> {
        let mut finished = Vec::new();
        while let Some(item) = self.queue.front_mut() {
            let rest = &item.bytes[item.written..];
            let outcome = if rest.is_empty() {
                InputOutcome::Written
            } else {
                match write(rest) {
                    Ok(0) | Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => continue,
                    Ok(n) => {
                        item.written += n;
                        self.queued_bytes -= n;
                        if item.written < item.bytes.len() {
                            continue;
                        }
                        InputOutcome::Written
                    }
                    // The PTY is gone.
                    Err(_) => InputOutcome::Lost,
                }
            };
            finished.extend(self.finish(outcome).filter(InputState::is_awaited));
        }
        if let Some(item) = self.queue.front() {
            let (key, written) = (item.key, item.written as u32);
            self.record_progress(key, written);
        }
        finished
    }

    /// Returns the state of an input that is still queued, to be reported once after `accept`.
    pub(crate) fn pending_state(&self, seq: u64) -> Option<InputState> {
        let item = self.queue.iter().find(|i| i.seq == seq)?;
        Some(item.state(InputOutcome::Pending))
    }

    /// Fails all queued inputs: the child has ended and reads none of them.
    pub(crate) fn fail_all(&mut self) -> Vec<InputState> {
        let mut lost = Vec::new();
        while let Some(state) = self.finish(InputOutcome::Lost) {
            lost.push(state);
        }
        lost.retain(InputState::is_awaited);
        lost
    }

    fn finish(&mut self, outcome: InputOutcome) -> Option<InputState> {
        let item = self.queue.pop_front()?;
        self.queued_bytes -= item.bytes.len() - item.written;
        self.record_progress(item.key, item.written as u32);
        Some(item.state(outcome))
    }

    fn push_recent(&mut self, seen: RecentInput) {
        if self.recent.len() == MAX_RECENT_INPUTS {
            self.recent.pop_front();
        }
        self.recent.push_back(seen);
    }

    fn record_progress(&mut self, key: [u8; 16], written: u32) {
        if let Some(seen) = self.recent.iter_mut().find(|s| s.key == key) {
            seen.written = written;
        }
    }
}

impl InputState {
    /// Inputs of a daemon are numbered from 1; keys from the view have the number 0.
    fn is_awaited(&self) -> bool {
        self.seq > 0
    }
}

impl QueuedInput {
    fn state(&self, outcome: InputOutcome) -> InputState {
        InputState {
            seq: self.seq,
            key: self.key,
            written: self.written as u32,
            total: self.bytes.len() as u32,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(seq: u64, key: u8, bytes: &[u8]) -> InputMessage {
        InputMessage {
            seq,
            key: [key; 16],
            kind: InputKind::Typed,
            bytes: bytes.to_vec(),
        }
    }

    /// A terminal that accepts `room` bytes.
    fn terminal(typed: &mut Vec<u8>, room: usize) -> impl FnMut(&[u8]) -> Result<usize, Errno> {
        let mut room = room;
        move |bytes| {
            if room == 0 {
                return Err(Errno::AGAIN);
            }
            let n = bytes.len().min(room).min(3);
            room -= n;
            typed.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
    }

    #[test]
    fn an_input_is_typed_once_however_often_it_is_asked_for() {
        let mut typist = HolderInputQueue::default();
        let mut typed = Vec::new();
        assert_eq!(typist.accept(input(1, 1, b"hello")), None);
        let done = typist.write(terminal(&mut typed, 99));
        assert_eq!(
            (done[0].outcome, done[0].written),
            (InputOutcome::Written, 5)
        );
        for seq in [1, 2] {
            let again = typist.accept(input(seq, 1, b"hello")).unwrap();
            assert_eq!(
                (again.outcome, again.written, again.total),
                (InputOutcome::Duplicate, 5, 5)
            );
        }
        assert_eq!(typed, b"hello");
    }

    #[test]
    fn a_program_that_does_not_read_leaves_the_rest_pending_and_later_written() {
        let mut typist = HolderInputQueue::default();
        let mut typed = Vec::new();
        assert_eq!(typist.accept(input(1, 1, b"abcdef")), None);
        assert_eq!(typist.accept(input(2, 2, b"ghi")), None);
        assert_eq!(typist.write(terminal(&mut typed, 4)), []);
        assert_eq!(typist.pending_state(1).unwrap().written, 4);
        assert_eq!(typist.pending_state(2).unwrap().written, 0);
        assert_eq!(typist.accept(input(3, 1, b"abcdef")).unwrap().written, 4);
        let done: Vec<u64> = typist
            .write(terminal(&mut typed, 99))
            .iter()
            .map(|s| s.seq)
            .collect();
        assert_eq!(done, [1, 2]);
        assert_eq!(typed, b"abcdefghi");
    }

    #[test]
    fn too_much_and_too_old_is_lost_and_said_so() {
        let mut typist = HolderInputQueue::default();
        assert_eq!(typist.accept(input(5, 1, &[0; 1 << 20])), None);
        assert_eq!(
            typist.accept(input(6, 2, b"x")).unwrap().outcome,
            InputOutcome::Lost
        );
        assert_eq!(
            typist.accept(input(4, 3, b"")).unwrap().outcome,
            InputOutcome::Lost
        );
        assert_eq!(typist.last_seq(), 5);
        assert_eq!(typist.fail_all()[0].outcome, InputOutcome::Lost);
        assert_eq!(typist.accept(input(6, 4, b"x")), None);
    }

    #[test]
    fn a_query_is_answered_once_also_by_the_next_daemon() {
        let mut typist = HolderInputQueue::resume(3, 100);
        let answer = |seq, key, at| InputMessage {
            kind: InputKind::Answer { at },
            ..input(seq, key, b"R")
        };
        assert_eq!(
            typist.accept(answer(4, 1, 100)).unwrap().outcome,
            InputOutcome::Duplicate
        );
        assert_eq!(typist.accept(answer(4, 2, 101)), None);
        assert_eq!(
            typist.accept(answer(5, 3, 101)).unwrap().outcome,
            InputOutcome::Duplicate
        );
        assert_eq!(typist.answered_upto(), 101);
    }

    #[test]
    fn an_empty_input_is_written_at_once() {
        let mut typist = HolderInputQueue::default();
        assert_eq!(typist.accept(input(1, 1, b"")), None);
        assert_eq!(
            typist.write(|_| Err(Errno::AGAIN))[0].outcome,
            InputOutcome::Written
        );
    }
}
