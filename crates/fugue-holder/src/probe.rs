//! Determines from the kernel whether a line-mode program waits for input. A foreground process that is blocked in
//! `read` on the pane's terminal, while the terminal is in canonical mode, waits for a line; with echo off it waits for
//! a secret. The holder performs the probe, because Yama lets only an ancestor inspect a process.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, Termios};

use crate::proc::{self, ProcessStat};
use crate::wire::{ForegroundProbe, TtyReader};

// A foreground job with more threads than this that reads the terminal does not wait for a line.
const MAX_THREADS: usize = 64;

/// Probes the foreground of the terminal behind `master`, whose child is `child`.
pub(crate) fn probe_master(master: &OwnedFd, child: i32) -> ForegroundProbe {
    let modes = rustix::termios::tcgetattr(master).ok();
    let foreground = rustix::termios::tcgetpgrp(master).ok();
    let foreground = foreground.map(|group| group.as_raw_nonzero().get());
    inspect_foreground(modes, foreground, slave_device(master), child)
}

/// Probes a terminal whose master belongs to another process, such as tmux. The slave is opened by its path.
pub fn probe_path(terminal: &Path, child: i32) -> ForegroundProbe {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(terminal, flags, Mode::empty()).ok();
    let modes = file.and_then(|file| rustix::termios::tcgetattr(&file).ok());
    let foreground = ProcessStat::get(child).map(|stat| stat.foreground);
    let device = fs::metadata(terminal).ok().map(|file| file.rdev());
    inspect_foreground(modes, foreground.filter(|group| *group > 0), device, child)
}

fn inspect_foreground(
    modes: Option<Termios>,
    foreground: Option<i32>,
    terminal: Option<u64>,
    child: i32,
) -> ForegroundProbe {
    let mut probe = ForegroundProbe {
        child_comm: comm(child),
        ..ForegroundProbe::default()
    };
    if let Some(modes) = modes {
        probe.canonical = modes.local_modes.contains(LocalModes::ICANON);
        probe.echo = modes.local_modes.contains(LocalModes::ECHO);
    }
    let Some(foreground) = foreground else {
        return probe;
    };
    probe.foreground = foreground;
    let members = group_members(probe.foreground, child);
    let leader = members
        .iter()
        .find(|s| s.pid == probe.foreground)
        .or(members.first());
    probe.foreground_comm = leader.map(|s| s.comm.clone()).unwrap_or_default();
    probe.leader_in_fg = members.iter().any(|s| s.pid == child);
    for member in &members {
        match tty_wait(member, terminal) {
            TtyWait::ForLine if probe.canonical && probe.reader.is_none() => {
                probe.reader = Some(TtyReader {
                    pid: member.pid,
                    secret: !probe.echo,
                });
            }
            TtyWait::ForLine | TtyWait::No => {}
            TtyWait::Unreadable => probe.unreadable = true,
        }
    }
    // A setuid program (`su`, `sudo`) cannot be inspected; canonical mode without echo is sufficient evidence.
    if probe.reader.is_none()
        && probe.canonical
        && !probe.echo
        && let Some(hidden) = members
            .iter()
            .find(|m| matches!(tty_wait(m, terminal), TtyWait::Unreadable))
    {
        probe.reader = Some(TtyReader {
            pid: hidden.pid,
            secret: true,
        });
    }
    probe
}

/// Processes of the foreground group. All processes of a pane are descendants of its holder, unless the holder adopted
/// its child.
fn group_members(foreground: i32, child: i32) -> Vec<ProcessStat> {
    let of_group = |all: Vec<ProcessStat>| -> Vec<ProcessStat> {
        all.into_iter()
            .filter(|s| s.pgrp == foreground && !s.has_ended())
            .collect()
    };
    let near = of_group(proc::descendants(&[std::process::id() as i32, child]));
    if near.is_empty() {
        of_group(proc::all_processes())
    } else {
        near
    }
}

enum TtyWait {
    ForLine,
    No,
    Unreadable,
}

fn tty_wait(process: &ProcessStat, terminal: Option<u64>) -> TtyWait {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", process.pid)) else {
        return TtyWait::No;
    };
    for thread in threads.flatten().take(MAX_THREADS) {
        let task = thread.path();
        let call = match fs::read_to_string(task.join("syscall")) {
            Ok(call) => call,
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                return TtyWait::Unreadable;
            }
            // The thread has ended, or this kernel does not provide the file.
            Err(_) => continue,
        };
        let Some(fd) = read_syscall_fd(&call) else {
            continue;
        };
        let asleep_in_terminal = match fs::read_to_string(task.join("wchan")) {
            // The kernel shows `0` to callers without permission.
            Ok(place) => matches!(place.trim(), "wait_woken" | "0" | ""),
            Err(_) => true,
        };
        if asleep_in_terminal && is_terminal(process, fd, terminal) {
            return TtyWait::ForLine;
        }
    }
    TtyWait::No
}

/// The fd of a `read` that a thread is blocked in. The file contains `nr arg arg …`, in hex except for the first, or
/// `running`.
fn read_syscall_fd(call: &str) -> Option<i32> {
    let mut words = call.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    if number != libc::SYS_read {
        return None;
    }
    let fd = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    Some(fd as i32)
}

/// Whether the fd refers to this terminal, by its own name or as `/dev/tty`. A `read` from a pipe must not count.
fn is_terminal(process: &ProcessStat, fd: i32, terminal: Option<u64>) -> bool {
    let Ok(file) = fs::metadata(format!("/proc/{}/fd/{fd}", process.pid)) else {
        return false;
    };
    let dev_tty = rustix::fs::makedev(5, 0);
    file.file_type().is_char_device()
        && terminal.is_some()
        && (Some(file.rdev()) == terminal
            || (file.rdev() == dev_tty && Some(process.tty) == terminal))
}

/// The device number of the slave. `stat` encodes numbers up to 255 in the same way, and ptys have a major number per
/// 256 devices, so that both encodings agree.
fn slave_device(master: &OwnedFd) -> Option<u64> {
    let name = rustix::pty::ptsname(master, Vec::new()).ok()?;
    let number: u32 = name
        .to_str()
        .ok()?
        .strip_prefix("/dev/pts/")?
        .parse()
        .ok()?;
    Some(rustix::fs::makedev(136 + (number >> 8), number & 0xff))
}

fn comm(pid: i32) -> String {
    ProcessStat::get(pid).map(|s| s.comm).unwrap_or_default()
}
