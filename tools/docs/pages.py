# SPDX-License-Identifier: Apache-2.0
"""Finds the generated tables of a page and replaces their text.

A table stands between two HTML comments, each on a line of its own:

    <!-- table: VIEW from FILES -->
    ...
    <!-- end -->

VIEW names a function of the view registry. FILES is a path or a glob pattern from the top of the
tree. A marker with "pending" after FILES keeps the text by hand until one of its files exists.
"""

import re
from dataclasses import dataclass

OPEN = re.compile(r"^<!-- table: (?P<view>\S+) from (?P<files>\S+)(?P<pending> pending)? -->$")
LOOKS_OPEN = re.compile(r"^\s*<!--\s*table\b")
CLOSE = "<!-- end -->"


class PageError(Exception):
    """A marker that cannot be used. The text names page and line."""


@dataclass(frozen=True)
class Marker:
    view: str
    files: str
    pending: bool
    line: int  # Of the opening comment, counted from 1.

    def text(self) -> str:
        """Returns the opening comment of a filled table."""
        return f"<!-- table: {self.view} from {self.files} -->"


def fill(page: str, text: str, render) -> str:
    """Returns `text` with the content of each table replaced.

    `render(marker)` returns the new content, or None to keep the text of a pending table.
    """
    lines = text.splitlines()
    filled = []
    at = 0
    while at < len(lines):
        line = lines[at]
        opened = OPEN.match(line)
        if not opened:
            if LOOKS_OPEN.match(line):
                raise PageError(
                    f"{page}:{at + 1}: cannot read the marker '{line.strip()}'; "
                    "allowed: <!-- table: VIEW from FILES --> or <!-- table: VIEW from FILES pending -->"
                )
            if line.strip() == CLOSE:
                raise PageError(f"{page}:{at + 1}: '{CLOSE}' closes no table")
            filled.append(line)
            at += 1
            continue
        marker = Marker(opened["view"], opened["files"], bool(opened["pending"]), at + 1)
        end = _find_close(page, lines, at)
        content = render(marker)
        if content is None:
            filled.extend(lines[at : end + 1])
        else:
            filled.extend([marker.text(), *content.splitlines(), CLOSE])
        at = end + 1
    return "\n".join(filled) + "\n"


def _find_close(page: str, lines: list[str], begin: int) -> int:
    for at in range(begin + 1, len(lines)):
        if lines[at].strip() == CLOSE:
            return at
        if LOOKS_OPEN.match(lines[at]):
            break
    raise PageError(f"{page}:{begin + 1}: the table has no '{CLOSE}'")
