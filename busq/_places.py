# SPDX-License-Identifier: Apache-2.0
"""Where the public names of modules lead: `busq.sim` is `busq.lab.sim`, by attribute and by import statement.

The library stands at the root of the package, everything else in a wing.  A public name does not say in which one, so
that wings may change.  Modules inside busq import each other by their places, never by these names.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

__all__ = ["PLACES", "install", "place"]

PLACES = {
    "check": "busq.lab.check",
    "compare": "busq.trial.compare",
    "diagram": "busq.lab.diagram",
    "doctor": "busq.ops.doctor",
    "examples": "busq.lab.examples",
    "execution": "busq.lab.execution",
    "leftovers": "busq.ops.leftovers",
    "replay": "busq.trial.replay",
    "scenario": "busq.lab.scenario",
    "sim": "busq.lab.sim",
    "soak": "busq.trial.soak",
    "spark": "busq.audit.spark",
    "spec": "busq.lab.observers",
    "stage": "busq.lab.stage",
    "workload": "busq.lab.workload",
}


def place(name: str) -> str | None:
    """Return where a module with a public name stands, or None if it has no other place.

    >>> place("busq.check.witness"), place("busq.trace")
    ('busq.lab.check.witness', None)
    """
    package, _, rest = name.partition(".")
    first, dot, inner = rest.partition(".")
    return f"{PLACES[first]}{dot}{inner}" if package == "busq" and first in PLACES else None


class _Forwarder:
    """A loader: imports the module at its place, and lets the public name stand for the same object."""

    def __init__(self, real: ModuleSpec) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave that to Python; the module it makes is replaced at once."""

    def exec_module(self, module: ModuleType) -> None:
        target = self._real.name
        sys.modules[module.__name__] = importlib.import_module(target)
        # An inner module that is loaded by its public name becomes an attribute of the package, in place of a function
        # that the package has under this name.  One that is already there is only found.
        for name in [name for name in sys.modules if name.startswith(f"{target}.")]:
            sys.modules.setdefault(module.__name__ + name[len(target) :], sys.modules[name])

    def get_code(self, name: str) -> CodeType | None:
        """Return what ``python -m`` runs."""
        loader: Any = self._real.loader
        code: CodeType | None = loader.get_code(self._real.name)
        return code


class _Finder:
    """Knows public names; has to be asked first, since an inner module would otherwise be found and executed again."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        real_name = place(fullname)
        if real_name is None:
            return None
        from importlib.util import find_spec  # of which a program that only sends needs nothing

        real = find_spec(real_name)
        if real is None:
            return None
        loader: Any = _Forwarder(real)  # as Python asks for one; its base class would take more to import than busq
        return ModuleSpec(fullname, loader, is_package=real.submodule_search_locations is not None)


def install() -> None:
    """Let import statements find the public names."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        finder: Any = _Finder()
        sys.meta_path.insert(0, finder)
