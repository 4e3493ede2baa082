"""The tokens of a way's calls and replies, field by field."""

import json
from collections import defaultdict

from environment import compact


def table(lines, counter):
    """A Markdown table. The tokens of a field are those that the text has less without the field, in all its rows together;
    the remainder (braces, names of fields around others, the tool's name) is counted as `…`."""
    costs = defaultdict(lambda: [0, 0])
    for line in lines:
        tool = line["tool"]
        for side, text, tokens in [("→", compact(line["arguments"]), line["out"]), ("←", line["result"], line["in"])]:
            rest = tokens
            for path, cost in field_costs(text, counter):
                costs[f"{side} {tool} `{path}`"][0] += cost
                costs[f"{side} {tool} `{path}`"][1] += 1
                rest -= cost
            costs[f"{side} {tool} …"][0] += rest
            costs[f"{side} {tool} …"][1] += 1
    rows = [f"|{name}|{count}|{cost}|" for name, (cost, count) in costs.items()]
    return "\n".join(["|field|times|tokens|", "|-|-|-|", *rows])


def field_costs(text, counter):
    try:
        value = json.loads(text)
    except ValueError:
        return
    whole = counter(compact(value))
    for path in dict.fromkeys(leaves(value, ())):
        yield ".".join(path), whole - counter(compact(without(value, path)))


def leaves(value, path):
    """The paths of all fields that contain no other field. Elements of an array have one path together."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for item in value:
            yield from leaves(item, (*path, "[]"))
    elif path:
        yield path


def without(value, path):
    key, rest = path[0], path[1:]
    if key == "[]":
        return [without(item, rest) if rest else None for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or key not in value:
        return value
    if not rest:
        return {name: item for name, item in value.items() if name != key}
    return value | {key: without(value[key], rest)}
