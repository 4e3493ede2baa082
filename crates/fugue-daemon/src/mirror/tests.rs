use fugue_hold::LogWriter;
use fugue_term::Terminal;
use proptest::prelude::*;

use super::*;

/// A pane's files, and the screen that they make.
struct Pane {
    dir: tempfile::TempDir,
    log: LogWriter,
    terminal: Terminal,
}

impl Pane {
    fn new(cap: u64, segment: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = LogWriter::open(dir.path(), 1, cap, segment).unwrap();
        log.size(6, 20).unwrap();
        let terminal = Terminal::new(Size { rows: 6, cols: 20 }, Options::default());
        Self { dir, log, terminal }
    }

    fn prints(&mut self, bytes: &[u8]) {
        assert_eq!(self.log.append(bytes).0, bytes.len());
        self.terminal.feed(bytes);
    }

    fn resizes(&mut self, rows: u16, cols: u16) {
        self.log.size(rows, cols).unwrap();
        self.terminal.resize(Size { rows, cols });
    }

    fn mirror(&self) -> Result<Mirror, Lost> {
        let grew = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        Mirror::open(self.dir.path(), grew)
    }

    /// It leaves checkpoints.
    fn daemon(&self) -> Follower {
        let size = Size { rows: 6, cols: 20 };
        let (depth, checkpoints) = (Depth::Screen, Checkpoints::Every(30));
        Follower::open_as(
            self.dir.path(),
            size,
            Options::default(),
            depth,
            checkpoints,
        )
        .unwrap()
    }

    fn shown(&self) -> Shown {
        Shown::of(&self.terminal)
    }
}

/// What a client has on its screen.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    offset: u64,
    rows: Vec<FrameRow>,
    cursor: FrameCursor,
    top_line: u64,
}

impl Shown {
    fn of(terminal: &Terminal) -> Self {
        let screen = terminal.screen();
        let rows = 0..terminal.size().rows;
        Self {
            offset: terminal.offset().0,
            rows: rows.map(|row| picture::row(&screen, row)).collect(),
            cursor: picture::cursor(terminal),
            top_line: terminal.top_line().0,
        }
    }

    fn take(&mut self, seen: Glimpse) {
        self.offset = seen.offset;
        self.cursor = seen.cursor;
        self.top_line = seen.top_line;
        for row in seen.rows {
            let place = usize::from(row.0);
            self.rows[place] = row;
        }
    }
}

fn on_a_runtime(test: impl FnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let _on = runtime.enter();
    test();
}

#[derive(Clone, Debug)]
enum Step {
    Prints(String),
    Resizes(u16, u16),
    /// A frame of the daemon's arrives.
    Frame,
    /// The pane is typed into anew.
    Again,
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let words = prop::sample::select(vec![
        "a",
        "é",
        "漢",
        "word ",
        "\r",
        "\r\n",
        "\x08 \x08",
        "\x1b[2J",
        "\x1b[H",
        "\x1b[3;5H",
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[1L",
        "\x1b[M",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[?25l",
        "\x1b[?25h",
        "\x07",
        "\x1b]0;title\x07",
        "\x1b[?7l",
        "\x1b[?7h",
        "\x1b[2;4r",
        "\x1b[r",
        "\x1b[",
        "\x1b]",
    ]);
    let printed = prop::collection::vec(words, 1..12).prop_map(|words| words.concat());
    prop_oneof![
        4 => printed.prop_map(Step::Prints),
        1 => (2..9_u16, 5..30_u16).prop_map(|(rows, cols)| Step::Resizes(rows, cols)),
        1 => Just(Step::Frame),
        1 => Just(Step::Again),
        4 => Just(Step::Look),
    ]
}

proptest! {
    /// Whatever is printed between frames, at whatever size: what is glimpsed is what is there.
    #[test]
    fn what_is_seen_is_what_is_there(steps in prop::collection::vec(step(), 1..40), segment in 20..200_u64) {
        on_a_runtime(|| {
            let mut pane = Pane::new(1 << 20, segment);
            pane.prints(b"before\r\n");
            let mut daemon = pane.daemon();
            let mut mirror = pane.mirror().unwrap();
            let mut shown = pane.shown();
            for step in steps {
                match step {
                    Step::Prints(text) => pane.prints(text.as_bytes()),
                    Step::Resizes(rows, cols) => {
                        pane.resizes(rows, cols);
                        daemon.reload_sizes().unwrap();
                        // It comes in a frame.
                        shown = pane.shown();
                    }
                    Step::Frame => shown = pane.shown(),
                    Step::Again => {
                        daemon.catch_up().unwrap();
                        mirror = pane.mirror().unwrap();
                    }
                    Step::Look => {
                        // A reading may end where a file does; the next one goes on there.
                        for _ in 0..200 {
                            if let Some(seen) = mirror.look(shown.offset).unwrap() {
                                shown.take(seen);
                            }
                        }
                        assert_eq!(shown, pane.shown());
                        daemon.catch_up().unwrap();
                        assert_eq!(shown, Shown::of(&daemon.terminal));
                    }
                }
            }
        });
    }
}

#[test]
fn a_key_and_its_echo_are_one_row() {
    on_a_runtime(|| {
        let mut pane = Pane::new(1 << 20, 1 << 19);
        pane.prints(b"one\r\ntwo\r\n$ ");
        let mut mirror = pane.mirror().unwrap();
        let mut shown = pane.shown();
        assert_eq!(mirror.look(shown.offset).unwrap(), None);
        for _ in 0..3 {
            pane.prints(b"x");
            let seen = mirror.look(shown.offset).unwrap().expect("something");
            shown.take(seen.clone());
            assert_eq!(shown, pane.shown());
        }
        // What nobody sees was no reason to look at every row.
        pane.prints(b"\x07");
        pane.prints(b"y");
        let seen = mirror.look(shown.offset).unwrap().expect("something");
        let rows: Vec<u16> = seen.rows.iter().map(|row| row.0).collect();
        assert_eq!(rows, [2]);
        // In the middle of a redraw nothing is shown.
        pane.prints(b"\x1b[?2026h\x1b[2J");
        assert_eq!(mirror.look(seen.offset).unwrap(), None);
        pane.prints(b"new\x1b[?2026l");
        let seen = mirror.look(seen.offset).unwrap().expect("all of it");
        shown.take(seen);
        assert_eq!(shown, pane.shown());
    });
}

#[test]
fn more_than_a_person_can_follow_is_not_followed() {
    on_a_runtime(|| {
        let mut pane = Pane::new(1 << 20, 1 << 18);
        pane.prints(b"$ ");
        let mut mirror = pane.mirror().unwrap();
        let shown = pane.shown();
        for _ in 0..3000 {
            pane.prints(b"a line of a program that prints without end\r\n");
        }
        assert!(mirror.look(shown.offset).is_err());
        // Of what is not kept any more, nobody knows what it has left on the screen.
        while pane.log.end() < 2 << 20 {
            pane.prints(&[b'x'; 1000]);
        }
        assert!(pane.mirror().is_err());
    });
}
