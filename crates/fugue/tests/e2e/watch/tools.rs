//! Its tools and verbs, and who hears of what it decides.

use std::fs;

use fugue_api::{
    ErrorKind,
    overview::WatcherState,
    tools::{CreatePaneReply, LookMaReply, PauseReply, ReportStatus, WatchMeReply},
};
use fugue_testkit::skip_on_tmux;
use serde_json::json;

use super::kit::*;

#[test]
fn the_tools_go_there_and_back() {
    if skip_on_tmux("a window of tmux is attached to by tmux") {
        return;
    }
    let test_env = test_env();
    let model = model(&[next_step("make it so")]);
    let mut client = client(&test_env, &model, &[("DEFAULT_WAIT_SEC", "600")]);
    let pane: CreatePaneReply = test_env.json(&["new", "-n", "build", "--shell", "bash"]);
    let id = pane.pane_id.to_string();
    let args = json!({"tmux_window": "build", "strategy_plan": "plan"});
    let watching = client.call("watch_me", args.clone());
    let attach = format!("fugue attach {id}");
    let mut wanted = json!({"ok": true, "mode": "watching", "pane_id": id, "attach_cmd": attach});
    assert_eq!(watching, wanted);
    wanted["mode"] = json!("updated");
    assert_eq!(client.call("watch_me", args), wanted);
    // Left out, it is the one that was watched last.
    let recorded = client.call("look_ma", json!({"status_report": "status"}));
    assert_eq!(recorded, json!({"status": "recorded+waiting"}));
    let status = client.call("get_status", json!({"pane_id": id}));
    assert_eq!(status["watcher"]["state"], "WAIT", "{status}");
    let paused = client.call("pause", json!({"tmux_window": "build"}));
    let wanted = json!({"injection_prompt": "make it so", "achieved": false});
    assert_eq!(paused, wanted);
    let all = client.call("get_status", json!({}));
    let row = &all["watchers"][0];
    assert_eq!(
        [&row["pane_id"], &row["state"], &row["reason"]],
        [&json!(id), &json!("PAUSED"), &json!("paused on request")]
    );
    let asked = question(&model, 0);
    assert!(asked.contains("injection_prompt, achieved"), "{asked}");
    // Asked again, it is asked again.
    client.call("pause", json!({"tmux_window": id}));
    let cleared = client.call("clear", json!({"tmux_window": id}));
    assert_eq!(cleared, json!({"status": "cleared"}));
    let again = client.call("clear", json!({"tmux_window": id}));
    assert_eq!(again, json!({"status": "noop"}));
    assert!(test_env.overview().watchers.is_empty());
    assert!(!test_env.text(pane.pane_id).contains("make it so"));
}

#[test]
fn what_cannot_be_watched_is_refused_by_name() {
    let test_env = test_env();
    let model = model(&[stop()]);
    let mut client = client(&test_env, &model, &[]);
    let pane = test_env.shell("bash").pane_id.to_string();
    let none = client.refused("look_ma", json!({"status_report": "x"}));
    assert_eq!(none.kind, ErrorKind::InvalidArgument, "{none:?}");
    assert!(none.hint.expect("the candidates").contains(&pane));
    for (tool, more) in [
        ("look_ma", json!({"status_report": "x"})),
        ("pause", json!({})),
    ] {
        let mut args = json!({"tmux_window": pane});
        merge(&mut args, more.clone());
        let refused = client.refused(tool, args);
        assert_eq!(refused.kind, ErrorKind::NotFound, "{refused:?}");
        assert!(refused.message.contains("is not watched"), "{refused:?}");
        let mut args = json!({"tmux_window": "nowhere"});
        merge(&mut args, more);
        let refused = client.refused(tool, args);
        assert_eq!(refused.kind, ErrorKind::NotFound, "{refused:?}");
        assert!(refused.message.contains("nowhere"), "{refused:?}");
    }
    let refused = client.refused(
        "watch_me",
        json!({"tmux_window": "work:1", "strategy_plan": "x"}),
    );
    assert!(refused.message.contains("tmux"), "{refused:?}");
    for (args, names) in [
        (
            json!({"tmux_window": pane, "strategy_plan": ""}),
            "strategy_plan",
        ),
        (json!({"tmux_window": pane}), "strategy_plan"),
        (
            json!({"tmux_window": pane, "strategy_plan": "x", "done_when": " "}),
            "done_when",
        ),
        (
            json!({"tmux_window": pane, "strategy_plan": "x", "plan": 1}),
            "plan",
        ),
        (
            json!({"tmux_window": 7, "strategy_plan": "x"}),
            "tmux_window",
        ),
    ] {
        let refused = client.refused("watch_me", args);
        assert_eq!(refused.kind, ErrorKind::InvalidArgument, "{refused:?}");
        assert!(refused.message.contains(names), "{refused:?}");
    }
    let gone = test_env.pane("true").pane_id;
    test_env.exited(gone);
    let args = json!({"tmux_window": gone.to_string(), "strategy_plan": "x"});
    assert_eq!(client.refused("watch_me", args).kind, ErrorKind::Ended);
    assert!(test_env.overview().watchers.is_empty());
}

