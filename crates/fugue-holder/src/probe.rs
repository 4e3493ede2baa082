//! Whether a program waits for a person: a fact for line-mode programs, read from the kernel. A process of the
//! terminal's foreground that is blocked in `read` on this very terminal, while the terminal is in canonical mode,
//! waits for a line; with echo off it waits for a secret. The holder looks, because under Yama only an ancestor may.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, Termios};

use crate::proc::{self, Stat};
use crate::wire::{ForegroundProbe, TtyReader};

// A foreground job with more threads than this that reads its terminal is not one that waits for a line.
const MAX_THREADS: usize = 64;

/// Looks at the foreground of the terminal behind `master`, whose child is `child`.
pub(crate) fn probe(master: &OwnedFd, child: i32) -> ForegroundProbe {
    let modes = rustix::termios::tcgetattr(master).ok();
    let foreground = rustix::termios::tcgetpgrp(master).ok();
    let foreground = foreground.map(|group| group.as_raw_nonzero().get());
    look(modes, foreground, device(master), child)
}

/// The same for a terminal whose master is somebody else's, such as tmux's: its other end is opened by its path.
pub fn probe_at(terminal: &Path, child: i32) -> ForegroundProbe {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(terminal, flags, Mode::empty()).ok();
    let modes = file.and_then(|file| rustix::termios::tcgetattr(&file).ok());
    let foreground = Stat::of(child).map(|stat| stat.foreground);
    let device = fs::metadata(terminal).ok().map(|file| file.rdev());
    look(modes, foreground.filter(|group| *group > 0), device, child)
}

fn look(
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
    let members = members(probe.foreground, child);
    let leader = members
        .iter()
        .find(|s| s.pid == probe.foreground)
        .or(members.first());
    probe.foreground_comm = leader.map(|s| s.comm.clone()).unwrap_or_default();
    probe.leader_in_fg = members.iter().any(|s| s.pid == child);
    for member in &members {
        match waiting(member, terminal) {
            Waiting::ForLine if probe.canonical && probe.reader.is_none() => {
                probe.reader = Some(TtyReader {
                    pid: member.pid,
                    secret: !probe.echo,
                });
            }
            Waiting::ForLine | Waiting::No => {}
            Waiting::Unreadable => probe.unreadable = true,
        }
    }
    // A setuid program (`su`, `sudo`) does not let itself be looked into; canonical mode without echo says enough.
    if probe.reader.is_none()
        && probe.canonical
        && !probe.echo
        && let Some(hidden) = members
            .iter()
            .find(|m| matches!(waiting(m, terminal), Waiting::Unreadable))
    {
        probe.reader = Some(TtyReader {
            pid: hidden.pid,
            secret: true,
        });
    }
    probe
}

/// The foreground's processes. All that a pane started are its holder's descendants, but for a holder that took over.
fn members(foreground: i32, child: i32) -> Vec<Stat> {
    let of_group = |all: Vec<Stat>| -> Vec<Stat> {
        all.into_iter()
            .filter(|s| s.pgrp == foreground && !s.is_over())
            .collect()
    };
    let near = of_group(proc::descendants(&[std::process::id() as i32, child]));
    if near.is_empty() {
        of_group(proc::all())
    } else {
        near
    }
}

enum Waiting {
    ForLine,
    No,
    Unreadable,
}

fn waiting(process: &Stat, terminal: Option<u64>) -> Waiting {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", process.pid)) else {
        return Waiting::No;
    };
    for thread in threads.flatten().take(MAX_THREADS) {
        let task = thread.path();
        let call = match fs::read_to_string(task.join("syscall")) {
            Ok(call) => call,
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                return Waiting::Unreadable;
            }
            // It ended meanwhile, or this kernel does not tell.
            Err(_) => continue,
        };
        let Some(fd) = read_on(&call) else { continue };
        let asleep_in_terminal = match fs::read_to_string(task.join("wchan")) {
            // `0` is what the kernel shows to those who may not know.
            Ok(place) => matches!(place.trim(), "wait_woken" | "0" | ""),
            Err(_) => true,
        };
        if asleep_in_terminal && is_terminal(process, fd, terminal) {
            return Waiting::ForLine;
        }
    }
    Waiting::No
}

/// The fd of a `read` that a thread is blocked in. The file has `nr arg arg …` in hex but for the first, or `running`.
fn read_on(call: &str) -> Option<i32> {
    let mut words = call.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    if number != libc::SYS_read {
        return None;
    }
    let fd = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    Some(fd as i32)
}

/// Whether that fd is this terminal, by its own name or as `/dev/tty`. A `read` from a pipe must not count.
fn is_terminal(process: &Stat, fd: i32, terminal: Option<u64>) -> bool {
    let Ok(file) = fs::metadata(format!("/proc/{}/fd/{fd}", process.pid)) else {
        return false;
    };
    let dev_tty = rustix::fs::makedev(5, 0);
    file.file_type().is_char_device()
        && terminal.is_some()
        && (Some(file.rdev()) == terminal
            || (file.rdev() == dev_tty && Some(process.tty) == terminal))
}

/// The device number of the slave side. Numbers up to 255 look the same in `stat`'s encoding, and ptys have a major
/// per 256 of them, so that both encodings agree.
fn device(master: &OwnedFd) -> Option<u64> {
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
    Stat::of(pid).map(|s| s.comm).unwrap_or_default()
}
