# SPDX-License-Identifier: Apache-2.0
"""A slow, obviously right audit of runs, to hold the others against; and small runs at random, with all that happens.

The order of messages is judged by `spec_oracle`, from the definitions word by word.  What an audit adds is derived here
in the same manner: which losses are sure, what travelled past the bus, and which vector clocks are right.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
from spec_oracle import Event, Log, Oracle, random_logs

from busq.spec import PROPERTIES
from busq.trace import SCHEMA, Finding, Kind, Run, Source, message_of, number_of, sender_of

Row = dict[str, Any]

NOBODYS = 1 << 40  # from here on: events that are no messages, named so that the oracle can place them


@dataclass
class AuditOracle:
    """What is true of a run, from its logs alone."""

    rows: list[list[Row]]
    oracle: Oracle = field(init=False)
    counts: dict[str, int] = field(default_factory=dict)
    certain: AuditOracle | None = field(default=None)  # where some were sent more than once: of the others alone
    open: dict[str, int] = field(default_factory=dict)  # of lost and phantom: what the logs may just not show

    def __post_init__(self) -> None:
        """Judge at once."""
        self.rows = _without_passed([_settled(log) for log in self.rows])
        self.oracle = Oracle([_events(log) for log in self.rows])
        self.counts = {name: self.oracle.counts[name] for name in PROPERTIES}
        self.counts["side"] = len(self.side_faults())
        if any(row["clock"] is not None for log in self.rows for row in log):
            self.counts["clock"] = len(self.wrong_clocks())
        if any(row["group"] is not None for log in self.rows for row in log):
            self.counts["views"] = len(self.views_faults())
        self.resent = _resent(self.rows)
        self.certain = None if not self.resent else AuditOracle(_without(self.rows, self.resent))
        self.open = {"lost": len(self.open_losses()), "phantom": len(self.open_phantoms())}

    # ---- what is missing ----

    def is_incomplete(self, process: int) -> bool:
        """Whether events are known to be missing here, by a finding or by their positions."""
        return any(row["kind"] == Kind.GAP for row in self.rows[process]) or _has_gap(self.rows[process])

    def losses(self) -> set[tuple[int, int]]:
        """All (message, destination) that were sent and never delivered."""
        sends, first = self.oracle.sends, self.oracle.first
        return {(m, q) for m in sends for q in self.oracle.destinations(m) if (q, m) not in first}

    def open_losses(self) -> set[tuple[int, int]]:
        """Of these: nothing that the sender sent later was delivered there, or that log is incomplete."""
        return {
            (m, q)
            for m, q in self.losses()
            if self.is_incomplete(q)
            or not any(
                r == q
                and other in self.oracle.sends
                and self.oracle.sends[other][0] == self.oracle.sends[m][0]
                and self.oracle.sends[other][1] > self.oracle.sends[m][1]
                for r, other in self.oracle.first
            )
        }

    def open_phantoms(self) -> set[tuple[int, int]]:
        """Deliveries of what was never sent, where the log of the sender may have ended before, or is incomplete."""
        found = set()
        for r, i, event in self.oracle.events():
            if event.to is not None or event.message in self.oracle.sends:
                continue
            sender, number = sender_of(event.message), number_of(event.message)
            if not 0 <= sender < len(self.rows):  # its sender is not known: any log that lacks events may hold it
                found |= {(r, i)} if any(self.is_incomplete(p) or not log for p, log in enumerate(self.rows)) else set()
                continue
            numbers = [
                number_of(row["message"])
                for row in self.rows[sender]
                if row["kind"] == Kind.SEND and row["message"] is not None and sender_of(row["message"]) == sender
            ]
            if self.is_incomplete(sender) or not any(n > number for n in numbers):
                found.add((r, i))
        return found

    # ---- what travelled past the bus ----

    def times(self) -> Iterator[tuple[int, Row]]:
        """Every event that counts, with its process: the sends that count, each delivery that is no repetition."""
        for p, log in enumerate(self.rows):
            events = [row for row in log if _is_event(row)]
            for i, row in enumerate(events):
                is_send = row["kind"] == Kind.SEND
                place = self.oracle.sends[row["message"]] if is_send else (p, self.oracle.first[p, row["message"]])
                if place == (p, i):
                    yield p, row

    def known(self, message: int) -> float:
        """When any process could know of the message's send: it was delivered somewhere, or its send had returned."""
        times = [
            row["time_ns"] if row["kind"] == Kind.DELIVER else row["end_ns"]
            for _, row in self.times()
            if row["message"] == message
        ]
        return min((time for time in times if time is not None), default=float("inf"))

    def called(self, message: int) -> float:
        """When its send was called."""
        times = [row["time_ns"] for _, row in self.times() if row["message"] == message and row["kind"] == Kind.SEND]
        return min((time for time in times if time is not None), default=float("-inf"))

    def side_faults(self) -> set[tuple[int, int]]:
        """All (receiver, late message): one before it was called when the late one was known to be sent."""
        first = self.oracle.first
        return {
            (r, late)
            for r, late in first
            if r in self.oracle.destinations(late)
            for q, other in first
            if q == r and first[q, other] < first[r, late] and other in self.oracle.sends
            if self.called(other) > self.known(late)
        }

    # ---- vector clocks ----

    def message_clocks(self) -> dict[int, list[int]]:
        """What each message carries: the last clock of its sender's log when it was sent."""
        found = {}
        for p, log in enumerate(self.rows):
            events = [i for i, row in enumerate(log) if _is_event(row)]
            for m, (sender, place) in self.oracle.sends.items():
                for row in log[: events[place] + 1] if sender == p else []:
                    if row["clock"] is not None:
                        found[m] = self._padded(row["clock"])
        return found

    def wrong_clocks(self) -> list[Row]:
        """Rows whose clock does not follow from the one before, and from the messages that came since.

        Where a message carries none, or the log is incomplete and its own component rises by more than one, components
        may be greater than that.
        """
        carried, wrong = self.message_clocks(), []
        for p, log in enumerate(self.rows):
            before, heard = self._padded([]), []
            for row in log:
                heard += [row["message"]] if row["kind"] == Kind.DELIVER and _is_event(row) else []
                if row["clock"] is None:
                    continue
                clock = self._padded(row["clock"])
                right = [max(parts) for parts in zip(before, *(carried[m] for m in heard if m in carried), strict=True)]
                right[p] = before[p] + 1
                is_vague = any(m not in carried for m in heard)
                if clock[p] > right[p] and self.is_incomplete(p):
                    is_vague, right[p] = True, clock[p]
                is_less = any(found < least for found, least in zip(clock, right, strict=True))
                if is_less or clock[p] != right[p] or (clock != right and not is_vague):
                    wrong.append(row)
                before, heard = clock, []
        return wrong

    # ---- views of groups ----

    def life(self, process: int, place: int) -> int:
        """In which of its lives a process was at a row."""
        return sum(row["kind"] in (Kind.JOIN, Kind.LEAVE) for row in self.rows[process][:place])

    def sights(self) -> list[tuple[int, int, Row]]:
        """All (process, row's place, row) at which a process saw a view."""
        return [
            (p, i, row)
            for p, log in enumerate(self.rows)
            for i, row in enumerate(log)
            if row["members"] is not None and row["group"] is not None and row["view"] is not None
            if row["kind"] == Kind.DELIVER or (row["kind"] == Kind.LOCAL and row["message"] is None)
        ]

    def members(self, group: str, view: int) -> set[int]:
        """The members of a view, as the lowest process that knows all of them saw it."""
        for _, _, row in self.sights():
            if (row["group"], row["view"]) == (group, view) and min(row["members"], default=0) >= 0:
                return set(row["members"])
        return set()

    def views_faults(self) -> set[tuple[Any, ...]]:
        """All that does not fit together: sights of views, and deliveries of messages to groups."""
        return self.unequal() | self.skipped() | self.outside() | self.missed()

    def unequal(self) -> set[tuple[Any, ...]]:
        """All sights of a view with other members."""
        return {
            ("unequal", p, i)
            for p, i, row in self.sights()
            if min(row["members"], default=0) >= 0 and set(row["members"]) != self.members(row["group"], row["view"])
        }

    def steps(self) -> Iterator[tuple[int, int, Row, Row]]:
        """All (process, place, row, row before): a sight, and the one of the same group before it in the same life."""
        sights = self.sights()
        for p, i, row in sights:
            before = [(j, r) for q, j, r in sights if q == p and j < i and r["group"] == row["group"]]
            if before and self.life(p, before[-1][0]) == self.life(p, i):
                yield p, i, row, before[-1][1]

    def skipped(self) -> set[tuple[Any, ...]]:
        """All sights of a view that is not the next one, by a member; or is over, by any process."""
        return {
            ("skipped", p, i)
            for p, i, row, before in self.steps()
            if row["view"] != before["view"] + 1
            if row["view"] <= before["view"] or (p in before["members"] and not self.is_incomplete(p))
        }

    def letters(self) -> dict[int, tuple[str, int]]:
        """The group and the view of every message that was sent to a group."""
        found = {}
        for p, log in enumerate(self.rows):
            events = [row for row in log if _is_event(row)]
            for m, (sender, place) in self.oracle.sends.items():
                if sender == p and events[place]["group"] is not None and events[place]["view"] is not None:
                    found[m] = events[place]["group"], events[place]["view"]
        return found

    def outside(self) -> set[tuple[Any, ...]]:
        """All (process, message): delivered where the process is not in the view that it was sent in, and should be."""
        found = set()
        sights, letters = self.sights(), self.letters()
        for p, log in enumerate(self.rows):
            events = [i for i, row in enumerate(log) if _is_event(row)]
            for m, (group, view) in letters.items():
                if (p, m) not in self.oracle.first:
                    continue
                at = events[self.oracle.first[p, m]]
                if any((q, i) == (p, at) for q, i, _ in sights):
                    continue  # it is what a view came with
                mine = [
                    (i, row)
                    for q, i, row in sights
                    if q == p and row["group"] == group and self.life(p, i) == self.life(p, at)
                ]
                before, after = [r for i, r in mine if i < at], [r for i, r in mine if i > at]
                if before and before[-1]["view"] > view:
                    found.add(("outside", p, m))
                elif before and before[-1]["view"] < view:
                    is_member = p in before[-1]["members"] or p in self.members(group, view)
                    if is_member and not self.is_incomplete(p):
                        found.add(("outside", p, m))
                elif not before and after and after[0]["view"] <= view:
                    found.add(("outside", p, m))
        return found

    def missed(self) -> set[tuple[Any, ...]]:
        """All (process, view's end, message): it left the view for the next one without what others delivered in it."""
        delivered = set(self.oracle.first)
        return {
            ("missed", p, i, m)
            for p, i, row, before in self.steps()
            if row["view"] == before["view"] + 1 and p in before["members"] and not self.is_incomplete(p)
            for m, sent in self.letters().items()
            if sent == (before["group"], before["view"])
            if (p, m) not in delivered and any(other == m for _, other in delivered)
        }

    def _padded(self, clock: list[int]) -> list[int]:
        return clock + [0] * (len(self.rows) - len(clock))


