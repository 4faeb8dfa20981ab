# SPDX-License-Identifier: Apache-2.0
"""Views of groups: all members see the same ones, and deliver the same messages in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from busq._native import ffi, lib
from busq._port.through_cffi import check as check_result
from busq._port.through_cffi import held, owned
from busq._util.humanize import listed
from busq.audit.columns import Rows
from busq.audit.message_names import Words
from busq.audit.result import INVALID, UNKNOWN, VALID, Check
from busq.lab.observers import History, core_of

__all__ = ["FAULTS", "HOLDS", "NOTHING", "NO_VIEWS", "OPEN", "judge", "named", "tell", "unrefuted"]

FAULTS = ("unequal", "skipped", "outside", "missed")  # in the order of BUSQ_SIGHTS_*
HOLDS = "all members saw the same views, and delivered the same messages in them"
NOTHING = "the logs tell of no groups"
NO_VIEWS = "the logs tell of no view"
OPEN = "nothing was found for sure, but views may be missing where logs lack events"


def judge(
    history: History, rows: Sequence[Sequence[Rows]], holes: Sequence[bool], words: Words, groups: Sequence[str]
) -> Check:
    """Return the verdict about views; `groups` are their names by number.  Judged: csrc/observe/recorded_views.c."""
    if not groups:
        return Check("views", UNKNOWN, text=NOTHING)
    owner = owned("busq_sights")
    flags = ffi.from_buffer("uint8_t[]", bytes(holes) + b"\0")
    check_result(lib.busq_sights_new(core_of(history), flags, len(groups), owner))
    sights, found = held(owner), ffi.new("busq_sights_found *")
    for process, parts in enumerate(rows):
        for part in parts:
            check_result(lib.busq_sights_note_rows(sights, process, part.pointer))
    check_result(lib.busq_sights_judge(sights, found))
    if found.fault < lib.BUSQ_SIGHTS_FAULTS:
        return _invalid(found, words, groups)
    return unrefuted(found.n_sights, found.n_open)


def unrefuted(n_sights: int, n_open: int, *, engine: str = "c") -> Check:
    """Return the verdict where no fault was found: a view that was never seen does not hold.

    >>> unrefuted(0, 0).verdict, unrefuted(5, 0).verdict
    ('unknown', 'valid')
    """
    verdict, text = (UNKNOWN, NO_VIEWS if not n_sights else OPEN) if n_open or not n_sights else (VALID, HOLDS)
    return Check("views", verdict, text=text, engine=engine)


def _invalid(found: Any, words: Words, groups: Sequence[str]) -> Check:
    fault = FAULTS[found.fault]
    has_message = fault in ("outside", "missed")
    has_other = fault != "skipped"
    processes = words.run.processes
    names = [named(processes, process) for process in list(found.processes)[: 2 if has_other else 1]]
    facts = {
        "group": groups[found.group],
        "view": found.view,
        "other": found.other_view,
        "is_before": bool(found.is_before),
        "message": words.message(found.message) if has_message else "",
        "names": names,
        "members": [[named(processes, found.members[i][at]) for at in range(found.n_members[i])] for i in range(2)],
    }
    return Check(
        "views",
        INVALID,
        sum(found.counts),
        text=tell(fault, facts),
        messages=(found.message,) if has_message else (),
        processes=tuple(names),
        kinds=(fault,),
    )


def named(names: Sequence[str], process: int) -> str:
    """Return what a process is called; a member may have no log, and no name.

    >>> named(["ann"], 0), named(["ann"], 7)
    ('ann', 'p7')
    """
    return names[process] if process < len(names) else f"p{process}"


def tell(fault: str, facts: Mapping[str, Any]) -> str:
    """Return a witness in words: two members and their views, or a message and its two views.

    >>> facts = {"group": "workers", "view": 3, "other": 2, "message": "ann.7", "names": ["bob", "ann"]}
    >>> tell("outside", facts | {"is_before": False})
    'bob delivered ann.7 in view 2 of @workers; ann sent it in view 3'
    """
    group, view, other, names = f"@{facts['group']}", facts["view"], facts["other"], facts["names"]
    if fault == "unequal":
        mine, others = (listed(members) if members else "nobody" for members in facts["members"])
        if names[0] == names[1]:
            return f"{names[0]} saw view {view} of {group} twice, with other members: {mine}; and {others}"
        return f"view {view} of {group} has other members at {names[0]} than at {names[1]}: {mine}; and {others}"
    if fault == "skipped":
        return f"{names[0]} saw view {view} of {group} next after view {other}"
    if fault == "missed":
        return f"{names[0]} left view {view} of {group} without {facts['message']}, which {names[1]} delivered"
    where = f"before view {other}" if facts["is_before"] else f"in view {other}"
    return f"{names[0]} delivered {facts['message']} {where} of {group}; {names[1]} sent it in view {view}"
