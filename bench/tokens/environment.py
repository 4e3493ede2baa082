"""A private environment for one way, the MCP client in it, and the token counter."""

import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")).resolve()
AGENT_TOOLS = Path(os.environ.get("FUGUE_MCP_TOOLS", TARGET / "mcp-tools")).resolve()
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REPLY_TIMEOUT = 120


class Environment:
    """HOME, XDG directories, a tmux server and a working directory that no other way uses."""

    def __init__(self, fugue):
        self.fugue = Path(fugue).resolve()
        # Short, because the path of a socket is limited to 107 bytes.
        self.dir = Path(tempfile.mkdtemp(prefix="fgt", dir="/tmp"))
        for sub in ["home", "run", "state", "config/fugue", "work", "bin"]:
            (self.dir / sub).mkdir(parents=True, mode=0o700)
        (self.dir / "bin/fugue").symlink_to(self.fugue)
        node = AGENT_TOOLS / "node_modules/node/bin"
        path = f"{HERE / 'programs'}:{self.dir / 'bin'}:{node}:{SYSTEM_PATH}"
        self.env = {
            "PATH": path,
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HOME": str(self.dir / "home"),
            "XDG_RUNTIME_DIR": str(self.dir / "run"),
            "XDG_STATE_HOME": str(self.dir / "state"),
            "XDG_CONFIG_HOME": str(self.dir / "config"),
            "TMUX_TMPDIR": str(self.dir / "run"),
            # The supervised agent's watcher: a command decides, and waits are short.
            "FUGUE_ASSESS_MODEL": f"cmd:{HERE / 'programs/assess'}",
            "FUGUE_IDLE_THRESHOLD": "1",
        }
        # tmux starts login shells, whose system profile replaces PATH.
        rc = f"PS1='$ '\nPATH='{path}'\n"
        for name in [".bashrc", ".bash_profile"]:
            (self.dir / "home" / name).write_text(rc)

    def run(self, *command):
        return subprocess.run(
            command, env=self.env, cwd=self.dir / "work", capture_output=True, text=True, timeout=60
        )

    def close(self):
        listed = self.run(self.fugue, "ls", "--json")
        panes = [row["pane_id"] for row in json.loads(listed.stdout or "{}").get("panes", [])]
        if panes:
            self.run(self.fugue, "close", "--grace-ms", "100", *panes)
        self.run(self.fugue, "daemon", "stop")
        self.run("tmux", "kill-server")
        for _ in range(20):
            left = self.processes()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                break
            time.sleep(0.1)
        # Claude Code keeps the outputs of background commands outside HOME.
        agent_files = str(self.dir / "work").replace("/", "-")
        for left in [self.dir, *Path("/tmp").glob(f"claude-*/{agent_files}")]:
            shutil.rmtree(left, ignore_errors=True)

    def processes(self):
        """Processes whose environment names this directory."""
        mark = f"{self.dir}/".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found


class McpServer:
    """An MCP server on stdio, and what a client learns from the handshake."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command,
            env=environment.env,
            cwd=environment.dir / "work",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.next_id = 0
        self.replies = {}
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        # Claude Code's own name, so that waits have the limits that its calls have.
        hello = self.request(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "claude-code", "version": "2.1.325"},
            },
        )
        self.instructions = hello.get("instructions", "")
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = self.request("tools/list", {})["tools"]

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def _send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def send(self, method, params):
        self.next_id += 1
        self._send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        return self.next_id

    def reply(self, request_id):
        while request_id not in self.replies:
            message = self.lines.get(timeout=REPLY_TIMEOUT)
            if message is None:
                raise RuntimeError("the MCP server has closed its stdout")
            if "method" not in message:
                self.replies[message["id"]] = message
        message = self.replies.pop(request_id)
        if "error" in message:
            raise RuntimeError(str(message["error"]))
        return message["result"]

    def request(self, method, params):
        return self.reply(self.send(method, params))

    def call(self, calls):
        """Makes the calls of one turn at the same time, and returns what a model sees of each."""
        sent = [self.send("tools/call", {"name": tool, "arguments": args}) for tool, args in calls]
        return [model_text(self.reply(request_id)) for request_id in sent]

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def model_text(result):
    """A tool result as Claude Code passes it to its model: the structured part as JSON.stringify prints it, else the text.
    `agents` compares this with the requests of the real Claude Code and Codex."""
    if result.get("structuredContent") is not None:
        return compact(result["structuredContent"])
    return "\n".join(part.get("text", "") for part in result.get("content", []))


def compact(value):
    """JSON as JavaScript prints it: no spaces, and whole numbers without a fraction."""

    def plain(value):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value

    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)


class TokenCounter:
    """The tokenizer's process. Texts that were counted before are looked up."""

    def __init__(self):
        tools = subprocess.run([HERE / "setup"], check=True, capture_output=True, text=True)
        self.tools = Path(tools.stdout.strip())
        self.process = subprocess.Popen(
            ["node", HERE / "count.mjs", self.tools], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.known = {}

    def __call__(self, text):
        if text not in self.known:
            self.process.stdin.write(json.dumps(text) + "\n")
            self.process.stdin.flush()
            self.known[text] = int(self.process.stdout.readline())
        return self.known[text]
