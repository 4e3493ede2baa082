//! Screens of real agents, recorded at 120×40: where the cursor was (row and column from 0), then what was shown.

use std::{fs, path::Path};

use fugue_daemon::agents::{
    Vendor,
    screen::{Input, Look, look, look_any},
};

/// A screen's lines, and where its cursor was.
fn recorded(name: &str) -> (Vec<String>, (u16, u16)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
    let text = fs::read_to_string(path).expect("a recorded screen");
    let (cursor, shown) = text.split_once('\n').expect("a line for the cursor");
    let cursor: Vec<u16> = cursor
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    // Blank rows at the end are not recorded.
    let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    lines.resize(40, String::new());
    (lines, (cursor[0], cursor[1]))
}

fn seen(name: &str) -> Look {
    let (lines, cursor) = recorded(name);
    let vendor = Vendor::ALL
        .into_iter()
        .find(|vendor| name.starts_with(vendor.name()));
    let vendor = vendor.expect("named after its agent");
    look(vendor, &lines, cursor)
}

fn check(name: &str, working: bool, input: Input, dialog: Option<&str>) {
    let expected = Look {
        dialog: dialog.map(str::to_owned),
        input,
        working,
    };
    assert_eq!(seen(name), expected, "{name}");
}

#[test]
fn an_empty_box_is_told_from_a_draft() {
    for name in ["claude-idle", "codex-idle", "gemini-idle"] {
        check(name, false, Input::Empty, None);
    }
    for name in ["claude-working", "codex-working", "gemini-working"] {
        check(name, true, Input::Empty, None);
    }
    for name in [
        "claude-draft",
        "claude-draft-of-two-lines",
        "claude-slash",
        "codex-draft",
        "codex-draft-of-two-lines",
        "codex-draft-with-enter",
        "codex-slash",
        "gemini-draft",
        "gemini-draft-of-two-lines",
        "gemini-slash",
    ] {
        check(name, false, Input::Draft, None);
    }
}

#[test]
fn a_question_is_told_in_its_own_words() {
    let asks = |name: &str, text: &str| check(name, false, Input::Unknown, Some(text));
    asks(
        "claude-permission",
        "Bash command · make a file · touch made.txt · Do you want to proceed?",
    );
    asks(
        "claude-write",
        "Create file · a.txt · 1 hello · 2 world · Do you want to create a.txt?",
    );
    asks(
        "claude-mcp",
        "Tool use · fugue — Get Status Tool: (MCP) · About the fugue — Get Status Tool: · How a pane is, or everything there is. · Do you want to proceed?",
    );
    asks("claude-question", "☐ Colour · Which colour?");
    asks(
        "claude-menu",
        "unknown prompt: Select model · Switch between Claude models. Your pick becomes the default for new sessions. For other/previous model names, · specify with --model.",
    );
    asks(
        "codex-permission",
        "Would you like to run the following command? · Environment: local · Reason: may I make a file? · $ touch made2.txt",
    );
    asks(
        "codex-hooks",
        "unknown prompt: Hooks need review · 4 hooks are new or changed. · Hooks can run outside the sandbox after you trust them.",
    );
    asks("codex-menu", "unknown prompt: Select Model and Effort");
    asks(
        "gemini-permission",
        "? Shell  touch made.txt · touch made.txt · Allow execution of [Shell]?",
    );
    asks(
        "gemini-question",
        "unknown prompt: Answer Questions · Which colour",
    );
}

#[test]
fn what_waits_for_a_person_is_never_taken_for_idle() {
    for (name, begins) in [
        (
            "claude-trust",
            "Accessing workspace: · /home/ada/work9 · Quick safety check: Is",
        ),
        (
            "claude-offer",
            "Make auto mode your default permission mode? · Auto",
        ),
        (
            "codex-trust",
            "Folder access · /home/ada/work2 · Trust this folder? Codex",
        ),
        ("codex-hooks-list", "unknown prompt: "),
        (
            "gemini-trust",
            "Do you trust the files in this folder? · Trusting",
        ),
        ("gemini-menu", "unknown prompt: > Select Theme"),
    ] {
        let look = seen(name);
        let dialog = look.dialog.unwrap_or_default();
        assert!(dialog.starts_with(begins), "{name}: {dialog}");
        assert_eq!(look.input, Input::Unknown, "{name}");
    }
}

/// What may be typed at a screen of which nobody said whose it is.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Dialog,
    EmptyBox,
    /// Neither, such as a box with somebody's text in it.
    Other,
}

/// Verdict by verdict: `still` is without animations, `tmux` in a person's own tmux.
const VERDICTS: [(Verdict, &str); 3] = [
    (
        Verdict::Dialog,
        "claude-permission claude-write claude-mcp claude-question claude-menu claude-trust claude-offer claude-login
         claude-trust-by-hand claude-still-permission claude-still-model claude-tmux-permission claude-tmux-model
         codex-permission codex-hooks codex-hooks-list codex-menu codex-trust codex-login codex-still-permission
         codex-still-model codex-tmux-permission codex-tmux-model
         gemini-permission gemini-question gemini-menu gemini-trust gemini-trust-by-hand gemini-login
         gemini-plain-permission gemini-plain-model gemini-tmux-permission gemini-tmux-model",
    ),
    (
        Verdict::EmptyBox,
        "claude-idle claude-working claude-still-idle claude-still-refused claude-tmux-idle claude-tmux-refused
         codex-idle codex-working codex-still-idle codex-still-refused codex-tmux-idle codex-tmux-refused
         gemini-idle gemini-working gemini-plain-idle gemini-plain-refused gemini-tmux-idle gemini-tmux-refused",
    ),
    (
        Verdict::Other,
        "claude-draft claude-draft-of-two-lines claude-slash claude-still-draft claude-tmux-draft
         codex-draft codex-draft-of-two-lines codex-draft-with-enter codex-slash codex-still-draft codex-tmux-draft
         codex-login-in-browser
         gemini-draft gemini-draft-of-two-lines gemini-slash gemini-plain-draft gemini-tmux-draft gemini-login-code",
    ),
];

#[test]
fn every_screen_has_its_verdict_whoever_started_the_agent() {
    let mut wrong = Vec::new();
    let mut named = Vec::new();
    for (verdict, names) in VERDICTS {
        for name in names.split_whitespace() {
            let (lines, cursor) = recorded(name);
            let look = look_any(&lines, cursor);
            let is = match (&look.dialog, look.input) {
                (Some(_), _) => Verdict::Dialog,
                (None, Input::Empty) => Verdict::EmptyBox,
                (None, Input::Draft | Input::Unknown) => Verdict::Other,
            };
            if is != verdict {
                wrong.push(format!("{name}: {look:?}"));
            }
            named.push(name);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    for file in fs::read_dir(dir).expect("the screens") {
        let name = file.expect("a screen").file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".txt"));
        let name = name.expect("a recorded screen");
        assert!(named.contains(&name), "{name} has no verdict");
    }
}