def right_clocks(rows: list[list[Row]]) -> list[list[list[int]]]:
    """What clocks are meant to hold: how many rows of each process that have one are in a row's past, or are it."""
    logs = [
        [_event(row) if _is_event(row) else Event(NOBODYS + (p << 20) + i, ()) for i, row in enumerate(log)]
        for p, log in enumerate(rows)
    ]
    after = Oracle(logs).after
    ticking = [[i for i, row in enumerate(log) if row["clock"] is not None] for log in rows]
    return [
        [
            [sum((q, j) == (p, i) or (p, i) in after[q, j] for j in its_ticks) for q, its_ticks in enumerate(ticking)]
            for i in range(len(log))
        ]
        for p, log in enumerate(rows)
    ]


def _settled(log: list[Row]) -> list[Row]:
    """Failed sends are none; a message that comes marked as a repetition, and never came before, came."""
    aborted = {row["message"] for row in log if row["kind"] == Kind.ABORT}
    got: set[int] = set()
    settled = []
    for row in log:
        kind = row["kind"]
        if kind == Kind.SEND and row["message"] in aborted:
            kind = Kind.LOCAL
        elif kind == Kind.REDELIVER:
            kind = Kind.LOCAL if row["message"] in got else Kind.DELIVER
        if kind == Kind.DELIVER:
            got.add(row["message"])
        settled.append({**row, "kind": kind})
    return settled