#[test]
fn without_an_assessor_the_choices_are_named_at_once() {
    let test_env = test_env();
    let pane = test_env.shell("bash").pane_id.to_string();
    let refused = test_env.refused(&["watch", &pane, "plan"], 1);
    assert!(refused.message.contains("OPENAI_API_KEY"), "{refused:?}");
    let hint = refused.hint.expect("the choices");
    for choice in ["openai:", "anthropic:", "gemini:", "ollama:", "cmd:"] {
        assert!(hint.contains(choice), "{choice}: {hint}");
    }
    assert!(test_env.overview().watchers.is_empty());
}

#[test]
fn the_verbs_say_what_the_watcher_does_and_why() {
    if skip_on_tmux("a window of tmux is attached to by tmux") {
        return;
    }
    let mut test_env = test_env();
    let said = json!({"action": "continue", "injection_prompt": NEXT});
    // A verb reads only names that are ours: the short ones may be another program's.
    for name in ["ASSESS_MODEL", "MODEL", "DEFAULT_WAIT_SEC", "POLL_SECS"] {
        test_env.set_env(name, "of another program");
    }
    test_env.set_env(
        "FUGUE_ASSESS_MODEL",
        format!("cmd:cat > asked; echo '{said}'"),
    );
    test_env.set_env(
        "FUGUE_MODEL",
        "cmd:echo '{\"injection_prompt\": null, \"achieved\": true}'",
    );
    test_env.set_env("FUGUE_DEFAULT_WAIT_SEC", "0.01");
    test_env.set_env("FUGUE_IDLE_THRESHOLD", "0.1");
    let pane = test_env.shell("bash").pane_id;
    let id = pane.to_string();
    let watching: WatchMeReply = test_env.json(&["watch", &id, "reach the end"]);
    assert_eq!(watching.attach_cmd, format!("fugue attach {id}"));
    let recorded: LookMaReply = test_env.json(&["look", "half of it", "--pane", &id]);
    assert_eq!(recorded.status, ReportStatus::Waiting);
    test_env.until_printed(pane, |text| text.contains("42-next"));
    let asked = fs::read_to_string(test_env.work().join("asked")).expect("the prompt");
    assert!(asked.contains("half of it"), "{asked}");
    let next: PauseReply = test_env.json(&["pause", &id]);
    assert_eq!((next.injection_prompt, next.achieved), (None, true));
    for verb in [&["status", &id][..], &["ls"]] {
        let said = test_env.fugue(verb).ok().out();
        assert!(said.to_lowercase().contains("paused"), "{said}");
        assert!(said.contains("paused on request"), "{said}");
    }
    let said = test_env.fugue(&["look", "more", "--pane", &id]).ok();
    let said = said.out() + &said.err();
    assert!(said.contains("paused on request"), "{said}");
    test_env.fugue(&["clear", &id]).ok();
    assert_eq!(
        test_env.refused(&["pause", &id], 1).kind,
        ErrorKind::NotFound
    );
}

