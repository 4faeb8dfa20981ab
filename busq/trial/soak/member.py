# SPDX-License-Identifier: Apache-2.0
"""The workers of a soak about who is there: members of groups, watchers, owners of nodes, replicas.

A member is a worker (`busq.trial.soak.worker`) that does all this at once with the peer of its name, and joins replicas
beside it, which have peers and threads of their own.  Those that are never killed keep every group, and every replica's
state, alive.  What a member writes down is told in `ledger`, what has to come of it in `census`.

Nodes go by the number that the bus gives them, as names that mean nothing here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import busq
import busq.groups
import busq.nodes  # both here, so that the killer has them, and no life has to import them
from busq._native import _core as core
from busq.trial.host import make_payload, read_payload
from busq.trial.soak.ledger import Kind, Phase, Reason, Row, change_of, name_of, packed, view_name
from busq.trial.soak.worker import SEND_TIMEOUTS_S, STARVED_NS_MIN, Mode, Plan, _draw, _Worker

__all__ = ["GROUPS", "MEMBER_MODES", "REPLICAS", "Member"]

MEMBER_MODES = (Mode.PLAIN, Mode.DURABLE, Mode.PLAIN, Mode.ACK, Mode.PLAIN, Mode.RESUME, Mode.PLAIN, Mode.ACK)
GROUPS = ("red", "green", "blue")
REPLICAS = ("dict", "counter", "lock")
NODES_MAX = 6  # of a member
HANDLES_MAX = 8  # that it keeps
ACTS = (("send", 0.5), ("group", 0.12), ("watch", 0.04), ("node", 0.12), ("replica", 0.22))
AIMS = (
    *(("names", 0.25), ("group", 0.35), ("group and names", 0.1), ("node", 0.1), ("node and names", 0.08)),
    *(("node and group", 0.07), ("node, group and names", 0.05)),
)
CARRYING_SHARE = 0.3
SIZES_BYTES = ((40, 0.8), (700, 0.15), (6000, 0.05))
CHANGE_TIMEOUTS_S = (0.0, 0.01, 0.05)
REPLICA_TIMEOUT_S = 1.0
SURVIVOR_TIMEOUT_S = 30.0  # of those who keep the state, and of whoever reads it in the end
EVENT = 0xFE << 56  # the names of events that have none of their own
WHOLE = 0xFFFF  # at the end of what was read: that is all
_GROUP_BITS = 16  # of an intent: where the bits of groups begin, behind those of names


class _Kept:
    """What replicas of a soak have in common: after each change, everybody writes down what the state comes to."""

    note: ClassVar[Callable[[int, int, int], None]]
    which: ClassVar[int]
    steps: int

    def _step(self) -> None:
        self.steps += 1
        state = [(name, what) for name, what in sorted(vars(self).items()) if not name.startswith("_busq")]
        text = repr([(name, sorted(what.items()) if isinstance(what, dict) else what) for name, what in state])
        digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        _Kept.note(self.which, self.steps, digest)

    def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
        """Count a view as a step."""
        super().on_view(members, joined, left)  # type: ignore[misc]
        self._step()


class _Dict(_Kept, busq.replica.Dict):
    which = 0

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    @busq.command
    def put(self, key: int, value: int) -> None:
        self.data[key] = value
        self._step()


class _Counter(_Kept, busq.replica.Counter):
    which = 1

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    @busq.command
    def tick(self) -> float:
        self.value += 1
        self._step()
        return self.value


class _Lock(_Kept, busq.replica.Lock):
    which = 2

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    @busq.command
    def _ask(self, member: str, ticket: int) -> None:
        super()._ask(member, ticket)
        self._step()

    @busq.command
    def _withdraw(self, member: str, ticket: int) -> None:
        super()._withdraw(member, ticket)
        self._step()


_CLASSES: tuple[Any, ...] = (_Dict, _Counter, _Lock)


class Member(_Worker):
    """One life of one member."""

    _bus: busq.Bus

    def __init__(self, plan: Plan, index: int, life: int, words: memoryview) -> None:
        super().__init__(plan, index, life, words)
        self._starved_of: dict[str, int] = {}

    def _begin(self, bus: busq.Bus) -> None:
        self._bus = bus
        self._events = 0
        self._is_survivor = self._index < self._plan.survivors
        self._replicas: dict[int, Any] = {}
        self._in: set[int] = set()  # groups that we have entered and not left
        self._watched: set[int] = set()
        self._nodes: dict[int, Any] = {core.node_number(node): node for node in self._peer.nodes}
        self._handles: dict[int, Any] = {core.node_number(handle): handle for handle in self._peer.handles}
        now_ns = time.monotonic_ns()
        inherited = [(node, 1) for node in self._nodes] + [(node, 0) for node in self._handles]
        rows = [(Kind.INHERITED, is_own, 0, self._life, 0, now_ns, node) for node, is_own in inherited]
        self._ledger.write_many(rows)
        everybody = range(len(self._plan.names))
        for whom in everybody if self._is_survivor else self._dice.sample(everybody, 2):
            self._watch(whom, None)
        for group in range(len(GROUPS)):
            if (self._is_survivor and group < 2) or self._dice.random() < 0.4:
                self._enter(group, None)
        _Kept.note = self._applied
        for which in range(len(REPLICAS)):
            if self._is_survivor or self._dice.random() < 0.3:
                self._join_replica(which)

    def _end(self) -> None:
        for which, replica in self._replicas.items():
            self._read_replica(which, replica)
        for replica in self._replicas.values():
            replica.close()
        for handle in self._handles.values():
            handle.release()
        self._handles.clear()
        self._nodes.clear()
        self._pending.clear()
        self._replicas.clear()
        del self._bus

    def _note_starvation(self) -> None:
        """The same for whichever of its threads got no processor for longest: it may wait for any of them."""
        longest_ns = 0
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/schedstat") as file:
                starved_ns = int(file.read().split()[1])
                longest_ns = max(longest_ns, starved_ns - self._starved_of.get(thread, 0))
                self._starved_of[thread] = starved_ns
        if longest_ns > STARVED_NS_MIN:
            self._ledger.write(Kind.STARVED, self._life, 0, time.monotonic_ns(), longest_ns)

    def _act(self) -> None:
        act = _draw(self._dice, ACTS)
        if act == "send":
            self._send()
        elif act == "group":
            self._change_group()
        elif act == "watch":
            self._change_watch()
        elif act == "node":
            self._change_node()
        else:
            self._command_replica()

    def _rest(self) -> None:
        for node in list(self._handles):
            self._release(node)

    # ---- groups and watches ----

    def _call(
        self, done: int, group: int, whom: int, timeout_s: float | None, call: Callable[..., Any], about: int = 0
    ) -> bool:
        """Make a call that changes something; write down that it is done, or that there was no room."""
        began_ns = self._mark(Phase.CHANGING, timeout_s or 0)
        try:
            call(timeout=timeout_s)
            is_done = True
        except busq.Full:
            is_done = False
        ended_ns = self._mark(Phase.WORKING)
        self._note_starvation()
        self._ledger.write(
            done if is_done else Kind.CHANGED, self._life, about, ended_ns, began_ns, flags=group, number=whom
        )
        return is_done

    def _enter(self, group: int, timeout_s: float | None) -> None:
        name = GROUPS[group]
        if self._call(Kind.ENTERED, group, 0, timeout_s, lambda timeout: self._peer.enter(name, timeout=timeout)):
            self._in.add(group)

    def _change_group(self) -> None:
        group = self._dice.randrange(len(GROUPS))
        timeout_s = self._dice.choice(CHANGE_TIMEOUTS_S)
        if group not in self._in:
            self._enter(group, timeout_s)
        elif not self._is_survivor or group >= 2:
            name = GROUPS[group]
            self._ledger.write(Kind.LEAVING, self._life, 0, time.monotonic_ns(), flags=group)
            if self._call(Kind.CHANGED, group, 0, timeout_s, lambda timeout: self._peer.leave(name, timeout=timeout)):
                self._in.discard(group)

    def _watch(self, whom: int, timeout_s: float | None) -> None:
        name = self._plan.names[whom]
        if self._call(Kind.WATCHED, 0, whom, timeout_s, lambda timeout: self._peer.watch(name, timeout=timeout)):
            self._watched.add(whom)

    def _change_watch(self) -> None:
        if self._is_survivor:
            return
        whom = self._dice.randrange(len(self._plan.names))
        if whom not in self._watched:
            self._watch(whom, self._dice.choice(CHANGE_TIMEOUTS_S))
        else:  # for good: what was told before may still come, and would be taken for what comes of a new watch
            name = self._plan.names[whom]
            self._ledger.write(Kind.UNWATCHING, self._life, 0, time.monotonic_ns(), number=whom)
            self._call(Kind.CHANGED, 0, whom, 0.0, lambda timeout: self._peer.unwatch(name, timeout=timeout))

    # ---- nodes ----

    def _change_node(self) -> None:
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
        with contextlib.suppress(busq.NoSpace):  # destroyed ones count until all have been told
            node = self._peer.node()
            self._nodes[core.node_number(node.handle)] = node
            self._ledger.write(Kind.MADE, self._life, core.node_number(node.handle), time.monotonic_ns())

    def _release(self, node: int) -> None:
        handle = self._handles.pop(node)
        self._ledger.write(Kind.RELEASING, self._life, node, time.monotonic_ns())
        handle.release()

    def _destroy(self, node: int) -> None:
        timeout_s = self._dice.choice(CHANGE_TIMEOUTS_S)
        self._ledger.write(Kind.DESTROYING, self._life, node, time.monotonic_ns())
        if self._call(Kind.DESTROYED, 0, 0, timeout_s, self._nodes[node].destroy, about=node):
            del self._nodes[node]

    # ---- sending ----

    def _send(self) -> None:
        self._count += 1
        message = name_of(self._index, self._life, self._count)
        names, groups, nodes = self._aims()
        carried = self._carried()
        life, timeout_s = self._life, self._dice.choice(SEND_TIMEOUTS_S)
        to: list[Any] = [self._plan.names[index] for index in names]
        to += [f"@{GROUPS[group]}" for group in groups] + [self._handles[node] for node in nodes]
        bits = sum(1 << index for index in names) | sum(1 << _GROUP_BITS + group for group in groups)
        now_ns = time.monotonic_ns()
        rows = [(Kind.AIMED, 0, 0, life, message, now_ns, node) for node in nodes]
        rows += [(Kind.CARRIES, 0, 0, life, message, now_ns, node) for node, _ in carried]
        self._ledger.write_many([*rows, (Kind.INTENT, 0, 0, life, message, now_ns, bits)])
        payload = make_payload(message, _draw(self._dice, SIZES_BYTES), 0)
        kind, reason = Kind.SENT, 0
        missed: Iterable[Any] = ()
        began_ns = self._mark(Phase.SENDING, timeout_s)
        try:
            self._peer.send(to, payload, handles=[handle for _, handle in carried], timeout=timeout_s)
        except (busq.Full, busq.PeerDead, busq.UnknownPeer) as error:
            reason = Reason.FULL if isinstance(error, busq.Full) else Reason.DEAD
            missed = getattr(error, "missed", None) or ()
            kind = Kind.SENT if getattr(error, "sent", 0) else Kind.FAILED
        ended_ns = self._mark(Phase.WORKING)
        self._note_starvation()
        result: list[Row] = [(Kind.MISSED, 0, 0, life, message, ended_ns, core.node_number(handle)) for handle in missed]
        flags = 0 if kind == Kind.SENT else reason
        self._ledger.write_many([*result, (kind, flags, 0, life, message, ended_ns, began_ns)])

    def _aims(self) -> tuple[list[int], list[int], list[int]]:
        """Draw to whom: names, groups and nodes."""
        dice = self._dice
        aim = _draw(dice, AIMS)
        names = dice.sample(range(len(self._plan.names)), dice.choice((1, 1, 2, 3))) if "names" in aim else []
        groups = [dice.randrange(len(GROUPS))] if "group" in aim else []
        nodes = [dice.choice(list(self._handles))] if "node" in aim and self._handles else []
        if not names and not groups and not nodes:
            names = [dice.randrange(len(self._plan.names))]
        return names, groups, nodes

    def _carried(self) -> list[tuple[int, Any]]:
        mine = [(node, own.handle) for node, own in self._nodes.items()]
        there = mine + list(self._handles.items())
        if not there or self._dice.random() > CARRYING_SHARE:
            return []
        return self._dice.sample(there, min(len(there), self._dice.choice((1, 1, 2))))

    # ---- receiving ----

    def _delivered(self, message: Any, now_ns: int) -> list[Row]:
        if message.kind != "data":
            rows = [self._event(message, now_ns)]
            name = rows[0][4]
        else:
            rows, name = self._data(message, now_ns)
        if self._acks:
            self._pending.append((name, message))
        return rows

    def _data(self, message: Any, now_ns: int) -> tuple[list[Row], int]:
        with message.view() as payload:
            name, life = self._name_in(message, read_payload(payload)), self._life
        rows: list[Row] = []
        if message.node is not None:
            rows.append((Kind.AT_NODE, 0, 0, life, name, now_ns, core.node_number(message.node)))
        for handle in message.handles:
            rows.append((Kind.GOT, int(not handle.is_dead), 0, life, name, now_ns, core.node_number(handle)))
            self._keep(handle)
        rows.append((Kind.DELIVERED, int(message.redelivered), 0, life, name, now_ns, self._free_ns))
        return rows, name

    def _keep(self, handle: Any) -> None:
        """Keep a handle that has come, unless it is dead, or leads to a node of our own."""
        if handle.is_dead or handle.owner == self._peer.name:
            return
        if self._handles.setdefault(core.node_number(handle), handle) is not handle:
            raise AssertionError(f"{handle!r} came twice, as two objects")

    def _event(self, message: Any, now_ns: int) -> Row:
        kind, mark, life = message.kind, int(message.redelivered), self._life
        if kind == "view":
            view, index = message.view, self._plan.names.index
            change = change_of(*([index(name) for name in who] for who in (view.joined, view.left, view.died)))
            members = packed([index(name) for name in view.members])
            name = view_name(GROUPS.index(message.group), view.number)
            return (Kind.VIEW, mark, change, life, name, now_ns, members)
        self._events += 1
        name = EVENT | (life & 0xFFFFFF) << 32 | self._events
        if kind in ("joined", "left"):
            whom = self._plan.names.index(message.sender)
            return (Kind.HERE if kind == "joined" else Kind.GONE, mark, whom, life, name, now_ns, 0)
        node = core.node_number(message.node)
        if kind == "node_destroyed":
            self._nodes.pop(node, None)
            self._handles.pop(node, None)
        return (Kind.NODE_OVER if kind == "node_destroyed" else Kind.NODE_FREE, mark, 0, life, name, now_ns, node)

    # ---- replicas ----

    def _applied(self, which: int, position: int, digest: int) -> None:
        self._ledger.write(Kind.APPLIED, self._life, position, time.monotonic_ns(), digest, flags=which)

    def _join_replica(self, which: int) -> None:
        timeout_s = SURVIVOR_TIMEOUT_S if self._is_survivor else REPLICA_TIMEOUT_S
        began_ns = self._mark(Phase.COMMANDING, timeout_s)
        name, member = REPLICAS[which], f"{self._plan.names[self._index]}.{REPLICAS[which]}"
        # Whoever gives the state may be stopped; but those who keep it are to have it.
        trouble = () if self._is_survivor else (busq.Empty, busq.PeerExists, busq.NoSpace)
        with contextlib.suppress(*trouble):
            self._replicas[which] = _CLASSES[which].join(self._bus, name, member=member, timeout=timeout_s)
            ended_ns = time.monotonic_ns()
            self._note_starvation()
            self._ledger.write(Kind.JOINED_REPLICA, self._life, 0, ended_ns, began_ns, flags=which)
        self._mark(Phase.WORKING)

    def _command_replica(self) -> None:
        if not self._replicas:
            return
        which = self._dice.choice(list(self._replicas))
        (self._put, self._add, self._hold)[which](self._replicas[which])
        self._note_starvation()

    def _put(self, replica: Any) -> None:
        self._count += 1
        value = name_of(self._index, self._life, self._count)
        self._ledger.write(Kind.PUTTING, self._life, value, time.monotonic_ns())
        began_ns = self._mark(Phase.COMMANDING)
        replica.put(self._index, value)
        self._ledger.write(Kind.PUT, self._life, value, self._mark(Phase.WORKING), began_ns)

    def _add(self, replica: Any) -> None:
        self._ledger.write(Kind.ADDING, self._life, 0, time.monotonic_ns())
        began_ns = self._mark(Phase.COMMANDING)
        total = replica.tick()
        self._ledger.write(Kind.ADDED, self._life, total, self._mark(Phase.WORKING), began_ns)

    def _hold(self, replica: Any) -> None:
        timeout_s = 0.02
        began_ns = self._mark(Phase.COMMANDING, timeout_s)
        with contextlib.suppress(busq.Empty):
            number = replica.acquire(timeout=timeout_s)
            self._ledger.write(Kind.HELD, self._life, number, time.monotonic_ns(), began_ns)
            time.sleep(self._dice.random() * 0.001)
            self._ledger.write(Kind.UNHOLDING, self._life, number, time.monotonic_ns())
            replica.release()
        self._mark(Phase.WORKING)

    def _read_replica(self, which: int, replica: Any) -> None:
        now_ns = self._mark(Phase.LEAVING, SURVIVOR_TIMEOUT_S)
        replica.sync(timeout=SURVIVOR_TIMEOUT_S)
        values: Iterable[tuple[int, int]] = ()
        if which == 0:
            values = [*replica.items(), (WHOLE, len(replica))]
        elif which == 1:
            values = [(0, replica.value)]
        self._ledger.write_many([(Kind.READ, which, whose, self._life, what, now_ns, 0) for whose, what in values])