def _resent(rows: list[list[Row]]) -> set[int]:
    """The messages that were sent more than once: they may be one, tried again, or several."""
    sent = Counter(row["message"] for log in rows for row in log if _is_event(row) and row["kind"] == Kind.SEND)
    return {message for message, times in sent.items() if times > 1}


def _without(rows: list[list[Row]], messages: set[int]) -> list[list[Row]]:
    """What is left of logs: nothing is missing where these were."""
    gone = {"kind": Kind.LOCAL, "message": None}
    return [[row | gone if row["message"] in messages else row for row in log] for log in rows]


def _without_passed(rows: list[list[Row]]) -> list[list[Row]]:
    """What a process passed was not for it, unless it delivered it as well."""
    passed, delivered = (
        {(p, row["message"]) for p, log in enumerate(rows) for row in log if row["kind"] == kind}
        for kind in (Kind.PASS, Kind.DELIVER)
    )
    passed -= delivered
    return [
        [
            {**row, "destinations": [q for q in row["destinations"] if (q, row["message"]) not in passed]}
            if row["kind"] == Kind.SEND and row["destinations"]
            else row
            for row in log
        ]
        for log in rows
    ]


def _is_event(row: Row) -> bool:
    return row["kind"] in (Kind.SEND, Kind.DELIVER) and row["message"] is not None


