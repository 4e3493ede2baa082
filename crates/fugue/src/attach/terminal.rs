//! The person's terminal: taken over, written to, and given back as it was, whatever ends this process (but kill -9).

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fugue_api::{Error, ErrorKind, tools::PaneSize};
use fugue_client::watched::watched;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    termios::{OptionalActions, Termios},
};
use tokio::io::{Interest, unix::AsyncFd};

/// An alternate screen without wrapping; pastes in brackets; focus and mouse told. Keys in their usual words.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?7l\x1b[?1l\x1b>\x1b[?2004h\x1b[?1004h\
    \x1b[?1000h\x1b[?1002h\x1b[?1006h\x1b[?25l\x1b[2J";
/// Does it speak kitty's keyboard protocol, and what is it? Every terminal answers the second question, so that no
/// answer to the first is known without waiting for any time.
const ASK: &[u8] = b"\x1b[?u\x1b[c";
const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1006l\x1b[?1004l\x1b[?2004l\
    \x1b[?7h\x1b[0m\x1b[0 q\x1b[?25h\x1b[?1049l";
const POP_KEYBOARD: &[u8] = b"\x1b[<u";

/// What has to be put back. In a place that a panic finds too.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

struct Taken {
    terminal: OwnedFd,
    /// As it was.
    settings: Termios,
    keyboard_pushed: bool,
    /// An own handle on it may stay as it is; a shared one must wait again as it did.
    was: Option<OFlags>,
}

pub struct Outer {
    terminal: AsyncFd<OwnedFd>,
    /// The same, to be watched for room while there is too little: else whatever is read there would wake us.
    sink: OwnedFd,
    /// What is still to be written: at most one picture.
    out: Vec<u8>,
    keyboard: Option<u8>,
    motion: bool,
}

impl Outer {
    pub fn take() -> Result<Self, Error> {
        let trouble =
            |error: io::Error| Error::new(ErrorKind::Unavailable, format!("the terminal: {error}"));
        let (terminal, was) = open().map_err(trouble)?;
        let settings =
            rustix::termios::tcgetattr(&terminal).map_err(|error| trouble(error.into()))?;
        let kept = Taken {
            terminal: terminal.try_clone().map_err(trouble)?,
            settings: settings.clone(),
            keyboard_pushed: false,
            was,
        };
        *lock() = Some(kept);
        give_back_on_panic();
        let outer = Self {
            sink: terminal.try_clone().map_err(trouble)?,
            terminal: watched(terminal, Interest::READABLE).map_err(trouble)?,
            out: Vec::new(),
            keyboard: None,
            motion: false,
        };
        let mut outer = outer;
        outer.enter(&settings).map_err(trouble)?;
        outer.out.extend_from_slice(ASK);
        Ok(outer)
    }

    fn enter(&mut self, settings: &Termios) -> io::Result<()> {
        let mut raw = settings.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(self.terminal.get_ref(), OptionalActions::Flush, &raw)?;
        self.out.extend_from_slice(ENTER);
        Ok(())
    }

    /// Somebody else had it meanwhile.
    pub fn enter_again(&mut self) {
        let settings = lock().as_ref().map(|taken| taken.settings.clone());
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
        // One that does not know its size is taken for the oldest there was. More than anybody's screen costs memory.
        let or = |given: u16, other: u16| if given == 0 { other } else { given.min(1000) };
        PaneSize {
            rows: or(rows, 24),
            cols: or(cols, 80),
        }
    }

    /// It speaks kitty's keyboard protocol.
    pub fn has_kitty(&mut self) {
        if self.keyboard.is_none() {
            self.keyboard = Some(1);
            self.out.extend_from_slice(b"\x1b[>1u");
            if let Some(taken) = lock().as_mut() {
                taken.keyboard_pushed = true;
            }
        }
    }

    /// What the program in focus wants to know of keys, where the terminal can tell.
    pub fn want_keyboard(&mut self, flags: u8) {
        let mut flags = 1 | flags & 0b1_1111;
        if flags & 8 != 0 {
            // Keys that type nothing by themselves must say what they would: a person types into our lists too.
            flags |= 4 | 16;
        }
        if self.keyboard.is_some_and(|now| now != flags) {
            self.keyboard = Some(flags);
            self.out
                .extend_from_slice(format!("\x1b[={flags};1u").as_bytes());
        }
    }

    pub fn want_motion(&mut self, motion: bool) {
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

    /// To the person's clipboard.
    pub fn copy(&mut self, text: &str) {
        self.out.extend_from_slice(b"\x1b]52;c;");
        base64(text.as_bytes(), &mut self.out);
        self.out.push(7);
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Whether something has not been written yet: then nothing more is drawn before it is.
    pub fn is_behind(&self) -> bool {
        !self.out.is_empty()
    }

    /// Writes what can be written now, and gives how much that was.
    pub async fn flush(&self) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.sink, &self.out) {
                Ok(written) => return Ok(written),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let room = watched(self.sink.as_fd(), Interest::WRITABLE)?;
                    let _ = room.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// So much of it is written.
    pub fn flushed(&mut self, length: usize) {
        self.out.drain(..length);
    }

    /// What the terminal sends; nothing when it is gone.
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
                    // There was no more, so the next look would be in vain.
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

    /// Gives it back, after what was begun is written.
    pub fn leave(mut self) {
        let rest = std::mem::take(&mut self.out);
        write_all(self.terminal.get_ref().as_fd(), &rest);
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        give_back();
    }
}

/// A handle of our own on the terminal, so that reading without waiting is nobody else's trouble. Where it cannot be
/// opened again (another user's, after `su`), the one that we were given.
fn open() -> io::Result<(OwnedFd, Option<OFlags>)> {
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

fn lock() -> std::sync::MutexGuard<'static, Option<Taken>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn give_back() {
    let Some(taken) = lock().take() else {
        return;
    };
    if taken.keyboard_pushed {
        write_all(taken.terminal.as_fd(), POP_KEYBOARD);
    }
    write_all(taken.terminal.as_fd(), LEAVE);
    // What was typed or answered and not read is not for the shell.
    let _ = rustix::termios::tcsetattr(&taken.terminal, OptionalActions::Flush, &taken.settings);
    if let Some(was) = taken.was {
        let _ = rustix::fs::fcntl_setfl(&taken.terminal, was);
    }
}

/// A panic's own words are read on the usual screen.
fn give_back_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        usual(panic);
    }));
}

// A terminal that takes nothing for so long is not looked at.
const PATIENCE: Duration = Duration::from_secs(1);

fn write_all(terminal: rustix::fd::BorrowedFd<'_>, mut bytes: &[u8]) {
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    while !bytes.is_empty() {
        match rustix::io::write(terminal, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut ready = [PollFd::from_borrowed_fd(terminal, PollFlags::OUT)];
                if !matches!(poll(&mut ready, Some(&patience)), Ok(1..)) {
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
    fn a_text_is_said_in_base64() {
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
