#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fills the tables of the Markdown pages from the results in docs/results.

  tools/fill-docs.py                 rewrites the tables whose results have changed
  tools/fill-docs.py --check         changes nothing; prints a diff and fails if a page differs, or
                                     if a result is far from the paper's value and does not say why
  tools/fill-docs.py --run NAME...   runs the commands of results first; NAME is a result, a group
                                     (lab, engine, race, training) or all
  tools/fill-docs.py --list          prints each result, its group and its command
  tools/fill-docs.py --outdated      prints the results of the lab that other versions of its models
                                     have made

docs/results/README.md says what the groups need. A table stands between two comments:

  <!-- table: trio-15 from docs/results/trio-15.json -->
  <!-- end -->

The table `code` shows a C++ file of the tree, from its first #include on.
"""

import argparse
import difflib
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

from docs import bench_tables, lab_tables, pages, results, training_tables  # noqa: E402  (needs the path above)

VIEWS = lab_tables.VIEWS | bench_tables.VIEWS | training_tables.VIEWS


def main() -> int:
    arguments = parse_arguments()
    root = arguments.root.resolve()
    try:
        if arguments.list:
            for result in results.read_index(root).values():
                print(f"{result.name} ({result.group}): {result.command}")
            return 0
        if arguments.outdated:
            return print_outdated(root, arguments.program.resolve())
        if arguments.run:
            for result in results.select(results.read_index(root), arguments.run):
                print(f"{result.name}: {result.command}", flush=True)
                results.run(root, result, arguments.program.resolve())
        return fill_pages(root, arguments.check)
    except (pages.PageError, results.ResultError) as error:
        print(f"tools/fill-docs.py: {error}", file=sys.stderr)
        return 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a page differs or a row is not explained")
    parser.add_argument("--run", nargs="+", metavar="NAME", help="run these results' commands first")
    parser.add_argument("--list", action="store_true", help="print the results and their commands")
    parser.add_argument("--outdated", action="store_true",
                        help="print the results of other versions of the lab's models")
    parser.add_argument("--program", type=Path, default=TOOLS.parent / "build/release/tributary",
                        help="the program that --run and --outdated run (build/release/tributary)")
    parser.add_argument("--root", type=Path, default=TOOLS.parent, help="the tree (this one)")
    return parser.parse_args()


def print_outdated(root: Path, program: Path) -> int:
    """Prints which results the program would not write like that. Returns 0: runs take hours."""
    of_others, unknown = results.outdated(root, program)
    for names, reason in ((of_others, "by another version of the models"),
                          (unknown, "without the digest of the models that made them")):
        if names:
            print(f"{reason}: {', '.join(names)}")
    if of_others or unknown:
        print("to run them again: tools/fill-docs.py --run NAME...")
    else:
        print("every result of the lab is by this version of its models")
    return 0


def fill_pages(root: Path, check: bool) -> int:
    """Fills every page. Returns 1 if `check` is set and a page differs or a row lacks its
    explanation, else 0."""
    pending: dict[str, str] = {}
    differing = 0
    for path in page_paths(root):
        page = str(path.relative_to(root))
        text = path.read_text()
        filled = pages.fill(page, text, lambda marker: render(root, page, marker, pending))
        if filled == text:
            continue
        differing += 1
        if check:
            sys.stdout.writelines(difflib.unified_diff(
                text.splitlines(True), filled.splitlines(True), page, f"{page} (filled)"))
        else:
            path.write_text(filled)
            print(f"filled {page}")
    for files, page in sorted(pending.items()):
        print(f"not measured yet: {files} ({page})")
    if not check:
        return 0
    unexplained = results.unexplained(root)
    for line in unexplained:
        print(f"tools/fill-docs.py: {line}", file=sys.stderr)
    if differing > 0:
        print(f"tools/fill-docs.py: {differing} pages differ from their results; "
              "run tools/fill-docs.py", file=sys.stderr)
    return 1 if differing > 0 or unexplained else 0


def page_paths(root: Path) -> list[Path]:
    """Returns the pages that may hold tables: README.md and docs/**/*.md."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def render(root: Path, page: str, marker: pages.Marker, pending: dict[str, str]) -> str | None:
    """Returns a table's content, or None for a pending table without result."""
    where = f"{page}:{marker.line}"
    if marker.view == "code":
        return code_block(root / marker.files, where)
    view = VIEWS.get(marker.view)
    if view is None:
        allowed = ", ".join(["code", *VIEWS])
        raise pages.PageError(f"{where}: unknown table '{marker.view}'; allowed: {allowed}")
    contents = results.load(root, marker.files)
    try:
        if contents:
            return view(contents)
    except (KeyError, TypeError, ValueError) as error:
        # A glob may match before all of its results are there.
        if not marker.pending:
            raise pages.PageError(
                f"{where}: {marker.files} does not have what table '{marker.view}' shows: "
                f"{error.args[0]}") from error
    if not marker.pending:
        raise pages.PageError(f"{where}: no file {marker.files}; run tools/fill-docs.py --run NAME, "
                              "or write 'pending' into the marker")
    pending[marker.files] = page
    return None


def code_block(path: Path, where: str) -> str:
    """Returns a C++ file as a block, from its first #include on."""
    try:
        text = path.read_text()
    except OSError as error:
        raise pages.PageError(f"{where}: {error.filename}: {error.strerror}") from error
    if "#include" not in text:
        raise pages.PageError(f"{where}: {path} has no #include, from which 'code' shows a file")
    return f"```cpp\n{text[text.index('#include'):]}```"


if __name__ == "__main__":
    sys.exit(main())
