# SPDX-License-Identifier: Apache-2.0
"""Tables of what the code defines: orders, properties, columns and kinds of events of a trace, tables of an audit."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import busq.audit
import busq.audit.tables
import busq.orders
import busq.trace
from extension.docstrings import prose
from extension.pages import GENERATED, heading, table, write

FIELD = re.compile(r'pa\.field\("(?P<name>\w+)", (?P<type>.*)\),(?:  # (?P<text>.*))?$')
KIND = re.compile(r"^ {4}(?P<name>[A-Z]+) = (?P<number>\d+)(?:  # (?P<text>.*))?$")
TRAITS = {
    "point_to_point": "a multicast is sent as one message per destination",
    "fifo_channels": "needs channels that keep the order",
    "whole_group": "every process takes part in every message",
    "replicated": "the groups of replicas that its destinations belong to take part in a message",
    "rendezvous": "a send lasts until its receiver has delivered",
    "coordinated": "process 0 takes part in every message",
    "side_channels": "holds for causes that travel outside the bus, too",
    "laboratory": "known to break or to get stuck: for the laboratory",
}


def _defined(pattern: re.Pattern[str]) -> Iterator[dict[str, str]]:
    """The lines that define the columns or kinds, with the comments behind them, wherever that module stands."""
    module = inspect.getmodule(busq.trace.Kind)
    assert module is not None
    for line in inspect.getsource(module).splitlines():
        found = pattern.match(line.strip() if pattern is FIELD else line)
        if found:
            yield {key: value or "" for key, value in found.groupdict().items()}


def _trace(folder: Path) -> None:
    module = inspect.getmodule(busq.trace.Kind)
    assert module is not None
    lines = [".. _trace-schema:", "", *heading("Columns of a trace")]
    paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    lines += [line for text in paragraphs for line in (prose(" ".join(text.split()), "busq.trace"), "")]
    lines += [f"The version of the format is {module.VERSION}.", "", *heading("Columns", "-")]
    types = {field.name: str(field.type) for field in busq.trace.SCHEMA}
    columns = list(_defined(FIELD))
    assert [column["name"] for column in columns] == list(types), "every column is found"
    lines += table(
        ["column", "type", "required", "meaning"],
        (
            [
                f"``{column['name']}``",
                f"``{types[column['name']]}``",
                "yes" if column["name"] in module.REQUIRED else "no",
                prose(column["text"], "busq.trace") or "a kind of event, see below",
            ]
            for column in columns
        ),
    )
    kinds = list(_defined(KIND))
    assert [kind["name"] for kind in kinds] == [kind.name for kind in busq.trace.Kind], "every kind is found"
    lines += heading("Kinds of events", "-")
    lines += table(
        ["kind", "number", "what happened"],
        ([f"``{kind['name']}``", kind["number"], prose(kind["text"], "busq.trace")] for kind in kinds),
    )
    lines += heading("Formats that are read", "-")
    lines += [", ".join(f"``{name}``" for name in busq.trace.FORMATS) + ": see :doc:`/howto/audit-logs`.", ""]
    write(folder / GENERATED / "trace.rst", lines)


def _output(folder: Path) -> None:
    module = busq.audit.tables
    lines = [".. _audit-tables:", "", *heading("Tables of an audit")]
    paragraphs = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    lines += [line for text in paragraphs for line in (prose(" ".join(text.split()), "busq.audit"), "")]
    lines += [f"The version of the tables is {module.VERSION}; each file names it, under ``busq.audit``."]
    lines += ["Each column carries its meaning in the files, too.  :doc:`/howto/compare-runs` asks them.", ""]
    for name, schema in module.TABLES.items():
        lines += [*heading(f"``{name}``", "-"), prose(module.MEANINGS[name], "busq.audit"), ""]
        lines += table(
            ["column", "type", "may be null", "meaning"],
            (
                [
                    f"``{field.name}``",
                    f"``{field.type}``",
                    "yes" if field.nullable else "no",
                    prose(module.meaning(field), "busq.audit"),
                ]
                for field in schema
            ),
        )
    write(folder / GENERATED / "audit-tables.rst", lines)


def _orders(folder: Path) -> None:
    lines = [".. _orders:", "", *heading("Orders")]
    lines += ["What the compiled core says of each order.  :doc:`/howto/choose-an-order` compares them.", ""]
    for order in busq.orders.ORDERS.values():
        lines += heading(f"``{order.name}``", "-")
        lines += [prose(order.promise), "", f":promises: {', '.join(sorted(order.claims, key=_rank))}"]
        lines.append(f":source: {prose(order.source)}")
        lines.append(f":packets: {', '.join(f'``{kind}``' for kind in order.kinds) or 'none'}")
        lines.append(f":clock: {order.clock}")
        kept_when = (
            (order.crashes, ""),
            (order.crashes_go_on, " with ``on_crash=go-on``"),
            (order.crashes_majority, " with ``on_crash=go-on``, while more than half of each group of replicas live"),
        )
        for kept, when in kept_when:
            if kept:
                lines.append(f":kept when processes die{when}: {', '.join(sorted(kept))}")
        if order.options:
            lines.append(f":options: {', '.join(f'``{option}``' for option in order.options)}")
        traits = [text for name, text in TRAITS.items() if getattr(order, name)]
        lines += [f":besides: {'; '.join(traits)}"] if traits else []
        lines.append("")
    write(folder / GENERATED / "orders.rst", lines)


def _rank(name: str) -> int:
    return busq.audit.CHECKS.index(name)


def generate(folder: Path) -> None:
    """Write the pages of orders, of the trace, and of the tables of an audit."""
    _orders(folder)
    _trace(folder)
    _output(folder)
