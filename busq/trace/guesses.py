# SPDX-License-Identifier: Apache-2.0
"""Guesses where logs leave something open, and what cannot be known therefore: findings for all formats.

An audit holds its verdicts against these (`busq.audit.unknown`): they are "unknown" where the logs leave them open.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from busq._util.humanize import amount, listed
from busq.trace.builder import Log
from busq.trace.finding import Finding
from busq.trace.run import Source
from busq.trace.schema import Kind
from busq.trace.tables import kinds as kind_of

__all__ = [
    "ALIKE",
    "DERIVED",
    "NO_DELIVERIES",
    "NO_DESTINATIONS",
    "NO_SENDS",
    "ODD_NAME",
    "OF_MESSAGES",
    "ORDER_UNKNOWN",
    "RECEIVERS_DERIVED",
    "alike",
    "derived",
    "doubled",
    "one_sided",
    "plain_names",
    "remark",
    "resent",
    "scattered",
    "tied",
    "unknown_kinds",
    "unordered",
    "vague_rows",
]

DERIVED = "derived-messages"  # from clocks
RECEIVERS_DERIVED = "derived-destinations"  # from deliveries
NO_DELIVERIES = "sends-alone"
NO_DESTINATIONS = "no send tells its destinations"  # how a text of a finding or a verdict begins
NO_SENDS = "deliveries-alone"
ALIKE = "alike"  # names, but for how they are written
ODD_NAME = r"[^\x00-\x7F]|\.0$|^-?0[0-9]+$"  # of what may be written in another way
# Checks whose faults names may hide that are not what they were taken for; phantoms may come from them as well.
OF_MESSAGES = ("lost", "duplicated", "fifo", "causal", "consistent", "total", "synchronous", "side")
ORDER_UNKNOWN = frozenset({"ties", "order-guessed", "doubled"})


def derived(logs: Sequence[Log], called: Mapping[str, int]) -> Iterator[Finding]:
    """Report the events that messages taken from clocks leave out.

    Parameters: `logs`, as they became; `called`, how many events without a message the log calls sends and deliveries,
    by the words for them.
    """
    if not called:
        return
    kinds = [log.kinds() for log in logs]
    counts = [sum(its.count(kind) for its in kinds) for kind in (int(Kind.SEND), int(Kind.DELIVER))]
    asked = [
        sum(count for word, count in called.items() if kind_of(word) == kind) for kind in (Kind.SEND, Kind.DELIVER)
    ]
    words = listed([f"{count:,} called {word!r}" for word, count in called.items()])
    became = f"{amount(counts[0], 'message')} and {amount(counts[1], 'delivery', 'deliveries')}"
    text = f"no event names its message: of {words}, the clocks tell of {became}; the others stay local events"
    left_out = sum(max(0, before - after) for before, after in zip(asked, counts, strict=True))
    if asked != counts:
        yield Finding(DERIVED, text, max(1, left_out), is_error=False)


def one_sided(source: Source, sends: int, deliveries: int) -> Iterator[Finding]:
    """Report a foreign log that has sends and no deliveries, or deliveries and no sends."""
    path = source.paths[0] if source.paths else source.name
    if sends and not deliveries:
        offer = f"; `busq replay {path}` sends such messages over a bus" if source.has_order else ""
        text = f"{path}: {amount(sends, 'send')} and no delivery: nothing can be judged{offer}"
        yield Finding(NO_DELIVERIES, text, sends, path, is_error=False)
    elif deliveries and not sends:
        text = f"{path}: {amount(deliveries, 'delivery', 'deliveries')} and no send: who sent what is not known"
        yield Finding(NO_SENDS, text, deliveries, path, is_error=False)


def tied(path: str, line: int, count: int, *, has_repetitions: bool) -> Finding:
    """Report events that have equal times, where nothing else orders them."""
    what = f"{amount(count, 'event')} of a process at the same time as another one"
    text = f"{path}:{line}: {what}: their order is not known"
    return _doubtful("ties", text, count, path, line, has_repetitions)


def unordered(path: str, processes: Sequence[str], *, has_repetitions: bool) -> Finding:
    """Report processes whose events stand in several files, where nothing orders these."""
    text = (
        f"{path}: neither positions nor times say in which order the events of {listed(list(processes[:3]))} were:"
        " they are taken as they stand in the files"
    )
    return _doubtful("order-guessed", text, len(processes), path, 0, has_repetitions)


def scattered(path: str, processes: Sequence[str], *, has_repetitions: bool) -> Finding:
    """Report processes whose times fall so often from line to line that the order of lines can't be that of events."""
    text = (
        f"{path}: times of {listed(list(processes[:3]))} fall from line to line again and again: the lines stand in no"
        " order, and were taken as they stand; sort them by time"
    )
    return _doubtful("order-guessed", text, len(processes), path, 0, has_repetitions)


