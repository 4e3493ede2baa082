"""The five workflows, and the ways to do each.

A way is a generator. It yields the calls of one turn, as a list of (tool, arguments), and gets what a model sees of their
results, as a list of texts; a `Pause` lets time pass without a turn, which no real agent can do for free. A `Way` with `tools`
gets the MCP server's tools by name, so that the same way uses an argument where the binary has it.
"""

import itertools
import json
import re
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Way:
    """`server`: fugue, tmux (libtmux-mcp) or claude (the agent's own shell)."""

    name: str
    server: str
    turns: Callable


@dataclass(frozen=True)
class Fact:
    """What a model must have seen at the end, or `within` seconds."""

    name: str
    pattern: str
    within: float = float("inf")

    def is_shown(self, transcript):
        return any(
            re.search(self.pattern, line["result"]) and line["seconds"] <= self.within for line in transcript
        )


@dataclass(frozen=True)
class Workflow:
    """`limit`: the most tokens that the first way may take, from the measurement with which these began."""

    title: str
    limit: int
    facts: tuple
    ways: tuple


def every_3_seconds():
    return itertools.repeat(3)


def after_2_5_10_seconds():
    return itertools.chain([2, 5], itertools.repeat(10))


def both(call):
    """Polling by both schedules."""
    return (
        Way("A2", "fugue", lambda tools: call(tools, after_2_5_10_seconds())),
        Way("A3", "fugue", lambda tools: call(tools, every_3_seconds())),
    )


def takes(tools, tool, argument):
    return argument in tools[tool]["inputSchema"]["properties"]


def commands(tools, tool, lines):
    """Commands as plain strings where the tool takes them."""
    items = tools[tool]["inputSchema"]["properties"]["commands"]["items"]
    return lines if items.get("type") != "object" else [{"command": line} for line in lines]


def poll(pane, cursor, intervals, is_done):
    """Reads what is new in a pane until it shows what is waited for."""
    for seconds in intervals:
        yield Pause(seconds)
        [text] = yield [("read_pane", {"pane_id": pane, "since": cursor})]
        reply = json.loads(text)
        if is_done(reply):
            return reply
        cursor = reply["cursor"]


# 1. A dev server: start it and learn its address.

DEV = "npm run dev"


def dev_one_call(tools):
    if takes(tools, "create_pane", "ready"):
        yield [("create_pane", {"command": DEV, "ready": "Local:"})]
    else:
        [text] = yield [("create_pane", {"command": DEV})]
        yield [("fugue_expect", {"pane_id": json.loads(text)["pane_id"], "pattern": "Local:"})]


def dev_polled(_tools, intervals):
    [text] = yield [("create_pane", {"command": DEV})]
    pane = json.loads(text)
    yield from poll(pane["pane_id"], pane["cursor"], intervals, lambda reply: "Local:" in reply["text"])


def dev_tmux(_tools):
    [text] = yield [("create_session", {})]
    pane = tmux_pane(text)
    yield [("send_keys", {"pane_id": pane, "keys": DEV})]
    yield [("wait_for_text", {"pane_id": pane, "patterns": ["Local:"], "timeout": 60})]


def dev_shell(_tools):
    yield [("Bash", {"command": f"{DEV} > dev.log 2>&1", "run_in_background": True})]
    yield [("Bash", {"command": "until grep Local: dev.log; do sleep 1; done"})]


DEV_SERVER = Workflow(
    "dev server: start it and learn its address",
    137,
    (Fact("address", r"http://127\.0\.0\.1:5173/"),),
    (
        Way("C", "fugue", dev_one_call),
        *both(dev_polled),
        Way("B", "tmux", dev_tmux),
        Way("D background, `until grep`", "claude", dev_shell),
    ),
)

# 2. Four test suites side by side; one fails after hundreds of lines.

SUITES = ["npm test", "pytest", "cargo test", "go test ./..."]


