# SPDX-License-Identifier: Apache-2.0
"""python3 -m tributary.run SCRIPT ARGUMENTS…: registers the back end and runs a script.

`tributary launch` starts Python scripts this way, so a script only has to change the name of its back
end. This module does not import torch. The back end registers itself when the script imports torch.
"""

import importlib.abc
import importlib
import importlib.util
import os
import runpy
import sys


class _AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports tributary.torch as soon as torch itself has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        if sys.modules["torch.distributed"].is_available():
            importlib.import_module("tributary.torch")


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python3 -m tributary.run SCRIPT ARGUMENTS…")
    del sys.argv[0]
    sys.meta_path.insert(0, _AfterImport())
    # The interpreter sets this for a script.
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            print(
                f"tributary: {sys.executable} has no torch; use another interpreter with "
                "tributary launch --python FILE (Debian's torch is in /usr/bin/python3)",
                file=sys.stderr,
            )
        raise


if __name__ == "__main__":
    main()