def doubled(path: str, process: str, count: int, *, has_repetitions: bool) -> Finding:
    """Report that several events of a process claim one position: a defect, and their order is not known."""
    where = f"{path}: " if path else ""
    text = f"{where}{process} has several events at one position, {count:,} more than there should be"
    finding = _doubtful("doubled", f"{text}: their order is not known", count, path, 0, has_repetitions)
    return replace(finding, process=process, is_error=True)


def resent(text: str, count: int, process: str) -> Finding:
    """Report messages that were sent more than once: which of the sends a delivery belongs to is not known.

    They may be one message that was tried again, or several of one name, to other receivers even; and one that never
    came may be tried once more.  So whatever was found may come from that alone, and a loss or a late delivery can be
    hidden.
    """
    of_sends = ("fifo", "causal", "synchronous", "side")
    invented = ("lost", "duplicated", "phantom", "consistent", "total", *of_sends)
    return Finding("resent", text, count, process=process, may_hide=("lost", *of_sends), may_invent=invented)


def unknown_kinds(source: Source, columns: Any, file: Any, line: Any, *, has_clocks: bool = False) -> Iterator[Finding]:
    """Report events of unknown kinds that may have been sends or deliveries.

    Parameters: `columns` by name: kind, message, destinations, and `unknown`, the word in the place of the kind where
    it means none; the files and lines of rows.
    """
    is_unknown, to = pc.is_valid(columns["unknown"]), columns["destinations"]
    has_to = False if pa.types.is_null(to.type) else pc.greater(pc.fill_null(pc.list_value_length(to), 0), 0)
    chosen = pc.and_(is_unknown, pc.or_(pc.is_valid(columns["message"]), has_to))
    is_local = pc.equal(columns["kind"], int(Kind.LOCAL))
    if not pc.any(chosen).as_py() and not has_clocks and pc.all(is_local).as_py():
        chosen = is_unknown
    if pc.any(chosen).as_py():
        first = pc.index(chosen, True).as_py()
        path, at = source.paths[file[first]], int(line[first])
        found = pc.unique(columns["unknown"].filter(chosen)).to_pylist()
        words = ", ".join(repr(word[:40]) for word in found[:3])
        text = (
            f"{path}:{at}: no kind of event is called {words}: expected send, deliver or the like;"
            " they count as local events"
        )
        yield Finding("unknown-event", text, pc.sum(chosen).as_py(), path, at, is_error=False)


def alike(path: str, names: Any) -> Iterator[Finding]:
    """Report names that differ in nothing but how they are written: they may be one name.

    Parameters: `names`, an Arrow array, each once.  Cost: a look at each name, and more where it is not ASCII or
    begins with a zero.

    Where names are taken as several that were one, the faults that come from it are unknown.  Zeros in front of text
    are mostly meant: 007 and 7 are two names, and that leaves open no more than the faults that were found.

    >>> [finding.text for finding in alike("a.csv", pa.array(["cafe\\u0301", "caf\\u00e9"]))]
    ["a.csv: 1 name, 'café', is written in several ways (NFC and NFD, or 7 and 7.0): taken as several names"]
    >>> [finding.text for finding in alike("a.csv", pa.array(["007", "7", "07a"]))]
    ["a.csv: 1 name, '7', is written in several ways (7 and 007): taken as several names"]
    """
    if not pa.types.is_string(names.type):
        return
    of_letters = pc.or_(pc.invert(pc.string_is_ascii(names)), pc.ends_with(names, ".0"))
    of_zeros = pc.or_(pc.starts_with(names, "0"), pc.starts_with(names, "-0"))
    ways = (
        (of_letters, _composed, "NFC and NFD, or 7 and 7.0", OF_MESSAGES),
        (of_zeros, _without_zeros, "7 and 007", ()),
    )
    for may_be, plain, written, may_hide in ways:
        odd = names.filter(may_be)
        if several := _several(odd, plain(odd), names):
            what = f"{amount(len(several), 'name')}, {'as ' * (len(several) > 1)}{several[0]!r}, "
            what += f"{'is' if len(several) == 1 else 'are'} written in several ways ({written})"
            text, made = f"{path}: {what}: taken as several names", ("phantom", *OF_MESSAGES)
            yield Finding(ALIKE, text, len(several), path, is_error=False, may_hide=may_hide, may_invent=made)


