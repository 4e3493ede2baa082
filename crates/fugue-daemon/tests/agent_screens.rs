//! Screens of real agents, recorded at 120×40: where the cursor was (row and column from 0), then what was shown.

use std::{fs, path::Path};

use fugue_api::pane_state::AttentionKind;
use fugue_daemon::agents::{
    AGENTS,
    screen::{AgentScreen, BoxContent, recognize_any_in_lines, recognize_in_lines},
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

fn seen(name: &str) -> AgentScreen {
    let (lines, cursor) = recorded(name);
    let agent = AGENTS.iter().find(|agent| name.starts_with(agent.name()));
    let screen = agent.and_then(|agent| agent.screen());
    recognize_in_lines(screen.expect("named after its agent"), &lines, cursor)
}

fn check(name: &str, working: bool, input: BoxContent, dialog: Option<&str>) {
    let seen = seen(name);
    let question = seen.dialog.as_ref().map(|dialog| dialog.question.as_str());
    assert_eq!(question, dialog, "{name}");
    assert_eq!((seen.input, seen.working), (input, working), "{name}");
}

#[test]
fn every_agent_with_a_screen_is_fully_described() {
    for agent in AGENTS {
        let Some(patterns) = agent.screen() else {
            continue;
        };
        let name = agent.name();
        assert!(agent.program().is_some(), "{name} has no program");
        assert!(!agent.process_names().is_empty(), "{name} has no process");
        let variables = agent.session_variables();
        assert!(!variables.names.is_empty(), "{name} has no session");
        assert!(!patterns.working_marks.is_empty(), "{name} never works");
        check(&format!("{name}-idle"), false, BoxContent::Empty, None);
        check(&format!("{name}-working"), true, BoxContent::Empty, None);
        for draft in ["draft", "draft-of-two-lines", "slash"] {
            check(
                &format!("{name}-{draft}"),
                false,
                BoxContent::UnsentText,
                None,
            );
        }
        let permission = seen(&format!("{name}-permission"));
        assert!(permission.dialog.is_some(), "{name}: {permission:?}");
        assert_eq!(permission.input, BoxContent::Unrecognized, "{name}");
    }
    check(
        "codex-draft-with-enter",
        false,
        BoxContent::UnsentText,
        None,
    );
}

#[test]
fn a_question_is_told_in_its_own_words() {
    let asks = |name: &str, text: &str| check(name, false, BoxContent::Unrecognized, Some(text));
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
fn a_permission_names_its_choices_in_the_order_of_their_keys() {
    for (name, kind, labels) in [
        (
            "claude-permission",
            AttentionKind::Permission,
            &["Yes", "Yes, and always", "Yes, and switch", "No"][..],
        ),
        (
            "claude-question",
            AttentionKind::Question,
            &["Red", "Blue", "Type something", "Chat about"],
        ),
        ("claude-trust", AttentionKind::Prompt, &[]),
        (
            "codex-permission",
            AttentionKind::Permission,
            &["Yes, proceed", "Yes, and don't", "No, and tell"],
        ),
        (
            "gemini-permission",
            AttentionKind::Permission,
            &["Allow once", "Allow for this", "No, suggest"],
        ),
        (
            "qwen-permission",
            AttentionKind::Permission,
            &[
                "Yes, allow once",
                "Always allow run",
                "Always allow run",
                "No, suggest",
            ],
        ),
    ] {
        let dialog = seen(name).dialog.expect("a dialog");
        let (lines, cursor) = recorded(name);
        let any = recognize_any_in_lines(&lines, cursor).dialog;
        assert_eq!(any.as_ref(), Some(&dialog), "{name}");
        assert_eq!(dialog.kind, kind, "{name}");
        assert_eq!(dialog.choices.len(), labels.len(), "{name}: {dialog:?}");
        for (number, (choice, label)) in dialog.choices.iter().zip(labels).enumerate() {
            assert_eq!(choice.key, (number + 1).to_string(), "{name}");
            assert!(choice.label.starts_with(label), "{name}: {choice:?}");
        }
    }
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
        (
            "gemini-login-code",
            "unknown prompt: Enter the authorization code",
        ),
        ("codex-login", "unknown prompt: Welcome to Codex, OpenAI's"),
        ("codex-login-key", "unknown prompt: "),
        ("claude-login-code", "unknown prompt: Paste code here if"),
        (
            "claude-2.1.197-login-code",
            "unknown prompt: Paste code here if",
        ),
        (
            "claude-2.1.197-model",
            "unknown prompt: Select model · Switch",
        ),
        ("qwen-login", "unknown prompt: Connect a Provider"),
        ("qwen-model", "unknown prompt: Select Model"),
    ] {
        let look = seen(name);
        let question = look.dialog.map(|dialog| dialog.question);
        let question = question.unwrap_or_default();
        assert!(question.starts_with(begins), "{name}: {question}");
        assert_eq!(look.input, BoxContent::Unrecognized, "{name}");
    }
}

/// What a screen shows when the agent is not known.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Dialog,
    EmptyBox,
    /// Neither, such as an input box with a draft.
    Other,
}

/// The expected verdict, by the last words of a recording's name. The words before say how it was recorded: `still` is
/// without animations, `tmux` in a person's own tmux.
fn expected_verdict(name: &str) -> Verdict {
    let ends_with = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends_with(&["-idle", "-working", "-refused"]) {
        Verdict::EmptyBox
    } else if ends_with(&[
        "-draft",
        "-draft-of-two-lines",
        "-draft-with-enter",
        "-slash",
    ]) {
        Verdict::Other
    } else {
        Verdict::Dialog
    }
}

#[test]
fn every_screen_is_recognised_without_its_agents_name() {
    let mut wrong = Vec::new();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    for file in fs::read_dir(dir).expect("the screens") {
        let name = file.expect("a screen").file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".txt"));
        let name = name.expect("a recorded screen");
        let (lines, cursor) = recorded(name);
        let look = recognize_any_in_lines(&lines, cursor);
        let verdict = match (&look.dialog, look.input) {
            (Some(_), _) => Verdict::Dialog,
            (None, BoxContent::Empty) => Verdict::EmptyBox,
            (None, BoxContent::UnsentText | BoxContent::Unrecognized) => Verdict::Other,
        };
        if verdict != expected_verdict(name) {
            wrong.push(format!("{name}: {look:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
