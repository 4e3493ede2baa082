#!/usr/bin/env python3
"""Measures how much of a command's output a bounded excerpt must hold.

bench/outputs/ has real outputs of common tools, as `read_pane` in mode text returns them from a terminal of 120 columns.
bench/outputs/index.json names the deciding lines of each. For every policy and budget this program prints the share of
outputs whose deciding lines are in the excerpt, and the mean number of tokens of the excerpt.

    bench/outputs.py                          # shares and characters
    bench/outputs.py --tokens DIR             # and tokens; DIR/node_modules has gpt-tokenizer
    bench/outputs.py --missed ht-1/3 1000     # the outputs that a policy misses at a budget
    bench/outputs.py --show ht-1/3 1000 NAME  # the excerpt of one output
    bench/outputs.py --check                  # the corpus against its index
    bench/outputs.py --exec 'CMD'             # measure a program: CMD gets {"exit_code", "text", "budget"} as JSON on
                                              # stdin and prints the excerpt
"""

import argparse
import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "outputs"
FAILURE_BUDGETS = [400, 600, 800, 1000, 1200, 1500, 2000, 2500, 3000, 4000]
SUCCESS_BUDGETS = [100, 150, 200, 300, 400, 600, 800]
HEAD_SHARES = [Fraction(0), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2)]

# ---------------------------------------------------------------------------------------------------------------------
# Excerpt policies: (text, budget in characters) -> excerpt. The rest of this file does not depend on them.


