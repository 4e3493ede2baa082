//! The same bytes in a real tmux pane and in this terminal: the same screen, or a difference with a known reason.
//!
//! tmux reads the bytes from `cat` through a terminal in raw mode, so they arrive unchanged. No test waits for time.

use std::fs;
use std::path::PathBuf;

use crate::compare::{command, diff};
use crate::recording;
use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

/// Streams on which tmux 3.3a and this terminal differ, and the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "family",
        "tmux keeps 21 bytes a cell and drops the last child; we keep 32",
    ),
    (
        "line drawing",
        "tmux shows the letters of line drawing in what it captures; on its screen they are lines",
    ),
    ("shift out", "the same"),
    (
        "backspace at the edge",
        "tmux goes to the last column, xterm, alacritty and we to the one before it",
    ),
    ("columns", "tmux does not know HPR and VPR"),
    (
        "made-2",
        "when the left half of a wide character is erased, tmux keeps the right one, of no width; we blank both",
    ),
];

#[test]
fn recordings_look_as_in_tmux() {
    let recordings = recording::all();
    // tmux pulls lines back from its history when the screen grows; this terminal does not.
    let recordings = recordings
        .iter()
        .filter(|recording| recording.resizes.is_empty());
    compare(recordings.map(|recording| {
        (
            recording.name.clone(),
            recording.size,
            recording.bytes.clone(),
        )
    }));
}

#[test]
fn text_that_left_the_screen_is_what_tmux_kept() {
    let tmux = Tmux::start();
    let many: String = (0..60)
        .map(|i| format!("{i} {}\r\n", "word ".repeat(i % 9)))
        .collect();
    let cleared = "one\r\ntwo\x1b[2J\x1b[Hthree\r\nfour\x1b[H\x1b[Jfive";
    let size = TerminalSize { rows: 8, cols: 20 };
    let made = [many.as_bytes(), cleared.as_bytes()]
        .map(|bytes| ("made".to_owned(), size, bytes.to_vec()));
    let recorded = recording::all()
        .into_iter()
        .filter(|recording| recording.resizes.is_empty());
    let recorded = recorded.map(|recording| (recording.name, recording.size, recording.bytes));
    for (name, size, bytes) in made.into_iter().chain(recorded) {
        let mut terminal = Terminal::new(size, TerminalOptions::default());
        terminal.feed(&bytes);
        if terminal.screen().is_alternate() {
            // tmux then captures the alternate screen.
            continue;
        }
        let lines = terminal
            .lines(&LineQuery {
                since: None,
                last: usize::MAX,
            })
            .lines;
        let ours: Vec<String> = lines
            .iter()
            .map(|line| line.text.trim_end().to_owned())
            .collect();
        let theirs = tmux.capture(size, &bytes, &["-J", "-S", "-"]);
        let theirs: Vec<String> = theirs
            .trim_end()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        assert_eq!(theirs, ours, "{name}");
    }
}

#[test]
fn short_streams_look_as_in_tmux() {
    let size = TerminalSize { rows: 8, cols: 20 };
    compare(
        STREAMS
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), size, bytes.as_bytes().to_vec())),
    );
}

#[test]
fn random_streams_look_as_in_tmux() {
    let size = TerminalSize { rows: 8, cols: 20 };
    compare((0..40).map(|seed| (format!("made-{seed}"), size, random_stream(seed))));
}

