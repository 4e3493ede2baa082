"""An assessor of a few rules: it finds the pane's lines by the prompt's code and looks for signs of trouble in them."""

import json
import re
import sys

TROUBLE = r"\bFAIL(ED)?\b|error(\[|:)|\bERROR\b|error TS|No space|NotImplementedError|[1-9]\d* failed|CONFLICT|rejected|Interrupt|panicked|timed out|skipped|Should I|ahead of"

prompt = sys.stdin.read()


def block(name):
    found = re.search(rf"^BEGIN {name} (\d{{12}})\n(.*?)^END \1$", prompt, re.S | re.M)
    lines = found.group(2).splitlines() if found else []
    return [line[2:] for line in lines if line.startswith("| ")]


tail = [line for line in block("pane_tail") if "PASSED" not in line]
refuted = re.search(r"^Done-when check .*: exit code [1-9]", prompt, re.M)
if refuted or re.search(TROUBLE, "\n".join(tail[-12:])):
    print(json.dumps({"action": "continue", "injection_prompt": "Fix what is shown and run the checks again"}))
else:
    print(json.dumps({"action": "stop", "injection_prompt": None}))
