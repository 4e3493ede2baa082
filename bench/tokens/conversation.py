"""A way as a model sees it: its calls, what came back, and the tokens of both."""

import time

from environment import Environment, McpServer, compact
from scripted_model import ScriptedModel, start_claude
from workflows import Pause

PREFIX = {"fugue": "mcp__fugue__", "tmux": "mcp__tmux__", "claude": ""}


class Conversation:
    """One way as a model sees it."""

    def __init__(self, way):
        self.way = way
        self.start = time.monotonic()
        self.lines = []
        self.tools = []
        self.instructions = ""
        self.script = None
        self.pending = []

    def begin(self, tools):
        self.script = self.way.turns(tools)

    def next_turn(self, results):
        """Takes the results of the last turn, and returns the next calls, or None."""
        now = time.monotonic() - self.start
        for call, result in zip(self.pending, results, strict=True):
            self.lines.append(call | {"result": result, "seconds": round(now, 1)})
        try:
            step = self.script.send(results) if self.lines else next(self.script)
            while isinstance(step, Pause):
                time.sleep(step.seconds)
                step = self.script.send(None)
        except StopIteration:
            self.pending = []
            return None
        turn = self.lines[-1]["turn"] + 1 if self.lines else 1
        self.pending = [{"turn": turn, "tool": tool, "arguments": args} for tool, args in step]
        return step


def run_way(way, fugue, counter):
    environment = Environment(fugue)
    conversation = Conversation(way)
    try:
        if way.server == "claude":
            run_claude(conversation, environment)
        else:
            run_mcp(conversation, environment, way.server, counter)
    finally:
        environment.close()
    return conversation


def run_mcp(conversation, environment, server, counter):
    command = [environment.fugue, "mcp"] if server == "fugue" else [counter.tools / "py/bin/libtmux-mcp"]
    client = McpServer(command, environment)
    conversation.tools, conversation.instructions = client.tools, client.instructions
    conversation.begin({tool["name"]: tool for tool in client.tools})
    conversation.start = time.monotonic()
    results = None
    while (calls := conversation.next_turn(results or [])) is not None:
        results = client.call(calls)
    client.close()


def run_claude(conversation, environment):
    conversation.begin({})
    model = ScriptedModel(conversation.next_turn)
    printed = start_claude(environment, model)
    model.close()
    if conversation.pending or not conversation.lines:
        raise RuntimeError(f"Claude Code ended before the script: {printed}")
    used = {line["tool"] for line in conversation.lines}
    listed = next(request["tools"] for request in model.requests if request.get("tools"))
    conversation.tools = [tool for tool in listed if tool["name"] in used]


def tool_entry(tool, server):
    """A tool as a model gets it: name, description and input schema."""
    return compact(
        {
            "name": PREFIX[server] + tool["name"],
            "description": tool.get("description", ""),
            "input_schema": tool.get("inputSchema") or tool.get("input_schema"),
        }
    )


class Totals:
    def __init__(self, conversation, facts, counter):
        lines = conversation.lines
        for line in lines:
            sent = PREFIX[conversation.way.server] + line["tool"] + compact(line["arguments"])
            line["out"], line["in"] = counter(sent), counter(line["result"])
        self.way = conversation.way
        self.turns = lines[-1]["turn"] + 1
        self.sent = sum(line["out"] for line in lines)
        self.seen = sum(line["in"] for line in lines)
        self.total = self.sent + self.seen
        # Each request carries all calls and results before.
        self.reread = sum((line["out"] + line["in"]) * (self.turns - line["turn"]) for line in lines)
        self.tool_costs = {
            tool["name"]: counter(tool_entry(tool, conversation.way.server)) for tool in conversation.tools
        }
        self.instructions = counter(conversation.instructions)
        self.list = sum(self.tool_costs.values()) + self.instructions
        self.seconds = lines[-1]["seconds"]
        self.missing = [fact.name for fact in facts if not fact.is_shown(lines)]
        self.lines = lines
