# SPDX-License-Identifier: Apache-2.0
"""The sends of a log, as a schedule: a log without deliveries can't be judged, but it can be replayed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from busq._util import arguments
from busq.lab.workload import SIZE_BYTES_DEFAULT, Builder, Schedule, ScheduleError
from busq.trace import Kind, find, read

__all__ = ["schedule"]

_FORBIDDEN = re.compile(r"^@+|[;,|/\0\s]")  # in the name of a peer
_NAME_CHARACTERS_MAX = 60  # at most 240 bytes


def schedule(path: str | os.PathLike[str], *, size_bytes: int = SIZE_BYTES_DEFAULT) -> Schedule:
    """Return the sends of a log that `busq.trace` reads, in the order of their times.

    Parameters: `path`, of a log of one run; `size_bytes`, the size of each message, which logs do not hold.  Names of
    processes that no peer can have are written with hyphens.  Sends that name no destinations are left out.
    Errors: TraceError for what is no log; ScheduleError if it has several runs, or its sends have no times or no
    destinations; OSError.  Cost: that of reading it, and about 5 us per send.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "log.csv")
    ...     _ = path.write_text("host,event,id,to,timestamp\\nann,send,m1,bob,12.5\\nbob,send,m2,ann,13.0\\n")
    ...     found = schedule(path)
    >>> found.participants, found.times_s.tolist()
    (('ann', 'bob'), [0.0, 0.5])
    """
    source_path = arguments.path("path", path)
    found = find([source_path])
    if len(found.sources) != 1:
        raise ScheduleError(f"{source_path}: {len(found.sources)} runs: expected one")
    run = read(found.sources[0], columns=["time_ns"])
    names = list(_names(run.processes))
    sends = [send for sender, log in enumerate(run.logs) for send in _sends(sender, log)]
    involved = {person for _, sender, to in sends for person in (sender, *to)}
    if not sends:
        raise ScheduleError(f"{source_path}: no send in it names its destinations: there is nobody to send to")
    if any(time_ns is None for time_ns, _, _ in sends):
        raise ScheduleError(f"{source_path}: not all sends have a time: expected one for each, to send them in order")
    first_ns = min(time_ns for time_ns, _, _ in sends)
    builder = Builder(source_path, [names[person] for person in sorted(involved)])
    for number, (time_ns, sender, to) in enumerate(sends, 1):
        recipients = [names[person] for person in to]
        builder.add(f"send {number}", (time_ns - first_ns) / 1e9, names[sender], recipients, size_bytes)
    return builder.build()


def _sends(sender: int, log: Any) -> Iterator[tuple[Any, int, list[int]]]:
    """Give the time, the sender and the destinations of each send that has some."""
    for row in log.select(["kind", "destinations", "time_ns"]).to_pylist():
        if row["kind"] == Kind.SEND and row["destinations"]:
            yield row["time_ns"], sender, list(dict.fromkeys(row["destinations"]))


def _names(processes: Sequence[str]) -> Iterator[str]:
    """Give a name that a peer can have for each process, another one each."""
    given: set[str] = set()
    for process in processes:
        name = plain = _FORBIDDEN.sub("-", process)[:_NAME_CHARACTERS_MAX] or "-"
        number = 1
        while name in given:
            number += 1
            name = f"{plain}-{number}"
        given.add(name)
        yield name