def suites_one_call(tools):
    yield [("fugue_run_parallel", {"commands": commands(tools, "fugue_run_parallel", SUITES)})]


def suites_limited(tools):
    [call] = next(suites_one_call(tools))
    yield [(call[0], call[1] | {"max_output_chars": 3000})]


def suites_polled(_tools, intervals):
    texts = yield [("create_pane", {"command": suite}) for suite in SUITES]
    panes = [json.loads(text)["pane_id"] for text in texts]
    for seconds in intervals:
        yield Pause(seconds)
        [text] = yield [("get_status", {})]
        rows = {row["pane_id"]: row for row in json.loads(text)["panes"]}
        if all(rows[pane]["state"] == "exited" for pane in panes):
            break
    # The last lines of a success, and of a failure as many as show the test's name.
    yield [
        ("read_pane", {"pane_id": pane, "lines": 3 if rows[pane].get("exit_code") == 0 else 40}) for pane in panes
    ]


def suites_tmux(_tools):
    [text] = yield [("create_session", {"session_name": "t", "x": 120, "y": 50})]
    texts = yield [("create_window", {"session_name": "t"})] * 3
    panes = [tmux_pane(text)] + [tmux_pane(text) for text in texts]
    yield [
        ("run_command", {"pane_id": pane, "command": suite, "max_lines": 40}) for pane, suite in zip(panes, SUITES)
    ]


def suites_shell(_tools):
    names = " ".join(f"'{suite}'" for suite in SUITES)
    script = (
        # In a subshell, which prints no notices about its jobs.
        f"(i=0; for t in {names}; do i=$((i+1)); ($t > $i.log 2>&1; echo \"$t: exit $?\" >> $i.log) & done; wait); "
        "for l in ?.log; do tail -n $(tail -n 1 $l | grep -q 'exit 0' && echo 3 || echo 40) $l; done"
    )
    yield [("Bash", {"command": script})]


FOUR_SUITES = Workflow(
    "four test suites side by side, one fails after hundreds of lines",
    465,
    (
        Fact("failing test", "applies the coupon before the tax"),
        Fact("its exit code", r'"exit_code":1|exit 1|"exit_status":1|[Ee]xit code 1'),
        Fact("pytest", "148 passed"),
        Fact("cargo", "36 passed"),
        Fact("go", r"ok\s+(\\t)?example\.com/shop/queue|\"exit_code\":0"),
    ),
    (
        Way("C", "fugue", suites_one_call),
        Way("C max_output_chars 3000", "fugue", suites_limited),
        *both(suites_polled),
        Way("B", "tmux", suites_tmux),
        Way("D one shell loop", "claude", suites_shell),
    ),
)

# 3. Five steps; the third fails.

STEPS = ["npm ci", "npm run lint", "npm run build", "npm test", "npm run deploy"]
CHAIN = " && ".join(STEPS)


def steps_one_call(tools):
    yield [("fugue_run_pipeline", {"commands": commands(tools, "fugue_run_pipeline", STEPS)})]


def steps_polled(_tools, intervals):
    """One command after the other, each typed when the prompt is back: a silent command is `idle` too."""
    [text] = yield [("create_pane", {})]
    pane = json.loads(text)["pane_id"]
    intervals = list(itertools.islice(intervals, 20))
    for step in STEPS:
        [text] = yield [("send_input", {"pane_id": pane, "input": step, "submit": True})]
        cursor = json.loads(text)["cursor"]
        reply = yield from poll(pane, cursor, intervals, lambda reply: reply["text"].endswith("$ "))
        if "npm error" in reply["text"]:
            return


def chain_polled(_tools, intervals):
    [text] = yield [("create_pane", {"command": CHAIN})]
    pane = json.loads(text)
    yield from poll(pane["pane_id"], pane["cursor"], intervals, lambda reply: reply["state"] == "exited")


