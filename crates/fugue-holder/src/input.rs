//! What is to be typed: each input once, in order, however often it is asked for. No I/O here; the terminal is a
//! function that takes some of the bytes.

use std::collections::VecDeque;

use rustix::io::Errno;

use crate::wire::{InputKind, InputMessage, InputOutcome, InputState};

// More than any paste a person makes, and little enough for a small process.
const MAX_QUEUED: usize = 1 << 20;
// A daemon asks again only for what it had under way when its connection broke, which is far less.
const KEYS: usize = 256;

/// The queue and its memory.
#[derive(Default)]
pub(crate) struct Typist {
    queue: VecDeque<Item>,
    queued: usize,
    seen: VecDeque<Seen>,
    last_seq: u64,
    answered_upto: u64,
}

struct Item {
    seq: u64,
    key: [u8; 16],
    bytes: Vec<u8>,
    written: usize,
}

struct Seen {
    key: [u8; 16],
    written: u32,
    total: u32,
}

impl Typist {
    /// Goes on after a holder that died; what it had under way is of unknown fate and is the daemon's to report.
    pub(crate) fn resume(last_seq: u64, answered_upto: u64) -> Typist {
        Typist {
            last_seq,
            answered_upto,
            ..Typist::default()
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

    /// How far an input with this key got, if it is known.
    pub(crate) fn seen(&self, seq: u64, key: [u8; 16]) -> Option<InputState> {
        let Seen { written, total, .. } = *self.seen.iter().find(|s| s.key == key)?;
        Some(InputState {
            seq,
            key,
            written,
            total,
            outcome: InputOutcome::Duplicate,
        })
    }

    /// Takes an input in. `Some` is its final state now; `None` means that it is queued and `write` tells more.
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
        if let Some(duplicate) = self.seen(seq, key) {
            return Some(duplicate);
        }
        if let InputKind::Answer { at } = kind
            && at <= self.answered_upto
        {
            return state(total, total, InputOutcome::Duplicate);
        }
        // An old number with a new key: the key fell out of the ring, and what became of it is not known any more.
        if seq <= self.last_seq || self.queued + bytes.len() > MAX_QUEUED {
            return state(0, total, InputOutcome::Lost);
        }
        self.last_seq = seq;
        if let InputKind::Answer { at } = kind {
            self.answered_upto = at;
        }
        self.remember(Seen {
            key,
            written: 0,
            total,
        });
        self.queued += bytes.len();
        self.queue.push_back(Item {
            seq,
            key,
            bytes,
            written: 0,
        });
        None
    }

    /// Queues what a person types in the terminal that shows the pane. Nobody waits for its outcome.
    pub(crate) fn person(&mut self, bytes: Vec<u8>) {
        self.queued += bytes.len();
        self.queue.push_back(Item {
            seq: 0,
            key: [0; 16],
            bytes,
            written: 0,
        });
    }

    /// Hands bytes to `write` until it would block. Reports each input that is finished.
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
                        self.queued -= n;
                        if item.written < item.bytes.len() {
                            continue;
                        }
                        InputOutcome::Written
                    }
                    // The terminal is gone.
                    Err(_) => InputOutcome::Lost,
                }
            };
            finished.extend(self.finish(outcome).filter(InputState::is_awaited));
        }
        if let Some(item) = self.queue.front() {
            let (key, written) = (item.key, item.written as u32);
            self.note(key, written);
        }
        finished
    }

    /// Where a queued input stands, to be told once after it came in.
    pub(crate) fn pending(&self, seq: u64) -> Option<InputState> {
        let item = self.queue.iter().find(|i| i.seq == seq)?;
        Some(item.state(InputOutcome::Pending))
    }

    /// The child ended: nothing of what is queued will be read.
    pub(crate) fn give_up(&mut self) -> Vec<InputState> {
        let mut lost = Vec::new();
        while let Some(state) = self.finish(InputOutcome::Lost) {
            lost.push(state);
        }
        lost.retain(InputState::is_awaited);
        lost
    }

    fn finish(&mut self, outcome: InputOutcome) -> Option<InputState> {
        let item = self.queue.pop_front()?;
        self.queued -= item.bytes.len() - item.written;
        self.note(item.key, item.written as u32);
        Some(item.state(outcome))
    }

    fn remember(&mut self, seen: Seen) {
        if self.seen.len() == KEYS {
            self.seen.pop_front();
        }
        self.seen.push_back(seen);
    }

    fn note(&mut self, key: [u8; 16], written: u32) {
        if let Some(seen) = self.seen.iter_mut().find(|s| s.key == key) {
            seen.written = written;
        }
    }
}

impl InputState {
    /// A daemon's inputs are numbered from 1; a person's have no number.
    fn is_awaited(&self) -> bool {
        self.seq > 0
    }
}

impl Item {
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

    /// A terminal that takes `room` bytes.
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
        let mut typist = Typist::default();
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
        let mut typist = Typist::default();
        let mut typed = Vec::new();
        assert_eq!(typist.accept(input(1, 1, b"abcdef")), None);
        assert_eq!(typist.accept(input(2, 2, b"ghi")), None);
        assert_eq!(typist.write(terminal(&mut typed, 4)), []);
        assert_eq!(typist.pending(1).unwrap().written, 4);
        assert_eq!(typist.pending(2).unwrap().written, 0);
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
        let mut typist = Typist::default();
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
        assert_eq!(typist.give_up()[0].outcome, InputOutcome::Lost);
        assert_eq!(typist.accept(input(6, 4, b"x")), None);
    }

    #[test]
    fn a_query_is_answered_once_also_by_the_next_daemon() {
        let mut typist = Typist::resume(3, 100);
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
        let mut typist = Typist::default();
        assert_eq!(typist.accept(input(1, 1, b"")), None);
        assert_eq!(
            typist.write(|_| Err(Errno::AGAIN))[0].outcome,
            InputOutcome::Written
        );
    }
}