fn compare(streams: impl Iterator<Item = (String, TerminalSize, Vec<u8>)>) {
    let tmux = Tmux::start();
    let mut wrong = Vec::new();
    for (name, size, bytes) in streams {
        let differs = tmux.differs(size, &bytes);
        let known = DIFFERENCES.iter().any(|(known, _)| *known == name);
        if differs.is_some() != known {
            let (bytes, differs) = tmux.shorten(size, bytes, differs);
            let end = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(120)..]);
            wrong.push(format!(
                "{name}: … {end:?}\n{}",
                differs.unwrap_or_default()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "tmux (-) and we (+) differ:\n{}",
        wrong.join("\n")
    );
}

/// Sequences that programs use, in an order determined by the seed.
fn random_stream(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    let mut bytes = Vec::new();
    for _ in 0..60 {
        let (n, m) = (next(9), next(21));
        let part = match next(24) {
            0..=4 => format!("word{n} "),
            5 => "\r\n".to_owned(),
            // Not on the last column, where tmux keeps the old cell when a wide character does not fit.
            6 => "\r漢字e\u{301}".to_owned(),
            7 => format!("\x1b[{n};{m}H"),
            8 => format!("\x1b[{n}A"),
            9 => format!("\x1b[{n}B"),
            10 => format!("\x1b[{m}G"),
            11 => format!("\x1b[{}K", n % 3),
            12 => format!("\x1b[{}J", n % 2),
            13 => format!("\x1b[{n}P"),
            14 => format!("\x1b[{n}@"),
            // Always within the region: outside the region tmux moves rows nevertheless, other terminals do not.
            15 => format!("\x1b[5;3H\x1b[{}L", n % 4),
            16 => format!("\x1b[5;3H\x1b[{}M", n % 4),
            17 => format!("\x1b[{n}X"),
            18 => format!("\x1b[{};{}r", n % 3 + 1, n % 4 + 5),
            19 => "\x1bM".to_owned(),
            20 => "\t".to_owned(),
            21 => format!("\x1b[3{}m", n % 8),
            22 => format!("\x1b[{}S", n % 3),
            // Not past the last column, which tmux does not save.
            _ => "\r\x1b7\x1b[HX\x1b8".to_owned(),
        };
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

const STREAMS: &[(&str, &str)] = &[
    ("wrap", "The quick brown fox jumps over the lazy dog"),
    ("wide at the edge", "1234567890123456789漢字"),
    ("combining", "e\u{301}a\u{300}\u{302} x"),
    ("family", "a👩‍👩‍👧‍👦b"),
    ("skin tone", "a👍🏽b"),
    ("flag", "a🇩🇪b"),
    ("variation selector", "a☝\u{fe0f}b"),
    ("soft hyphen", "a\u{ad}b"),
    ("zero width space", "a\u{200b}b"),
    ("halfwidth", "ｱｲｳabc"),
    ("line drawing", "\x1b(0lqqk\r\nx  x\r\nmqqj\x1b(B done"),
    ("shift out", "\x1b)0\x0elqk\x0f abc"),
    ("tabs", "a\tb\tc\r\n\x1b[3g\x1b[5GT\x1bH\r\x1b[0m\tx"),
    ("insert mode", "abcdef\x1b[3G\x1b[4hXY\x1b[4l"),
    ("repeat", "ab\x1b[5bc"),
    ("repeat at the edge", "1234567890123456a\x1b[9bc"),
    ("origin", "\x1b[3;6r\x1b[?6h\x1b[1;1Htop\x1b[9;1Hbottom"),
    ("region", "1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H\n\nX"),
    ("reverse line feed", "1\r\n2\r\n3\x1b[H\x1bM\x1bMtop"),
    ("save and restore", "ab\x1b7cd\x1b[5;5Hxx\x1b8Z"),
    (
        "alternate screen",
        "main\x1b[?1049h\x1b[Halt\x1b[?1049l more",
    ),
    ("in the alternate screen", "main\x1b[?1049h\x1b[3;3Halt"),
    (
        "erase",
        "abcdefgh\x1b[4G\x1b[1K\r\nabcdefgh\x1b[4G\x1b[K\r\nabc\x1b[2Kx",
    ),
    ("erase behind the edge", "12345678901234567890\x1b[Kx"),
    ("clear", "a\r\nb\r\nc\x1b[2Jd"),
    (
        "delete and insert",
        "abcdefghij\x1b[3G\x1b[2P\x1b[5G\x1b[2@",
    ),
    ("rows", "1\r\n2\r\n3\r\n4\x1b[2;1H\x1b[L\x1b[4;1H\x1b[M"),
    ("no autowrap", "\x1b[?7labcdefghijklmnopqrstuvwxyz\x1b[?7h"),
    ("backspace", "abc\x08\x08X"),
    ("backspace at the edge", "12345678901234567890\x08X"),
    (
        "strings",
        "a\x1bPq#0;2;0\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e\x1b]52;c;Zm9v\x07f\x1b]8;;http://x\x1b\\g",
    ),
    ("controls in a sequence", "ab\x1b[\x082Cx"),
    ("alignment", "\x1b#8\x1b[3;3Hx"),
    (
        "scroll by line feeds",
        "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n10",
    ),
    ("next line", "a\x1bEb\x1bDc"),
    (
        "columns",
        "a\x1b[10`b\x1b[3dc\x1b[2ed\x1b[2ae\x1b[Ff\x1b[Eg",
    ),
    ("broken utf-8", "a\u{fffd}b"),
];

/// tmux reads in order, so its reply to the last query shows that all bytes were read. Replies to queries within the
/// bytes come earlier and contain no `n`.
const SCRIPT: &str = "stty raw -echo -opost
cat \"$1\"
printf '\\030\\033[5n'
IFS= read -r -d n
tmux wait-for -S all-read
exec tail -f /dev/null
";

/// A private tmux server.
struct Tmux {
    folder: PathBuf,
}

impl Tmux {
    fn start() -> Self {
        let unique = format!(
            "fugue-term-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let folder = std::env::temp_dir().join(unique.replace(['(', ')'], ""));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("conf"), "set -g status off\nset -g default-terminal screen-256color\nset -g history-limit 100\n").unwrap();
        fs::write(folder.join("script"), SCRIPT).unwrap();
        let tmux = Tmux { folder };
        // A session that stays, so that the server stays.
        tmux.run(&["new-session", "-d", "-s", "held", "exec tail -f /dev/null"]);
        tmux
    }

    /// The differences between tmux's screen and this terminal's.
    fn differs(&self, size: TerminalSize, bytes: &[u8]) -> Option<String> {
        let theirs = self.show(size, bytes);
        let mut terminal = Terminal::new(size, TerminalOptions::default());
        terminal.feed(bytes);
        let ours: Vec<String> = terminal.screen().rows().collect();
        (ours != theirs).then(|| diff(&theirs, &ours))
    }

    /// The shortest prefix of a stream after which the screens differ, cut before escape sequences.
    fn shorten(
        &self,
        size: TerminalSize,
        bytes: Vec<u8>,
        differs: Option<String>,
    ) -> (Vec<u8>, Option<String>) {
        let cuts: Vec<usize> = (1..bytes.len())
            .filter(|&at| bytes[at] == 0x1b)
            .chain([bytes.len()])
            .collect();
        let first = cuts.partition_point(|&at| self.differs(size, &bytes[..at]).is_none());
        match cuts.get(first) {
            Some(&at) => (bytes[..at].to_vec(), self.differs(size, &bytes[..at])),
            None => (bytes, differs),
        }
    }

    /// The screen of a tmux pane of the given size that was fed the bytes.
    fn show(&self, size: TerminalSize, bytes: &[u8]) -> Vec<String> {
        let screen = self.capture(size, bytes, &[]);
        let mut rows: Vec<String> = screen
            .lines()
            .map(|row| row.trim_end_matches(' ').to_owned())
            .collect();
        rows.resize(size.rows.into(), String::new());
        rows
    }

    fn capture(&self, size: TerminalSize, bytes: &[u8], how: &[&str]) -> String {
        let file = self.folder.join("bytes");
        fs::write(&file, bytes).unwrap();
        let (rows, cols) = (size.rows.to_string(), size.cols.to_string());
        let shell = format!(
            "exec bash {} {}",
            self.folder.join("script").display(),
            file.display()
        );
        self.run(&[
            "new-session",
            "-d",
            "-s",
            "shown",
            "-x",
            &cols,
            "-y",
            &rows,
            &shell,
        ]);
        self.run(&["wait-for", "all-read"]);
        let screen = self.run(&[&["capture-pane", "-p", "-t", "shown:"], how].concat());
        self.run(&["kill-session", "-t", "shown"]);
        screen
    }

    fn run(&self, args: &[&str]) -> String {
        let conf = self.folder.join("conf");
        let output = command("tmux")
            .args(["-S", "socket", "-f"])
            .arg(&conf)
            .args(args)
            .current_dir(&self.folder)
            .env_remove("TMUX")
            .env("LANG", "C.UTF-8")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("tmux is installed where the tests run");
        assert!(
            output.status.success(),
            "tmux {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}