def steps_tmux(_tools):
    [text] = yield [("create_session", {})]
    for step in STEPS:
        [reply] = yield [("run_command", {"pane_id": tmux_pane(text), "command": step, "max_lines": 20})]
        if json.loads(reply).get("exit_status") != 0:
            return


def chain_tmux(_tools):
    [text] = yield [("create_session", {})]
    yield [("run_command", {"pane_id": tmux_pane(text), "command": CHAIN, "max_lines": 10})]


def chain_shell(_tools):
    yield [("Bash", {"command": f"({CHAIN}) 2>&1 | tail -n 10; exit ${{PIPESTATUS[0]}}"})]


FIVE_STEPS = Workflow(
    "five steps, the third fails",
    270,
    (
        Fact("failing step", "build"),
        Fact("its error", "TS2345"),
        Fact("its exit code", r'"exit_code":2|npm error code 2'),
    ),
    (
        Way("C", "fugue", steps_one_call),
        *both(steps_polled),
        Way("A2 `a && b && …`", "fugue", lambda tools: chain_polled(tools, after_2_5_10_seconds())),
        Way("A3 `a && b && …`", "fugue", lambda tools: chain_polled(tools, every_3_seconds())),
        Way("B", "tmux", steps_tmux),
        Way("B `a && b && …`", "tmux", chain_tmux),
        Way("D `(a && b && …) | tail`", "claude", chain_shell),
    ),
)

# 4. A lead with three workers.

WORKERS = {"auth": 8, "billing": 19, "search": 30}


def spawns():
    return [
        ("spawn_worker", {"name": name, "agent": "shell", "prompt": f"port-module {name} {seconds}"})
        for name, seconds in WORKERS.items()
    ]


def workers_one_turn(_tools):
    yield spawns()
    yield [("wait_for_event", {})] * 3


def workers_in_turn(_tools):
    yield spawns()
    for _ in WORKERS:
        yield [("wait_for_event", {})]


def workers_polled(_tools, intervals):
    """Looks at all panes, and reads those that have ended since the last look."""
    texts = yield spawns()
    panes = {json.loads(text)["pane_id"] for text in texts}
    for seconds in intervals:
        yield Pause(seconds)
        [text] = yield [("get_status", {})]
        rows = json.loads(text)["panes"]
        ended = sorted(row["pane_id"] for row in rows if row["state"] == "exited" and row["pane_id"] in panes)
        if ended:
            yield [("read_pane", {"pane_id": pane, "lines": 2}) for pane in ended]
        panes -= set(ended)
        if not panes:
            return


def workers_tmux(_tools):
    [text] = yield [("create_session", {"session_name": "t"})]
    texts = yield [("create_window", {"session_name": "t"})] * 2
    panes = [tmux_pane(text)] + [tmux_pane(text) for text in texts]
    yield [
        ("run_command", {"pane_id": pane, "command": f"port-module {name} {seconds}", "timeout": 60, "max_lines": 2})
        for pane, (name, seconds) in zip(panes, WORKERS.items())
    ]


def workers_background(_tools):
    """Three background commands, and a wait for each in turn."""
    yield [
        ("Bash", {"command": f"port-module {name} {seconds} > {name}.log; echo exit $? >> {name}.log", "run_in_background": True})
        for name, seconds in WORKERS.items()
    ]
    for name in WORKERS:
        yield [("Bash", {"command": f"until grep -q ^exit {name}.log; do sleep 1; done; tail -n 2 {name}.log"})]


def workers_shell(_tools):
    jobs = " ".join(f"port-module {name} {seconds} > {name}.log &" for name, seconds in WORKERS.items())
    yield [("Bash", {"command": f"({jobs} wait); tail -qn 1 *.log"})]


