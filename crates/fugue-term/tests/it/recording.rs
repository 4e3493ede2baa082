//! Recordings of real programs.

use std::fs;
use std::path::{Path, PathBuf};

use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

pub struct Recording {
    pub name: String,
    pub folder: PathBuf,
    pub bytes: Vec<u8>,
    pub size: TerminalSize,
    /// The offsets and values of resizes.
    pub resizes: Vec<(usize, TerminalSize)>,
}

pub fn all() -> Vec<Recording> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    folders
        .iter()
        .filter(|folder| folder.join("bytes").exists())
        .map(|folder| Recording::read(folder))
        .collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings"))
}

impl Recording {
    pub fn named(name: &str) -> Self {
        Recording::read(&root().join(name))
    }

    fn read(folder: &Path) -> Self {
        let resizes = fs::read_to_string(folder.join("resizes")).unwrap_or_default();
        let resize = |line: &str| {
            let (at, size) = line.split_once(' ').unwrap();
            (at.parse().unwrap(), parse_size(size))
        };
        Recording {
            name: folder.file_name().unwrap().to_string_lossy().into_owned(),
            bytes: fs::read(folder.join("bytes")).unwrap(),
            size: parse_size(&fs::read_to_string(folder.join("size")).unwrap()),
            resizes: resizes.lines().map(resize).collect(),
            folder: folder.to_owned(),
        }
    }

    /// Feeds the recording in pieces of the given size and returns the screen.
    pub fn play(&self, mut cut: impl FnMut(&[u8]) -> Vec<Vec<u8>>) -> String {
        let mut terminal = Terminal::new(self.size, TerminalOptions::default());
        self.stretches(|bytes, resize| {
            for part in cut(bytes) {
                terminal.feed(&part);
            }
            resize.into_iter().for_each(|size| terminal.resize(size));
        });
        show(&terminal)
    }

    /// Feeds the recording in pieces, with a save and a load between pieces where possible.
    pub fn play_with_restarts(&self, piece: usize) -> String {
        let mut terminal = Terminal::new(self.size, TerminalOptions::default());
        self.stretches(|bytes, resize| {
            for part in bytes.chunks(piece) {
                terminal.feed(part);
                if let Some(saved) = terminal.save() {
                    terminal = Terminal::load(&saved, TerminalOptions::default())
                        .expect("a saved checkpoint loads");
                }
            }
            resize.into_iter().for_each(|size| terminal.resize(size));
        });
        show(&terminal)
    }

    /// The complete text.
    pub fn text(&self) -> String {
        let mut terminal = Terminal::new(self.size, TerminalOptions::default());
        terminal.feed(&self.bytes);
        let lines = terminal
            .lines(&LineQuery {
                since: None,
                last: usize::MAX,
            })
            .lines;
        lines
            .iter()
            .map(|line| line.text.trim_end())
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn stretches(&self, mut with: impl FnMut(&[u8], Option<TerminalSize>)) {
        let mut start = 0;
        for (at, size) in &self.resizes {
            with(&self.bytes[start..*at], Some(*size));
            start = *at;
        }
        with(&self.bytes[start..], None);
    }
}

/// The screen in the file format: the rows, then the cursor position.
fn show(terminal: &Terminal) -> String {
    let screen = terminal.screen();
    let (row, col) = screen.cursor();
    let rows: Vec<String> = screen.rows().collect();
    let alternate = if screen.is_alternate() {
        ", alternate screen"
    } else {
        ""
    };
    format!("{}\n--- cursor {row},{col}{alternate}\n", rows.join("\n"))
}

fn parse_size(text: &str) -> TerminalSize {
    let (rows, cols) = text.trim().split_once('x').unwrap();
    TerminalSize {
        rows: rows.parse().unwrap(),
        cols: cols.parse().unwrap(),
    }
}
