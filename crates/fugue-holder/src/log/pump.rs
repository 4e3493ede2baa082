//! Moves output from the PTY to the log: master → pipe → file, with `splice`, so that no byte is ever only in the
//! memory of this process. A `kill -9` at any instruction leaves each byte in the PTY, in the pipe or in the file. All
//! three outlive the holder, because the daemon has dups of the fds.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::LogSegments;

// The kernel lets a user have 1,024 pipes of the default 64 KiB before it shrinks new ones. This size allows four times
// as many panes, and a PTY returns at most 4 KiB per read.
const PIPE_SIZE: usize = 16 << 10;

/// The pipe and the log, and how bytes move between them.
pub(crate) struct OutputPump {
    pub(crate) pipe_r: OwnedFd,
    pub(crate) pipe_w: OwnedFd,
    pub(crate) log: LogSegments,
    mode: PumpMode,
}

enum PumpMode {
    /// The pipe holds `in_pipe` bytes.
    Splice { in_pipe: usize },
    /// For kernels or filesystems without splice. A `kill -9` loses bytes that were read and not written yet.
    Copy { buffer: Vec<u8> },
}

/// State of the PTY after a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PumpStatus {
    /// The budget is used up; the PTY may have more output.
    BudgetUsed,
    /// All available output was moved.
    Drained,
    /// No process has the slave open any more, and all output was moved.
    HungUp,
}

/// The log cannot be written. Bytes in the pipe or buffer stay there.
#[derive(Debug)]
pub(crate) struct LogStall(pub(crate) io::Error);

