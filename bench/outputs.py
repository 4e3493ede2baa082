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
import functools
import itertools
import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

CORPUS = Path(__file__).resolve().parent / "outputs"
FAILURE_BUDGETS = [400, 600, 800, 1000, 1200, 1500, 2000, 2500, 3000, 4000]
SUCCESS_BUDGETS = [100, 150, 200, 300, 400, 600, 800]

# ---------------------------------------------------------------------------------------------------------------------
# Excerpt policies: (lines, budget in characters) -> lines of the excerpt. The rest of this file does not depend on them.


class Line(NamedTuple):
    """A line of output. It is red where the tool printed a word in red or on red."""

    text: str
    red: bool = False


def size(lines):
    """Characters of the lines, each with its newline."""
    return sum(len(line.text) + 1 for line in lines)


def take_head(lines, budget):
    """Number of first lines that fit into the budget."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line.text) + 1
        if used > budget:
            return count
    return len(lines)


def take_tail(lines, budget):
    """Number of last lines that fit into the budget."""
    return take_head(lines[::-1], budget)


def gap(count):
    return Line(f"[… {count} lines left out …]")


GAP_SIZE = len(gap(1000).text) + 1


def join(lines, numbers):
    """The lines with these numbers, and one line for each gap between them; none for what is before the first."""
    result, last = [], None
    for number in sorted(numbers):
        if last is not None and number != last + 1:
            result.append(gap(number - last - 1))
        result.append(lines[number])
        last = number
    return result


def tail_numbers(lines, budget):
    return set(range(len(lines) - take_tail(lines, budget), len(lines)))


def tail(lines, budget):
    """The last lines; of a last line that is longer than the budget, its end."""
    return join(lines, tail_numbers(lines, budget)) or [Line(lines[-1].text[-budget:])]


def head_tail(share):
    """The first lines up to a share of the budget, the last lines up to the rest; one line counts what is left out."""

    def excerpt(lines, budget):
        head = take_head(lines, int((budget - GAP_SIZE) * share))
        rest = budget - GAP_SIZE - size(lines[:head])
        return join(lines, set(range(head)) | tail_numbers(lines, rest)) if head else tail(lines, budget)

    return excerpt


def squeeze(text):
    """Runs of six or more of the same character cut to four."""
    return re.sub(r"(\S)\1{5,}|( ){6,}", lambda run: run.group(0)[:4], text.rstrip())


def squeezed(policy):
    """The excerpt of the text without empty lines and long runs of one character."""
    return lambda lines, budget: policy(
        [Line(squeeze(line.text), line.red) for line in lines if line.text.strip()], budget
    )


def shape(line):
    """A line without its names and numbers: the lines of one list have the same shape."""
    words = line.text.split()
    first, last = (re.sub(r"\d+", "0", word) for word in (words[0], words[-1])) if words else ("", "")
    return (len(line.text) - len(line.text.lstrip()), len(words), first[:3], last[-3:])


def folded(policy):
    """The excerpt of a text in which the middle of each run of four or more lines of one shape is replaced by a count."""

    def excerpt(lines, budget):
        result = []
        for _, group in itertools.groupby(lines, shape):
            run = list(group)
            result += run if len(run) < 4 else [run[0], Line(f"[… {len(run) - 2} similar lines …]"), run[-1]]
        return policy(result, budget)

    return excerpt


ERROR_WORD = re.compile(
    r"\berror\b|^E  |\bFAIL|\bfailed\b|\bpanicked\b|\bpanic:|\bexception\b|\w+(Error|Exception)\b|\bfatal\b|\bundefined\b|✗|✖|✕|×|●|not ok|\*\*\*|^CONFLICT",
    re.IGNORECASE,
)


def is_red(line):
    return line.red


def has_error_word(line):
    return ERROR_WORD.search(line.text) is not None


def marked(select, share, after, otherwise):
    """The last lines, and before them, up to a share of the budget, the first selected lines with those that follow.

    Where the last lines alone have the first selected line, only those; where no line is selected, another policy.
    """

    def excerpt(lines, budget):
        selected = [number for number, line in enumerate(lines) if select(line)]
        if not selected:
            return otherwise(lines, budget)
        if selected[0] in tail_numbers(lines, budget):
            return tail(lines, budget)
        chosen, seen, used, room = set(), set(), 0, int(budget * share)
        for number in selected:
            if lines[number].text in seen:
                continue
            seen.add(lines[number].text)
            for follower in range(number, min(number + after + 1, len(lines))):
                if follower in chosen:
                    continue
                cost = len(lines[follower].text) + 1 + (0 if follower - 1 in chosen else GAP_SIZE)
                if used + cost > room:
                    rest = tail_numbers(lines, budget - used - GAP_SIZE)
                    return join(lines, chosen | rest) or tail(lines, budget)
                chosen.add(follower)
                used += cost
        return join(lines, chosen | tail_numbers(lines, budget - used - GAP_SIZE))

    return excerpt


def policies():
    half, third, quarter = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
    mixed = head_tail(quarter)
    plain = {
        "tail": tail,
        "ht-1/4": mixed,
        "ht-1/3": head_tail(third),
        "ht-1/2": head_tail(half),
        "fold-1/4": folded(mixed),
        "word-1/3": marked(has_error_word, third, 0, mixed),
        "word-1/2": marked(has_error_word, half, 0, mixed),
        "word+4-1/2": marked(has_error_word, half, 4, mixed),
        "word+9-1/2": marked(has_error_word, half, 9, mixed),
        "red-1/2": marked(is_red, half, 0, mixed),
        "red+2-1/2": marked(is_red, half, 2, mixed),
        "red+4-1/3": marked(is_red, third, 4, mixed),
        "red+4-1/2": marked(is_red, half, 4, mixed),
        "red+9-1/2": marked(is_red, half, 9, mixed),
    }
    return plain | {f"sq-{name}": squeezed(policy) for name, policy in plain.items()}


def make_excerpt(policy, output, budget):
    """The excerpt of an output. An output that fits into the budget is whole under every policy."""
    if len(output.text) <= budget:
        return output.text
    return "\n".join(line.text for line in policy(output.lines, budget))


def run_program(command, output, budget):
    request = json.dumps({"exit_code": output.exit_code, "text": output.text, "budget": budget})
    return subprocess.run(command, shell=True, input=request, capture_output=True, text=True, check=True).stdout


# ---------------------------------------------------------------------------------------------------------------------
# The corpus


def expand_ranges(text):
    """Numbers of lines, from 1, of `3,7-9`."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


