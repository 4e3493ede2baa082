//! A person at a terminal: a program in a real PTY, and the screen that its output makes.

use std::{
    fmt::Write as _,
    fs,
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use fugue_term::{
    CellAttribute, Color, Style, Terminal, TerminalEvent, TerminalOptions, TerminalSize, Underline,
};
use fugue_testkit::TestEnv;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcgetattr, tcsetwinsize},
};

/// How long a screen may take to be as wanted. The machine that runs the tests may be busy.
const LIMIT: Duration = Duration::from_secs(30);

/// Whether the terminal answers the question for kitty's keyboard protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Modern,
    /// Tells what it is, and nothing else.
    Old,
}

pub struct Attached {
    master: OwnedFd,
    /// Kept open, so that the terminal's settings can be looked at when the program has ended.
    slave: OwnedFd,
    child: Child,
    pub terminal: Terminal,
    /// Everything that was ever written to the terminal.
    pub raw: Vec<u8>,
    kind: Kind,
}

impl Attached {
    /// `fugue attach` with these arguments.
    pub fn new(test_env: &TestEnv, args: &[&str], rows: u16, cols: u16) -> Self {
        let mut words = vec!["attach"];
        words.extend(args);
        let binary = env!("CARGO_BIN_EXE_fugue");
        Self::program(test_env, binary, &words, rows, cols, Kind::Modern)
    }

    pub fn program(
        test_env: &TestEnv,
        program: &str,
        args: &[&str],
        rows: u16,
        cols: u16,
        kind: Kind,
    ) -> Self {
        // It becomes the program, in a session whose terminal this is.
        let mut command = test_env.command("setsid");
        command.arg("-c").arg(program).args(args);
        Self::start(command, rows, cols, kind)
    }

