# SPDX-License-Identifier: Apache-2.0
"""The claims about a run: of its order, and of its auditor, less what is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from busq._native import lib
from busq.audit.result import CHECKS
from busq.orders import parse

__all__ = ["claims", "known"]

# Expected of a log whose order is not known.
_PLAIN = frozenset({"lost", "duplicated", "phantom", "fifo", "causal"})


def claims(
    order: str = "",
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    has_clocks: bool = False,
    has_views: bool = False,
    has_deaths: bool = False,
    is_live: bool = False,
) -> frozenset[str]:
    """Return the names of the checks whose faults make an audit fail.

    Parameters: `order`, as "bus1" or "lamport:ack=all", or "" where nothing is promised: then completeness, FIFO
    and causal order are expected; `ask` adds names, `allow` takes away; `has_clocks`: the clocks have to be right, too;
    `has_views`: so have the views of groups; `has_deaths`: processes died, so what the order keeps then is claimed of
    the living; `is_live`: that was on a bus, where bus1 finishes or takes back what the dead began; with options it is
    the form in messages, whose sends return before they are done there, so that causes may travel outside of it.
    Errors: ValueError for an unknown order or check.

    >>> sorted(claims("", allow=["lost"], ask=["total"]))
    ['causal', 'duplicated', 'fifo', 'phantom', 'total']
    >>> "side" in claims("bus1"), "side" in claims("fifo")
    (True, False)
    >>> ["lost" in claims(name, has_deaths=True) for name in ("skeen", "skeen:on_crash=go-on")]
    [False, True]
    >>> ["side" in claims(name, is_live=True) for name in ("bus1", "bus1:unicast=direct")]
    [True, False]
    """
    if order:
        promised, options = parse(order)
        has_side = promised.side_channels and not (is_live and options)
        claimed = promised.claims | ({"side"} if has_side else frozenset())
        in_memory = is_live and promised.name == "bus1" and not options
        keeps = promised.under_crashes(options) >= {"lost", "uniform"} or in_memory
        claimed -= {"lost"} if has_deaths and not keeps else set()
        if is_live and options & lib.BUSQ_ORDER_NODES:  # what a node does not get is not recorded
            claimed -= {"lost"}
    else:
        claimed = _PLAIN
    if has_clocks:
        claimed |= {"clock"}
    if has_views:
        claimed |= {"views"}
    return (claimed | known(ask)) - known(allow)


def known(names: Iterable[str]) -> frozenset[str]:
    """Return names of checks as a set; ValueError names one that is none, and all that are.

    >>> sorted(known(["total", "fifo"]))
    ['fifo', 'total']
    """
    chosen = frozenset([names] if isinstance(names, str) else names)
    unknown = sorted(chosen.difference(CHECKS))
    if unknown:
        raise ValueError(f"unknown check {unknown[0]!r}: known are {', '.join(CHECKS)}")
    return chosen