def _event(row: Row) -> Event:
    return Event(row["message"], tuple(row["destinations"] or ()) if row["kind"] == Kind.SEND else None)


def _events(log: list[Row]) -> Log:
    return [_event(row) for row in log if _is_event(row)]


def rows_of(run: Run) -> list[list[Row]]:
    """The logs of a run, row by row; what is missing is None."""
    return [[{name: row.get(name) for name in SCHEMA.names} for row in log.to_pylist()] for log in run.logs]


def judge(run: Run) -> AuditOracle:
    """The audit of a run."""
    return AuditOracle(rows_of(run))


def transcribe(run: Run) -> str:
    """A run in words, for the message of a failed test."""
    lines = []
    for name, log in zip(run.processes, rows_of(run), strict=True):
        lines.append(f"{name}:")
        for row in log:
            shown = {k: v for k, v in row.items() if v is not None and k not in ("run", "process", "kind", "message")}
            message = row["message"]
            what = "" if message is None else f" {sender_of(message)}.{number_of(message)}"
            lines.append(f"  {Kind(row['kind']).name}{what} " + " ".join(f"{k}={v}" for k, v in shown.items()))
    return "\n".join(lines)


# ---- runs at random ----


def random_run(rng: random.Random, name: str = "run", has_groups: bool = True) -> Run:
    """A run of a few processes and some tens of events, in order or not, honest or not, with what people record.

    `has_groups`: some are of processes that enter and leave groups, which only recordings of a bus can contain.
    """
    style = rng.choice(["ordered", "ordered", "played", "thrown"])
    logs = _ordered_logs(rng) if style == "ordered" else random_logs(rng, is_honest=style == "played")
    rows, timeline = _schedule(rng, _rename(logs))
    if rng.random() < 0.7:
        _stamp(rng, rows, timeline, is_true=style == "ordered" and rng.random() < 0.7)
    if rng.random() < 0.3:
        _forget(rng, rows, ("time_ns", "commit_ns", "end_ns"), rng.choice([1.0, 0.2]))
    if rng.random() < 0.4:
        _scatter(rng, rows)
    for log in rows:
        for position, row in enumerate(log):
            row["position"] = position
    if rng.random() < 0.3:
        _clock(rng, rows)
    elif rng.random() < 0.3:
        _leave_gaps(rng, rows)
    its = random.Random(repr(rng.getstate()[1][:9]))  # so that all else stays as it was before there were groups
    if has_groups and its.random() < 0.4:
        _group(its, rows)
    return to_run(rows, name)


