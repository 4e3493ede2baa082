//! Encodes messages into bytes.

use super::frame::MAX_FRAME;
use super::{
    ChildExit, ChildSpec, ChildState, FdUse, ForegroundProbe, HelloOk, InputKind, InputMessage,
    InputOutcome, InputState, ProcessExit, ProcessIdentity, RefusalReason, SignalTarget, ToDaemon,
    ToHolder,
};

impl ToHolder {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            ToHolder::Hello { version, epoch } => frame(out, 1, |w| {
                w.u16(*version);
                w.u64(*epoch);
            }),
            ToHolder::Start(spec) => frame(out, 2, |w| w.spec(spec)),
            ToHolder::Input(input) => frame(out, 3, |w| w.input(input)),
            ToHolder::Resize { id, rows, cols } => frame(out, 4, |w| {
                w.u64(*id);
                w.u16(*rows);
                w.u16(*cols);
            }),
            ToHolder::Signal { id, target, signo } => frame(out, 5, |w| {
                w.u64(*id);
                w.u8(match target {
                    SignalTarget::Foreground => 0,
                    SignalTarget::Session => 1,
                    SignalTarget::Child => 2,
                });
                w.i32(*signo);
            }),
            ToHolder::Close { id, grace_ms } => frame(out, 6, |w| {
                w.u64(*id);
                w.u32(*grace_ms);
            }),
            ToHolder::Probe { id } => frame(out, 7, |w| w.u64(*id)),
            ToHolder::Leave => frame(out, 8, |_| {}),
        }
    }
}

impl ToDaemon {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            ToDaemon::HelloOk(hello) => frame(out, 1, |w| w.hello(hello)),
            ToDaemon::Refused {
                reason,
                errno,
                what,
            } => frame(out, 2, |w| {
                w.u8(match reason {
                    RefusalReason::NotYours => 0,
                    RefusalReason::Fenced => 1,
                    RefusalReason::NoHello => 2,
                    RefusalReason::Broken => 3,
                    RefusalReason::Replaced => 4,
                });
                w.i32(*errno);
                w.text(what);
            }),
            ToDaemon::Started(child) => frame(out, 3, |w| w.identity(*child)),
            ToDaemon::StartFailed { what, errno } => frame(out, 4, |w| {
                w.text(what);
                w.i32(*errno);
            }),
            ToDaemon::InputState(state) => frame(out, 5, |w| w.input_state(state)),
            ToDaemon::Exited(exited) => frame(out, 6, |w| w.exited(*exited)),
            ToDaemon::Probed { id, probe } => frame(out, 7, |w| {
                w.u64(*id);
                w.probe(probe);
            }),
            ToDaemon::Closed { id, left } => frame(out, 8, |w| {
                w.u64(*id);
                w.u32(*left);
            }),
            ToDaemon::Stalled { errno } => frame(out, 9, |w| w.i32(*errno)),
            ToDaemon::LogWritable => frame(out, 10, |_| {}),
            ToDaemon::Done { id } => frame(out, 11, |w| w.u64(*id)),
            ToDaemon::Failed { id, errno, what } => frame(out, 12, |w| {
                w.u64(*id);
                w.i32(*errno);
                w.text(what);
            }),
            ToDaemon::NoProcessesLeft => frame(out, 14, |_| {}),
            ToDaemon::ViewKeys { bytes } => frame(out, 15, |w| w.bytes(bytes)),
            ToDaemon::Resized { rows, cols } => frame(out, 16, |w| {
                w.u16(*rows);
                w.u16(*cols);
            }),
            ToDaemon::ExitPending(exited) => frame(out, 18, |w| w.exited(*exited)),
            ToDaemon::Unknown { kind } => frame(out, 13, |w| w.u8(*kind)),
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, fields: impl FnOnce(&mut FieldWriter<'_>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    fields(&mut FieldWriter(out));
    let length = out.len() - start - 4;
    // The peer would refuse a longer frame; `MessageLink::push` returns an error to its caller.
    debug_assert!(length <= MAX_FRAME);
    out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
}

/// Writes fixed little-endian fields, one after the other.
pub(crate) struct FieldWriter<'a>(pub(crate) &'a mut Vec<u8>);

