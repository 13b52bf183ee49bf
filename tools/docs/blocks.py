# SPDX-License-Identifier: Apache-2.0
"""Finds the commands of a Markdown page.

A block of ```sh holds commands. A block of ```console holds commands after "$ " and, below each, the
output that the page promises. A comment before the fence says how to treat the block:

    <!-- check: WORD[, WORD...][: REASON] -->

    skip            never run; needs a REASON
    long            run with --all only; needs a REASON
    root            run with --all and as root only; needs a REASON
    terminals       each command has a terminal of its own; servers are stopped with Ctrl-C at the end
    fails           the commands of the block end with an exit status other than 0
    output varies   the output of a ```console block is not compared
"""

import re
import subprocess
from dataclasses import dataclass, field

WORDS = ("skip", "long", "root", "terminals", "fails", "output varies")
NEED_REASON = ("skip", "long", "root")
MARK = re.compile(r"^<!-- check:(?P<words>[a-z, ]+?)(:(?P<reason>.*))? -->$")
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<language>\S*)\s*$")


class BlockError(Exception):
    """A block or a mark that cannot be read. The text names page and line."""


@dataclass
class Command:
    text: str
    line: int
    output: str | None = None  # As the page promises it; None in ```sh.


@dataclass
class Block:
    page: str
    line: int
    words: tuple[str, ...] = ()
    reason: str = ""
    commands: list[Command] = field(default_factory=list)


def find_blocks(page: str, text: str) -> list[Block]:
    """Returns the blocks of ```sh and ```console of a page, in order."""
    lines = text.splitlines()
    blocks = []
    at = 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if not fence:
            if lines[at].lstrip().startswith("<!-- check") and not MARK.match(lines[at]):
                raise BlockError(f"{page}:{at + 1}: cannot read '{lines[at].strip()}'; "
                                 "allowed: <!-- check: WORD, ...: REASON -->")
            at += 1
            continue
        end = _find_end(page, lines, at, fence["indent"] + fence["ticks"])
        body = [line.removeprefix(fence["indent"]) for line in lines[at + 1 : end]]
        blocks += _block(page, lines, at, fence["language"], body)
        at = end + 1
    return blocks


def _find_end(page: str, lines: list[str], begin: int, ticks: str) -> int:
    for at in range(begin + 1, len(lines)):
        if lines[at].rstrip() == ticks:
            return at
    raise BlockError(f"{page}:{begin + 1}: the block has no end")


def _block(page: str, lines: list[str], at: int, language: str, body: list[str]) -> list[Block]:
    words, reason = _mark(page, lines, at)
    block = Block(page, at + 1, words, reason)
    if language == "sh":
        block.commands = _commands(body, at + 2)
    elif language == "console":
        block.commands = _transcript(page, body, at + 2)
    else:
        if words:
            raise BlockError(f"{page}:{at}: a check mark before a block that is not sh or console")
        if any(line.startswith("$ ") for line in body):
            raise BlockError(f"{page}:{at + 1}: a block with '$ ' must be ```console")
        return []
    return [block]


def _mark(page: str, lines: list[str], at: int) -> tuple[tuple[str, ...], str]:
    """Returns words and reason of the mark on the line before the fence."""
    mark = MARK.match(lines[at - 1]) if at > 0 else None
    if not mark:
        return (), ""
    words = tuple(word.strip() for word in mark["words"].split(","))
    reason = (mark["reason"] or "").strip()
    for word in words:
        if word not in WORDS:
            raise BlockError(f"{page}:{at}: unknown word '{word}'; allowed: {', '.join(WORDS)}")
        if word in NEED_REASON and not reason:
            raise BlockError(f"{page}:{at}: '{word}' needs a reason: <!-- check: {word}: REASON -->")
    return words, reason


def _commands(body: list[str], first_line: int) -> list[Command]:
    """Splits a block into commands: as many lines each as bash needs for a complete one."""
    commands = []
    begun: list[str] = []
    for at, line in enumerate(body):
        if not begun and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun.append(line)
        if line.endswith("\\") or not _is_complete("\n".join(begun)):
            continue
        commands.append(Command("\n".join(begun), first_line + at - len(begun) + 1))
        begun = []
    if begun:
        commands.append(Command("\n".join(begun), first_line + len(body) - len(begun)))
    return commands


def _is_complete(text: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True).returncode == 0


def _transcript(page: str, body: list[str], first_line: int) -> list[Command]:
    commands: list[Command] = []
    output: list[str] = []
    at = 0
    while at < len(body):
        if not body[at].startswith("$ "):
            if not commands:
                raise BlockError(f"{page}:{first_line + at}: output before the first '$ '")
            output.append(body[at])
            at += 1
            continue
        _promise(commands, output)
        begun = [body[at].removeprefix("$ ")]
        line = first_line + at
        while begun[-1].endswith("\\") and at + 1 < len(body):
            at += 1
            begun.append(body[at])
        commands.append(Command("\n".join(begun), line))
        output = []
        at += 1
    _promise(commands, output)
    return commands


def _promise(commands: list[Command], output: list[str]) -> None:
    if commands:
        commands[-1].output = "\n".join(output).rstrip()
