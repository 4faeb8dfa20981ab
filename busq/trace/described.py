# SPDX-License-Identifier: Apache-2.0
"""`busq.toml`: a file beside tables with the names of their columns, so that no command has to repeat them.

format = "csv"                  # of the logs, if that should not be guessed
runs-by = "none"                # a column, "file", "folder" or "none"
shape = "events"                # a row is an event; or "messages": a row is a message
dates = "month first"           # or "day first": what 11/05/2026 is
broadcast = true                # where no send has destinations, each was to all

[fields]                        # fields of `busq.trace.field_names`: columns, or expressions
process = "node"
message = "{topic}/{partition}/{offset}"
destinations = "recipients[].name"

[kinds]                         # what words for the kind of an event mean
OrderPlaced = "send"
OrderTaken = "deliver"

[text]                          # regular expressions that read logs of any text: `busq.trace.text_log`
send = '(?<node>\\S+) sent (?<id>\\d+) to (?<to>\\S+)'

[shiviz]                        # those of logs with clocks: parser, delimiter, send, deliver
send = 'Sending (?<message>\\S+)'
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from busq._util import toml
from busq._util.humanize import listed
from busq.trace import places, shiviz, text_log
from busq.trace.dataset import RUNS_BY, WAYS, dataset_of
from busq.trace.errors import TraceError

__all__ = ["NAME", "beside", "options_in"]

NAME = "busq.toml"


def beside(roots: Sequence[str]) -> str:
    """Return the file that stands beside tables, "" if there is none; TraceError if there are several; OSError."""
    folders = {dataset_of(root if places.is_folder(root) else os.path.dirname(root)) for root in roots}
    there = sorted(path for folder in folders if places.exists(path := os.path.join(folder, NAME)))
    if len(there) > 1:
        both = f"{there[0]} and {there[1]}"
        raise TraceError(f"{both} may say different things: audit one dataset at a time, or name one of them")
    return there[0] if there else ""


def options_in(path: str) -> dict[str, str]:
    """Return the content of a file as options of `busq.trace.find`; TraceError for what is not known; OSError.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, NAME)
    ...     _ = path.write_text("runs-by = 'day'\\n[fields]\\nprocess = 'node'\\n")
    ...     options_in(str(path))
    {'field.process': 'node', 'runs-by': 'day', 'field.run': 'day'}
    """
    description = _parsed(path)
    options: dict[str, str] = {}
    for table, prefix in (("fields", "field."), ("kinds", "kind."), ("text", text_log.PREFIX)):
        entries = description.pop(table, {})
        if not isinstance(entries, dict):
            raise TraceError(f"{path}: {table} is {entries!r}: expected a table, as [{table}]")
        options |= {f"{prefix}{name}": value for name, value in entries.items()}
    of_clocks = description.pop("shiviz", {})
    if not isinstance(of_clocks, dict) or not set(of_clocks) <= set(shiviz.OPTIONS):
        raise TraceError(f"{path}: shiviz is {of_clocks!r}: expected a table of {listed(shiviz.OPTIONS)}")
    options |= of_clocks
    for name in ("format", RUNS_BY, "shape", "dates"):
        if name in description:
            options[name] = description.pop(name)
    if (broadcast := description.pop("broadcast", None)) is not None:
        if not isinstance(broadcast, bool):
            raise TraceError(f"{path}: broadcast is {broadcast!r}: expected true or false")
        options["broadcast"] = str(broadcast).lower()
    if description:
        known = "format, runs-by, shape, dates, broadcast, [fields], [kinds], [text] and [shiviz]"
        raise TraceError(f"{path}: unknown {next(iter(description))!r}: expected {known}")
    for name, value in options.items():
        if not isinstance(value, str):
            raise TraceError(f"{path}: {name} is {value!r}: expected text in quotation marks")
    runs_by = options.get(RUNS_BY, "")
    return options | ({"field.run": runs_by} if runs_by and runs_by not in WAYS else {})


def _parsed(path: str) -> dict[str, Any]:
    with places.opened(path) as file:
        data = bytes(file.read())
    try:
        return toml.loads(data.decode("utf-8-sig"))
    except ValueError as error:
        raise TraceError(f"{path}: no TOML: {error}") from None
