# SPDX-License-Identifier: Apache-2.0
"""Reads the results in docs/results, and runs the commands that write them.

docs/results/index.toml has one table for each result: the command that writes docs/results/NAME.json
and its group. Results of the group "lab" are virtual time: every machine writes the same bytes.
The other groups measure wall-clock or CPU time. For these, run() also writes NAME.machine.json.
"""

import json
import os
import platform
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from docs.rows import AGREES_WITHIN

GROUPS = ("lab", "engine", "race", "training")
FOLDER = Path("docs/results")


class ResultError(Exception):
    """A result that is missing, broken or unknown. The text names it and the remedy."""


@dataclass(frozen=True)
class Result:
    name: str
    group: str
    command: str

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.json"

    @property
    def machine_path(self) -> Path:
        return FOLDER / f"{self.name}.machine.json"


def read_index(root: Path) -> dict[str, Result]:
    """Returns all results of the index by name, in its order."""
    path = root / FOLDER / "index.toml"
    results = {}
    for name, entry in tomllib.loads(path.read_text()).items():
        if set(entry) != {"group", "command"}:
            raise ResultError(f"{FOLDER}/index.toml: [{name}] has the keys {', '.join(sorted(entry))}; "
                              "needed: command, group")
        if entry["group"] not in GROUPS:
            raise ResultError(f"{FOLDER}/index.toml: [{name}] has the group '{entry['group']}'; "
                              f"allowed: {', '.join(GROUPS)}")
        result = Result(name, entry["group"], " ".join(entry["command"].split()))
        if f"--json {result.path}" not in result.command:
            raise ResultError(f"{FOLDER}/index.toml: the command of [{name}] does not write "
                              f"--json {result.path}")
        results[name] = result
    return results


def load(root: Path, files: str) -> dict[str, object]:
    """Returns the contents of the JSON files that `files` names, by name without ".json".

    `files` is a path or a glob pattern; a pattern leaves out NAME.machine.json. No file at all is
    an empty answer.
    """
    contents = {}
    for path in sorted(root.glob(files)):
        if "*" in files and path.name.endswith(".machine.json"):
            continue
        try:
            contents[path.stem] = _parse(path.read_text())
        except json.JSONDecodeError as error:
            raise ResultError(f"{path.relative_to(root)}: not JSON: {error}") from error
    return contents


def _parse(text: str):
    """Returns JSON; `tributary lab sweep` writes one object a line, which becomes a list."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        return [json.loads(line) for line in text.splitlines()]


def load_machine(root: Path, name: str) -> dict | None:
    """Returns the machine that measured a result, or None for a result without that file."""
    path = root / FOLDER / f"{name}.machine.json"
    return json.loads(path.read_text()) if path.exists() else None


def unexplained(root: Path) -> list[str]:
    """Returns a line for each row that is more than a tenth away from the paper's value and does not
    say why. Results in folders below, such as those of quick runs, need not explain themselves."""
    lines = []
    for path in sorted((root / FOLDER).glob("*.json")):
        (content,) = load(root, str(path.relative_to(root))).values()
        rows = content.get("rows", []) if isinstance(content, dict) else content
        for row in rows:
            if not isinstance(row, dict) or not row.get("paper") or row.get("here") is None:
                continue
            ratio = row["here"] / row["paper"]
            if abs(ratio - 1) > AGREES_WITHIN and not row.get("explained"):
                lines.append(f"{path.relative_to(root)}: '{row.get('series')}' at {row.get('x')} is "
                             f"{ratio:.3f} of the paper's value and has no 'explained'")
    return lines


# Commands whose rows have the digest of the models that made them.
WITH_DIGEST = ("tributary lab figure ", "tributary lab compare ")
WITHOUT_DIGEST = "tributary lab compare telemetry "


def outdated(root: Path, program: Path) -> tuple[list[str], list[str]]:
    """Returns the results of the lab by another version of its models, and those that name none.

    `tributary lab list` prints the digest of the program's models.
    """
    listed = subprocess.run([str(program), "lab", "list"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    digest = listed.split("Digest of the models, as in results:")[-1].strip()
    of_others, unknown = [], []
    for result in read_index(root).values():
        has_digest = (result.command.startswith(WITH_DIGEST)
                      and not result.command.startswith(WITHOUT_DIGEST))
        if not has_digest or not (root / result.path).exists():
            continue
        content = _parse((root / result.path).read_text())
        rows = content if isinstance(content, list) else [content]
        digests = {row.get("model_digest") for row in rows if isinstance(row, dict)}
        if None in digests:
            unknown.append(result.name)
        elif digests != {digest}:
            of_others.append(result.name)
    return of_others, unknown


def select(results: dict[str, Result], wanted: list[str]) -> list[Result]:
    """Returns the results that names and groups ask for; "all" asks for all of them."""
    chosen = []
    for word in wanted:
        if word == "all":
            chosen += results.values()
        elif word in GROUPS:
            chosen += [result for result in results.values() if result.group == word]
        elif word in results:
            chosen.append(results[word])
        else:
            raise ResultError(f"unknown result '{word}'; allowed: all, {', '.join(GROUPS)}, "
                              f"{', '.join(results)}")
    return list(dict.fromkeys(chosen))


def run(root: Path, result: Result, program: Path) -> None:
    """Runs a result's command from the top of the tree, with `program` as `tributary`.

    A command that is another program finds it in TRIBUTARY_PROGRAM.
    """
    words = shlex.split(result.command)
    if words[0] == "tributary":
        words[0] = str(program)
    environment = os.environ | {"TRIBUTARY_PROGRAM": str(program)}
    before = _machine()
    # Interrupted or failed, the command must not leave half a result.
    done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        print(done.stdout)
        raise ResultError(f"{result.name}: exit status {done.returncode} of: {result.command}")
    if result.group != "lab":
        machine = before | {"load_after": _load(), "command": result.command}
        (root / result.machine_path).write_text(json.dumps(machine, indent=2) + "\n")


def _machine() -> dict:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_before": _load(),
    }


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