#[test]
fn a_workers_lead_hears_what_the_worker_hears() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT), stop()]);
    let mut lead = client(&test_env, &model, &[]);
    let spawned = lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": "exec sleep 1000"}),
    );
    let text = |field: &str| spawned[field].as_str().expect("a text");
    let identity = [
        ("FUGUE_SESSION_ID", text("session_id")),
        ("FUGUE_AGENT_ID", text("worker_id")),
        ("FUGUE_PANE_ID", text("pane_id")),
    ];
    // A worker watches what it opened itself.
    let opened = client(&test_env, &model, &identity).call("create_pane", json!({"shell": "bash"}));
    let pane = opened["pane_id"].as_str().expect("a pane");
    let pane = pane.parse().expect("its id");
    let mut watch = Watch::of(&test_env, pane, &model, &identity, json!({}));
    for decision in ["continue", "stop"] {
        watch.report(json!({}));
        let own = watch.told(decision);
        let leads = lead.call(
            "wait_for_event",
            json!({"types": ["watcher"], "timeout_secs": 30}),
        );
        for field in ["pane_id", "decision", "injection", "reason"] {
            assert_eq!(own[field], leads[field], "{own} {leads}");
        }
    }
    // A worker that names no window means its own.
    let refused = watch
        .client
        .refused("look_ma", json!({"status_report": "x"}));
    let own = format!("pane `{}` is not watched", text("pane_id"));
    assert_eq!(refused.message, own);
    test_env.close(watch.pane);
    watch.told("ended");
    let event = lead.call(
        "wait_for_event",
        json!({"types": ["watcher"], "timeout_secs": 30}),
    );
    assert_eq!(event["decision"], "ended", "{event}");
}

#[test]
fn settings_come_from_the_file_and_the_environment_and_ours_win() {
    let test_env = test_env();
    test_env.configure("[watch]\ndefault_wait_sec = 0.03\nidle_threshold = 0.1\n");
    let model = model(&[stop()]);
    let all = [
        ("DEFAULT_WAIT_SEC", "600"),
        ("FUGUE_DEFAULT_WAIT_SEC", "0.02"),
    ];
    for (vars, slept) in [
        (&[("DEFAULT_WAIT_SEC", "")][..], "[sleep] 0.03s"),
        (&[("DEFAULT_WAIT_SEC", "0.04")], "[sleep] 0.04s"),
        (&all, "[sleep] 0.02s"),
    ] {
        let mut watch = Watch::begin(&test_env, &model, vars, json!({}));
        watch.report(json!({}));
        watch.told("stop");
        let asked = question(&model, model.requests().len() - 1);
        assert!(quoted(&asked, "wait_output").contains(slept), "{asked}");
    }
}

#[test]
fn a_line_may_be_typed_without_enter() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT), stop()]);
    let vars = [("INJECT_PRESS_ENTER", "false")];
    let mut watch = Watch::begin(&test_env, &model, &vars, json!({}));
    watch.report(json!({}));
    watch.told("continue");
    let text = test_env.until_printed(watch.pane, |text| text.contains(NEXT));
    assert!(!text.contains("42-next"), "{text}");
    // Nothing is typed behind it before somebody has sent it.
    watch.report(json!({}));
    watch.until(WatcherState::IdleSpin);
    test_env.press(watch.pane, &["Enter"]);
    watch.told("stop");
    assert_eq!(watch.typed(), 1);
}

#[test]
fn a_wrong_setting_is_refused_by_its_name() {
    let test_env = test_env();
    let pane = test_env.shell("bash").pane_id.to_string();
    let model = model(&[stop()]);
    for (name, value) in [
        ("IDLE_THRESHOLD", "soon"),
        ("FUGUE_DEFAULT_WAIT_SEC", "-1"),
        ("MAX_TRANSCRIPT", "1"),
        ("INJECT_PRESS_ENTER", "maybe"),
        ("ASSESS_MODEL", "gpt-4o"),
        ("MODEL", "nobody:x"),
    ] {
        let mut client = client(&test_env, &model, &[(name, value)]);
        let args = json!({"tmux_window": pane, "strategy_plan": "x"});
        let refused = client.refused("watch_me", args);
        assert_eq!(refused.kind, ErrorKind::InvalidArgument, "{refused:?}");
        let said = format!("{} {}", refused.message, refused.hint.unwrap_or_default());
        assert!(
            said.contains(name) && said.contains(value),
            "{name}: {said}"
        );
    }
    assert!(test_env.overview().watchers.is_empty());
    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    test_env.configure("[watch]\nidle_threshold = -1\n");
    let ran = test_env.fugue(&["ls"]);
    assert_ne!(ran.code, Some(0), "{ran}");
    assert!(ran.err().contains("watch.idle_threshold"), "{ran}");
    test_env.configure("");
}