def to_run(rows: list[list[Row]], name: str = "run", order: str = "") -> Run:
    """A run of these rows; what they do not hold is null."""
    processes = tuple(f"p{p}" for p in range(len(rows)))
    empty: Row = dict.fromkeys(SCHEMA.names)
    logs = tuple(
        pa.Table.from_pylist([{**empty, **row, "run": name, "process": p} for row in log], schema=SCHEMA)
        for p, log in enumerate(rows)
    )
    findings = [Finding("gap", "positions are missing", process=f"p{p}") for p, log in enumerate(rows) if _has_gap(log)]
    return Run(Source(name, "busq", (), 0), processes, logs, order, findings)


def _has_gap(log: list[Row]) -> bool:
    """Positions are missing: a reader of traces from files reports it."""
    return any(after["position"] != before["position"] + 1 for before, after in pairwise(log))


def _ordered_logs(rng: random.Random) -> list[Log]:
    """All receivers deliver in the order of sending; then perhaps a few things are moved, dropped or doubled."""
    n = rng.randint(1, 5)
    logs: list[Log] = [[] for _ in range(n)]
    waiting: list[list[int]] = [[] for _ in range(n)]
    for message in range(rng.randint(1, 9)):
        to = tuple(rng.sample(range(n), rng.randint(1, n)))
        logs[rng.randrange(n)].append(Event(message, to))
        for q in to:
            waiting[q].append(message)
        for _ in range(rng.randint(0, 3)):
            q = rng.randrange(n)
            if waiting[q]:
                logs[q].append(Event(waiting[q].pop(0)))
    for q in range(n):
        logs[q] += [Event(message) for message in waiting[q]][: rng.choice([99, 99, 99, 1])]
    for _ in range(rng.choice([0, 0, 1, 2, 4])):
        _disturb(rng, rng.choice(logs))
    return logs


def _disturb(rng: random.Random, log: Log) -> None:
    if len(log) < 2:
        return
    i = rng.randrange(len(log) - 1)
    what = rng.choice(["swap", "swap", "drop", "double", "stray"])
    if what == "swap":
        log[i], log[i + 1] = log[i + 1], log[i]
    elif what == "drop" and log[i].to is None:
        log.pop(i)
    elif what == "double" and log[i].to is None:
        log.insert(rng.randint(i, len(log)), log[i])
    elif what == "stray":
        log.insert(rng.randint(0, len(log)), Event(rng.randrange(12)))


def _rename(logs: list[Log]) -> list[list[Row]]:
    """Messages get the names that the schema asks for; what was never sent gets the name of some sender, too."""
    names: dict[int, int] = {}
    for p, log in enumerate(logs):
        number = 0
        for event in log:
            if event.to is not None:
                number += 1
                names.setdefault(event.message, message_of(p, number))
    for log in logs:
        for event in log:
            names.setdefault(event.message, message_of(event.message % len(logs), 100 + event.message))
    return [
        [
            {
                "kind": int(Kind.DELIVER if event.to is None else Kind.SEND),
                "message": names[event.message],
                "destinations": None if event.to is None else list(event.to),
            }
            for event in log
        ]
        for log in logs
    ]


