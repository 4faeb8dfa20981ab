# SPDX-License-Identifier: Apache-2.0
"""The ordering protocols: their promises and needs, as the C core knows them.

>>> ORDERS["mfss"].claims >= {"fifo", "causal"}
True
>>> order, options = parse("fifo:on_gap=skip")
>>> order.name, options != 0
('fifo', True)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from busq._native import ffi, lib
from busq._port.arguments import whole_number
from busq._util import arguments

__all__ = ["ORDERS", "Order", "parse"]

_CLAIMS = {
    "fifo": lib.BUSQ_CLAIMS_FIFO,
    "causal": lib.BUSQ_CLAIMS_CAUSAL,
    "consistent": lib.BUSQ_CLAIMS_CONSISTENT,
    "total": lib.BUSQ_CLAIMS_TOTAL,
    "synchronous": lib.BUSQ_CLAIMS_SYNCHRONOUS,
}
_CRASHES = {
    "lost": lib.BUSQ_CRASH_VALIDITY,
    "agreement": lib.BUSQ_CRASH_AGREEMENT,
    "uniform": lib.BUSQ_CRASH_UNIFORM,
    "stuck": lib.BUSQ_CRASH_GOES_ON,
}
_ALWAYS = ("lost", "duplicated", "phantom")
_CLOCKS = {
    lib.BUSQ_CLOCK_NONE: "none",
    lib.BUSQ_CLOCK_VECTOR: "vector",
    lib.BUSQ_CLOCK_MATRIX: "matrix",
    lib.BUSQ_CLOCK_LIST: "list",
}


@dataclass(frozen=True)
class Order:
    """An ordering protocol.

    `claims` are the properties of `busq.spec` that it promises; `clock` is what travels with each message ("none",
    "vector", "matrix", "list": no more entries than the message needs).  `point_to_point`: a multicast is sent as one
    message per destination.  `fifo_channels`: it needs channels that keep the order, `fifo_to_go_on`: with
    on_crash=go-on.  `whole_group`: every process takes part in every message.  `replicated`: the groups of its
    destinations do, see `replicas`.  `rendezvous`: a send returns when the receiver has delivered.
    `laboratory`: known to break or to get stuck, not for use.  `coordinated`: process 0 takes part in every message.
    `side_channels`: no effect is delivered before its cause even where the cause travelled outside of the order.
    `options` are what may follow the name after a colon, `kinds` the names of its packets, `payload_kinds` of those
    that carry the message.  `crashes` and `crashes_go_on` are what holds among the living when others die, without and
    with the option on_crash=go-on, `crashes_majority` while more than half of each group of replicas live: see
    `under_crashes`.
    """

    number: int
    name: str
    promise: str
    source: str
    claims: frozenset[str]
    clock: str
    point_to_point: bool
    fifo_channels: bool
    fifo_to_go_on: bool
    whole_group: bool
    replicated: bool
    rendezvous: bool
    laboratory: bool
    coordinated: bool
    side_channels: bool
    options: tuple[str, ...]
    kinds: tuple[str, ...]
    payload_kinds: frozenset[str]
    crashes: frozenset[str]
    crashes_go_on: frozenset[str]
    crashes_majority: frozenset[str]

    def replicas(self, options: int = 0) -> int:
        """Return how many neighbouring processes, from 0, are a group of replicas, of which the last may be smaller.

        0: there are no such groups.  `options` are those that `parse` returns.

        >>> ORDERS["wbam"].replicas(), ORDERS["skeen"].replicas()
        (3, 0)
        """
        return int(lib.busq_order_replicas_of(self.number, whole_number("options", options, 32)))

    def under_crashes(self, options: int = 0, processes: int = 0, deaths: int | None = None) -> frozenset[str]:
        """Return what it keeps when any number of processes but one die, besides its claims about order.

        "lost": what a process that lives has sent is delivered wherever it should; "agreement": what one of them has
        delivered, all others deliver; "uniform": what any process has, even one that died then; "stuck": none waits for
        ever.  `options` are those that `parse` returns; of any but on_crash=go-on, alone or joined, nothing is known.
        With groups of replicas, these sizes are known as well, and more is kept where only so many `deaths` of so many
        `processes` leave more than half of each group alive.

        >>> sorted(ORDERS["none"].under_crashes())
        ['lost', 'stuck']
        >>> order, options = parse("sequencer:on_crash=go-on")
        >>> sorted(order.under_crashes(options))
        ['agreement', 'lost', 'stuck', 'uniform']
        >>> order, options = parse("wbam:on_crash=go-on")
        >>> [sorted(order.under_crashes(options, 3, deaths)) for deaths in (1, 2)]
        [['agreement', 'lost', 'stuck', 'uniform'], []]
        """
        chosen = whole_number("options", options, 32)
        n_processes = whole_number("processes", processes, 32)
        n_dead = n_processes if deaths is None else whole_number("deaths", deaths, 32)
        size = self.replicas(chosen)
        if size and chosen & lib.BUSQ_ORDER_GO_ON and n_processes and 2 * n_dead < (n_processes % size or size):
            return self.crashes_majority
        return {0: self.crashes, lib.BUSQ_ORDER_GO_ON: self.crashes_go_on}.get(chosen, frozenset())

    def needs_fifo(self, options: int = 0) -> bool:
        """Return whether it needs channels that keep the order; `options` are those that `parse` returns.

        >>> ORDERS["token"].needs_fifo()
        False
        >>> order, options = parse("token:on_crash=go-on")
        >>> order.needs_fifo(options)
        True
        """
        chosen = whole_number("options", options, 32)
        return self.fifo_channels or (self.fifo_to_go_on and bool(chosen & lib.BUSQ_ORDER_GO_ON))


def _text(found: Any) -> str:
    return ffi.string(found).decode() if found != ffi.NULL else ""


def _texts(ask: Callable[[int, int], Any], number: int) -> Iterator[str]:
    return itertools.takewhile(bool, (_text(ask(number, place)) for place in itertools.count()))


def _table() -> Iterator[Order]:
    facts = ffi.new("busq_order_facts *")
    for number in itertools.count():
        kinds = tuple(_texts(lib.busq_order_kind_name, number))
        if lib.busq_order_examine(number, facts) != lib.BUSQ_OK:
            return
        yield Order(
            number=number,
            name=_text(facts.name),
            promise=_text(facts.promise),
            source=_text(facts.source),
            claims=frozenset(_ALWAYS) | {name for name, bit in _CLAIMS.items() if facts.claims & bit},
            clock=_CLOCKS[facts.clock],
            point_to_point=bool(facts.traits & lib.BUSQ_ORDER_POINT_TO_POINT),
            fifo_channels=bool(facts.traits & lib.BUSQ_ORDER_FIFO_CHANNELS),
            fifo_to_go_on=bool(facts.traits & lib.BUSQ_ORDER_FIFO_TO_GO_ON),
            whole_group=bool(facts.traits & lib.BUSQ_ORDER_WHOLE_GROUP),
            replicated=bool(facts.traits & lib.BUSQ_ORDER_REPLICATED),
            rendezvous=bool(facts.traits & lib.BUSQ_ORDER_RENDEZVOUS),
            laboratory=bool(facts.traits & lib.BUSQ_ORDER_LABORATORY),
            coordinated=bool(facts.traits & lib.BUSQ_ORDER_COORDINATED),
            side_channels=bool(facts.traits & lib.BUSQ_ORDER_SIDE_CHANNELS),
            options=tuple(_texts(lib.busq_order_option_text, number)),
            kinds=kinds,
            payload_kinds=frozenset(
                kind for place, kind in enumerate(kinds) if lib.busq_order_kind_has_payload(number, place)
            ),
            crashes=frozenset(name for name, bit in _CRASHES.items() if facts.crashes & bit),
            crashes_go_on=frozenset(name for name, bit in _CRASHES.items() if facts.crashes_go_on & bit),
            crashes_majority=frozenset(name for name, bit in _CRASHES.items() if facts.crashes_majority & bit),
        )


ORDERS: dict[str, Order] = {order.name: order for order in _table()}


def parse(text: str) -> tuple[Order, int]:
    """Read an order with its options, "lamport" or "lamport:ack=all"; ValueError names what is known.

    >>> parse("fifo")[0].name
    'fifo'
    """
    arguments.typed("order", text, str, "str, as in 'fifo' or 'lamport:ack=all'")
    number, options = ffi.new("uint32_t *"), ffi.new("uint32_t *")
    if lib.busq_order_read(text.encode("utf-8", "replace").replace(b"\0", b"?"), number, options) != lib.BUSQ_OK:
        raise ValueError(_text(lib.busq_error_text()))
    return next(order for order in ORDERS.values() if order.number == number[0]), int(options[0])