THREE_WORKERS = Workflow(
    "a lead with three workers",
    477,
    (
        Fact("auth", "auth: 4 files ported, 31 tests pass"),
        Fact("auth when it ends, not when all have ended", "auth: 4 files ported", within=25),
        Fact("billing", "billing: 4 files ported, 31 tests pass"),
        Fact("search", "search: 4 files ported, 31 tests pass"),
    ),
    (
        Way("C", "fugue", workers_in_turn),
        Way("C three waits in one turn", "fugue", workers_one_turn),
        *both(workers_polled),
        Way("B", "tmux", workers_tmux),
        Way("D background, `until grep`", "claude", workers_background),
        Way("D one `… & wait`", "claude", workers_shell),
    ),
)

# 5. A supervised agent that stops three times.

TASK = "port the shop to v2"
NEXT = "go on with the next part"
LINES = [TASK, NEXT, NEXT, NEXT]


def agent_watched(tools):
    kinds = tools["wait_for_event"]["inputSchema"]["properties"]["types"]["items"]["enum"]
    types = ["watcher_end" if "watcher_end" in kinds else "watcher"]
    yield [("create_pane", {"command": "coder", "name": "coder"})]
    yield [
        ("watch_me", {"tmux_window": "coder", "strategy_plan": f"{TASK}, all 4 parts"}),
        ("send_input", {"pane_id": "coder", "input": TASK, "submit": True}),
    ]
    while True:
        [text] = yield [("wait_for_event", {"types": types})]
        if json.loads(text).get("decision") != "continue":
            return


def agent_expected(_tools):
    [text] = yield [("create_pane", {"command": "coder"})]
    pane = json.loads(text)["pane_id"]
    for line in LINES:
        [text] = yield [("send_input", {"pane_id": pane, "input": line, "submit": True})]
        cursor = json.loads(text)["cursor"]
        yield [("fugue_expect", {"pane_id": pane, "pattern": "● (Stopped|Done).*", "since": cursor})]


def agent_polled(_tools, intervals):
    [text] = yield [("create_pane", {"command": "coder"})]
    pane = json.loads(text)["pane_id"]
    intervals = list(itertools.islice(intervals, 20))
    for line in LINES:
        [text] = yield [("send_input", {"pane_id": pane, "input": line, "submit": True})]
        cursor = json.loads(text)["cursor"]
        yield from poll(pane, cursor, intervals, lambda reply: re.search("● (Stopped|Done)", reply["text"]))


def agent_tmux(_tools):
    [text] = yield [("create_session", {})]
    pane = tmux_pane(text)
    yield [("send_keys", {"pane_id": pane, "keys": "coder"})]
    for line in LINES:
        yield [("send_keys", {"pane_id": pane, "keys": line})]
        yield [("wait_for_text", {"pane_id": pane, "patterns": ["● Stopped", "● Done"], "timeout": 30})]


def agent_shell(_tools):
    start = "tmux new-session -d -s c coder; "
    for part, line in enumerate(LINES, 1):
        typed = f"tmux send-keys -t c '{line}' Enter; "
        wait = f"until [ $(tmux capture-pane -pS - -t c | grep -c '● [SD]') = {part} ]; do sleep 1; done; "
        yield [("Bash", {"command": start + typed + wait + "tmux capture-pane -pt c | grep '● [SD]' | tail -n 1"})]
        start = ""


SUPERVISED_AGENT = Workflow(
    "a supervised agent that stops three times",
    295,
    (Fact("it is done", r'Done: all 4 parts|"decision":"stop"'),),
    (
        Way("C watch_me", "fugue", agent_watched),
        Way("C expect and send_input", "fugue", agent_expected),
        *both(agent_polled),
        Way("B", "tmux", agent_tmux),
        Way("D tmux in Bash, `until grep`", "claude", agent_shell),
    ),
)

WORKFLOWS = (DEV_SERVER, FOUR_SUITES, FIVE_STEPS, THREE_WORKERS, SUPERVISED_AGENT)


def tmux_pane(text):
    """The id of the pane in a reply of libtmux-mcp about a new session or window."""
    return re.search(r'"(%\d+)"', text).group(1)