def _schedule(rng: random.Random, rows: list[list[Row]]) -> tuple[list[list[Row]], list[Row]]:
    """Give times on one clock, such that deliveries come after their sends where the logs allow it."""
    done, now = [0] * len(rows), 100
    free = [0] * len(rows)  # when the process has left its last call
    sent: set[int] = set()
    timeline: list[Row] = []
    while left := [p for p, log in enumerate(rows) if done[p] < len(log)]:
        ready = [p for p in left if rows[p][done[p]]["kind"] == Kind.SEND or rows[p][done[p]]["message"] in sent]
        p = rng.choice(ready or left)
        row = rows[p][done[p]]
        now += rng.choice([0, 1, 2, 5])
        now = max(now, free[p])
        row["time_ns"] = now
        if row["kind"] == Kind.SEND:
            sent.add(row["message"])
            row["commit_ns"] = now + rng.choice([0, 1, 3])
            row["end_ns"] = row["commit_ns"] + rng.choice([0, 1, 3, 20])
            now, free[p] = row["commit_ns"], row["end_ns"]
        done[p] += 1
        timeline.append(row)
    return rows, timeline


def _stamp(rng: random.Random, rows: list[list[Row]], timeline: list[Row], *, is_true: bool) -> None:
    """Stamps: those of a total order, or made up; also lies about single events."""
    step = rng.choice([1, 1, 2])
    stamps: dict[int, int] = {}
    for row in timeline:
        if row["kind"] == Kind.SEND:
            stamps.setdefault(row["message"], len(stamps) * step + 1 if is_true else rng.randint(1, 12))
    for log in rows:
        for row in log:
            row["stamp"] = stamps.get(row["message"])
            if not is_true and rng.random() < 0.1:
                row["stamp"] = rng.choice([None, 0, 3, 99])


def _forget(rng: random.Random, rows: list[list[Row]], columns: tuple[str, ...], share: float) -> None:
    for log in rows:
        for row in log:
            for column in columns:
                if rng.random() < share:
                    row[column] = None


def _scatter(rng: random.Random, rows: list[list[Row]]) -> None:
    """What else stands in logs: events without messages, waits, repetitions that are marked, failed sends."""
    for log in rows:
        for _ in range(rng.randint(0, 3)):
            place = rng.randint(0, len(log))
            message = rng.choice([row["message"] for row in log]) if log else None
            kind = rng.choice([Kind.LOCAL, Kind.LOCAL, Kind.BLOCK, Kind.JOIN, Kind.REDELIVER, Kind.ABORT])
            if kind in (Kind.LOCAL, Kind.BLOCK, Kind.JOIN):
                message = None
            elif message is None:
                continue
            log.insert(place, {"kind": int(kind), "message": message})


def _clock(rng: random.Random, rows: list[list[Row]]) -> None:
    """Vector clocks, of all events or of some; right ones, or with a mistake or two."""
    rows[:] = [[{"destinations": None, "clock": None, **row} for row in log] for log in rows]
    share = rng.choice([1.0, 1.0, 0.6])
    kinds = rng.choice(
        [(Kind.SEND, Kind.DELIVER, Kind.REDELIVER, Kind.LOCAL), (Kind.SEND, Kind.DELIVER), (Kind.LOCAL,)]
    )
    ticking = [row for log in rows for row in log if row["kind"] in kinds and rng.random() < share]
    for row in ticking:
        row["clock"] = [0]
    clocks = right_clocks([_settled(log) for log in rows])
    for log, its_clocks in zip(rows, clocks, strict=True):
        for row, clock in zip(log, its_clocks, strict=True):
            if row["clock"] is not None:
                row["clock"] = list(clock)
    for _ in range(rng.choice([0, 0, 1, 2])):
        if ticking:
            clock = rng.choice(ticking)["clock"]
            place = rng.randrange(len(clock))
            clock[place] = max(0, clock[place] + rng.choice([-1, 1]))


def _group(rng: random.Random, rows: list[list[Row]]) -> None:
    """Views of a group or two, and messages to them, quiet or at random; and messages that some member passes."""
    for group in rng.choice([["g"], ["g"], ["h", "g"]]):
        if rng.random() < 0.5:
            _group_quietly(rng, rows, group)
        else:
            _group_at_random(rng, rows, group)
    sent = [(row["message"], q) for log in rows for row in log for q in row.get("destinations") or ()]
    for message, q in rng.sample(sent, min(len(sent), rng.choice([0, 0, 1, 3]))):
        _insert(rows[q], rng.randint(0, len(rows[q])), {"kind": int(Kind.PASS), "message": message})


