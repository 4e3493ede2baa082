//! What a shell, a manual reader and a program are told about the verbs: completions, manual pages, schemas.

use std::{fs, time::Duration};

use fugue_api::{ToolCall, tools::CreatePaneReply};
use fugue_testkit::{MissingRequirement, TestEnv, skip, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

/// With `fugue` first on the PATH, as after an installation.
fn test_env() -> TestEnv {
    let mut test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT);
    test_env.install();
    test_env
}

#[test]
fn tab_completes_verbs_options_and_panes_in_each_shell() {
    let test_env = test_env();
    test_env.json::<CreatePaneReply>(&["new", "-n", "buildbox", "--", "exec cat"]);
    for (shell, load) in [
        ("bash", "source <(fugue completions bash)"),
        (
            "zsh",
            "autoload -U compinit; compinit -u; source <(fugue completions zsh)",
        ),
        ("fish", "fugue completions fish | source"),
    ] {
        let pane = test_env.shell(shell).pane_id;
        test_env.type_line(pane, load);
        until("the script is loaded", LIMIT, || {
            let last = test_env.read(pane, &["--last"]);
            last.command.as_deref() == Some(load) && last.exit_code == Some(0)
        });
        let check = |typed: &str, wanted: &str| {
            let id = pane.to_string();
            test_env.fugue(&["send", &id, typed, "-k", "Tab"]).ok();
            test_env.until_printed(pane, |text| text.contains(wanted));
            // The next case starts on an empty line. An interrupt could be lost while the shell completes.
            test_env.press(pane, &["C-u"]);
        };
        check("fugue pipel", "fugue pipeline");
        check("fugue read build", "fugue read buildbox");
        check("fugue config def", "fugue config default");
        check("fugue read --max-out", "--max-output-chars");
        test_env.close(pane);
    }
}

#[test]
fn completing_starts_no_daemon_and_stays_silent_without_one() {
    let test_env = test_env();
    let mut command = test_env.fugue_command(["--", "fugue", "read", ""]);
    command.env("FUGUE_COMPLETE", "bash");
    command
        .env("_CLAP_COMPLETE_INDEX", "2")
        .env("_CLAP_IFS", "\n");
    let ran = fugue_testkit::RunningProgram::start(command)
        .end(LIMIT)
        .ok();
    assert!(ran.out().contains("--grep"), "{ran}");
    assert_eq!(ran.err(), "");
    assert!(test_env.daemons().is_empty());
    assert!(!test_env.state().exists(), "nothing was created");
}

#[test]
fn help_names_each_verb_and_the_one_that_was_meant() {
    let test_env = test_env();
    let said = test_env.fugue(&["help", "daemon", "restart"]).ok();
    assert!(said.out().contains("Usage: fugue daemon restart"), "{said}");
    let said = test_env.fugue(&["help", "kill"]).ok();
    assert!(said.out().contains("fugue close build p7"), "{said}");
    let error = test_env.refused(&["help", "pipelin"], 2);
    assert!(error.hint.is_some_and(|hint| hint.contains("`pipeline`")));
    assert!(!test_env.state().exists(), "nothing was created");
}

#[test]
fn every_verb_has_a_manual_page_that_the_formatter_accepts() {
    let test_env = test_env();
    let dir = test_env.dir().join("man");
    let error = test_env.refused(&["man", "nowhere/at/all"], 1);
    assert!(error.message.starts_with("nowhere/at/all"), "{error}");
    fs::create_dir(&dir).expect("a directory");
    test_env.fugue(&["man", &dir.to_string_lossy()]).ok();
    let help = test_env.fugue(&["--help"]).ok().out();
    let commands = help.split("Commands:").nth(1).unwrap_or_default();
    let verbs: Vec<&str> = commands
        .lines()
        .take_while(|line| !line.starts_with("Options"))
        // A description that does not fit its line goes on below, farther to the right.
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|verb| !verb.is_empty())
        .collect();
    assert!(verbs.len() >= 30, "{verbs:?}");
    for verb in verbs {
        let page = dir.join(format!("fugue-{verb}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{verb}: {error}"));
        assert!(
            text.contains(".SH NAME") && text.contains("fugue"),
            "{verb}: {text}"
        );
    }
    if !std::path::Path::new("/usr/bin/groff").exists() {
        skip(
            MissingRequirement::Program,
            "no groff to format manual pages with",
        );
        return;
    }
    for entry in fs::read_dir(&dir).expect("the pages").flatten() {
        let path = entry.path();
        let page = path.to_string_lossy();
        let ran = test_env
            .run("groff", &["-man", "-Tutf8", "-wall", "-z", &page])
            .ok();
        assert_eq!(ran.err(), "", "{page}");
    }
}

#[test]
fn schemas_describe_each_tool_and_the_settings() {
    let test_env = test_env();
    let all: Value = test_env.json(&["schema"]);
    for name in ToolCall::NAMES {
        let tool: Value = test_env.json(&["schema", name]);
        assert_eq!(all["tools"][name], tool, "{name}");
        assert_eq!(tool["arguments"]["type"], json!("object"), "{name}");
        assert!(tool["arguments"]["description"].is_string(), "{name}");
        assert!(tool["reply"].is_object(), "{name}");
    }
    let config: Value = test_env.json(&["schema", "config"]);
    assert_eq!(all["config"], config);
    let defaults: Value = test_env.json(&["config", "default"]);
    for key in defaults
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        assert!(
            config["properties"][key]["description"].is_string(),
            "{key}"
        );
    }
    let error = test_env.refused(&["schema", "read_pan"], 2);
    assert!(error.hint.is_some_and(|hint| hint.contains("`read_pane`")));
    // A reply has no property that its schema does not have.
    let reply: Value = test_env.json(&["new", "--", "exec cat"]);
    let schema: Value = test_env.json(&["schema", "create_pane"]);
    for key in reply.as_object().into_iter().flatten().map(|(key, _)| key) {
        assert!(
            schema["reply"]["properties"][key].is_object(),
            "{key}: {schema}"
        );
    }
}