def _several(odd: Any, plain: Any, names: Any) -> list[str]:
    """Return what is plain of several names: of two odd ones, or of one that is not."""
    is_other = pc.not_equal(plain, odd)
    if not pc.any(is_other).as_py():
        return []
    counts = pc.value_counts(plain)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    others = plain.filter(pc.and_(is_other, pc.is_in(plain, value_set=names)))
    # What some versions of Arrow call NFC are letters apart.
    return sorted({unicodedata.normalize("NFC", name) for name in (*twice.to_pylist(), *others.to_pylist())})


def plain_names(names: Any) -> Any:
    """Return names as they may be written otherwise: composed letters, whole numbers without fraction and zeros.

    >>> plain_names(pa.array(["007", "-07.0", "000", "0", "07a"])).to_pylist()
    ['7', '-7', '0', '0', '07a']
    """
    return _without_zeros(_composed(names))


def _composed(names: Any) -> Any:
    """Return names with their letters composed, and whole numbers without a fraction."""
    return pc.replace_substring_regex(pc.utf8_normalize(names, "NFC"), r"^(-?[0-9]+)\.0+$", r"\1")


def _without_zeros(names: Any) -> Any:
    """Return whole numbers without zeros in front."""
    return pc.replace_substring_regex(names, r"^(-?)0+([0-9]+)$", r"\1\2")


def vague_rows(path: str, passed: int, invented: int, alone: int, late: int = 0, again: int = 0) -> Finding:
    """Report rows of unknown kinds, which may be deliveries, or sends.

    Parameters: how many of them explain losses (`passed`), explain phantoms or deliveries that may be of another
    message of the name (`invented`), name a message that had no delivery at all (`alone`), may be `late` deliveries, or
    may send `again` what did not come.

    >>> vague_rows("a.csv", 1, 0, 0).text.split(":")[1].strip()
    '1 row of an unknown kind may be a delivery, or a send'
    """
    count = max(passed, invented, alone, late, again)
    what = "row of an unknown kind may be a delivery, or a send"
    many = "rows of unknown kinds may be deliveries, or sends"
    text = f"{path}: {amount(count, what, many)}: say what these kinds mean, in [kinds] of a busq.toml"
    losses = ("lost",) if passed or alone or invented else ()
    orders = ("fifo", "causal", "consistent", "total", "synchronous", "side")
    may_come = bool(passed or invented or late)
    hidden = losses + (*orders, "clock") * may_come
    made = ("phantom", "duplicated", *orders) * bool(invented) + ("lost",) * bool(again or invented)
    made += ("clock",) * may_come
    return Finding("vague-rows", text, count, path, is_error=False, may_hide=hidden, may_invent=made)


def remark(name: str, text: str, count: int, process: str) -> Finding:
    """Report what an engine remarks on a run besides its verdicts."""
    return resent(text, count, process) if name == "resent" else Finding(name, text, count, process=process)


def _doubtful(kind: str, text: str, count: int, path: str, line: int, has_repetitions: bool) -> Finding:
    """Return a finding that leaves open what follows from the order of events alone.

    That a loss is certain follows from what came later; whether a delivery that is marked as a repetition is one, from
    what came before.
    """
    repeated = ("duplicated",) if has_repetitions else ()
    return Finding(kind, text, count, path, line, is_error=False, may_hide=repeated, may_invent=("lost", *repeated))
