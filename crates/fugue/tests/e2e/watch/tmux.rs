//! A window of a person's own tmux, watched.

use std::time::Duration;

use fugue_api::{overview::WatcherState, tools::PaneStatus};
use fugue_testkit::{TestEnv, assessor_server::AssessorServer, sleep_in_test, until};
use serde_json::{Value, json};

use super::kit::*;

/// A person's tmux with a window in which a bash waits; the target of its pane.
fn window(world: &TestEnv) -> String {
    let pane = world.tmux(&[
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
        shown(world, &pane).contains("ready>")
    });
    pane
}

fn shown(world: &TestEnv, pane: &str) -> String {
    world.tmux(&["capture-pane", "-p", "-t", pane])
}

/// A session that watches the window under one of its names.
fn watch<'a>(world: &'a TestEnv, window: &str, model: &AssessorServer) -> Watch<'a> {
    let mut client = client(world, model, &[("IDLE_THRESHOLD", "0.3")]);
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
        world,
        client,
        pane: pane.expect("its id"),
    }
}

#[test]
fn a_window_is_kept_going_until_its_plan_is_done() {
    let world = world();
    let pane = window(&world);
    let model = model(&[go_on(NEXT), stop()]);
    let mut watch = watch(&world, "work:agent", &model);
    for name in ["work:agent", &pane] {
        let args = json!({"tmux_window": name, "status_report": "a part is done"});
        watch.client.call("look_ma", args);
    }
    let event = watch.told("continue");
    assert_eq!(event["injection"], NEXT);
    watch.told("stop");
    assert_eq!(shown(&world, &pane).matches("42-next").count(), 1);
    assert!(quoted(&question(&model, 1), "pane_tail").contains("42-next"));
    let cleared = watch
        .client
        .call("clear", json!({"tmux_window": "work:agent"}));
    assert_eq!(cleared, json!({"status": "cleared"}));
}

#[test]
fn an_agent_in_tmux_watches_its_own_pane_without_naming_it() {
    let world = world();
    let pane = window(&world);
    let model = model(&[stop()]);
    let tmux = world.tmux(&["display-message", "-p", "#{socket_path},#{pid},0"]);
    let vars = [("TMUX", tmux.as_str()), ("TMUX_PANE", pane.as_str())];
    let mut client = client(&world, &model, &vars);
    let watching = client.call("watch_me", json!({"strategy_plan": "reach the end"}));
    let id = watching["pane_id"].as_str().expect("its id").to_owned();
    let status: PaneStatus = world.json(&["status", &pane]);
    assert_eq!(status.pane_id.to_string(), id);
    assert!(status.watcher.is_some());
    let recorded = client.call("look_ma", json!({"status_report": "done"}));
    assert_eq!(recorded["status"], "recorded+waiting");
}

#[test]
fn a_line_that_the_person_has_begun_is_not_typed_into() {
    let world = world();
    let pane = window(&world);
    let model = model(&[go_on(NEXT), go_on(NEXT), stop()]);
    let mut watch = watch(&world, &pane, &model);
    // A person's keys come from a terminal that is attached; a pane of fugue's own is one.
    let terminal = world.pane("tmux attach -t work").pane_id;
    until("the person sees the window", WAIT_TIMEOUT, || {
        let screen = world.read(terminal, &["--screen"]).text;
        screen.contains("ready>")
    });
    world.json::<Value>(&["send", &terminal.to_string(), "rm -rf half-typed"]);
    until("it is shown", WAIT_TIMEOUT, || {
        shown(&world, &pane).contains("half-typed")
    });
    watch.report(json!({}));
    watch.until(WatcherState::IdleSpin);
    // Several times as long as it would have to rest.
    sleep_in_test(Duration::from_secs(2));
    assert!(!shown(&world, &pane).contains("next"));
    world.press(terminal, &["C-u"]);
    world.type_line(terminal, "echo $((50+1))-mine");
    watch.told("continue");
    let text = shown(&world, &pane);
    let (mine, next) = (text.find("51-mine"), text.find("42-next"));
    assert!(mine.is_some() && mine < next, "{text}");
    assert!(!text.contains(&format!("half-typed{NEXT}")), "{text}");
}

#[test]
fn a_window_that_is_closed_ends_its_watcher() {
    let world = world();
    let pane = window(&world);
    world.tmux(&["new-window", "-d", "-t", "work", "cat"]);
    let model = model(&[stop()]);
    let mut watch = watch(&world, &pane, &model);
    world.tmux(&["kill-pane", "-t", &pane]);
    let event = watch.told("ended");
    assert_ne!(event["reason"], Value::Null, "{event}");
}

#[test]
fn a_window_that_is_not_there_is_refused_with_the_candidates() {
    let world = world();
    window(&world);
    let model = model(&[stop()]);
    let mut client = client(&world, &model, &[]);
    let args = json!({"tmux_window": "work:nothing", "strategy_plan": "reach the end"});
    let refused = format!("{:?}", client.refused("watch_me", args));
    assert!(
        refused.contains("work:nothing") && refused.contains("agent"),
        "{refused}"
    );
}