    pub fn start(mut command: Command, rows: u16, cols: u16, kind: Kind) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("its other end");
        size(&master, rows, cols);
        let end = || Stdio::from(slave.try_clone().expect("a second handle"));
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("the program starts");
        let terminal = Terminal::new(TerminalSize { rows, cols }, TerminalOptions::default());
        Self {
            master,
            slave,
            child,
            terminal,
            raw: Vec::new(),
            kind,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Takes in what is there, or what comes before the deadline; gives whether there was something.
    fn pump(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&time)), Ok(1..)) {
            return false;
        }
        let mut buffer = [0; 16 * 1024];
        let Ok(length @ 1..) = rustix::io::read(&self.master, &mut buffer) else {
            return false;
        };
        self.raw.extend_from_slice(&buffer[..length]);
        for fact in self.terminal.feed(&buffer[..length]) {
            if let TerminalEvent::Reply { bytes, .. } = fact
                && (self.kind == Kind::Modern || !bytes.ends_with(b"u"))
            {
                self.write(&bytes);
            }
        }
        true
    }

    /// Takes in what comes within a moment: for two screens that are compared until they agree.
    pub fn soon(&mut self) {
        self.pump(Instant::now() + Duration::from_millis(50));
    }

    fn write(&self, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let written = rustix::io::write(&self.master, left).expect("the terminal takes it");
            left = &left[written..];
        }
    }

    pub fn type_text(&self, text: &str) {
        self.write(text.as_bytes());
    }

    /// The same for more than a terminal holds: what comes back is taken in meanwhile.
    pub fn type_patiently(&mut self, text: &str) {
        for piece in text.as_bytes().chunks(1024) {
            let mut ready = [PollFd::new(&self.master, PollFlags::OUT)];
            while !matches!(poll(&mut ready, Some(&Timespec::default())), Ok(1..)) {
                self.soon();
                ready = [PollFd::new(&self.master, PollFlags::OUT)];
            }
            self.write(piece);
            self.pump(Instant::now());
        }
    }

    /// The prefix, and then this.
    pub fn command(&self, keys: &str) {
        self.write(format!("\x02{keys}").as_bytes());
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let text = self.text();
            // A picture is looked at when it is complete.
            if !self.terminal.modes().synchronized && wanted(&text) {
                return text;
            }
            if !self.pump(deadline) {
                let ended = self.child.try_wait();
                panic!("never so: {what}; {ended:?}\n{}", boxed(&self.text()));
            }
        }
    }

    #[track_caller]
    pub fn shows(&mut self, text: &str) -> String {
        self.until(&format!("shows {text:?}"), |screen| screen.contains(text))
    }

    #[track_caller]
    pub fn hides(&mut self, text: &str) -> String {
        self.until(&format!("no longer shows {text:?}"), |screen| {
            !screen.contains(text)
        })
    }

    /// Waits until so much was written.
    #[track_caller]
    pub fn wrote(&mut self, bytes: &[u8]) {
        let deadline = Instant::now() + LIMIT;
        let found = |raw: &[u8]| raw.windows(bytes.len()).any(|window| window == bytes);
        while !found(&self.raw) {
            assert!(self.pump(deadline), "never wrote {bytes:?}");
        }
    }

    pub fn text(&self) -> String {
        let rows: Vec<String> = self.terminal.screen().rows().collect();
        rows.join("\n")
    }

    /// The rows and columns of a part of the screen.
    pub fn part(&self, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) -> String {
        let all: Vec<String> = rows
            .map(|row| {
                let mut text = String::new();
                let mut col = 0;
                for cell in self.terminal.screen().cells(row) {
                    if cols.contains(&col) {
                        cell.append_to(&mut text);
                    }
                    col += usize::from(cell.width);
                }
                text.trim_end().to_owned()
            })
            .collect();
        all.join("\n")
    }

    /// How the first cell of the first row that has this text looks.
    #[track_caller]
    pub fn look_of(&self, wanted: &str) -> Style {
        let screen = self.terminal.screen();
        for (row, text) in screen.rows().enumerate() {
            if let Some(at) = text.find(wanted) {
                let before = text[..at].chars().count();
                return screen.cells(row).nth(before).expect("a cell").style;
            }
        }
        panic!("not there: {wanted}\n{}", boxed(&self.text()));
    }

    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.terminal.resize(TerminalSize { rows, cols });
        size(&self.master, rows, cols);
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
    }

    /// Waits for its end, taking in all that it writes before that.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        let mut status = None;
        fugue_testkit::until("the program ends", LIMIT, || {
            while self.pump(Instant::now()) {}
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        while self.pump(Instant::now()) {
            assert!(Instant::now() < deadline);
        }
        status.expect("it has ended")
    }

    /// Whether the terminal echoes and edits lines, as a shell finds it.
    pub fn is_cooked(&self) -> bool {
        use rustix::termios::LocalModes;
        let settings = tcgetattr(&self.slave).expect("its settings");
        settings
            .local_modes
            .contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// The cells for whoever draws a picture of them: one line a cell that is not blank.
    fn cells(&self) -> String {
        let screen = self.terminal.screen();
        let TerminalSize { rows, cols } = self.terminal.size();
        let mut out = format!("size {rows} {cols}\n");
        if screen.cursor_visible() {
            let (row, col) = screen.cursor();
            writeln!(out, "cursor {row} {col}").expect("a string");
        }
        for row in 0..usize::from(rows) {
            let mut col = 0;
            for cell in screen.cells(row) {
                let mut text = String::new();
                cell.append_to(&mut text);
                let style = cell.style;
                if text != " " || style != Style::default() {
                    let code = |color: Color| match color {
                        Color::Default => "-".to_owned(),
                        Color::Indexed(index) => index.to_string(),
                        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
                    };
                    let mut attrs = String::from("=");
                    for (attr, letter) in [
                        (CellAttribute::Bold, 'b'),
                        (CellAttribute::Dim, 'd'),
                        (CellAttribute::Italic, 'i'),
                        (CellAttribute::Reverse, 'r'),
                        (CellAttribute::Strike, 's'),
                    ] {
                        if style.has(attr) {
                            attrs.push(letter);
                        }
                    }
                    if style.underline() != Underline::None {
                        attrs.push('u');
                    }
                    writeln!(
                        out,
                        "{row} {col} {} {} {} {attrs} {text}",
                        cell.width,
                        code(style.fg()),
                        code(style.bg()),
                    )
                    .expect("a string");
                }
                col += usize::from(cell.width);
            }
        }
        out
    }

    /// Compares the screen with the one that is kept under this name; `FUGUE_BLESS=1` keeps this one instead. With
    /// `FUGUE_SHOTS=DIR` its cells are left there, for a picture.
    #[track_caller]
    pub fn golden(&mut self, name: &str) {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attach/golden");
        let path = PathBuf::from(dir).join(format!("{name}.txt"));
        if std::env::var_os("FUGUE_BLESS").is_some() {
            // What is still on its way is not known; a person looks at the result.
            while self.pump(Instant::now() + Duration::from_millis(500)) {}
            fs::write(path, self.shown()).expect("the screen is kept");
        } else {
            let kept = fs::read_to_string(&path).unwrap_or_else(|error| {
                panic!("{}: {error}; FUGUE_BLESS=1 keeps it", path.display())
            });
            let deadline = Instant::now() + LIMIT;
            while self.shown() != kept {
                assert!(
                    self.pump(deadline),
                    "{name} looks different; kept:\n{}shown:\n{}",
                    boxed(&kept),
                    boxed(&self.shown())
                );
            }
        }
        if let Some(dir) = std::env::var_os("FUGUE_SHOTS") {
            let path = PathBuf::from(dir).join(format!("{name}.cells"));
            fs::write(path, self.cells()).expect("the cells are kept");
        }
    }

    fn shown(&self) -> String {
        format!("{}\n", without_ages(&self.text()))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // One that has ended says so.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(master: &OwnedFd, rows: u16, cols: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(master, size).expect("a size");
}

fn boxed(text: &str) -> String {
    text.lines().map(|line| format!("  |{line}\n")).collect()
}

/// Ages go on while the tests run: `  12s` at the end of a list's row is told as `    #`.
fn without_ages(text: &str) -> String {
    let line = |line: &str| -> String {
        let chars: Vec<char> = line.chars().collect();
        let mut out = chars.clone();
        for at in 2..chars.len() {
            let ends = matches!(chars[at], '│' | '├' | '┝')
                && chars[at - 1] == ' '
                && chars[at - 2] == 's';
            if !ends {
                continue;
            }
            let mut from = at - 2;
            while from > 0 && chars[from - 1].is_ascii_digit() {
                from -= 1;
            }
            if from < at - 2 && from > 0 && chars[from - 1] == ' ' {
                out[from..at - 2].fill(' ');
                out[at - 2] = '#';
            }
        }
        out.into_iter().collect()
    };
    let text = text.lines().map(line).collect::<Vec<_>>().join("\n");
    without_ids(&text)
}

/// Nor is a run's random name ever the same.
fn without_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" r-") {
        let (before, id) = rest.split_at(at + 3);
        out.push_str(before);
        let end = id.find([' ', '…']).unwrap_or(id.len());
        out.extend(std::iter::repeat_n('#', id[..end].chars().count()));
        rest = &id[end..];
    }
    out + rest
}
