# SPDX-License-Identifier: Apache-2.0
"""Registers the back end as soon as a script has imported torch.

torch 1.13 has no entry points for back ends. `tributary.run` calls install(). The wheel has a copy of this
file and a .pth file that calls it whenever Python starts, so it imports nothing but importlib and built-in modules.
"""

import _thread
import importlib
import importlib.abc
import importlib.util
import sys


class AfterImport(importlib.abc.MetaPathFinder):
    """Imports tributary.torch as soon as torch itself has been imported.

    Stays in sys.meta_path until then, because a script may look for torch without importing it.
    """

    def __init__(self):
        self._searching = set()  # Threads that look for the real torch.

    def find_spec(self, name, path=None, target=None):
        thread = _thread.get_ident()
        if name != "torch" or thread in self._searching:
            return None
        self._searching.add(thread)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(thread)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads torch with its own loader, then tributary.torch."""

    def __init__(self, loader, finder):
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if sys.modules["torch.distributed"].is_available():
            importlib.import_module("tributary.torch")


def install():
    """Called before torch is imported; a second call changes nothing."""
    # The wheel's copy is another module, so its class is compared by name.
    if not any(type(finder).__name__ == AfterImport.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterImport())
