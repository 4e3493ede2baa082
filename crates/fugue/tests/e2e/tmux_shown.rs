//! Panes that fugue makes in a person's tmux, through the real binary, a real MCP client and a real tmux server.

use std::time::Duration;

use fugue_api::{
    pane_state::PaneState,
    tools::{
        ClosePaneReply, CreatePaneReply, PaneStatus, ParallelResult, ParallelStatus,
        PipelineResult, PipelineStatus, SendInputReply,
    },
};
use fugue_testkit::{
    TestEnv,
    mcp_client::{McpClient, facts},
    report_metric, until,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// A person who sits in tmux: three panes in a window, a buffer, a scrolled-back pane, and `fugue mcp` in the first one.
struct Person {
    test_env: TestEnv,
    socket: String,
}

impl Person {
    fn new() -> Self {
        let mut test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(300));
        let socket = test_env.dir().join("tmux").to_string_lossy().into_owned();
        test_env.set_env("TMUX", format!("{socket},0,0"));
        test_env.set_env("TMUX_PANE", "%0");
        let person = Self { test_env, socket };
        person.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            "main",
            "-x",
            "200",
            "-y",
            "60",
            "cat",
        ]);
        person.tmux(&["split-window", "-d", "-v", "-l", "15", "-t", "%0", "cat"]);
        person.tmux(&["split-window", "-d", "-h", "-t", "%1", "cat"]);
        person.tmux(&["set-buffer", "a person's own"]);
        person.tmux(&["select-pane", "-t", "%2"]);
        person.tmux(&["copy-mode", "-t", "%1"]);
        person
    }

    #[track_caller]
    fn tmux(&self, words: &[&str]) -> String {
        let words = [&["-u", "-S", &self.socket], words].concat();
        let said = self.test_env.run("tmux", &words).ok();
        said.out().trim_end().to_owned()
    }

    fn client(&self) -> McpClient {
        let mut client = McpClient::start(self.test_env.fugue_command(["mcp"]));
        client.initialize("2025-06-18", "tmux");
        client
    }

    /// Everything of the person's that must stay as it is. The caller's own pane gives a share of its place away.
    fn own(&self) -> Vec<String> {
        let place = "#{pane_left},#{pane_top} #{pane_width}x#{pane_height}";
        let panes = self.tmux(&[
            "list-panes",
            "-a",
            "-F",
            &format!("#{{pane_id}} {place} #{{pane_active}} #{{pane_in_mode}}"),
        ]);
        let mine = panes
            .lines()
            .filter(|line| line.starts_with("%1 ") || line.starts_with("%2 "));
        let mut own: Vec<String> = mine.map(str::to_owned).collect();
        own.push(self.tmux(&["list-buffers", "-F", "#{buffer_name} #{buffer_sample}"]));
        own.push(self.tmux(&["show-options", "-g"]));
        own.push(self.tmux(&["show-options", "-gw"]));
        own.push(self.tmux(&["show-options", "-p", "-t", "%0"]));
        own.push(self.tmux(&[
            "display-message",
            "-p",
            "-t",
            "main:",
            "#{window_index} #{pane_id}",
        ]));
        own
    }

    fn shown(&self) -> Vec<String> {
        let panes = self.tmux(&[
            "list-panes",
            "-a",
            "-F",
            "#{pane_id} #{pane_width} #{pane_height} #{@fugue}",
        ]);
        panes
            .lines()
            .filter(|line| line.contains("FUGUE_PANE_ID"))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.test_env
            .run("tmux", &["-S", &self.socket, "kill-server"]);
    }
}

#[track_caller]
fn call<T: DeserializeOwned>(client: &mut McpClient, tool: &str, args: Value) -> T {
    let facts = client.call(tool, args);
    serde_json::from_value(facts.clone()).unwrap_or_else(|error| panic!("{error}: {facts}"))
}

fn commands(list: &[&str], more: Value) -> Value {
    let list: Vec<Value> = list
        .iter()
        .map(|command| json!({"command": command}))
        .collect();
    let mut args = json!({"commands": list, "backend": "tmux"});
    let more = more.as_object().cloned().unwrap_or_default();
    args.as_object_mut().expect("an object").extend(more);
    args
}

