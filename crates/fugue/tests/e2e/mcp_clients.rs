//! MCP clients that other people wrote: the Python SDK over stdin and stdout and over HTTP, and the inspector in strict mode.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
    time::Duration,
};

use fugue_testkit::{
    MissingRequirement, RunningProgram, TestEnv, report_metric, skip, test_agents::ExternalTools,
};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(180);
const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");

/// One story, told by the Python client in both eras: list, call, be refused, be kept waiting with progress.
const STORY: &str = r#"
import asyncio, json, os, sys
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client, create_mcp_http_client

def facts(result, error):
    assert bool(result.is_error) == error, result
    said = json.loads(result.content[0].text)
    assert result.structured_content == (None if error else said), result
    return said

async def story(server, mode):
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        names = [tool.name for tool in tools]
        assert names[:5] == ["create_pane", "send_input", "read_pane", "get_status", "close_pane"], names
        ran = facts(await client.call_tool("fugue_run_parallel", {"commands": [{"command": "echo hi"}, {"command": "exit 3"}, {"command": "kill -9 $$"}]}), False)
        assert [task["exit_code"] for task in ran["results"]] == [0, 3, None], ran
        pane = facts(await client.call_tool("create_pane", {"command": "trap '' HUP TERM; echo stubborn; exec sleep 1000"}), False)
        while "stubborn" not in facts(await client.call_tool("read_pane", {"pane_id": pane["pane_id"]}), False)["text"]: pass
        status = facts(await client.call_tool("get_status", {"pane_id": pane["pane_id"]}), False)
        assert status["pane_id"] == pane["pane_id"], status
        assert facts(await client.call_tool("read_pane", {"pane_id": "nobody"}), True)["kind"] == "not_found"
        assert "linez" in facts(await client.call_tool("read_pane", {"pane_id": "p1", "linez": 1}), True)["message"]
        heard = []
        async def progress(done, total, message): heard.append(message)
        closed = facts(await client.call_tool("close_pane", {"pane_id": pane["pane_id"], "grace_ms": 6000}, progress_callback=progress), False)
        assert closed["signal"] == "SIGKILL", closed
        assert heard and pane["pane_id"] in heard[0], heard
        print(mode, "ok", heard[0])

async def main():
    for mode in ["legacy", "auto"]:
        if sys.argv[1] == "http":
            http = create_mcp_http_client(headers={"Authorization": "Bearer " + sys.argv[3]})
            await story(streamable_http_client(sys.argv[2], http_client=http), mode)
        else:
            env = {name: value for name, value in os.environ.items()}
            await story(StdioServerParameters(command=sys.argv[2], args=["mcp"], env=env), mode)

asyncio.run(main())
"#;

fn python(args: &[&str], test_env: &TestEnv) {
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    let Some(python) = tools.find("py/bin/python") else {
        // Root's own interpreter may be where nobody else can enter.
        let (missing, reason) = match tools.find("py/pyvenv.cfg") {
            Some(_) => (
                MissingRequirement::Root,
                "this user cannot run the interpreter",
            ),
            None => (
                MissingRequirement::Program,
                "it is not installed (scripts/mcp-tools)",
            ),
        };
        return skip(missing, format!("the Python client: {reason}"));
    };
    let mut command = tools.command(test_env, &python);
    command.args(["-c", STORY]).args(args);
    let ran = RunningProgram::start(command).end(LIMIT).ok();
    assert_eq!(ran.out().matches(" ok ").count(), 2, "{ran}");
}

#[test]
fn the_python_client_is_served_on_stdin_and_stdout() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    python(&["stdio", FUGUE], &test_env);
}

#[test]
fn the_python_client_is_served_by_http() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    test_env.overview();
    let mut command = test_env.fugue_command(["mcp", "--http", "127.0.0.1:0"]);
    let mut server = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut said = String::new();
    BufReader::new(server.stderr.take().expect("a pipe"))
        .read_line(&mut said)
        .expect("it says where it listens");
    let url = said
        .split([' ', ','])
        .find(|word| word.starts_with("http://"))
        .expect("an address");
    let token = std::fs::read_to_string(test_env.state().join("mcp-token")).expect("a token");
    python(&["http", url, token.trim()], &test_env);
    server.kill().expect("it still runs");
    server.wait().expect("it has ended");
}

/// The inspector with these words after the server's.
fn inspect(test_env: &TestEnv, words: &[&str]) -> Option<fugue_testkit::ProgramOutput> {
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    let Some(inspector) = tools.find("node_modules/.bin/mcp-inspector") else {
        skip(
            MissingRequirement::Program,
            "the inspector is not installed (scripts/mcp-tools)",
        );
        return None;
    };
    let mut command = tools.command(test_env, &inspector);
    let ours: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value?.to_str()?)))
        .collect();
    command.arg("--cli");
    for variable in ours {
        command.args(["-e", &variable]);
    }
    command.args([FUGUE, "mcp"]).args(words);
    Some(RunningProgram::start(command).end(LIMIT).ok())
}

#[test]
fn the_inspector_at_its_strictest_has_nothing_to_say() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    for era in ["legacy", "modern"] {
        let Some(ran) = inspect(
            &test_env,
            &["--method", "tools/list", "--strict", "--protocol-era", era],
        ) else {
            return;
        };
        assert_eq!(ran.err(), "", "{ran}");
        assert!(ran.out().contains("close_pane"), "{ran}");
    }
}

#[test]
fn under_the_inspectors_load_no_call_fails() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    let load = [
        "--method",
        "tools/call",
        "--tool-name",
        "get_status",
        "--load",
        "--load-requests",
        "2000",
    ];
    let Some(ran) = inspect(&test_env, &load) else {
        return;
    };
    let report: Value = ran.json();
    assert_eq!(
        (&report["errors"], &report["toolErrors"]),
        (&0.into(), &0.into()),
        "{report}"
    );
    assert_eq!(report["ok"], 2000, "{report}");
    report_metric(
        "MCP inspector's load, 10 at once",
        format!(
            "2000 calls, 0 errors, latency in ms {}",
            report["latencyMs"]
        ),
    );
}
