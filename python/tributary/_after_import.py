# SPDX-License-Identifier: Apache-2.0
"""Registers the back end as soon as a script has imported torch.

torch 1.13 has no entry points for back ends. `tributary.run` calls install(). The wheel has a copy of this
file and a .pth file that calls it whenever Python starts, so it imports nothing but importlib.
"""

import importlib
import importlib.abc
import importlib.util
import sys


class AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
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


def install():
    """Called before torch is imported; a second call changes nothing."""
    # The wheel's copy is another module, so its class is compared by name.
    if not any(type(finder).__name__ == AfterImport.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterImport())