def take_head(lines, budget):
    """Number of first lines that fit into the budget, each with its newline."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line) + 1
        if used > budget:
            return count
    return len(lines)


def take_tail(lines, budget):
    """Number of last lines that fit into the budget, each with its newline."""
    return take_head(lines[::-1], budget)


def gap(count):
    return f"[… {count} lines left out …]"


def join_head_tail(lines, head, tail):
    left_out = len(lines) - head - tail
    if left_out <= 0:
        return "\n".join(lines)
    middle = [gap(left_out)] if head else []
    return "\n".join(lines[:head] + middle + lines[len(lines) - tail :])


def head_tail(share):
    """The first lines up to a share of the budget, the last lines up to the rest; one line counts what is left out."""

    def excerpt(text, budget):
        lines = text.rstrip().split("\n")
        if len("\n".join(lines)) <= budget:
            return "\n".join(lines)
        room = budget - (len(gap(len(lines))) + 1 if share else 0)
        head = take_head(lines, int(room * share))
        used = sum(len(line) + 1 for line in lines[:head])
        tail = take_tail(lines[head:], room - used)
        if tail == 0:
            return lines[-1][-room:]
        return join_head_tail(lines, head, tail)

    return excerpt


def squeeze(text):
    """Without empty lines, and with runs of six or more of the same character cut to four."""
    lines = [re.sub(r"(\S)\1{5,}|( ){6,}", lambda run: run.group(0)[:4], line.rstrip()) for line in text.split("\n")]
    return "\n".join(line for line in lines if line)


def squeezed(policy):
    """The excerpt of the squeezed text; an output that fits as it is stays whole."""

    def excerpt(text, budget):
        return text.rstrip() if len(text.rstrip()) <= budget else policy(squeeze(text), budget)

    return excerpt


def shape(line):
    """A line without its names and numbers: lines of one list have the same shape."""
    words = line.split()
    ends = (re.sub(r"\d+", "0", words[0]), re.sub(r"\d+", "0", words[-1])) if words else ("", "")
    return (len(line) - len(line.lstrip()), len(words), min(len(words), 1) and ends[0][:3], ends[1][-3:])


def folded(policy):
    """The excerpt of a text in which the middle of each run of four or more lines of one shape is replaced by a count."""

    def excerpt(text, budget):
        if len(text.rstrip()) <= budget:
            return text.rstrip()
        lines, result, start = text.rstrip().split("\n"), [], 0
        while start < len(lines):
            end = start
            while end < len(lines) and shape(lines[end]) == shape(lines[start]):
                end += 1
            run = lines[start:end]
            result += run if len(run) < 4 else [run[0], f"[… {len(run) - 2} similar lines …]", run[-1]]
            start = end
        return policy("\n".join(result), budget)

    return excerpt


ERROR_LINE = re.compile(
    r"\berror\b|^E  |\bFAIL|\bfailed\b|\bpanicked\b|\bpanic:|\bexception\b|\w+(Error|Exception)\b|\bfatal\b|\bundefined\b|✗|✖|×|●|not ok|\*\*\*|^CONFLICT",
    re.IGNORECASE,
)


def tail_and_errors(share):
    """The last lines, and before them, up to a share of the budget, the first lines that look like errors."""

    def excerpt(text, budget):
        lines = text.rstrip().split("\n")
        if len("\n".join(lines)) <= budget:
            return "\n".join(lines)
        tail = take_tail(lines, budget - int(budget * share))
        used = sum(len(line) + 1 for line in lines[len(lines) - tail :])
        chosen, last = [], -1
        for number, line in enumerate(lines[: len(lines) - tail]):
            if not ERROR_LINE.search(line):
                continue
            cost = len(line) + 1 + (len(gap(number)) + 1 if number != last + 1 else 0)
            if used + cost > budget - 30:
                break
            if number != last + 1:
                chosen.append(gap(number - last - 1))
            chosen.append(line)
            used, last = used + cost, number
        left_out = len(lines) - tail - last - 1
        if chosen and left_out:
            chosen.append(gap(left_out))
        return "\n".join(chosen + lines[len(lines) - tail :])

    return excerpt


def policies():
    named = {"tail" if share == 0 else f"ht-{share}": head_tail(share) for share in HEAD_SHARES}
    for share in HEAD_SHARES:
        named[f"sq-{share}" if share else "sq-tail"] = squeezed(head_tail(share))
    named["fold-1/3"] = folded(head_tail(Fraction(1, 3)))
    named["sq-fold-1/3"] = squeezed(folded(head_tail(Fraction(1, 3))))
    named["err-1/3"] = tail_and_errors(Fraction(1, 3))
    named["err-1/2"] = tail_and_errors(Fraction(1, 2))
    named["sq-err-1/3"] = squeezed(tail_and_errors(Fraction(1, 3)))
    named["sq-err-1/2"] = squeezed(tail_and_errors(Fraction(1, 2)))
    return named


def program(command):
    def excerpt(text, budget, exit_code):
        request = json.dumps({"exit_code": exit_code, "text": text, "budget": budget})
        return subprocess.run(command, shell=True, input=request, capture_output=True, text=True, check=True).stdout

    return excerpt


# ---------------------------------------------------------------------------------------------------------------------
# The corpus


class Output:
    def __init__(self, entry):
        self.name = entry["name"]
        self.tool = f"{entry['tool']} {entry['version']}"
        self.command = entry["command"]
        self.exit_code = entry["exit_code"]
        self.deciding = entry["deciding"]
        self.text = (CORPUS / f"{self.name}.txt").read_text(encoding="utf-8")

    def decides(self, excerpt):
        """Groups of deciding lines that the excerpt has in full. A group is one failure: its name and its message."""
        return [all(part in excerpt for part in group) for group in self.deciding]


def read_corpus():
    return [Output(entry) for entry in json.loads((CORPUS / "index.json").read_text(encoding="utf-8"))]


def check(outputs):
    problems = []
    for output in outputs:
        for part in (part for group in output.deciding for part in group):
            if part not in output.text:
                problems.append(f"{output.name}: not in the output: {part!r}")
    named = {f"{output.name}.txt" for output in outputs}
    problems += [f"{path.name}: not in the index" for path in sorted(CORPUS.glob("*.txt")) if path.name not in named]
    documentation = r"rust-lang\.github\.io|cwiki\.apache\.org|www\.shellcheck\.net|github\.com/npm/cli/releases"
    foreign = re.compile(rf"/root|/home/|https?://(?!{documentation})\S+")
    for output in outputs:
        for match in foreign.finditer(output.text):
            problems.append(f"{output.name}: {match.group(0)}")
    print("\n".join(problems) or f"{len(outputs)} outputs, {sum(len(o.text.encode()) for o in outputs)} bytes: in order")
    return 1 if problems else 0


# ---------------------------------------------------------------------------------------------------------------------
# Tokens and tables

COUNTER = """
const { countTokens } = require("gpt-tokenizer/encoding/o200k_base");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => countTokens(JSON.stringify(text)))));
"""


def count_tokens(directory, texts):
    """Tokens (o200k_base) of each text as a JSON string, which is how a reply holds it."""
    run = subprocess.run(
        ["node", "-e", COUNTER], cwd=directory, input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


class Cell:
    def __init__(self, outputs, policy, budget):
        self.excerpts = [policy(output.text, budget, output.exit_code) for output in outputs]
        decided = [output.decides(excerpt) for output, excerpt in zip(outputs, self.excerpts)]
        self.every = 100 * sum(all(groups) for groups in decided) / len(outputs)
        self.one = 100 * sum(any(groups) for groups in decided) / len(outputs)
        self.missed = [output for output, groups in zip(outputs, decided) if not all(groups)]
        self.chars = sum(map(len, self.excerpts)) / len(outputs)
        self.tokens = self.most = math.nan

    def set_tokens(self, counts):
        self.tokens, self.most = sum(counts) / len(counts), max(counts)


def measure(outputs, named, budgets, directory):
    cells = {(name, budget): Cell(outputs, policy, budget) for name, policy in named.items() for budget in budgets}
    if directory:
        counts = iter(count_tokens(directory, [text for cell in cells.values() for text in cell.excerpts]))
        for cell in cells.values():
            cell.set_tokens([next(counts) for _ in cell.excerpts])
    return cells


def print_table(title, cells, named, budgets):
    print(f"\n{title}\n\n|budget|" + "|".join(named) + "|\n|" + "-|" * (len(named) + 1))
    for budget in budgets:
        row = (cells[name, budget] for name in named)
        texts = (f"{cell.every:.0f} ({cell.one:.0f}) {cell.tokens:.0f}".replace(" nan", "") for cell in row)
        print(f"|{budget}|" + "|".join(texts) + "|")


def print_pareto(cells):
    """The cells of which no other has as large a share for fewer tokens (characters, where tokens were not counted)."""

    def cost(cell):
        return cell.chars if math.isnan(cell.tokens) else cell.tokens

    print("\n|policy|budget|every deciding line %|one failure whole %|mean chars|mean tokens|most tokens|\n|-|-|-|-|-|-|-|")
    best = -1.0
    for (name, budget), cell in sorted(cells.items(), key=lambda item: (cost(item[1]), -item[1].every)):
        if cell.every > best:
            best = cell.every
            numbers = f"{cell.every:.0f}|{cell.one:.0f}|{cell.chars:.0f}|{cell.tokens:.0f}|{cell.most}"
            print(f"|{name}|{budget}|{numbers}|".replace("nan", ""))


def main():
    parser = argparse.ArgumentParser(description="How much of an output an excerpt must hold.")
    parser.add_argument("--tokens", metavar="DIR")
    parser.add_argument("--missed", nargs=2, metavar=("POLICY", "BUDGET"))
    parser.add_argument("--show", nargs=3, metavar=("POLICY", "BUDGET", "NAME"))
    parser.add_argument("--exec", metavar="CMD")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()

    outputs = read_corpus()
    if options.check:
        return check(outputs)
    named = {name: lambda text, budget, _, policy=policy: policy(text, budget) for name, policy in policies().items()}
    if options.exec:
        named = {"program": program(options.exec)}
    if options.show:
        name, budget, wanted = options.show
        output = next(output for output in outputs if output.name == wanted)
        print(named[name](output.text, int(budget), output.exit_code))
        return 0
    failures = [output for output in outputs if output.exit_code != 0]
    successes = [output for output in outputs if output.exit_code == 0]
    if options.missed:
        name, budget = options.missed
        cell = Cell(failures, named[name], int(budget))
        print(f"{name} at {budget}: {len(cell.missed)} of {len(failures)} missed")
        for output in cell.missed:
            excerpt = named[name](output.text, int(budget), output.exit_code)
            absent = [part for group in output.deciding for part in group if part not in excerpt]
            print(f"{output.name} ({len(output.text)} characters): without {absent}")
        return 0
    print(f"{len(failures)} failures, {len(successes)} successes. Cells: share with every deciding line in %, (share with at")
    print("least one failure whole), mean tokens of the excerpt.")
    for title, some, budgets in (
        ("Failures", failures, FAILURE_BUDGETS),
        ("Successes", successes, SUCCESS_BUDGETS),
    ):
        cells = measure(some, named, budgets, options.tokens)
        columns = list(named)
        for start in range(0, len(columns), 7):
            print_table(title, cells, columns[start : start + 7], budgets)
        print_pareto(cells)
    return 0


if __name__ == "__main__":
    sys.exit(main())
