//! A window of a person's own tmux, watched.

use std::time::Duration;

use fugue_api::{overview::WatcherState, tools::PaneStatus};
use fugue_testkit::{TestEnv, assessor_server::AssessorServer, sleep_in_test, until};
use serde_json::{Value, json};

use super::kit::*;

/// A person's tmux with a window in which a bash waits; the target of its pane.
fn window(test_env: &TestEnv) -> String {
    let pane = test_env.tmux(&[
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "agent",
        "-x",
        "100",
        "-y",
        "30",
        "-P",
        "-F",
        "#{pane_id}",
        "env PS1='ready> ' bash --norc --noprofile",
    ]);
    until("bash shows its prompt", WAIT_TIMEOUT, || {
        shown(test_env, &pane).contains("ready>")
    });
    pane
}

fn shown(test_env: &TestEnv, pane: &str) -> String {
    test_env.tmux(&["capture-pane", "-p", "-t", pane])
}

/// A session that watches the window under one of its names.
fn watch<'a>(test_env: &'a TestEnv, window: &str, model: &AssessorServer) -> Watch<'a> {
    let mut client = client(test_env, model, &[("IDLE_THRESHOLD", "0.3")]);
    let args = json!({"tmux_window": window, "strategy_plan": "reach the end"});
    let watching = client.call("watch_me", args);
    assert_eq!(watching["mode"], "watching", "{watching}");
    let attach = watching["attach_cmd"].as_str().expect("a command");
    assert!(
        attach.starts_with("tmux -S ") && attach.contains(" attach -t %"),
        "{attach}"
    );
    let pane = watching["pane_id"].as_str().and_then(|id| id.parse().ok());
    Watch {
        test_env,
        client,
        pane: pane.expect("its id"),
    }
}

#[test]
fn a_window_is_kept_going_until_its_plan_is_done() {
    let test_env = test_env();
    let pane = window(&test_env);
    let model = model(&[go_on(NEXT), stop()]);
    let mut watch = watch(&test_env, "work:agent", &model);
    for name in ["work:agent", &pane] {
        let args = json!({"tmux_window": name, "status_report": "a part is done"});
        watch.client.call("look_ma", args);
    }
    let event = watch.told("continue");
    assert_eq!(event["injection"], NEXT);
    watch.told("stop");
    assert_eq!(shown(&test_env, &pane).matches("42-next").count(), 1);
    assert!(quoted(&question(&model, 1), "pane_tail").contains("42-next"));
    let cleared = watch
        .client
        .call("clear", json!({"tmux_window": "work:agent"}));
    assert_eq!(cleared, json!({"status": "cleared"}));
}

#[test]
fn an_agent_in_tmux_watches_its_own_pane_without_naming_it() {
    let test_env = test_env();
    let pane = window(&test_env);
    let model = model(&[stop()]);
    let tmux = test_env.tmux(&["display-message", "-p", "#{socket_path},#{pid},0"]);
    let vars = [("TMUX", tmux.as_str()), ("TMUX_PANE", pane.as_str())];
    let mut client = client(&test_env, &model, &vars);
    let watching = client.call("watch_me", json!({"strategy_plan": "reach the end"}));
    let id = watching["pane_id"].as_str().expect("its id").to_owned();
    let status: PaneStatus = test_env.json(&["status", &pane]);
    assert_eq!(status.pane_id.to_string(), id);
    assert!(status.watcher.is_some());
    let recorded = client.call("look_ma", json!({"status_report": "done"}));
    assert_eq!(recorded["status"], "recorded+waiting");
}

#[test]
fn a_line_that_the_person_has_begun_is_not_typed_into() {
    let test_env = test_env();
    let pane = window(&test_env);
    let model = model(&[go_on(NEXT), go_on(NEXT), stop()]);
    let mut watch = watch(&test_env, &pane, &model);
    // A person's keys come from a terminal that is attached; a pane of fugue's own is one.
    let terminal = test_env.pane("tmux attach -t work").pane_id;
    until("the person sees the window", WAIT_TIMEOUT, || {
        let screen = test_env.read(terminal, &["--screen"]).text;
        screen.contains("ready>")
    });
    test_env.json::<Value>(&["send", &terminal.to_string(), "rm -rf half-typed"]);
    until("it is shown", WAIT_TIMEOUT, || {
        shown(&test_env, &pane).contains("half-typed")
    });
    watch.report(json!({}));
    watch.until(WatcherState::IdleSpin);
    // Several times as long as it would have to rest.
    sleep_in_test(Duration::from_secs(2));
    assert!(!shown(&test_env, &pane).contains("next"));
    test_env.press(terminal, &["C-u"]);
    test_env.type_line(terminal, "echo $((50+1))-mine");
    watch.told("continue");
    let text = shown(&test_env, &pane);
    let (mine, next) = (text.find("51-mine"), text.find("42-next"));
    assert!(mine.is_some() && mine < next, "{text}");
    assert!(!text.contains(&format!("half-typed{NEXT}")), "{text}");
}

#[test]
fn a_window_that_is_closed_ends_its_watcher() {
    let test_env = test_env();
    let pane = window(&test_env);
    test_env.tmux(&["new-window", "-d", "-t", "work", "cat"]);
    let model = model(&[stop()]);
    let mut watch = watch(&test_env, &pane, &model);
    test_env.tmux(&["kill-pane", "-t", &pane]);
    let event = watch.told("ended");
    assert_ne!(event["reason"], Value::Null, "{event}");
}

#[test]
fn a_window_that_is_not_there_is_refused_with_the_candidates() {
    let test_env = test_env();
    window(&test_env);
    let model = model(&[stop()]);
    let mut client = client(&test_env, &model, &[]);
    let args = json!({"tmux_window": "work:nothing", "strategy_plan": "reach the end"});
    let refused = format!("{:?}", client.refused("watch_me", args));
    assert!(
        refused.contains("work:nothing") && refused.contains("agent"),
        "{refused}"
    );
}
