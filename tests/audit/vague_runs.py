# SPDX-License-Identifier: Apache-2.0
"""Rows of unknown kinds in runs at random, and all that they may mean: a verdict has to hold whichever it is.

A row that names a message may be its delivery, where it was sent to the process and has not come; its send, by another
process than is known to have sent it, to where it was not sent; the send of another message of this name, which came if
deliveries have no senders, and is lost if they have; or nothing.  At its own sender it may give up what did not come.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from audit_oracle import AuditOracle, Row, _insert, _settled
from test_audit_agreement import verdicts

from busq.audit.result import UNKNOWN, VALID, RunAudit
from busq.spec import PROPERTIES
from busq.trace import SCHEMA, Kind, message_of
from busq.trace.guesses import RECEIVERS_DERIVED

Rows = list[list[Row]]

VAGUE = -1
ROWS_MAX = 3
NEW = 5000  # numbers of messages that only vague rows name
_GIVEN_UP = "given up"
_SAME_NAME = "send of what came"  # under the name of another one's message
_GOT = (Kind.DELIVER, Kind.REDELIVER)


def make_vague(rng: random.Random, rows: Rows, *, tells_sender: bool) -> None:
    """Put rows of unknown kinds among these, or give some of these unknown kinds."""
    for _ in range(rng.randint(1, ROWS_MAX)):
        if rng.random() < 0.6:
            known = [row for log in rows for row in log if row["kind"] in (Kind.DELIVER, Kind.SEND)]
            if known:
                row = rng.choice(known)
                row["kind"] = VAGUE
        else:
            _add(rng, rows)
    owner = _senders(rows)
    for process, log in enumerate(rows):
        for row in log:
            if row["kind"] == VAGUE and tells_sender:
                row["sender"] = rng.choice([None, process, *owner.get(row["message"], ())])


def _add(rng: random.Random, rows: Rows) -> None:
    process = rng.randrange(len(rows))
    log = rows[process]
    messages = [row["message"] for each in rows for row in each if row["message"] is not None]
    at = rng.randint(0, len(log))
    to = rng.sample(range(len(rows)), rng.randint(1, len(rows))) if rng.random() < 0.4 else None
    when = log[at - 1]["time_ns"] if at else log[0]["time_ns"] if log else None  # a tie, where times are all there is
    message = rng.choice([*messages, *messages, message_of(process, NEW + rng.randrange(3))])
    row = {"kind": VAGUE, "message": message, "destinations": to, "time_ns": when}
    _insert(log, at, dict.fromkeys(SCHEMA.names) | row)


def _senders(rows: Rows) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for process, log in enumerate(rows):
        for row in _settled(log):
            if row["kind"] == Kind.SEND:
                found.setdefault(row["message"], []).append(process)
    return found


def worlds(rows: Rows, *, has_destinations: bool, tells_sender: bool) -> Iterator[Rows]:
    """Yield the rows as they may have been."""
    its = [(p, i) for p, log in enumerate(rows) for i, row in enumerate(log) if row["kind"] == VAGUE]
    facts = {"has_destinations": has_destinations, "tells_sender": tells_sender}
    meanings = [_meanings(rows, p, rows[p][i], **facts) for p, i in its]
    for chosen in product(*meanings):
        meant = [(meaning, p, rows[p][i]["message"]) for meaning, (p, i) in zip(chosen, its, strict=True) if meaning]
        sent = [message for meaning, _, message in meant if meaning in ("send", _SAME_NAME)]
        if len(set(meant)) < len(meant) or len(set(sent)) < len(sent):
            continue
        world = [[dict(row) for row in log] for log in rows]
        for meaning, (p, i) in zip(chosen, its, strict=True):
            _mean(world, p, i, meaning)
        if not has_destinations:
            _send_to_those_who_delivered(world)
        if all(p in _receivers(world, message) for meaning, p, message in meant if meaning == "deliver"):
            yield world


def _meanings(rows: Rows, process: int, row: Row, *, has_destinations: bool, tells_sender: bool) -> list[str]:
    message, told = row["message"], row.get("sender")
    owner, got, to = _senders(rows).get(message, []), _deliverers(rows, message), _receivers(rows, message)
    meanings = [""]
    is_own = owner == [process] and not (has_destinations or _some_deliver_their_own(rows))
    if process not in got and (told is None or told in owner or not owner) and not is_own:
        meanings.append("deliver")  # if it was sent there
    if told not in (None, process):
        return meanings
    mine = set(row["destinations"] or got - to)
    if not (has_destinations or owner):  # to those whose rows may be deliveries
        mine |= {p for p, log in enumerate(rows) for each in log if each["kind"] == VAGUE} - {process}
    if process in owner:
        return meanings + [_GIVEN_UP] * bool(has_destinations and to - got)
    if owner and not tells_sender and _whose(rows, process, row, has_destinations=has_destinations):
        meanings.append(_SAME_NAME)
    if has_destinations or not owner:
        is_other = bool(tells_sender and owner and row["destinations"])
        return meanings + ["send"] * bool(is_other or mine - set(owner) - to - got or mine & (got - to))
    return meanings


def tell_senders(rows: Rows) -> bool:
    """Whether any delivery has a sender, where the log has a column for it."""
    return any(row["kind"] in _GOT and row["message"] in _senders(rows) for log in rows for row in log)


def _whose(rows: Rows, process: int, row: Row, *, has_destinations: bool) -> set[int]:
    """Return the processes that delivered what this row may have sent."""
    got = _deliverers(rows, row["message"])
    if has_destinations:
        return got & {*(row["destinations"] or ())}
    return got if _some_deliver_their_own(rows) else got - {process}


def _some_deliver_their_own(rows: Rows) -> bool:
    senders = _senders(rows)
    return any(p in senders.get(row["message"], ()) for p, log in enumerate(rows) for row in log if row["kind"] in _GOT)


def sent_to_all(rows: Rows, *, are_indices: bool) -> Rows:
    """Return rows whose sends, and what may be one, go to all that the log names.

    To the senders too, if one delivered what it sent.
    """
    named = {p for p, log in enumerate(rows) if log}
    named |= {row["sender"] for log in rows for row in log if row.get("sender") is not None}
    named = {*range(max(named, default=-1) + 1)} if are_indices else named
    own = _some_deliver_their_own(rows)
    return [
        [
            row | {"destinations": sorted(named if own else named - {p})} if row["kind"] in (Kind.SEND, VAGUE) else row
            for row in log
        ]
        for p, log in enumerate(rows)
    ]


def _receivers(rows: Rows, message: int) -> set[int]:
    its = [row for log in rows for row in _settled(log) if row["kind"] == Kind.SEND and row["message"] == message]
    return {q for row in its for q in row["destinations"] or ()}


def _deliverers(rows: Rows, message: int) -> set[int]:
    return {p for p, log in enumerate(rows) for row in log if row["kind"] in _GOT and row["message"] == message}


def _send_to_those_who_delivered(rows: Rows) -> None:
    for log in rows:
        for row in log:
            if row["kind"] == Kind.SEND:
                row["destinations"] = sorted(_deliverers(rows, row["message"]))


def _mean(world: Rows, process: int, place: int, meaning: str) -> None:
    row = world[process][place]
    message = row["message"]
    if not meaning:
        row |= {"kind": int(Kind.LOCAL), "message": None, "destinations": None}
    elif meaning == "deliver":
        row |= {"kind": int(Kind.DELIVER), "destinations": None}
    elif meaning == _GIVEN_UP:
        _mean(world, process, place, "")
        for each in (each for log in world for each in log):
            if each["kind"] == Kind.SEND and each["message"] == message:
                each["destinations"] = sorted({*each["destinations"]} & _deliverers(world, message))
    else:
        known = _receivers(world, message) if meaning == "send" else set()
        to = set(row["destinations"] or _deliverers(world, message) - known)
        row |= {"kind": int(Kind.SEND), "destinations": sorted(to)}
        if message in _senders(world) and len(_senders(world)[message]) > 1:  # another message of the same name
            row["message"] = message_of(process, 2 * NEW + place)
            for each in (each for q in to - known for each in world[q]):
                if each["kind"] in _GOT and each["message"] == message:
                    each["message"] = row["message"]


def assert_holds_whatever_they_mean(
    found: RunAudit, rows: Rows, hint: str, *, has_destinations: bool, tells_sender: bool, may_doubt: bool
) -> None:
    """A verdict holds in all worlds, or is unknown; unknown where no row means anything else only as without them.

    Worlds in which more is delivered before it was sent are left out, and so is what is certain where anything was:
    nothing is promised of these.
    """
    facts = {"has_destinations": has_destinations, "tells_sender": tells_sender}
    judged = [AuditOracle(world) for world in worlds(rows, **facts)]
    least = min(len(oracle.oracle.impossible) for oracle in judged)
    judged = [oracle for oracle in judged if len(oracle.oracle.impossible) == least]
    for name, check in found.checks.items():
        said = {(oracle.counts.get(name, 0), verdicts(oracle).get(name, VALID)) for oracle in judged}
        is_strict = name in PROPERTIES and not (name == "phantom" and max(said)[0])  # whose log ended is open
        if check.verdict == UNKNOWN:
            is_told = bool({one.kind for one in found.findings} & {"vague-rows", RECEIVERS_DERIVED})
            assert is_told or may_doubt or len(said) > 1 or min(said)[1] == UNKNOWN or not is_strict, f"{name}: {hint}"
            continue
        for count, verdict in () if least and check.at_least else said:
            its = f"{name} {check.verdict} {check.count}, but may be {verdict} {count}: {check.text}: {hint}"
            assert verdict == check.verdict or not is_strict, its
            assert (count >= check.count > 0) if check.at_least else (count == check.count), its
