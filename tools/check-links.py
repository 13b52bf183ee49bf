#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the links of all Markdown files: each file and each heading must exist. Links to the web are not checked.

Usage: tools/check-links.py [FOLDER]    checks FOLDER; by default the tree that holds this script
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose_of(text: str):
    """Yields (line number, line) outside of code blocks. Code in a line is left out."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, re.sub(r"`([^`]*)`", lambda code: code[1] if line.startswith("#") else "", line)


def anchors_of(text: str) -> set[str]:
    """Returns the anchors that GitHub gives a page's headings."""
    anchors: set[str] = set()
    counts: dict[str, int] = {}
    for _, line in prose_of(text):
        heading = re.match(r"#+ (.*)", line)
        if not heading:
            continue
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        earlier = counts.get(anchor, 0)
        counts[anchor] = earlier + 1
        anchors.add(f"{anchor}-{earlier}" if earlier else anchor)
    return anchors


def problem_of(root: Path, page: Path, target: str) -> str:
    """Returns why a link leads nowhere, or an empty text."""
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if not file.exists():
        return "no such file"
    if not file.is_relative_to(root):
        return "outside of the tree"
    if anchor and file.suffix == ".md" and anchor not in anchors_of(file.read_text()):
        return "no such heading"
    return ""


def pages_of(root: Path) -> list[Path]:
    """Returns the Markdown files outside of hidden folders and build folders."""
    top = [entry for entry in root.iterdir() if not re.match(r"\.|build", entry.name)]
    return sorted([entry for entry in top if entry.suffix == ".md"] +
                  [page for entry in top if entry.is_dir() for page in entry.rglob("*.md")])


def broken_links(root: Path) -> list[str]:
    """Returns a line for each link that leads nowhere."""
    broken = []
    for page in pages_of(root):
        for number, line in prose_of(page.read_text()):
            for target in LINK.findall(line):
                problem = "" if re.match("[a-z]+:", target) else problem_of(root, page, target)
                if problem:
                    broken.append(f"{page.relative_to(root)}:{number}: {target}: {problem}")
    return broken


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    broken = broken_links(root)
    print("\n".join(broken) or "check-links: all links lead to files and headings that exist")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
