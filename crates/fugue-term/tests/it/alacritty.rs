//! The recordings that ship with `alacritty_terminal`, fed to Alacritty's terminal and to this crate: both show the
//! same text.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compare::{command, diff};
use crate::reference::Reference;
use fugue_term::{Terminal, TerminalOptions, TerminalSize};

/// Recordings with a different visible text, and the reason.
const DIFFERENCES: &[(&str, &str)] = &[(
    "decaln_reset",
    "the alignment pattern homes the cursor, as on DEC's machines, xterm and tmux; alacritty leaves it",
)];

#[test]
fn alacritty_recordings_look_as_in_alacritty() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for folder in recordings() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(folder.join("alacritty.recording")).unwrap();
        let size = size(&fs::read_to_string(folder.join("size.json")).unwrap());
        let mut reference = Reference::new(size);
        reference.feed(&bytes);
        let mut terminal = Terminal::new(size, TerminalOptions::default());
        terminal.feed(&bytes);
        let ours: Vec<String> = terminal.screen().rows().collect();
        let known = DIFFERENCES.iter().any(|(known, _)| *known == name);
        if (ours == reference.rows()) == known {
            wrong.push(format!("{name}\n{}", diff(&reference.rows(), &ours)));
        }
        seen += 1;
    }
    assert_eq!(seen, 45, "the crate ships 45 recordings");
    assert!(
        wrong.is_empty(),
        "alacritty (-) and we (+) differ:\n{}",
        wrong.join("\n")
    );
}

fn recordings() -> Vec<PathBuf> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    // Crates for other operating systems are absent unless fetched.
    let system = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let args = [
        "metadata",
        "--format-version=1",
        "--offline",
        "--filter-platform",
        &system,
        "--manifest-path",
        manifest,
    ];
    let metadata =
        String::from_utf8(command(env!("CARGO")).args(args).output().unwrap().stdout).unwrap();
    // Only one path is needed, so a JSON parser is not worth a dependency.
    let path = metadata
        .split("\"manifest_path\":\"")
        .map(|rest| rest.split('"').next().unwrap())
        .find(|path| path.contains("/alacritty_terminal-"))
        .expect("alacritty_terminal is a dev-dependency");
    let folder = Path::new(path).parent().unwrap().join("tests/ref");
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    folders
}

fn size(json: &str) -> TerminalSize {
    let number = |key: &str| {
        let rest = json.split(&format!("\"{key}\":")).nth(1).unwrap();
        rest.trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap()
    };
    TerminalSize {
        rows: number("screen_lines"),
        cols: number("columns"),
    }
}
