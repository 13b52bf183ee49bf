# SPDX-License-Identifier: Apache-2.0
"""python3 -m tributary.run SCRIPT ARGUMENTS…: registers the back end and runs a script.

-m MODULE in place of SCRIPT runs a module, as the interpreter's own flag does.

`tributary launch` starts Python scripts this way, so a script only has to change the name of its back
end. This module does not import torch. The back end registers itself when the script imports torch.

A script that fails because of another rank or of the aggregator ends with status BECAUSE_OF_PEER, so that
`launch` can name the rank at fault, although that one may end later.

python3 -m tributary.run --check SCRIPT, or --check -m MODULE: runs nothing, and prints one line if something is missing.
"""

import ast
import importlib.util
import os
import pathlib
import runpy
import sys
import traceback

from . import _after_import, _exit_status, _library, _one_line, errors

BECAUSE_OF_PEER = 75  # kExitBecauseOfPeer of cli/launch/launch_plan.h.
_USAGE = 2

_PEERS = (errors.PeerLeft, errors.PeerMissing, errors.AggregatorGone, errors.SessionLost)


def _is_because_of_peer(error):
    if isinstance(error, _PEERS):
        return True
    if not isinstance(error, RuntimeError) or isinstance(error, errors.TributaryError):
        return False
    group = sys.modules.get("tributary._group")  # DDP raises a RuntimeError with the group's text.
    last = group and group.active_or_none() and group.active_or_none().error
    if isinstance(last, _PEERS) and str(last) in str(error):
        return True
    return errors.is_about_peer(str(error))


def _without_torch():
    return (
        f"{sys.executable} has no torch; use another interpreter with tributary launch --python FILE "
        "(Debian's torch is in /usr/bin/python3)"
    )


def _imports(script, module):
    """Returns True if the script imports the module. One that cannot be parsed fails later by itself."""
    try:
        with open(script, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module)
    return any(name.partition(".")[0] == module for name in names)


def missing_for(script):
    """Returns one line about something that the script needs and this interpreter lacks, or ""."""
    if _imports(script, "torch") and importlib.util.find_spec("torch") is None:
        return _without_torch()
    if os.environ.get("TRIBUTARY_BACKEND", "tributary") == "tributary":
        try:
            _library.load()
        except errors.TributaryError as error:
            return str(error)
    return ""


def _end_with_line(line):
    """Ends this rank. All ranks of a machine lack the same, so only the first one prints the line."""
    sys.exit(1 if _one_line.print_once(line) else BECAUSE_OF_PEER)


def _file_of(module):
    """Returns the file of a module, or "" if it is not known without importing the module's package."""
    first, *rest = module.split(".")
    spec = importlib.util.find_spec(first)
    if spec is None:
        return ""
    if spec.submodule_search_locations is None:
        return spec.origin
    for folder in spec.submodule_search_locations:
        path = pathlib.Path(folder, *rest)
        for file in (path.parent / f"{path.name}.py", path / "__main__.py"):
            if file.is_file():
                return str(file)
    return ""


def _check(name, is_module):
    """Ends with one line if the script or module lacks something."""
    if is_module and importlib.util.find_spec(name.partition(".")[0]) is None:
        line = f"no module named '{name}' in the current folder, in PYTHONPATH or installed"
    else:
        line = missing_for(_file_of(name) if is_module else name)
    if line:
        print(line, file=sys.stderr)
    sys.exit(_USAGE if line else 0)


def _warn_without_group():
    """Prints a line if `launch` started a script that uses torch, and the script has joined no job."""
    if os.environ.get("TRIBUTARY_BACKEND") != "tributary" or "tributary.torch" not in sys.modules:
        return
    if sys.modules["tributary.communicator"].Communicator.any_joined:
        return
    distributed = sys.modules["torch.distributed"]
    used = f" and used '{distributed.get_backend()}'" if distributed.is_initialized() else ""
    _one_line.print_once(
        f"the script created no group of the back end 'tributary'{used}; pass \"tributary\" to init_process_group(), or "
        "give launch the script's back end (--backend)"
    )


def _run(name, is_module):
    if is_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    # The interpreter sets this for a script, unless -P or PYTHONSAFEPATH forbids it. For a module it is the current folder.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(name))
    runpy.run_path(name, run_name="__main__")


def main():
    arguments = sys.argv[1:]
    is_check = arguments[:1] == ["--check"]
    arguments = arguments[is_check:]
    is_module = arguments[:1] == ["-m"]
    sys.argv[:] = arguments[is_module:]
    if not sys.argv:
        sys.exit("usage: python3 -m tributary.run [--check] SCRIPT|-m MODULE ARGUMENTS…")
    if is_check:
        _check(sys.argv[0], is_module)
    _after_import.install()
    try:
        _run(sys.argv[0], is_module)
        _warn_without_group()
    except _one_line.COMMON as error:
        _end_with_line(error)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            _end_with_line(_without_torch())
        raise
    except SystemExit as ended:
        _exit_status.note(ended.code)
        raise
    except Exception as error:
        if not _is_because_of_peer(error):
            raise
        traceback.print_exc()
        sys.exit(BECAUSE_OF_PEER)


if __name__ == "__main__":
    main()
