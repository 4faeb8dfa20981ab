# SPDX-License-Identifier: Apache-2.0
"""The Python reference: a page for each public module, made by autodoc under the public names.

The names in MODULES are those that users import, wherever the files stand.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.ext.autodoc.mock import mock

from extension.pages import GENERATED, heading, write

# The public modules, in the order of the reference: the name, and a title.  This list alone defines what is public.
MODULES: dict[str, str] = {
    "busq": "the library",
    "busq.aio": "a bus in an event loop",
    "busq.codec": "codecs of objects",
    "busq.replica": "objects that processes keep alike",
    "busq.orders": "the ordering protocols",
    "busq.spec": "observers of a history",
    "busq.execution": "executions",
    "busq.sim": "the simulator",
    "busq.stage": "a network that you conduct",
    "busq.check": "every execution within a bound",
    "busq.diagram": "space-time diagrams",
    "busq.trace": "recorded traces",
    "busq.audit": "audits of traces",
    "busq.spark": "audits and grids on Spark",
    "busq.spark.runs": "many runs",
    "busq.spark.huge": "one huge run",
    "busq.spark.catalog": "tables that a catalog knows",
    "busq.spark.results": "results as tables of a catalog",
    "busq.spark.follow": "a run that is still being written",
    "busq.spark.load": "a trace as a DataFrame",
    "busq.spark.checks": "checks, from DataFrame to DataFrame",
    "busq.spark.islands": "what stamps do not settle",
    "busq.spark.pace": "times on Spark",
    "busq.spark.clocks": "vector clocks on Spark",
    "busq.spark.views": "views of groups on Spark",
    "busq.spark.sweep": "grids on Spark",
}
# What the pages of the Spark modules are made without, where it is not installed.
OPTIONAL = ("pyspark", "py4j", "pandas")
# Modules that keep no list of their public names.
ALL_OF: dict[str, tuple[str, ...]] = {"busq": ("Bus", "Peer", "Message", "Draft", "BusqError")}


@functools.cache
def public() -> dict[str, Any]:
    """Return everything public by its full name, members of classes too."""
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    found: dict[str, Any] = {}
    with mock(missing):
        for module_name in MODULES:
            module = importlib.import_module(module_name)
            for name in names_of(module_name):
                found[f"{module_name}.{name}"] = value = getattr(module, name)
                if inspect.isclass(value):
                    members = {*dir(value), *getattr(value, "__dataclass_fields__", ())}
                    found |= {f"{module_name}.{name}.{member}": None for member in members if member[0] != "_"}
    return found


def names_of(module_name: str) -> list[str]:
    """Return the public names of a module: the short way in first, then the rest."""
    module = importlib.import_module(module_name)
    names = [name for name in module.__all__ if not name.startswith("_")]
    first = [name for name in ALL_OF.get(module_name, ()) if name in names]
    return first + [name for name in names if name not in first and f"{module_name}.{name}" not in MODULES]


@functools.cache
def _places() -> dict[str, str]:
    """Where things are defined, and under which other public names they stand; and the public name that they go by."""
    places: dict[str, str] = {}
    for name, value in public().items():
        with contextlib.suppress(AttributeError):
            places.setdefault(name, places.setdefault(f"{value.__module__}.{value.__qualname__}", name))
    return places


def public_name(text: str, scope: str) -> str | None:
    """Return the full name of what a docstring calls `text`, seen from the object `scope`; None if it is not public."""
    text = text.removesuffix("()")
    if text in MODULES:
        return text
    while scope:
        if f"{scope}.{text}" in public():
            return f"{scope}.{text}"
        scope = scope.rpartition(".")[0]
    return text if text in public() else None


def resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Lead a reference by the place where something is defined to its public name."""
    if node.get("refdomain") != "py":
        return None
    target = node.get("reftarget", "")
    name = _places().get(target) or public_name(target.rpartition(".")[2], node.get("py:module") or "busq")
    if name is None and node.get("reftype") == "class" and target.startswith("busq."):
        return contnode  # a type in a signature that users do not import
    if name is None or name == target:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)


def _directive(full: str, value: Any) -> Iterator[str]:
    elsewhere = _places().get(f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}", full)
    if elsewhere != full:
        yield f"``{full.rpartition('.')[2]}`` is :py:obj:`{elsewhere}`."
    elif inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        yield f".. auto{kind}:: {full}"
        yield "   :members:"
        yield "   :show-inheritance:" if kind == "exception" else "   :undoc-members:"
        if issubclass(value, enum.Enum):
            yield "   :member-order: bysource"
        elif kind == "class":
            yield "   :inherited-members:"
        if "Made by `" in (value.__doc__ or ""):  # and never by its own constructor
            yield "   :exclude-members: __init__, __new__"
    elif inspect.isroutine(value):  # and not all that can be called: where Spark is not installed, data can
        yield f".. autofunction:: {full}"
    else:
        yield f".. py:data:: {full.rpartition('.')[2]}"
        shown = repr(value)
        if len(shown) < 200 and "<" not in shown:
            yield f"   :value: {shown}"
    yield ""


def generate(folder: Path) -> None:
    """Write a page for each module."""
    for module_name, title in MODULES.items():
        lines = heading(f"``{module_name}``: {title}")
        lines += [f".. automodule:: {module_name}", "   :no-members:", ""]
        for name in names_of(module_name):
            lines += _directive(f"{module_name}.{name}", public()[f"{module_name}.{name}"])
        write(folder / GENERATED / f"{module_name}.rst", lines)