#[test]
fn ten_commands_are_seen_evenly_beside_their_caller_and_leave_everything_as_it_was() {
    let person = Person::new();
    let mut client = person.client();
    let (before, layout) = (
        person.own(),
        person.tmux(&["display-message", "-p", "-t", "%0", "#{window_layout}"]),
    );
    let gate = person.test_env.work().join("go");
    let wait = format!(
        "while [ ! -e {} ]; do read -t 0.05 x; done; echo done",
        gate.display()
    );
    let list: Vec<String> = (0..10).map(|n| format!("{wait}; exit {n}")).collect();
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let id = client.send_tool_call(
        "fugue_run_parallel",
        commands(&list, json!({"layout": "tiled"})),
    );
    until("ten panes", LIMIT, || person.shown().len() == 10);
    let areas: Vec<u32> = person
        .shown()
        .iter()
        .map(|line| {
            let mut numbers = line
                .split(' ')
                .skip(1)
                .map(|word| word.parse::<u32>().expect("a number"));
            (numbers.next().unwrap() + 1) * (numbers.next().unwrap() + 1)
        })
        .collect();
    assert!(
        areas.iter().max().unwrap() * 10 <= areas.iter().min().unwrap() * 21,
        "{areas:?}"
    );
    assert_eq!(person.own(), before);
    std::fs::write(gate, "").expect("a file");
    let result: ParallelResult =
        serde_json::from_value(facts(&client.result(id))).expect("a result");
    assert_eq!(result.status, ParallelStatus::Completed);
    let codes: Vec<Option<i32>> = result.results.iter().map(|task| task.exit_code).collect();
    assert_eq!(codes, (0..10).map(Some).collect::<Vec<_>>());
    assert!(
        result.results.iter().all(|task| task.output == "done"),
        "{result:?}"
    );
    until("the panes are gone", LIMIT, || person.shown().is_empty());
    assert_eq!(person.own(), before);
    assert_eq!(
        person.tmux(&["display-message", "-p", "-t", "%0", "#{window_layout}"]),
        layout
    );
}

#[test]
fn every_byte_and_every_code_of_many_short_commands_comes_back() {
    let person = Person::new();
    let mut client = person.client();
    for round in 0..5 {
        let list = [
            "true",
            "printf abc",
            "seq 1 20000",
            "kill -9 $$",
            "exit 255",
            "printf '\\303\\274\\0\\377'",
        ];
        let more = json!({"max_output_chars": 1_000_000});
        let result: ParallelResult = call(&mut client, "fugue_run_parallel", commands(&list, more));
        let seen: Vec<_> = result
            .results
            .iter()
            .map(|task| {
                (
                    task.exit_code,
                    task.signal.as_deref(),
                    task.output.lines().count(),
                )
            })
            .collect();
        let wanted = [
            (Some(0), None, 0),
            (Some(0), None, 1),
            (Some(0), None, 20000),
            (None, Some("SIGKILL"), 0),
            (Some(255), None, 0),
            (Some(0), None, 1),
        ];
        assert_eq!(seen, wanted, "{round}");
        assert!(result.results[2].output.ends_with("\n20000"));
    }
    report_metric("commands shown by tmux", "30 of 30 whole, with their codes");
}

#[test]
fn a_pipeline_in_tmux_goes_on_over_shells_and_over_the_daemons_death() {
    let person = Person::new();
    let mut client = person.client();
    let list = [
        "cd /tmp; x=1",
        "echo $PWD$x",
        "exit 4",
        "echo fresh",
        "printf %s $TMUX_PANE",
    ];
    let args = commands(&list, json!({"stop_on_error": false}));
    let result: PipelineResult = call(&mut client, "fugue_run_pipeline", args);
    let codes: Vec<Option<i32>> = result.steps.iter().map(|step| step.exit_code).collect();
    assert_eq!(codes, [Some(0), Some(0), Some(4), Some(0), Some(0)]);
    assert_eq!(result.steps[1].output, "/tmp1");
    let pane = result.steps[4].output.clone();
    assert!(
        person
            .shown()
            .iter()
            .any(|line| line.starts_with(&format!("{pane} "))),
        "{pane}"
    );

    let log = person.test_env.work().join("steps");
    let step = |n: u32| {
        format!(
            "echo {n} >> {}; seq 1 3000; [ {n} = 2 ] && read -t 1 x; true",
            log.display()
        )
    };
    let list: Vec<String> = (1..=4).map(step).collect();
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let args = commands(&list, json!({"run_id": "through"}));
    let id = client.send_tool_call("fugue_run_pipeline", args);
    until("the second step runs", LIMIT, || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 2)
    });
    for daemon in person.test_env.daemons() {
        daemon.kill9();
    }
    let result: PipelineResult =
        serde_json::from_value(facts(&client.result(id))).expect("a result");
    assert_eq!(result.status, PipelineStatus::Completed, "{result:?}");
    assert_eq!(
        std::fs::read_to_string(&log).expect("a log"),
        "1\n2\n3\n4\n"
    );
}

