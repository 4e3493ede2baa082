"""Claude Code and Codex with a model on loopback that makes the calls of a way. Every request is recorded."""

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from environment import AGENT_TOOLS, HERE

DONE = "the script is done"
AGENT_TIMEOUT = 300


class ScriptedModel:
    """Serves the Anthropic Messages and OpenAI Responses APIs. `next_turn(results)` takes the tool results of the last
    turn and returns the calls of the next, or None at the end."""

    def __init__(self, next_turn):
        self.next_turn = next_turn
        self.requests = []
        self.lock = threading.Lock()
        # The calls of each turn by the number of tool results before, because agents send a request again.
        self.turns = {}
        self.results = []
        # Set when the script or the agent has ended.
        self.over = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer_json({"data": [], "models": [], "object": "list", "has_more": False})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}")
                if "count_tokens" in self.path:
                    return self.answer_json({"input_tokens": 100})
                number, calls = model.turn(body)
                anthropic = "/messages" in self.path
                self.answer_events(anthropic_events(body, number, calls) if anthropic else openai_events(number, calls))
                if body.get("tools") and not calls:
                    model.over.set()

            def answer_json(self, value):
                self.answer("application/json", json.dumps(value))

            def answer_events(self, events):
                lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
                self.answer("text/event-stream", "".join(lines))

            def answer(self, kind, text):
                data = text.encode()
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def turn(self, body):
        with self.lock:
            self.requests.append(body)
            number = len(self.requests)
            # A request without tools is internal to the agent, such as one for a title.
            if not body.get("tools"):
                return number, None
            results = tool_results(body)
            if len(results) not in self.turns:
                new = results[len(self.results) :]
                self.results = results
                self.turns[len(results)] = self.next_turn(new)
            return number, self.turns[len(results)]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def tool_results(body):
    """The tool results in a request, in order, as texts."""
    found = []
    for message in body.get("messages", []):
        if isinstance(message["content"], list):
            found += [part["content"] for part in message["content"] if part["type"] == "tool_result"]
    for item in body.get("input", []):
        if item.get("type", "").endswith("call_output"):
            found.append(item["output"])
    return [content_text(content) for content in found]


def sent_calls(body):
    """The tool calls in a request, in order, as (tool, arguments)."""
    found = []
    for message in body.get("messages", []):
        if isinstance(message["content"], list):
            parts = [part for part in message["content"] if part["type"] == "tool_use"]
            found += [(part["name"], part["input"]) for part in parts]
    for item in body.get("input", []):
        if item.get("type") == "function_call":
            found.append((f"{item['namespace']}__{item['name']}", json.loads(item["arguments"])))
    return found


def content_text(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def anthropic_events(body, number, calls):
    blocks = [
        (
            {"type": "tool_use", "id": f"toolu_{number:04}_{at}", "name": tool, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(args)},
        )
        for at, (tool, args) in enumerate(calls or [])
    ] or [({"type": "text", "text": ""}, {"type": "text_delta", "text": DONE})]
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    yield {
        "type": "message_start",
        "message": {
            "id": f"msg_{number:04}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        },
    }
    for at, (block, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": at, "content_block": block}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    stop = "tool_use" if calls else "end_turn"
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": 20},
    }
    yield {"type": "message_stop"}


def openai_events(number, calls):
    items = [
        {
            "type": "function_call",
            "id": f"fc_{number}_{at}",
            "call_id": f"call_{number:04}_{at}",
            "namespace": "mcp__fugue",
            "name": tool.removeprefix("mcp__fugue__"),
            "arguments": json.dumps(args),
        }
        for at, (tool, args) in enumerate(calls or [])
    ] or [
        {
            "type": "message",
            "id": f"m_{number}",
            "role": "assistant",
            "content": [{"type": "output_text", "text": DONE}],
        }
    ]
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    yield {"type": "response.created", "response": {"id": f"resp_{number}"}}
    for item in items:
        yield {"type": "response.output_item.done", "item": item}
    yield {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage}}


def start_claude(environment, model, server=None):
    """The real Claude Code with one prompt. `server`: the command of an MCP server named fugue; without, the agent has its
    own tools only."""
    program = AGENT_TOOLS / "node_modules/.bin/claude"
    config = environment.dir / "mcp.json"
    servers = {}
    if server:
        # `alwaysLoad`: without it, the tools are only found through a search tool.
        command = [str(part) for part in server]
        servers["fugue"] = {"command": command[0], "args": command[1:], "env": environment.env, "alwaysLoad": True}
    config.write_text(json.dumps({"mcpServers": servers}))
    env = environment.env | {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    arguments = ["-p", "follow the script", "--mcp-config", config, "--strict-mcp-config"]
    return run_agent([program, *arguments, "--allowedTools", "mcp__fugue,Bash"], env, environment, model)


def start_codex(environment, model, server):
    program = AGENT_TOOLS / "node_modules/.bin/codex"
    command = [str(part) for part in server]
    variables = "\n".join(f"{name} = {json.dumps(value)}" for name, value in environment.env.items())
    home = environment.dir / "home/.codex"
    home.mkdir()
    (home / "config.toml").write_text(
        f"""model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.scripted]
name = "scripted"
base_url = "{model.url}/v1"
wire_api = "responses"
requires_openai_auth = false
[mcp_servers.fugue]
command = {json.dumps(command[0])}
args = {json.dumps(command[1:])}
[mcp_servers.fugue.env]
{variables}
"""
    )
    arguments = ["exec", "--json", "--skip-git-repo-check", "follow the script"]
    return run_agent([program, *arguments], environment.env | {"CODEX_HOME": str(home)}, environment, model)


def run_agent(command, env, environment, model):
    """Runs the agent until the script has ended. A headless Claude Code would wait for its background commands."""
    with open(environment.dir / "agent.log", "w+") as log:
        agent = subprocess.Popen(
            command,
            env=env,
            cwd=environment.dir / "work",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        ended = threading.Thread(target=lambda: (agent.wait(), model.over.set()), daemon=True)
        ended.start()
        model.over.wait(AGENT_TIMEOUT)
        ended.join(2)
        agent.kill()
        agent.wait()
        log.seek(0)
        return log.read()


def tee_command(log, server):
    """An MCP server whose replies are also written to a file."""
    return ["python3", HERE / "mcp_tee.py", log, *server]
