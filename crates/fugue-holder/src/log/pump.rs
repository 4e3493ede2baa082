//! Moves output from the terminal to the log: master → pipe → file, with `splice`, so that no byte is ever only in
//! this process's memory. A kill -9 at any instruction leaves each byte in the terminal, in the pipe or in the file,
//! and all three outlive the process in the hands of the daemon.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::Segments;

// A user may have 1,024 pipes of the default 64 KiB before the kernel shrinks them; this allows four times as many
// panes, and a terminal hands out at most 4 KiB at a time anyway.
const PIPE_SIZE: usize = 16 << 10;

/// The pipe, the log and the way between them.
pub(crate) struct Pump {
    pub(crate) pipe_r: OwnedFd,
    pub(crate) pipe_w: OwnedFd,
    pub(crate) log: Segments,
    way: Way,
}

enum Way {
    /// `held` bytes are in the pipe.
    Splice { held: usize },
    /// Where a kernel or a filesystem has no splice. What was read and not yet written is lost by a kill -9.
    Copy { buffer: Vec<u8> },
}

/// What was at the terminal's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The budget is used up; there may be more.
    Budget,
    /// All that is there was taken.
    Empty,
    /// Nobody has the terminal open any more, and all was taken.
    HungUp,
}

/// The log could not take more; what is held stays held.
#[derive(Debug)]
pub(crate) struct Stall(pub(crate) io::Error);

impl Pump {
    pub(crate) fn new(log: Segments) -> io::Result<Pump> {
        let (pipe_r, pipe_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Refused when the user has too many pipes; the smaller default of then works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe_w, PIPE_SIZE);
        Ok(Pump {
            pipe_r,
            pipe_w,
            log,
            way: Way::Splice { held: 0 },
        })
    }

    /// Goes on with the pipe of a holder that died; what is in it is moved first.
    pub(crate) fn adopt(pipe_r: OwnedFd, pipe_w: OwnedFd, log: Segments) -> io::Result<Pump> {
        let held = rustix::io::ioctl_fionread(&pipe_r)? as usize;
        Ok(Pump {
            pipe_r,
            pipe_w,
            log,
            way: Way::Splice { held },
        })
    }

    /// Finds out, before there is any output, whether splice works here.
    pub(crate) fn try_splice(&mut self, master: &OwnedFd) {
        let from_terminal = splice_in(master, &self.pipe_w);
        let to_file = match self.log.room() {
            Ok((file, at, _)) => splice_out(&self.pipe_r, file, at, 1),
            Err(_) => return,
        };
        if from_terminal == Err(Errno::INVAL) || to_file == Err(Errno::INVAL) {
            self.copy_from_now_on();
        }
    }

    pub(crate) fn copy_from_now_on(&mut self) {
        if let Way::Splice { .. } = self.way {
            self.way = Way::Copy { buffer: Vec::new() };
        }
    }

    pub(crate) fn lossless(&self) -> bool {
        matches!(self.way, Way::Splice { .. })
    }

    /// Moves up to about `budget` bytes. Returns how many reached the log, which may be some also with a stall.
    pub(crate) fn turn(&mut self, master: &OwnedFd, budget: u64) -> (u64, Result<Moved, Stall>) {
        let before = self.log.end();
        let result = loop {
            if let Err(stall) = self.store() {
                break Err(stall);
            }
            if self.log.end() - before >= budget {
                break Ok(Moved::Budget);
            }
            match self.take(master) {
                Ok(0) | Err(Errno::IO) => break Ok(Moved::HungUp),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ok(Moved::Empty),
                Err(Errno::INVAL) if self.lossless() => self.copy_from_now_on(),
                Err(e) => break Err(Stall(e.into())),
            }
        };
        (self.log.end() - before, result)
    }

    /// The offset that the log will have when all that was taken from the terminal is in it.
    pub(crate) fn taken_upto(&self) -> u64 {
        let held = match &self.way {
            Way::Splice { held } => *held,
            Way::Copy { buffer } => buffer.len(),
        };
        self.log.end() + held as u64
    }

    /// Reads away what waits in the terminal and the pipe, for which there is no room on the disk and will be none. Returns
    /// how much that was.
    pub(crate) fn discard(&mut self, master: &OwnedFd) -> u64 {
        let mut lost = 0;
        match &mut self.way {
            // In the pipe, and read from there.
            Way::Splice { held } => *held = 0,
            Way::Copy { buffer } => lost += std::mem::take(buffer).len() as u64,
        }
        let mut buffer = [0; 4096];
        for from in [&self.pipe_r, master] {
            loop {
                match rustix::io::read(from, &mut buffer) {
                    Ok(0) => break,
                    Ok(count) => lost += count as u64,
                    Err(Errno::INTR) => {}
                    // Nothing is left there.
                    Err(_) => break,
                }
            }
        }
        lost
    }

    fn take(&mut self, master: &OwnedFd) -> Result<usize, Errno> {
        match &mut self.way {
            Way::Splice { held } => {
                let got = splice_in(master, &self.pipe_w)?;
                *held += got;
                Ok(got)
            }
            Way::Copy { buffer } => {
                buffer.resize(PIPE_SIZE, 0);
                let got = rustix::io::read(master, buffer.as_mut_slice());
                buffer.truncate(got.unwrap_or(0));
                got
            }
        }
    }

    /// Moves what is held to the log.
    fn store(&mut self) -> Result<(), Stall> {
        if let Way::Copy { buffer } = &mut self.way
            && buffer.is_empty()
        {
            // What a splicing predecessor left in the pipe; empty ever after.
            buffer.resize(PIPE_SIZE, 0);
            let got = rustix::io::read(&self.pipe_r, buffer.as_mut_slice());
            buffer.truncate(got.unwrap_or(0));
        }
        loop {
            let (file, at, room) = self.log.room().map_err(Stall)?;
            let moved = match &mut self.way {
                Way::Splice { held: 0 } => return Ok(()),
                Way::Splice { held } => {
                    match splice_out(&self.pipe_r, file, at, room.min(*held as u64) as usize) {
                        Ok(moved) => {
                            *held -= moved;
                            moved
                        }
                        Err(Errno::INTR) => continue,
                        Err(Errno::INVAL) => {
                            self.copy_from_now_on();
                            return self.store();
                        }
                        Err(e) => return Err(Stall(e.into())),
                    }
                }
                Way::Copy { buffer } if buffer.is_empty() => return Ok(()),
                Way::Copy { buffer } => {
                    let some = buffer.len().min(room as usize);
                    match file.write_at(&buffer[..some], at) {
                        Ok(moved) => {
                            buffer.drain(..moved);
                            moved
                        }
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                        Err(e) => return Err(Stall(e)),
                    }
                }
            };
            if moved == 0 {
                return Err(Stall(Errno::IO.into()));
            }
            self.log.grew(moved as u64);
        }
    }
}

fn splice_in(master: &OwnedFd, pipe_w: &OwnedFd) -> Result<usize, Errno> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    rustix::pipe::splice(master, None, pipe_w, None, PIPE_SIZE, flags)
}

fn splice_out(pipe_r: &OwnedFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let mut at = at;
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    rustix::pipe::splice(pipe_r, None, file, Some(&mut at), len, flags)
}