impl OutputPump {
    pub(crate) fn new(log: LogSegments) -> io::Result<OutputPump> {
        let (pipe_r, pipe_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // The kernel refuses if the user has too many pipes. The pipe then has a smaller default size, which works as
        // well.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe_w, PIPE_SIZE);
        Ok(OutputPump {
            pipe_r,
            pipe_w,
            log,
            mode: PumpMode::Splice { in_pipe: 0 },
        })
    }

    /// Takes over the pipe of a dead holder. The bytes in the pipe are moved first.
    pub(crate) fn adopt(
        pipe_r: OwnedFd,
        pipe_w: OwnedFd,
        log: LogSegments,
    ) -> io::Result<OutputPump> {
        let in_pipe = rustix::io::ioctl_fionread(&pipe_r)? as usize;
        Ok(OutputPump {
            pipe_r,
            pipe_w,
            log,
            mode: PumpMode::Splice { in_pipe },
        })
    }

    /// Detects, before the first output, whether splice works here.
    pub(crate) fn detect_splice(&mut self, master: &OwnedFd) {
        let from_terminal = splice_in(master, &self.pipe_w);
        let to_file = match self.log.writable_range() {
            Ok((file, at, _)) => splice_out(&self.pipe_r, file, at, 1),
            Err(_) => return,
        };
        if from_terminal == Err(Errno::INVAL) || to_file == Err(Errno::INVAL) {
            self.switch_to_copy();
        }
    }

    pub(crate) fn switch_to_copy(&mut self) {
        if let PumpMode::Splice { .. } = self.mode {
            self.mode = PumpMode::Copy { buffer: Vec::new() };
        }
    }

    pub(crate) fn is_lossless(&self) -> bool {
        matches!(self.mode, PumpMode::Splice { .. })
    }

    /// Moves about `budget` bytes at most. Returns how many bytes reached the log, which can be more than 0 even with a
    /// stall.
    pub(crate) fn move_bytes(
        &mut self,
        master: &OwnedFd,
        budget: u64,
    ) -> (u64, Result<PumpStatus, LogStall>) {
        let before = self.log.end_offset();
        let result = loop {
            if let Err(stall) = self.write_to_log() {
                break Err(stall);
            }
            if self.log.end_offset() - before >= budget {
                break Ok(PumpStatus::BudgetUsed);
            }
            match self.read_terminal(master) {
                Ok(0) | Err(Errno::IO) => break Ok(PumpStatus::HungUp),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ok(PumpStatus::Drained),
                Err(Errno::INVAL) if self.is_lossless() => self.switch_to_copy(),
                Err(e) => break Err(LogStall(e.into())),
            }
        };
        (self.log.end_offset() - before, result)
    }

    /// The end of the log after all bytes taken from the PTY are written.
    pub(crate) fn taken_offset(&self) -> u64 {
        let in_pipe = match &self.mode {
            PumpMode::Splice { in_pipe } => *in_pipe,
            PumpMode::Copy { buffer } => buffer.len(),
        };
        self.log.end_offset() + in_pipe as u64
    }

    /// Discards the output in the PTY and the pipe, which will not get space on disk. Returns the number of discarded
    /// bytes.
    pub(crate) fn discard(&mut self, master: &OwnedFd) -> u64 {
        let mut lost = 0;
        match &mut self.mode {
            // These bytes are read from the pipe below.
            PumpMode::Splice { in_pipe } => *in_pipe = 0,
            PumpMode::Copy { buffer } => lost += std::mem::take(buffer).len() as u64,
        }
        let mut buffer = [0; 4096];
        for from in [&self.pipe_r, master] {
            loop {
                match rustix::io::read(from, &mut buffer) {
                    Ok(0) => break,
                    Ok(count) => lost += count as u64,
                    Err(Errno::INTR) => {}
                    // Empty, or closed.
                    Err(_) => break,
                }
            }
        }
        lost
    }

    fn read_terminal(&mut self, master: &OwnedFd) -> Result<usize, Errno> {
        match &mut self.mode {
            PumpMode::Splice { in_pipe } => {
                let got = splice_in(master, &self.pipe_w)?;
                *in_pipe += got;
                Ok(got)
            }
            PumpMode::Copy { buffer } => {
                buffer.resize(PIPE_SIZE, 0);
                let got = rustix::io::read(master, buffer.as_mut_slice());
                buffer.truncate(got.unwrap_or(0));
                got
            }
        }
    }

    /// Moves bytes from the pipe or buffer to the log.
    fn write_to_log(&mut self) -> Result<(), LogStall> {
        if let PumpMode::Copy { buffer } = &mut self.mode
            && buffer.is_empty()
        {
            // Bytes that a splicing holder left in the pipe. Empty after the first time.
            buffer.resize(PIPE_SIZE, 0);
            let got = rustix::io::read(&self.pipe_r, buffer.as_mut_slice());
            buffer.truncate(got.unwrap_or(0));
        }
        loop {
            let (file, at, room) = self.log.writable_range().map_err(LogStall)?;
            let moved = match &mut self.mode {
                PumpMode::Splice { in_pipe: 0 } => return Ok(()),
                PumpMode::Splice { in_pipe } => {
                    match splice_out(&self.pipe_r, file, at, room.min(*in_pipe as u64) as usize) {
                        Ok(moved) => {
                            *in_pipe -= moved;
                            moved
                        }
                        Err(Errno::INTR) => continue,
                        Err(Errno::INVAL) => {
                            self.switch_to_copy();
                            return self.write_to_log();
                        }
                        Err(e) => return Err(LogStall(e.into())),
                    }
                }
                PumpMode::Copy { buffer } if buffer.is_empty() => return Ok(()),
                PumpMode::Copy { buffer } => {
                    let some = buffer.len().min(room as usize);
                    match file.write_at(&buffer[..some], at) {
                        Ok(moved) => {
                            buffer.drain(..moved);
                            moved
                        }
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                        Err(e) => return Err(LogStall(e)),
                    }
                }
            };
            if moved == 0 {
                return Err(LogStall(Errno::IO.into()));
            }
            self.log.advance(moved as u64);
        }
    }
}

pub(crate) fn splice_in(master: &OwnedFd, pipe_w: &OwnedFd) -> Result<usize, Errno> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    rustix::pipe::splice(master, None, pipe_w, None, PIPE_SIZE, flags)
}

fn splice_out(pipe_r: &OwnedFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let mut at = at;
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    rustix::pipe::splice(pipe_r, None, file, Some(&mut at), len, flags)
}
