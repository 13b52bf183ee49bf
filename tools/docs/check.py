# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of Markdown pages and reports each one. The program of tools/check-docs.sh."""

import argparse
import difflib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docs.blocks import Block, BlockError, Command, find_blocks  # noqa: E402  (needs the path above)
from docs.session import Outcome, Session  # noqa: E402

# Its commands prepare the shell of every other page, as its text says.
PREPARES = "docs/README.md"
OUTPUT_LINES = 40


def main() -> int:
    arguments = parse_arguments()
    try:
        pages = {page: find_blocks(page, (arguments.top / page).read_text())
                 for page in arguments.pages or default_pages(arguments.top)}
        prepares = find_blocks(PREPARES, (arguments.top / PREPARES).read_text())
    except (BlockError, OSError) as error:
        print(f"tools/check-docs.sh: {error}", file=sys.stderr)
        return 1
    checker = Checker(arguments, prepares)
    for page, blocks in pages.items():
        checker.check_page(page, blocks)
    return checker.report()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--top", type=Path, required=True, help="top of the tree to run in")
    parser.add_argument("--all", action="store_true", help="also blocks marked long or root")
    parser.add_argument("--list", action="store_true", help="print the commands, run nothing")
    parser.add_argument("--limit-s", type=float, default=1800, help="time limit of one command")
    parser.add_argument("pages", nargs="*", help="pages to check; all if none is given")
    return parser.parse_args()


def default_pages(top: Path) -> list[str]:
    """Returns README.md, then docs/README.md, then the other pages below docs/."""
    docs = sorted(str(path.relative_to(top)) for path in (top / "docs").rglob("*.md"))
    return ["README.md", PREPARES, *[page for page in docs if page != PREPARES]]


class Checker:
    def __init__(self, arguments: argparse.Namespace, prepares: list[Block]):
        self.arguments = arguments
        self.prepares = prepares
        self.ran = 0
        self.skipped = 0
        self.failures: list[str] = []

    def check_page(self, page: str, blocks: list[Block]) -> None:
        """Runs a page's commands in one shell. The first failure ends the page."""
        session = Session(self.arguments.top, self.arguments.limit_s)
        try:
            if page not in (PREPARES, "README.md") and not self.arguments.list:
                for block in self.prepares:
                    for command in block.commands:
                        session.run(command.text)
            for block in blocks:
                reason = self.reason_to_skip(block)
                if reason:
                    self.skip(block, reason)
                elif self.arguments.list:
                    self.show(block)
                elif not self.run_block(session, block):
                    return
        finally:
            session.close()

    def reason_to_skip(self, block: Block) -> str:
        if "skip" in block.words:
            return block.reason
        if "long" in block.words and not self.arguments.all:
            return f"long: {block.reason}"
        if "root" in block.words and not (self.arguments.all and os.geteuid() == 0):
            return f"root: {block.reason}"
        return ""

    def skip(self, block: Block, reason: str) -> None:
        for command in block.commands:
            self.skipped += 1
            print(f"skipped  {place(block, command)}: {first_line(command)}  [{reason}]", flush=True)

    def show(self, block: Block) -> None:
        for command in block.commands:
            self.ran += 1
            print(f"run      {place(block, command)}: {first_line(command)}", flush=True)

    def run_block(self, session: Session, block: Block) -> bool:
        """Returns whether all commands did what the page says."""
        if "terminals" in block.words:
            began = time.monotonic()
            outcomes = session.run_terminals([command.text for command in block.commands])
            passed_s = time.monotonic() - began
            return all([self.judge(block, command, outcome, passed_s)
                        for command, outcome in zip(block.commands, outcomes)])
        for command in block.commands:
            began = time.monotonic()
            outcome = session.run(command.text)
            if not self.judge(block, command, outcome, time.monotonic() - began):
                return False
        return True

    def judge(self, block: Block, command: Command, outcome: Outcome, passed_s: float) -> bool:
        self.ran += 1
        complaint = complaint_about(block, command, outcome, self.arguments.limit_s)
        print(f"{'FAILED ' if complaint else 'ok     '}  {place(block, command)}: "
              f"{first_line(command)}  ({passed_s:.0f} s)", flush=True)
        if not complaint:
            return True
        print(indent(complaint), flush=True)
        self.failures.append(f"{place(block, command)}: {first_line(command)}")
        return False

    def report(self) -> int:
        verb = "would run" if self.arguments.list else "run"
        print(f"{self.ran} commands {verb}, {self.skipped} skipped, {len(self.failures)} failed")
        for failure in self.failures:
            print(f"  failed: {failure}", file=sys.stderr)
        return 1 if self.failures else 0


def complaint_about(block: Block, command: Command, outcome: Outcome, limit_s: float) -> str:
    """Returns "" if the command did what the page says, else the reason and the output's end."""
    shown = "\n".join(outcome.output.splitlines()[-OUTPUT_LINES:])
    if outcome.status is None:
        return f"stopped after {limit_s:.0f} s; its output ends with:\n{shown}"
    if ("fails" in block.words) != (outcome.status != 0):
        expected = "other than 0" if "fails" in block.words else "0"
        return f"exit status {outcome.status}, expected: {expected}; its output ends with:\n{shown}"
    if command.output is None or "output varies" in block.words:
        return ""
    if outcome.output.rstrip() == command.output:
        return ""
    return "the output differs from the page:\n" + "\n".join(difflib.unified_diff(
        command.output.splitlines(), outcome.output.rstrip().splitlines(), "page", "run", lineterm=""))


def place(block: Block, command: Command) -> str:
    return f"{block.page}:{command.line}"


def first_line(command: Command) -> str:
    return command.text.splitlines()[0]


def indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
