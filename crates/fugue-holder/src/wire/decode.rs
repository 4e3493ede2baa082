//! Decodes bytes into messages. Invalid bytes return a [`WireFrameError`]; they never cause a panic or a large
//! allocation.

use super::frame::{HolderFrame, WireMessage};
use super::{
    ChildExit, ChildSpec, ChildState, FdUse, ForegroundProbe, HelloOk, InputKind, InputMessage,
    InputOutcome, InputState, MAX_KEPT_FDS, ProcessExit, ProcessIdentity, RefusalReason,
    SignalTarget, ToDaemon, ToHolder, TtyReader,
};

/// Why a frame is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireFrameError(pub &'static str);

impl std::fmt::Display for WireFrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invalid frame: {}", self.0)
    }
}

impl std::error::Error for WireFrameError {}

impl WireMessage for ToHolder {
    fn encode(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn decode(kind: u8, fields: &[u8]) -> Result<HolderFrame<ToHolder>, WireFrameError> {
        let mut r = FieldReader(fields);
        Ok(HolderFrame::Known(match kind {
            1 => ToHolder::Hello {
                version: r.u16()?,
                epoch: r.u64()?,
            },
            2 => ToHolder::Start(r.spec()?),
            3 => ToHolder::Input(r.input()?),
            4 => ToHolder::Resize {
                id: r.u64()?,
                rows: r.u16()?,
                cols: r.u16()?,
            },
            5 => ToHolder::Signal {
                id: r.u64()?,
                target: match r.u8()? {
                    0 => SignalTarget::Foreground,
                    1 => SignalTarget::Session,
                    2 => SignalTarget::Child,
                    _ => return Err(WireFrameError("unknown signal target")),
                },
                signo: r.i32()?,
            },
            6 => ToHolder::Close {
                id: r.u64()?,
                grace_ms: r.u32()?,
            },
            7 => ToHolder::Probe { id: r.u64()? },
            8 => ToHolder::Leave,
            kind => return Ok(HolderFrame::Unknown { kind }),
        }))
    }

    fn fds(&self) -> usize {
        match self {
            ToHolder::Start(spec) => spec.kept.len(),
            ToHolder::Hello { .. }
            | ToHolder::Input(_)
            | ToHolder::Resize { .. }
            | ToHolder::Signal { .. }
            | ToHolder::Close { .. }
            | ToHolder::Probe { .. }
            | ToHolder::Leave => 0,
        }
    }
}

impl WireMessage for ToDaemon {
    fn encode(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn decode(kind: u8, fields: &[u8]) -> Result<HolderFrame<ToDaemon>, WireFrameError> {
        let mut r = FieldReader(fields);
        Ok(HolderFrame::Known(match kind {
            1 => ToDaemon::HelloOk(r.hello()?),
            2 => ToDaemon::Refused {
                reason: match r.u8()? {
                    0 => RefusalReason::NotYours,
                    1 => RefusalReason::Fenced,
                    2 => RefusalReason::NoHello,
                    3 => RefusalReason::Broken,
                    4 => RefusalReason::Replaced,
                    _ => return Err(WireFrameError("unknown refusal reason")),
                },
                errno: r.i32()?,
                what: r.text()?,
            },
            3 => ToDaemon::Started(r.identity()?),
            4 => ToDaemon::StartFailed {
                what: r.text()?,
                errno: r.i32()?,
            },
            5 => ToDaemon::InputState(r.input_state()?),
            6 => ToDaemon::Exited(r.exited()?),
            7 => ToDaemon::Probed {
                id: r.u64()?,
                probe: r.probe()?,
            },
            8 => ToDaemon::Closed {
                id: r.u64()?,
                left: r.u32()?,
            },
            14 => ToDaemon::NoProcessesLeft,
            15 => ToDaemon::ViewKeys { bytes: r.bytes()? },
            16 => ToDaemon::Resized {
                rows: r.u16()?,
                cols: r.u16()?,
            },
            18 => ToDaemon::ExitPending(r.exited()?),
            9 => ToDaemon::Stalled { errno: r.i32()? },
            10 => ToDaemon::LogWritable,
            11 => ToDaemon::Done { id: r.u64()? },
            12 => ToDaemon::Failed {
                id: r.u64()?,
                errno: r.i32()?,
                what: r.text()?,
            },
            13 => ToDaemon::Unknown { kind: r.u8()? },
            kind => return Ok(HolderFrame::Unknown { kind }),
        }))
    }

    fn fds(&self) -> usize {
        match self {
            ToDaemon::HelloOk(hello) => {
                4 + usize::from(hello.child_pidfd) + usize::from(hello.kept)
            }
            ToDaemon::Started(_) => 1,
            ToDaemon::Refused { .. }
            | ToDaemon::StartFailed { .. }
            | ToDaemon::InputState(_)
            | ToDaemon::Exited(_)
            | ToDaemon::ExitPending(_)
            | ToDaemon::Probed { .. }
            | ToDaemon::Closed { .. }
            | ToDaemon::Stalled { .. }
            | ToDaemon::LogWritable
            | ToDaemon::NoProcessesLeft
            | ToDaemon::ViewKeys { .. }
            | ToDaemon::Resized { .. }
            | ToDaemon::Done { .. }
            | ToDaemon::Failed { .. }
            | ToDaemon::Unknown { .. } => 0,
        }
    }
}

struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], WireFrameError> {
        let (taken, rest) = self
            .0
            .split_at_checked(n)
            .ok_or(WireFrameError("field is truncated"))?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireFrameError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }
    fn u8(&mut self) -> Result<u8, WireFrameError> {
        Ok(u8::from_le_bytes(self.array()?))
    }
    fn u16(&mut self) -> Result<u16, WireFrameError> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    fn u32(&mut self) -> Result<u32, WireFrameError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64, WireFrameError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn i32(&mut self) -> Result<i32, WireFrameError> {
        Ok(i32::from_le_bytes(self.array()?))
    }
    fn flag(&mut self) -> Result<bool, WireFrameError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireFrameError("flag is neither 0 nor 1")),
        }
    }
    fn bytes(&mut self) -> Result<Vec<u8>, WireFrameError> {
        let length = self.u32()? as usize;
        Ok(self.take(length)?.to_vec())
    }
    fn text(&mut self) -> Result<String, WireFrameError> {
        String::from_utf8(self.bytes()?).map_err(|_| WireFrameError("text is not UTF-8"))
    }
    /// Allocates per element that is present: a count alone allocates nothing.
    fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, WireFrameError>,
    ) -> Result<Vec<T>, WireFrameError> {
        let mut items = Vec::new();
        for _ in 0..self.u32()? {
            items.push(each(self)?);
        }
        Ok(items)
    }

    fn identity(&mut self) -> Result<ProcessIdentity, WireFrameError> {
        Ok(ProcessIdentity {
            pid: self.i32()?,
            start_time: self.u64()?,
        })
    }

    fn spec(&mut self) -> Result<ChildSpec, WireFrameError> {
        let spec = ChildSpec {
            argv: self.list(Self::bytes)?,
            env: self.list(|r| Ok((r.bytes()?, r.bytes()?)))?,
            cwd: self.bytes()?,
            rows: self.u16()?,
            cols: self.u16()?,
            umask: self.u32()?,
            nofile: match self.u64()? {
                0 => None,
                limit => Some(limit),
            },
            log_cap: self.u64()?,
            segment: self.u64()?,
            marks: self.list(Self::bytes)?,
            kept: self.list(|r| {
                Ok(match r.u16()? {
                    0 => FdUse::HolderOnly,
                    1 | 2 => return Err(WireFrameError("kept fd would replace stdout or stderr")),
                    fd => FdUse::AlsoChild(fd),
                })
            })?,
        };
        if spec.argv.is_empty() {
            return Err(WireFrameError("argv is empty"));
        }
        if spec.kept.len() > MAX_KEPT_FDS {
            return Err(WireFrameError("too many kept fds"));
        }
        Ok(spec)
    }

    fn input(&mut self) -> Result<InputMessage, WireFrameError> {
        Ok(InputMessage {
            seq: self.u64()?,
            key: self.array()?,
            kind: match (self.u8()?, self.u64()?) {
                (0, _) => InputKind::Typed,
                (1, at) => InputKind::Answer { at },
                _ => return Err(WireFrameError("unknown input kind")),
            },
            bytes: self.bytes()?,
        })
    }

    fn input_state(&mut self) -> Result<InputState, WireFrameError> {
        Ok(InputState {
            seq: self.u64()?,
            key: self.array()?,
            written: self.u32()?,
            total: self.u32()?,
            outcome: match self.u8()? {
                0 => InputOutcome::Written,
                1 => InputOutcome::Pending,
                2 => InputOutcome::Duplicate,
                3 => InputOutcome::Lost,
                _ => return Err(WireFrameError("unknown input outcome")),
            },
        })
    }

    fn exited(&mut self) -> Result<ChildExit, WireFrameError> {
        let ending = match (self.u8()?, self.i32()?) {
            (0, code) => ProcessExit::Code(code),
            (1, signo) => ProcessExit::Signal { signo, core: false },
            (2, signo) => ProcessExit::Signal { signo, core: true },
            (3, _) => ProcessExit::Unknown,
            _ => return Err(WireFrameError("unknown exit kind")),
        };
        Ok(ChildExit {
            ending,
            output_end: self.u64()?,
        })
    }

    fn hello(&mut self) -> Result<HelloOk, WireFrameError> {
        Ok(HelloOk {
            version: self.u16()?,
            holder: self.i32()?,
            generation: self.u32()?,
            lossless: self.flag()?,
            state: match (self.u8()?, self.identity()?, self.exited()?) {
                (0, _, _) => ChildState::Empty,
                (1, child, _) => ChildState::Running(child),
                (2, child, exited) => ChildState::Exited { child, exited },
                _ => return Err(WireFrameError("unknown child state")),
            },
            log_end: self.u64()?,
            last_input_seq: self.u64()?,
            answered_upto: self.u64()?,
            rows: self.u16()?,
            cols: self.u16()?,
            stalled: match self.i32()? {
                0 => None,
                errno => Some(errno),
            },
            closing: self.flag()?,
            child_pidfd: self.flag()?,
            kept: self.u8()?,
        })
    }

    fn probe(&mut self) -> Result<ForegroundProbe, WireFrameError> {
        Ok(ForegroundProbe {
            foreground: self.i32()?,
            canonical: self.flag()?,
            echo: self.flag()?,
            reader: match (self.i32()?, self.flag()?) {
                (0, _) => None,
                (pid, secret) => Some(TtyReader { pid, secret }),
            },
            unreadable: self.flag()?,
            leader_in_fg: self.flag()?,
            child_comm: self.text()?,
            foreground_comm: self.text()?,
        })
    }
}
