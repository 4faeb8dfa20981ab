# SPDX-License-Identifier: Apache-2.0
"""What a worker has on the bus besides its queue: groups that it is in, watches, nodes of its own, handles of others.

Nodes go by the number that the bus gives them, as names without a meaning.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import busq
import busq.groups
import busq.nodes  # both here, so that the killer has them, and no life has to import them
from busq._native import _core as core
from busq.trial.soak.ledger import GROUPS, Kind, Phase
from busq.trial.soak.reporter import Reporter

__all__ = ["Belongings", "node_of"]

NODES_MAX = 6
CARRYING_SHARE = 0.3
CHANGE_TIMEOUTS_S = (0.0, 0.01, 0.05)
KEPT_GROUPS = 2  # those that the survivors enter and never leave, so that they always have members


def node_of(node: Any) -> int:
    """Return the number of a node, given that or its handle."""
    return core.node_number(node)


class Belongings:
    """All this of one life of a worker."""

    def __init__(self, reporter: Reporter, peer: busq.Peer) -> None:
        self._reporter, self._peer, self._dice = reporter, peer, reporter.dice
        self._names = reporter.plan.names
        self._groups: set[int] = set()  # entered and not left
        self._watched: set[int] = set()
        self._nodes: dict[int, Any] = {}
        self._handles: dict[int, Any] = {}

    def begin(self) -> None:
        """Record what the life before has left, watch others and enter groups."""
        reporter, is_survivor = self._reporter, self._reporter.is_survivor
        self._nodes.update((node_of(node.handle), node) for node in self._peer.nodes)
        self._handles.update((node_of(handle), handle) for handle in self._peer.handles)
        for nodes in (self._nodes, self._handles):
            for node in nodes:
                reporter.write(Kind.INHERITED, extra=node, flags=nodes is self._nodes)
        everyone = range(len(self._names))
        for index in everyone if is_survivor else self._dice.sample(everyone, 2):
            self._watch(index, None)
        for group in range(len(GROUPS)):
            if (is_survivor and group < KEPT_GROUPS) or self._dice.random() < 0.4:
                self._enter(group, None)

    def end(self) -> None:
        """Let go of everything, before the peer is closed."""
        for handle in self._handles.values():
            handle.release()
        self._handles.clear()
        self._nodes.clear()

    def _call(self, done: Kind, call: Callable[..., Any], timeout_s: float | None, node: int = 0, **about: int) -> bool:
        """Make a call that changes something; record that it is done, or that there was no room."""
        began_ns = self._reporter.mark(Phase.CHANGING, timeout_s or 0)
        try:
            call(timeout=timeout_s)
            is_done = True
        except busq.Full:
            is_done = False
        ended_ns = self._reporter.done()
        self._reporter.write(done if is_done else Kind.CHANGED, node, ended_ns, began_ns, **about)
        return is_done

    # ---- groups and watches ----

    def change_group(self) -> None:
        """Enter a group, or leave it."""
        group = self._dice.randrange(len(GROUPS))
        timeout_s = self._dice.choice(CHANGE_TIMEOUTS_S)
        if group not in self._groups:
            self._enter(group, timeout_s)
        elif not self._reporter.is_survivor or group >= KEPT_GROUPS:
            self._reporter.write(Kind.LEAVING, flags=group)
            if self._call(Kind.CHANGED, partial(self._peer.leave, GROUPS[group]), timeout_s, flags=group):
                self._groups.discard(group)

    def _enter(self, group: int, timeout_s: float | None) -> None:
        if self._call(Kind.ENTERED, partial(self._peer.enter, GROUPS[group]), timeout_s, flags=group):
            self._groups.add(group)

    def change_watch(self) -> None:
        """Watch another worker, or no longer."""
        if self._reporter.is_survivor:
            return
        index = self._dice.randrange(len(self._names))
        if index not in self._watched:
            self._watch(index, self._dice.choice(CHANGE_TIMEOUTS_S))
        else:  # for good: earlier notices may still come, and would be taken for those of a new watch
            self._reporter.write(Kind.UNWATCHING, number=index)
            self._call(Kind.CHANGED, partial(self._peer.unwatch, self._names[index]), 0.0, number=index)

    def _watch(self, index: int, timeout_s: float | None) -> None:
        if self._call(Kind.WATCHED, partial(self._peer.watch, self._names[index]), timeout_s, number=index):
            self._watched.add(index)

    # ---- nodes and handles ----

    def change_node(self) -> None:
        """Make a node, let go of a handle, or destroy a node."""
        way = self._dice.random()
        if way < 0.4:
            if len(self._nodes) < NODES_MAX:
                self._make_node()
        elif way < 0.65:
            if self._handles:
                self._release(self._dice.choice(list(self._handles)))
        elif self._nodes:
            self._destroy(self._dice.choice(list(self._nodes)))

    def _make_node(self) -> None:
        with contextlib.suppress(busq.NoSpace):  # destroyed ones count until all holders have had their notices
            made = self._peer.node()
            node = node_of(made.handle)
            self._nodes[node] = made
            self._reporter.write(Kind.MADE, node)

    def _release(self, node: int) -> None:
        handle = self._handles.pop(node)
        self._reporter.write(Kind.RELEASING, node)
        handle.release()

    def release_all(self) -> None:
        """Let go of all handles."""
        for node in list(self._handles):
            self._release(node)

    def _destroy(self, node: int) -> None:
        timeout_s = self._dice.choice(CHANGE_TIMEOUTS_S)
        self._reporter.write(Kind.DESTROYING, node)
        if self._call(Kind.DESTROYED, self._nodes[node].destroy, timeout_s, node=node):
            del self._nodes[node]

    def keep(self, handle: Any) -> None:
        """Keep a handle that has come, unless it is dead, or leads to a node of this worker."""
        if handle.is_dead or handle.owner == self._peer.name:
            return
        if self._handles.setdefault(node_of(handle), handle) is not handle:
            raise AssertionError(f"{handle!r} came twice, as two objects")

    def forget(self, node: int) -> None:
        """Forget a node that is destroyed."""
        self._nodes.pop(node, None)
        self._handles.pop(node, None)

    def draw_aimed(self) -> list[tuple[int, Any]]:
        """Draw a node of another worker, with its handle, if there is one."""
        return [self._dice.choice(list(self._handles.items()))] if self._handles else []

    def draw_carried(self) -> list[tuple[int, Any]]:
        """Draw the nodes whose handles a message brings, with these."""
        there = [(node, own.handle) for node, own in self._nodes.items()] + list(self._handles.items())
        if not there or self._dice.random() > CARRYING_SHARE:
            return []
        return self._dice.sample(there, min(len(there), self._dice.choice((1, 1, 2))))