impl FieldWriter<'_> {
    pub(crate) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }
    pub(crate) fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    pub(crate) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn i32(&mut self, v: i32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    fn flag(&mut self, v: bool) {
        self.u8(u8::from(v));
    }
    fn bytes(&mut self, v: &[u8]) {
        self.u32(v.len() as u32);
        self.0.extend_from_slice(v);
    }
    fn text(&mut self, v: &str) {
        self.bytes(v.as_bytes());
    }
    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.u32(items.len() as u32);
        for item in items {
            each(self, item);
        }
    }

    fn identity(&mut self, v: ProcessIdentity) {
        self.i32(v.pid);
        self.u64(v.start_time);
    }

    fn spec(&mut self, v: &ChildSpec) {
        self.list(&v.argv, |w, a| w.bytes(a));
        self.list(&v.env, |w, (key, value)| {
            w.bytes(key);
            w.bytes(value);
        });
        self.bytes(&v.cwd);
        self.u16(v.rows);
        self.u16(v.cols);
        self.u32(v.umask);
        self.u64(v.nofile.unwrap_or(0));
        self.u64(v.log_cap);
        self.u64(v.segment);
        self.list(&v.marks, |w, m| w.bytes(m));
        self.list(&v.kept, |w, k| {
            w.u16(match k {
                FdUse::AlsoChild(fd) => *fd,
                FdUse::HolderOnly => 0,
            });
        });
    }

    fn input(&mut self, v: &InputMessage) {
        self.u64(v.seq);
        self.0.extend_from_slice(&v.key);
        match v.kind {
            InputKind::Typed => {
                self.u8(0);
                self.u64(0);
            }
            InputKind::Answer { at } => {
                self.u8(1);
                self.u64(at);
            }
        }
        self.bytes(&v.bytes);
    }

    fn input_state(&mut self, v: &InputState) {
        self.u64(v.seq);
        self.0.extend_from_slice(&v.key);
        self.u32(v.written);
        self.u32(v.total);
        self.u8(match v.outcome {
            InputOutcome::Written => 0,
            InputOutcome::Pending => 1,
            InputOutcome::Duplicate => 2,
            InputOutcome::Lost => 3,
        });
    }

    fn exited(&mut self, v: ChildExit) {
        let (kind, value) = match v.ending {
            ProcessExit::Code(code) => (0, code),
            ProcessExit::Signal { signo, core: false } => (1, signo),
            ProcessExit::Signal { signo, core: true } => (2, signo),
            ProcessExit::Unknown => (3, 0),
        };
        self.u8(kind);
        self.i32(value);
        self.u64(v.output_end);
    }

    fn hello(&mut self, v: &HelloOk) {
        self.u16(v.version);
        self.i32(v.holder);
        self.u32(v.generation);
        self.flag(v.lossless);
        let none = ProcessIdentity {
            pid: 0,
            start_time: 0,
        };
        let nothing = ChildExit {
            ending: ProcessExit::Unknown,
            output_end: 0,
        };
        let (kind, child, exited) = match v.state {
            ChildState::Empty => (0, none, nothing),
            ChildState::Running(child) => (1, child, nothing),
            ChildState::Exited { child, exited } => (2, child, exited),
        };
        self.u8(kind);
        self.identity(child);
        self.exited(exited);
        self.u64(v.log_end);
        self.u64(v.last_input_seq);
        self.u64(v.answered_upto);
        self.u16(v.rows);
        self.u16(v.cols);
        self.i32(v.stalled.unwrap_or(0));
        self.flag(v.closing);
        self.flag(v.child_pidfd);
        self.u8(v.kept);
    }

    fn probe(&mut self, v: &ForegroundProbe) {
        self.i32(v.foreground);
        self.flag(v.canonical);
        self.flag(v.echo);
        let (pid, secret) = v.reader.map_or((0, false), |r| (r.pid, r.secret));
        self.i32(pid);
        self.flag(secret);
        self.flag(v.unreadable);
        self.flag(v.leader_in_fg);
        self.text(&v.child_comm);
        self.text(&v.foreground_comm);
    }
}
