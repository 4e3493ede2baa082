//! The host terminal: switched to raw mode and the alternate screen, and restored when the process ends (except by SIGKILL).

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fugue_api::{Error, tools::PaneSize};
use fugue_client::async_fd::register_fd;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    termios::{OptionalActions, Termios},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Alternate screen, no wrapping, normal cursor keys and keypad, bracketed paste, focus and mouse events.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?7l\x1b[?1l\x1b>\x1b[?2004h\x1b[?1004h\
    \x1b[?1000h\x1b[?1002h\x1b[?1006h\x1b[?25l\x1b[2J";
/// Queries kitty's keyboard protocol and the device attributes. Every terminal replies to the second query, so a missing reply to
/// the first is detected without a timeout.
const QUERY: &[u8] = b"\x1b[?u\x1b[c";
const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1006l\x1b[?1004l\x1b[?2004l\
    \x1b[?7h\x1b[0m\x1b[0 q\x1b[?25h\x1b[?1049l";
const POP_KEYBOARD: &[u8] = b"\x1b[<u";

/// The state to restore. A static, because the panic hook needs it too.
static SAVED: Mutex<Option<SavedTerminal>> = Mutex::new(None);

struct SavedTerminal {
    terminal: OwnedFd,
    /// The settings before raw mode.
    settings: Termios,
    keyboard_pushed: bool,
    /// The file status flags to restore, if the descriptor is shared with other processes.
    was: Option<OFlags>,
}

pub struct HostTerminal {
    terminal: AsyncFd<OwnedFd>,
    /// A second descriptor, registered for writability only while a write would block: registered on the first one, readable
    /// events would wake the writer.
    sink: OwnedFd,
    /// Bytes to write: at most one screen.
    out: Vec<u8>,
    keyboard: Option<u8>,
    motion: bool,
}

impl HostTerminal {
    pub fn open() -> Result<Self, Error> {
        let unavailable = |error: io::Error| Error::unavailable(format!("the terminal: {error}"));
        let (terminal, was) = open_tty().map_err(unavailable)?;
        let settings =
            rustix::termios::tcgetattr(&terminal).map_err(|error| unavailable(error.into()))?;
        let kept = SavedTerminal {
            terminal: terminal.try_clone().map_err(unavailable)?,
            settings: settings.clone(),
            keyboard_pushed: false,
            was,
        };
        *lock() = Some(kept);
        restore_on_panic();
        let host = Self {
            sink: terminal.try_clone().map_err(unavailable)?,
            terminal: register_fd(terminal, Interest::READABLE).map_err(unavailable)?,
            out: Vec::new(),
            keyboard: None,
            motion: false,
        };
        let mut host = host;
        host.enter(&settings).map_err(unavailable)?;
        host.out.extend_from_slice(QUERY);
        Ok(host)
    }

    fn enter(&mut self, settings: &Termios) -> io::Result<()> {
        let mut raw = settings.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(self.terminal.get_ref(), OptionalActions::Flush, &raw)?;
        self.out.extend_from_slice(ENTER);
        Ok(())
    }

    /// Sets all modes again after the process was stopped and continued.
    pub fn reenter(&mut self) {
        let settings = lock().as_ref().map(|saved| saved.settings.clone());
        if let Some(settings) = settings {
            let _ = self.enter(&settings);
        }
        if let Some(flags) = self.keyboard {
            self.out
                .extend_from_slice(format!("\x1b[={flags};1u").as_bytes());
        }
    }

    pub fn size(&self) -> PaneSize {
        let size = rustix::termios::tcgetwinsize(self.terminal.get_ref());
        let (rows, cols) = size.map_or((0, 0), |size| (size.ws_row, size.ws_col));
        // A terminal without a size counts as 24×80. The upper limit bounds memory.
        let or = |given: u16, other: u16| if given == 0 { other } else { given.min(1000) };
        PaneSize {
            rows: or(rows, 24),
            cols: or(cols, 80),
        }
    }

    /// Enables kitty's keyboard protocol, after the terminal has reported support.
    pub fn enable_kitty(&mut self) {
        if self.keyboard.is_none() {
            self.keyboard = Some(1);
            self.out.extend_from_slice(b"\x1b[>1u");
            if let Some(saved) = lock().as_mut() {
                saved.keyboard_pushed = true;
            }
        }
    }

    /// Sets the keyboard flags of the program in focus, if the terminal supports the protocol.
    pub fn set_keyboard(&mut self, flags: u8) {
        let mut flags = 1 | flags & 0b1_1111;
        if flags & 8 != 0 {
            // With all keys as escape codes, the text is requested too: the picker and the search prompt need it.
            flags |= 4 | 16;
        }
        if self.keyboard.is_some_and(|now| now != flags) {
            self.keyboard = Some(flags);
            self.out
                .extend_from_slice(format!("\x1b[={flags};1u").as_bytes());
        }
    }

    pub fn set_motion(&mut self, motion: bool) {
        if self.motion != motion {
            self.motion = motion;
            let words: &[u8] = if motion {
                b"\x1b[?1003h"
            } else {
                b"\x1b[?1003l\x1b[?1002h"
            };
            self.out.extend_from_slice(words);
        }
    }

    /// Copies to the clipboard with OSC 52.
    pub fn copy(&mut self, text: &str) {
        self.out.extend_from_slice(b"\x1b]52;c;");
        base64(text.as_bytes(), &mut self.out);
        self.out.push(7);
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Whether bytes are left to write; nothing is drawn before they are written.
    pub fn has_unwritten(&self) -> bool {
        !self.out.is_empty()
    }

    /// Waits until the terminal accepts bytes and returns how many were written.
    pub async fn flush(&self) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.sink, &self.out) {
                Ok(written) => return Ok(written),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let room = register_fd(self.sink.as_fd(), Interest::WRITABLE)?;
                    let _ = room.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes written bytes from the buffer.
    pub fn discard_written(&mut self, length: usize) {
        self.out.drain(..length);
    }

    /// Reads input; empty if the terminal was closed.
    pub async fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut ready = self.terminal.readable().await?;
            let mut bytes = Vec::with_capacity(16 * 1024);
            let room = bytes.capacity();
            let mut read = |terminal: &AsyncFd<OwnedFd>| {
                let room = rustix::buffer::spare_capacity(&mut bytes);
                Ok(rustix::io::read(terminal, room)?)
            };
            match ready.try_io(&mut read) {
                Ok(Ok(length)) => {
                    // A short read: the descriptor is not readable any more.
                    if 0 < length && length < room {
                        ready.clear_ready();
                    }
                    return Ok(bytes);
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Restores the terminal after the buffered bytes are written.
    pub fn leave(mut self) {
        let rest = std::mem::take(&mut self.out);
        write_all(self.terminal.get_ref().as_fd(), &rest);
    }
}

impl Drop for HostTerminal {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Opens a new file description of the terminal, so that O_NONBLOCK does not affect other processes. If it cannot be opened
/// (another user's terminal, after `su`), stdin's own is used.
fn open_tty() -> io::Result<(OwnedFd, Option<OFlags>)> {
    let stdin = io::stdin();
    let own = rustix::termios::ttyname(&stdin, Vec::new())
        .ok()
        .and_then(|name| {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            rustix::fs::open(name.as_c_str(), flags, Mode::empty()).ok()
        });
    if let Some(own) = own {
        return Ok((own, None));
    }
    let shared = stdin.as_fd().try_clone_to_owned()?;
    let was = rustix::fs::fcntl_getfl(&shared)?;
    rustix::fs::fcntl_setfl(&shared, was | OFlags::NONBLOCK)?;
    Ok((shared, Some(was)))
}

fn lock() -> std::sync::MutexGuard<'static, Option<SavedTerminal>> {
    SAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn restore_terminal() {
    let Some(saved) = lock().take() else {
        return;
    };
    if saved.keyboard_pushed {
        write_all(saved.terminal.as_fd(), POP_KEYBOARD);
    }
    write_all(saved.terminal.as_fd(), LEAVE);
    // Unread keys and replies are discarded, so that the shell does not get them.
    let _ = rustix::termios::tcsetattr(&saved.terminal, OptionalActions::Flush, &saved.settings);
    if let Some(was) = saved.was {
        let _ = rustix::fs::fcntl_setfl(&saved.terminal, was);
    }
}

/// Restores the terminal before a panic prints its message.
fn restore_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore_terminal();
        usual(panic);
    }));
}

/// How long a blocking write waits for a terminal that accepts nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

fn write_all(terminal: rustix::fd::BorrowedFd<'_>, mut bytes: &[u8]) {
    let timeout = Timespec {
        tv_sec: WRITE_TIMEOUT.as_secs() as i64,
        tv_nsec: 0,
    };
    while !bytes.is_empty() {
        match rustix::io::write(terminal, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut ready = [PollFd::from_borrowed_fd(terminal, PollFlags::OUT)];
                if !matches!(poll(&mut ready, Some(&timeout)), Ok(1..)) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            out.push(if index > three.len() { b'=' } else { letter });
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_encoded_in_base64() {
        for (text, said) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("é✓", "w6ninJM="),
        ] {
            let mut out = Vec::new();
            super::base64(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), said);
        }
    }
}
