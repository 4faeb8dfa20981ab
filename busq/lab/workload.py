# SPDX-License-Identifier: Apache-2.0
"""Schedules: senders, receivers, times and sizes of messages, read from a file or made up.

A file has one row per message: `time` (seconds, any origin), `sender`, `recipients` (names separated by spaces) and, if
it wants to, `size` (bytes) and `after`: how many messages its sender must have received before, as well as the time. So
a schedule can be a partially ordered set of sends; the simulator keeps to it. It is CSV, CSV compressed by gzip, or
Parquet; its first bytes decide which. Names become names of peers, so they obey the same rules.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import itertools
import math
import os
import random
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from busq._port.arguments import integer, whole_number
from busq._util import arguments

__all__ = ["OtherColumns", "Schedule", "ScheduleError", "by_traffic", "read", "skewed"]

COLUMNS = ("time", "sender", "recipients")
OPTIONAL = ("size", "after")
EXPECTED = "expected the columns time,sender,recipients[,size][,after]"
SIZE_BYTES_DEFAULT = 64
SIZE_BYTES_MAX = (1 << 32) - 1
NAME_BYTES_MAX = 255
AFTER_MAX = (1 << 32) - 1
PARTICIPANTS_MAX = 4095  # a bus has 4096 slots, and one is kept for cleaning up


class ScheduleError(Exception):
    """A file is no schedule; the text names the file, the line, what was found and what was expected."""


class OtherColumns(ScheduleError):
    """A file has not the columns of a schedule; it may be another log of messages."""


@dataclass(frozen=True)
class Schedule:
    """Messages in the order of their times; participants are named by their index.

    Message i is sent at `times_s[i]` by `senders[i]` to `recipients[starts[i]:starts[i + 1]]` and has
    `sizes_bytes[i]` bytes.  Where `afters` is not empty, its sender must have received `afters[i]` messages before.
    """

    participants: tuple[str, ...]
    times_s: array[float]
    senders: array[int]
    starts: array[int]
    recipients: array[int]
    sizes_bytes: array[int]
    afters: array[int] = field(default_factory=lambda: array("I"))

    def __len__(self) -> int:
        return len(self.senders)

    @property
    def copies(self) -> int:
        """How many deliveries it asks for: the destinations of all messages together."""
        return len(self.recipients)

    def to(self, message: int) -> array[int]:
        """Return the receivers of a message."""
        message = integer("message", message)
        return self.recipients[self.starts[message] : self.starts[message + 1]]


class Builder:
    """Collects checked rows and turns them into a schedule.

    `source` names the file in errors; participants are numbered as they come, the given ones first.

    >>> builder = Builder("letters")
    >>> builder.add("line 2", 0.0, "ann", ["bob", "cleo"], 64)
    >>> builder.build().copies
    2
    """

    def __init__(self, source: str, participants: Sequence[str] = ()) -> None:
        self._source = source
        self._indices = {name: index for index, name in enumerate(participants)}
        self._times_s = array("d")
        self._senders = array("I")
        self._starts = array("Q", [0])
        self._recipients = array("I")
        self._sizes_bytes = array("Q")
        self._afters = array("I")

    def fail(self, where: str, text: str) -> ScheduleError:
        """Return the error for a place in the file."""
        return ScheduleError(f"{self._source}, {where}: {text}")

    def add(self, where: str, time: Any, sender: Any, recipients: Sequence[str], size: Any, after: Any = 0) -> None:
        """Append a message, which its sender sends after it has received `after` others.

        ScheduleError names what is wrong with it, and `where` in the file it stands.
        """
        time_s = self._time(where, time)
        size_bytes = self._whole(where, "size", size, SIZE_BYTES_MAX, " of bytes")
        after_messages = self._whole(where, "after", after, AFTER_MAX, " of messages")
        indices = [self._participant(where, "sender", sender)]
        if not recipients:
            raise self.fail(where, "no recipients: expected names separated by spaces")
        indices += [self._participant(where, "recipient", name) for name in recipients]
        if len(set(indices[1:])) != len(recipients):
            twice = next(name for name in recipients if list(recipients).count(name) > 1)
            raise self.fail(where, f"recipient {twice!r} is given twice: each recipient gets a message once")
        self._times_s.append(time_s)
        self._senders.append(indices[0])
        self._recipients.extend(indices[1:])
        self._starts.append(len(self._recipients))
        self._sizes_bytes.append(size_bytes)
        self._afters.append(after_messages)

    def _time(self, where: str, value: Any) -> float:
        try:
            time_s = float(value)
        except (TypeError, ValueError, OverflowError):
            time_s = math.nan
        if not math.isfinite(time_s):
            raise self.fail(where, f"time {value!r}: expected a number of seconds")
        return time_s

    def _whole(self, where: str, what: str, value: Any, most: int, unit: str) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if not 0 <= number <= most or (isinstance(value, float) and value != number):
            raise self.fail(where, f"{what} {value!r}: expected a whole number{unit}, 0 to {most}")
        return number

    def _participant(self, where: str, what: str, name: Any) -> int:
        index = self._indices.get(name) if isinstance(name, str) else None
        if index is None:
            fault = _name_fault(name)
            if fault:
                raise self.fail(where, f"{what} {name!r}: {fault}")
            if len(self._indices) == PARTICIPANTS_MAX:
                raise self.fail(where, f"{what} {name!r} is one too many: a bus takes {PARTICIPANTS_MAX} participants")
            index = self._indices[name] = len(self._indices)
        return index

    def build(self) -> Schedule:
        """Return the schedule, sorted by time; what has the same time stays in the order of the file."""
        if not self._senders:
            raise ScheduleError(f"{self._source}: no message in it, only a header; expected at least one row")
        schedule = Schedule(
            tuple(self._indices),
            self._times_s,
            self._senders,
            self._starts,
            self._recipients,
            self._sizes_bytes,
            self._afters if any(self._afters) else array("I"),
        )
        times_s = schedule.times_s
        if all(earlier <= later for earlier, later in itertools.pairwise(times_s)):
            return schedule
        return _rearranged(schedule, sorted(range(len(schedule)), key=times_s.__getitem__))


def _rearranged(schedule: Schedule, order: Sequence[int]) -> Schedule:
    starts, recipients = array("Q", [0]), array("I")
    for message in order:
        recipients.extend(schedule.to(message))
        starts.append(len(recipients))
    return Schedule(
        schedule.participants,
        array("d", (schedule.times_s[message] for message in order)),
        array("I", (schedule.senders[message] for message in order)),
        starts,
        recipients,
        array("Q", (schedule.sizes_bytes[message] for message in order)),
        array("I", (schedule.afters[message] for message in order if schedule.afters)),
    )


def by_traffic(schedule: Schedule) -> list[int]:
    """Return the participants by how many messages they send and receive, the busiest first.

    >>> by_traffic(skewed(1000))[0] == by_traffic(skewed(1000))[-1]
    False
    """
    arguments.typed("schedule", schedule, Schedule, "a Schedule, as busq.workload.read gives it")
    sent, received = Counter(schedule.senders), Counter(schedule.recipients)
    return sorted(range(len(schedule.participants)), key=lambda person: (-sent[person] - received[person], person))


def _name_fault(name: Any) -> str | None:
    """Return what keeps this from being the name of a participant."""
    if not isinstance(name, str) or not name:
        return "expected a name"
    odd = next((character for character in name if character in ";,|/\0" or character.isspace()), None)
    if odd is not None:
        return f"found {odd!r} in a name; expected names without it, and recipients separated by spaces"
    if name.startswith("@"):
        return "names that begin with '@' are kept for groups"
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        return "expected a name that can be written in UTF-8"
    return f"a name of {size_bytes} bytes; expected at most {NAME_BYTES_MAX}" if size_bytes > NAME_BYTES_MAX else None


# ---- files ----


def read(path: str | os.PathLike[str], *, size_bytes: int = SIZE_BYTES_DEFAULT) -> Schedule:
    """Read a schedule from a file.

    Parameters: `path`, a CSV file, the same under gzip, or a Parquet file; `size_bytes`, the size of messages
    where the file has no column `size`.  Errors: ScheduleError, with file, line, what was found and what was
    expected; OSError. Cost: about 2 us per row.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "letters.csv")
    ...     _ = open(path, "w").write("time,sender,recipients\\n0,ann,bob cleo\\n1.5,bob,ann\\n")
    ...     schedule = read(path)
    >>> len(schedule), schedule.copies, schedule.participants
    (2, 3, ('ann', 'bob', 'cleo'))
    """
    source = arguments.path("path", path)
    whole_number("size_bytes", size_bytes, 32)
    builder = Builder(source)
    with open(path, "rb") as raw:
        magic = raw.peek(4)[:4]
        if not magic:
            raise ScheduleError(f"{source}: the file is empty; {EXPECTED}")
        if magic == b"PAR1":
            _read_parquet(builder, raw, size_bytes)
        elif magic[:2] == b"\x1f\x8b":
            with gzip.open(raw) as unpacked:
                _read_csv(builder, unpacked, size_bytes)
        elif source.endswith(".gz"):
            raise ScheduleError(f"{source}: begins with {magic!r}; expected gzip data, because the name ends in .gz")
        elif source.endswith(".parquet"):
            raise ScheduleError(f"{source}: begins with {magic!r}; expected b'PAR1', because the name ends in .parquet")
        else:
            _read_csv(builder, raw, size_bytes)
    return builder.build()


class _Lines:
    """Text lines of a CSV file, with the number of the one that was read last, for errors."""

    def __init__(self, builder: Builder, raw: IO[bytes] | gzip.GzipFile) -> None:
        self._builder = builder
        self._raw = raw
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        while True:
            self.number += 1
            try:
                line = self._raw.readline()
                text = line.decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                what = f"the byte 0x{error.object[error.start]:02x}"
                raise self.fail(f"found {what} at column {error.start + 1}; expected UTF-8") from None
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise self.fail(f"the gzip data is damaged or cut short ({error})") from None
            if not text:
                return
            yield text

    def fail(self, text: str) -> ScheduleError:
        return self._builder.fail(f"line {self.number}", text)


def _read_csv(builder: Builder, raw: IO[bytes] | gzip.GzipFile, size_bytes: int) -> None:
    lines = _Lines(builder, raw)
    rows = csv.reader(lines)
    try:
        header = [name.strip() for name in next(rows, [])]
        places = _places(builder, header)
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise lines.fail(f"found {len(row)} fields; expected {len(header)}, as in the header")
            builder.add(
                f"line {lines.number}",
                row[places["time"]].strip(),
                row[places["sender"]].strip(),
                row[places["recipients"]].split(),
                row[places["size"]].strip() if "size" in places else size_bytes,
                row[places["after"]].strip() or 0 if "after" in places else 0,
            )
    except csv.Error as error:
        raise lines.fail(f"{error}; expected comma-separated values") from None


def _places(builder: Builder, header: Sequence[str]) -> Mapping[str, int]:
    """Where each column stands; all others are ignored."""
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        columns = ",".join(header)
        text = f"no column {', '.join(missing)} in {columns[:120]!r}; {EXPECTED}"
        raise OtherColumns(str(builder.fail("line 1", text)))
    twice = [name for name in (*COLUMNS, *OPTIONAL) if header.count(name) > 1]
    if twice:
        raise builder.fail("line 1", f"the column {twice[0]} is there twice; {EXPECTED}")
    return {name: place for place, name in enumerate(header)}


def _read_parquet(builder: Builder, raw: IO[bytes], size_bytes: int) -> None:
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise builder.fail("row 1", "reading Parquet needs pyarrow: pip install 'busq[spark]'") from None
    try:
        file = parquet.ParquetFile(arrow.BufferReader(raw.read()))
        names = file.schema_arrow.names
        columns = [name for name in (*COLUMNS, *OPTIONAL) if name in _places(builder, names)]
        row = 0
        for batch in file.iter_batches(columns=columns):
            values = [batch.column(name).to_pylist() for name in columns]
            for fields in zip(*values, strict=True):
                row += 1
                _add_parquet_row(builder, f"row {row}", dict(zip(columns, fields, strict=True)), size_bytes)
    except (arrow.ArrowException, OSError) as error:
        raise builder.fail("row 1", f"no readable Parquet: {str(error).splitlines()[0]}") from None


def _add_parquet_row(builder: Builder, where: str, row: dict[str, Any], size_bytes: int) -> None:
    time, recipients = row["time"], row["recipients"]
    if hasattr(time, "timestamp"):
        time = time.timestamp()
    if isinstance(recipients, str):
        recipients = recipients.split()
    if not isinstance(recipients, list):
        raise builder.fail(where, f"recipients {recipients!r}: expected a text of names, or a list of them")
    builder.add(where, time, row["sender"], recipients, row.get("size", size_bytes), row.get("after") or 0)


# ---- a workload of our own ----

HOT = (8, 4, 2, 1)
FAN_OUTS = (0.55, 0.25, 0.12, 0.08)  # shares of messages to one, two, three and four
SIZES_BYTES = ((64, 0.85), (1024, 0.13), (16384, 0.02))
SIDE_TRAFFIC = 0.15


def skewed(
    messages: int = 40_000, *, participants: Sequence[str] = ("ann", "bob", "cleo", "dan"), seed: int = 1
) -> Schedule:
    """Make up a workload with hot spots.

    The first participants send most, the last ones receive most, half of the messages go to one, few to four,
    most are small, they come in bursts, and every seventh is side traffic: a small message between any two.
    One message per millisecond on average.  Same arguments, same schedule.

    Errors: ValueError for fewer than two participants or no messages.  Cost: about 5 us per message.

    >>> schedule = skewed(1000)
    >>> len(schedule), schedule.participants
    (1000, ('ann', 'bob', 'cleo', 'dan'))
    """
    participants = arguments.each_typed("participants", participants, str, "str, a name")
    if len(participants) < 2 or whole_number("messages", messages, 32) < 1:
        raise ValueError(f"{len(participants)} participants, {messages} messages: expected at least 2 and at least 1")
    dice = random.Random(integer("seed", seed))
    people = range(len(participants))
    send_weights = [HOT[min(person, len(HOT) - 1)] for person in people]
    builder = Builder("the skewed workload", participants)
    time_s = 0.0
    for _ in range(messages):
        time_s += dice.expovariate(1e4 if dice.random() < 0.9 else 1 / 9.1e-3)
        if dice.random() < SIDE_TRAFFIC:
            sender, other = dice.sample(people, 2)
            builder.add("", time_s, participants[sender], [participants[other]], SIZE_BYTES_DEFAULT)
            continue
        sender = dice.choices(people, send_weights)[0]
        fan_out = min(dice.choices((1, 2, 3, 4), FAN_OUTS)[0], len(participants))
        size_bytes = dice.choices([size for size, _ in SIZES_BYTES], [share for _, share in SIZES_BYTES])[0]
        chosen = _draw(dice, send_weights[::-1], fan_out)
        builder.add("", time_s, participants[sender], [participants[person] for person in chosen], size_bytes)
    return builder.build()


def _draw(dice: random.Random, weights: Sequence[int], count: int) -> list[int]:
    """Draw `count` different ones, the heavier the likelier."""
    keys = [(dice.random() ** (1 / weight), person) for person, weight in enumerate(weights)]
    return sorted(person for _, person in sorted(keys, reverse=True)[:count])