def _group_quietly(rng: random.Random, rows: list[list[Row]], group: str) -> None:
    """All see a view at the beginning, and another one at the end; then perhaps one thing is wrong."""
    members = list(range(len(rows)))
    for log in rows:
        for row in log:
            if row["kind"] == Kind.SEND and row.get("group") is None and rng.random() < 0.7:
                row |= {"group": group, "view": 1}
    first = [len(log) for log in rows]
    for log, at in zip(rows, first, strict=True):
        _insert(log, at, _sight(group, 2, members[1:]))
        _insert(log, 0, _sight(group, 1, members))
    if rng.random() < 0.5:
        row = rng.choice([row for log in rows for row in log if row.get("group") == group])
        row["view"] += rng.choice([-1, 1, 1])
        if row.get("members") is not None and rng.random() < 0.5:
            row["members"] = rng.sample(members, len(members) // 2)


def _group_at_random(rng: random.Random, rows: list[list[Row]], group: str) -> None:
    views = {n: rng.sample(range(len(rows)), rng.randint(0, len(rows))) for n in range(1, 5)}
    for log in rows:
        for row in log:
            if row["kind"] == Kind.SEND and row.get("group") is None and rng.random() < 0.5:
                row |= {"group": group, "view": rng.choice([1, 1, 2, 2, 3])}
        numbers = [n for n in views if rng.random() < 0.8]
        for number, at in zip(numbers, sorted(rng.randint(0, len(log)) for _ in numbers), strict=True):
            members = [*views[number], *rng.choice([[], [], [], [], [], [-1]])]
            if rng.random() < 0.1:
                members = rng.sample(range(len(rows)), rng.randint(0, len(rows)))
            _insert(log, min(len(log), at + number), _sight(group, number, members))
        for row in log:
            if row["kind"] == Kind.DELIVER and row.get("group") is None and rng.random() < 0.05:
                row |= {"group": group, "view": rng.randint(1, 4), "members": list(views[rng.randint(1, 4)])}
        if rng.random() < 0.2:
            _insert(log, rng.randint(0, len(log)), {"kind": int(rng.choice([Kind.JOIN, Kind.LEAVE])), "message": None})


def _sight(group: str, number: int, members: list[int]) -> Row:
    return {"kind": int(Kind.LOCAL), "message": None, "group": group, "view": number, "members": list(members)}


def _insert(log: list[Row], at: int, row: Row) -> None:
    """Insert a row; those behind it stand one further."""
    position = log[at]["position"] if at < len(log) else log[-1]["position"] + 1 if log else 0
    for later in log[at:]:
        later["position"] += 1
    log.insert(at, {**row, "position": position})


def let_die(rng: random.Random, rows: list[list[Row]]) -> None:
    """Some processes die, and some of these come back."""
    for log in rows:
        ends = rng.choice([[], [], [Kind.DIE], [Kind.DIE], [Kind.DIE, Kind.JOIN], [Kind.DIE, Kind.JOIN, Kind.DIE]])
        places = sorted(rng.choice([len(log), rng.randint(0, len(log))]) for _ in ends)
        for number, (kind, at) in enumerate(zip(ends, places, strict=True)):
            _insert(log, at + number, dict.fromkeys(SCHEMA.names) | {"kind": int(kind)})


def _leave_gaps(rng: random.Random, rows: list[list[Row]]) -> None:
    """Events are missing: a finding reports it, or only the positions show it."""
    log = rng.choice(rows)
    if not log:
        return
    place = rng.randrange(len(log))
    if rng.random() < 0.5:
        log.insert(place, {"kind": int(Kind.GAP), "message": None, "stamp": rng.randint(1, 3)})
        for position, row in enumerate(log):
            row["position"] = position
    else:
        for row in log[place + 1 :]:
            row["position"] += 3