class Output:
    def __init__(self, entry):
        self.name = entry["name"]
        self.tool = f"{entry['tool']} {entry['version']}"
        self.command = entry["command"]
        self.exit_code = entry["exit_code"]
        self.deciding = entry["deciding"]
        self.text = (CORPUS / f"{self.name}.txt").read_text(encoding="utf-8").rstrip()
        red = set(expand_ranges(entry["red"]))
        self.lines = [Line(line, number in red) for number, line in enumerate(self.text.split("\n"), 1)]

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
    print("\n".join(problems) or f"{len(outputs)} outputs, {sum(len(output.text.encode()) for output in outputs)} bytes: in order")
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
        self.excerpts = [policy(output, budget) for output in outputs]
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
    named = {name: functools.partial(make_excerpt, policy) for name, policy in policies().items()}
    if options.exec:
        named = {"program": functools.partial(run_program, options.exec)}
    if options.show:
        name, budget, wanted = options.show
        output = next(output for output in outputs if output.name == wanted)
        print(named[name](output, int(budget)))
        return 0
    failures = [output for output in outputs if output.exit_code != 0]
    successes = [output for output in outputs if output.exit_code == 0]
    if options.missed:
        name, budget = options.missed
        cell = Cell(failures, named[name], int(budget))
        print(f"{name} at {budget}: {len(cell.missed)} of {len(failures)} missed")
        for output in cell.missed:
            excerpt = named[name](output, int(budget))
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