#[test]
fn a_person_and_fugue_type_in_the_same_pane_and_either_may_close_it() {
    let person = Person::new();
    let mut client = person.client();
    let before = person.own();
    let args =
        json!({"command": "read a; echo \"<$a>\"; read b; echo \"[$b]\"; cat", "backend": "tmux"});
    let pane: CreatePaneReply = call(&mut client, "create_pane", args.clone());
    let id = pane.pane_id.to_string();
    let shown = || {
        person
            .shown()
            .first()
            .and_then(|line| line.split(' ').next())
            .map(str::to_owned)
    };
    let tmux = shown().expect("a pane");
    person.tmux(&["copy-mode", "-t", &tmux]);
    let sent: SendInputReply = call(
        &mut client,
        "send_input",
        json!({"pane_id": id, "input": "grün", "submit": true}),
    );
    assert!(sent.accepted);
    person
        .test_env
        .until_printed(pane.pane_id, |text| text.contains("<grün>"));
    person.tmux(&["send-keys", "-t", &tmux, "-X", "cancel"]);
    person.tmux(&["send-keys", "-t", &tmux, "by hand", "Enter"]);
    person
        .test_env
        .until_printed(pane.pane_id, |text| text.contains("[by hand]"));
    let visible = person.tmux(&["capture-pane", "-p", "-t", &tmux]);
    assert!(
        visible.contains("<grün>") && visible.contains("[by hand]"),
        "{visible}"
    );
    let closed: ClosePaneReply = call(&mut client, "close_pane", json!({"pane_id": id}));
    assert_eq!(closed.signal.as_deref(), Some("SIGHUP"));
    until("it is gone", LIMIT, || shown().is_none());
    assert_eq!(person.own(), before);

    let pane: CreatePaneReply = call(&mut client, "create_pane", args);
    person.tmux(&["kill-pane", "-t", &shown().expect("a pane")]);
    let id = json!({"pane_id": pane.pane_id.to_string()});
    until("it has ended", LIMIT, || {
        let status: PaneStatus = call(&mut client, "get_status", id.clone());
        status.state.state == PaneState::Exited
    });
    let status: PaneStatus = call(&mut client, "get_status", id);
    assert_eq!(status.state.signal.as_deref(), Some("SIGHUP"));
}

#[test]
fn a_tmux_server_that_dies_ends_its_panes_and_nothing_else() {
    let person = Person::new();
    let mut client = person.client();
    let native: CreatePaneReply = call(
        &mut client,
        "create_pane",
        json!({"command": "cat", "backend": "native"}),
    );
    let shown: CreatePaneReply = call(
        &mut client,
        "create_pane",
        json!({"command": "cat", "backend": "tmux"}),
    );
    let server: i32 = person
        .tmux(&["display-message", "-p", "#{pid}"])
        .parse()
        .expect("a pid");
    let server = rustix::process::Pid::from_raw(server).expect("a pid");
    rustix::process::kill_process(server, rustix::process::Signal::KILL).expect("a server");
    let ended = person.test_env.exited(shown.pane_id);
    assert_eq!(ended.state.signal.as_deref(), Some("SIGHUP"));
    let status: PaneStatus = call(
        &mut client,
        "get_status",
        json!({"pane_id": native.pane_id.to_string()}),
    );
    assert_ne!(status.state.state, PaneState::Exited);
}
