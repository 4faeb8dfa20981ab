# SPDX-License-Identifier: Apache-2.0
"""A stage: the processes of one order, and a network on which you decide what arrives next.

The step functions are those that run everywhere else.  The same decisions always give the same events, so an execution
from a paper, or a counterexample, can be played step by step.

>>> stage = Stage("none", ["alice", "bob", "carol"])
>>> _ = stage.submit("alice", "m1", "carol")
>>> _ = stage.submit("alice", "m2", "bob")
>>> _ = stage.receive(stage.find("bob").packet)
>>> _ = stage.submit("bob", "m3", "carol")
>>> for packet in reversed(stage.packets):
...     _ = stage.receive(packet.packet)
>>> stage.judge()["causal"].text
'carol delivered m3 before m1, but m1 is in the past of m3: alice sent m1 and then m2, bob delivered m2 and sent m3'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from busq import orders
from busq._native import ffi, lib
from busq._port.arguments import integer, whole_number
from busq._port.through_cffi import check, held, owned
from busq._util import arguments
from busq.lab.execution import KINDS, Event, Execution, event_of, judge
from busq.lab.observers import PROPERTIES, History, Verdict, core_of

__all__ = ["Packet", "Stage", "Stuck"]

Process = str | int

_KINDS = (*KINDS[:9], "die", "learn")  # as the core numbers them; jobs are added here
_STEPS_MAX = 1_000_000
_CHANNELS = {
    None: lib.BUSQ_CHANNELS_AS_NEEDED,
    "fifo": lib.BUSQ_CHANNELS_FIFO,
    "unordered": lib.BUSQ_CHANNELS_UNORDERED,
}


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet in flight; `may_arrive` is false where the channel keeps the order and an older packet is in it."""

    packet: int
    what: str
    message: int
    label: str
    sender: int
    to: int
    stamp: int
    note: int
    may_arrive: bool


@dataclass(frozen=True, slots=True)
class Stuck:
    """A message that a process did not get, and where it is: "waiting" at its origin, "in flight", "held" or "lost"."""

    message: int
    label: str
    origin: int
    to: int
    where: str


class Stage:
    """A group of processes on a network whose every arrival the caller decides.

    A process is named or given by its index.  Packets are offered oldest first; orders that need channels which keep
    the order may receive only the oldest of each, unless the network is given otherwise.  Where an order knows only
    messages with one destination, a multicast is submitted as one message per destination, in the order given.  What a
    process submits while the order has no room for it, or (rendezvous) while its last message is not done, waits
    outside.

    Every decision returns what it caused, and raises CorruptSegment where the order breaks the rules of orders.

    >>> stage = Stage("mfss", 2)
    >>> [event.kind for event in stage.submit(0, "hello", 1)]
    ['submit', 'sent', 'send']
    >>> [event.kind for event in stage.run(seed=1)]
    ['receive', 'deliver', 'send', 'receive', 'done']
    >>> stage.is_quiet
    True
    """

    def __init__(
        self,
        order: str,
        processes: int | Iterable[str],
        *,
        waiting_max: int = 64,
        held_max: int = 256,
        network: str | None = None,
        bears_unsound: bool = False,
    ) -> None:
        """Set up the processes of an order ("lamport:ack=all"), given by their names or their number.

        `waiting_max` messages of its own may wait inside a process, `held_max` of others may be held back there.
        `network`: "fifo" (channels keep the order), "unordered", or by default what the order needs.
        `bears_unsound`: a process goes on where an invariant of its order does not hold any more.
        Raises ValueError for what cannot be, NoSpace.  O(processes x the size of a state).
        """
        orders.parse(order)  # which raises what is wrong with it
        named = arguments.process_names(processes)
        if len(set(named)) != len(named):
            raise ValueError("a process is named twice: names tell processes apart")
        arguments.typed("network", network, str | None, "'fifo', 'unordered', or None for what the order needs")
        if network not in _CHANNELS:
            raise ValueError(f"network is {network!r}: expected 'fifo', 'unordered', or None for what the order needs")
        self._order = order
        self._network = network
        self._names = tuple(named)
        self._indices = {name: index for index, name in enumerate(named)}
        limits = whole_number("waiting_max", waiting_max, 32), whole_number("held_max", held_max, 32)
        config = ffi.new("busq_stage_config *", (len(named), *limits, _CHANNELS[network], bool(bears_unsound)))
        owner = owned("busq_stage")
        check(lib.busq_stage_new(order.encode(), config, owner))
        self._stage = held(owner)
        facts = self._facts()
        self._is_split = bool(facts.is_point_to_point)
        self._is_fifo = bool(facts.is_fifo)
        self._kinds = [ffi.string(lib.busq_stage_kind_name(self._stage, i)).decode() for i in range(facts.n_kinds)]
        self._payloads = {kind for i, kind in enumerate(self._kinds) if lib.busq_stage_kind_has_payload(self._stage, i)}
        self._labels: dict[int, str] = {}
        self._destinations: dict[int, tuple[int, ...]] = {}
        self._multicasts: dict[int, int] = {}
        self._n_submitted = 0
        self._lost: set[tuple[int, int]] = set()
        self._jobs: list[tuple[int, Event]] = []  # and how many events of the core come before each

    # ---- deciding ----

    def submit(self, process: Process, label: str = "", to: Process | Iterable[Process] = ()) -> tuple[Event, ...]:
        """Let an application send a message to one process or several, itself allowed.

        Without a label it is called m1, m2, ... as they come.  Raises ValueError for processes that cannot be.
        O(destinations).

        >>> Stage("none", 2).submit(0, "hello", 1)[1]
        Event(time_s=1.0, process=0, kind='sent', message=1, packet=-1, what='', peer=-1)
        """
        origin = self._index(process)
        targets = tuple(self._index(one, "a process (to)") for one in arguments.processes("to", to))
        arguments.text("label", label)
        name = ffi.new("uint64_t *")
        before = self._facts().n_events
        check(lib.busq_stage_submit(self._stage, origin, targets, len(targets), name))
        self._n_submitted += 1
        copies = [(to,) for to in targets] if self._is_split else [targets]
        for offset, copy_to in enumerate(copies):
            self._labels[name[0] + offset] = label or f"m{self._n_submitted}"
            self._destinations[name[0] + offset] = copy_to
            if len(copies) > 1:
                self._multicasts[name[0] + offset] = int(name[0])
        return self._events_from(before)

    def receive(self, packet: int) -> tuple[Event, ...]:
        """Let the packet with this number arrive.

        Raises ValueError if it is not in flight or may not arrive yet; Full if its receiver has no room to hold it
        back: then it stays in flight.
        """
        before = self._facts().n_events
        check(lib.busq_stage_receive(self._stage, whole_number("packet", packet, 32)))
        return self._events_from(before)

    def lose(self, packet: int) -> None:
        """Let the network lose a packet, which only `fifo:on_gap=skip` can bear."""
        lost = self._packet(packet)
        check(lib.busq_stage_lose(self._stage, lost.packet))
        self._lost.add((lost.message, lost.to))

    def double(self, packet: int) -> tuple[Event, ...]:
        """Let the network double a packet: the copy is as if its sender had sent it again, now.

        >>> stage = Stage("none", 2)
        >>> _ = stage.submit(0, "hello", 1)
        >>> [event.kind for event in stage.double(stage.find().packet)]
        ['send']
        >>> _ = stage.run()
        >>> stage.judge()["duplicated"].text
        'p1 delivered hello more than once'
        """
        before = self._facts().n_events
        check(lib.busq_stage_double(self._stage, whole_number("packet", packet, 32)))
        return self._events_from(before)

    def tick(self, process: Process) -> tuple[Event, ...]:
        """Let an alarm of the process go off; ValueError if it has set none."""
        before = self._facts().n_events
        check(lib.busq_stage_tick(self._stage, self._index(process)))
        return self._events_from(before)

    def crash(self, process: Process) -> tuple[Event, ...]:
        """Let the process die; what it has sent arrives, what is on its way to it is gone.

        >>> stage = Stage("none", ["ann", "bob"])
        >>> [event.kind for event in stage.crash("ann")], stage.dead
        (['die'], ('ann',))
        """
        before = self._facts().n_events
        check(lib.busq_stage_crash(self._stage, self._index(process)))
        return self._events_from(before)

    def doom(self, process: Process, effects: int, first: Process = 0) -> None:
        """Let the process die in its next step, behind so many effects of it, at least one.

        Effects are that a message is sent, that one is delivered, and each packet to each receiver; a multicast begins
        with `first`, or the next of its receivers, and goes around.  ValueError where another process is doomed.

        >>> stage = Stage("none", ["ann", "bob", "carol"])
        >>> stage.doom("ann", 2, "carol")
        >>> _ = stage.submit("ann", "m1", ["bob", "carol"])
        >>> [stage.processes[packet.to] for packet in stage.packets]
        ['carol']
        """
        units = whole_number("effects", effects, 32)
        check(lib.busq_stage_doom(self._stage, self._index(process), units, self._index(first, "first")))

    def learn(self, process: Process, dead: Process) -> tuple[Event, ...]:
        """Let the process learn that another one is dead.

        Raises ValueError where that lives, where one of its packets to the process is in flight, and where the order
        has not on_crash=go-on.
        """
        before = self._facts().n_events
        check(lib.busq_stage_learn(self._stage, self._index(process), self._index(dead, "dead")))
        return self._events_from(before)

    def work(self, process: Process, message: int = 0) -> None:
        """Let the process begin a job, perhaps one that a message has caused.  It changes nothing but pictures."""
        self._add_job("job", process, message)

    def rest(self, process: Process, message: int = 0) -> None:
        """Let the process end its job."""
        self._add_job("rest", process, message)

    def run(self, seed: int = 0, *, limit: int | None = None, hasty: bool = False) -> tuple[Event, ...]:
        """Let packets arrive in an order drawn from the seed until none is left (or has room), or `limit` have arrived.

        When no packet is left, the living learn of the dead.  Alarms go off when no packet is left and something is
        undelivered; in a `hasty` run at any moment.  Raises RuntimeError if a million packets were not
        enough.  About 0.5 us per packet, and 1.5 us per event returned.
        """
        before = self._facts().n_events
        self.run_silently(seed, limit=limit, hasty=hasty)
        return self._events_from(before)

    def run_silently(self, seed: int = 0, *, limit: int | None = None, hasty: bool = False) -> int:
        """As run, but return how many packets and alarms there were, which costs nothing per event."""
        count = ffi.new("uint64_t *")
        bound = _STEPS_MAX if limit is None else whole_number("limit", limit, 64)
        start = integer("seed", seed) & 0xFFFFFFFFFFFFFFFF
        check(lib.busq_stage_run(self._stage, start, bound, bool(hasty), count))
        if limit is None and count[0] == bound:
            raise RuntimeError(f"{self._order} did not come to rest within {bound:,} packets")
        return int(count[0])

    # ---- looking ----

    @property
    def order(self) -> str:
        """The order, with its options."""
        return self._order

    @property
    def has_its_network(self) -> bool:
        """Whether channels keep the order where the order needs that."""
        order, options = orders.parse(self._order)
        return self._network != "unordered" or not order.needs_fifo(options)

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of the processes, in the order of their indices."""
        return self._names

    @property
    def dead(self) -> tuple[str, ...]:
        """The names of the processes that have died."""
        gauge = ffi.new("busq_stage_gauge *")
        dead = []
        for place, name in enumerate(self._names):
            check(lib.busq_stage_examine_process(self._stage, place, gauge))
            dead += [name] if gauge.is_dead else []
        return tuple(dead)

    @property
    def packets(self) -> tuple[Packet, ...]:
        """The packets in flight, oldest first.  O(packets)."""
        raw = lib.busq_stage_packets(self._stage)
        channels: set[tuple[int, int]] = set()
        packets = []
        for one in (raw[place] for place in range(self._facts().n_packets)):
            sender, to, what = getattr(one, "from"), one.to, self._kinds[one.what]
            label = self._labels[one.message] if one.message else ""
            may_arrive = not self._is_fifo or (sender, to) not in channels
            channels.add((sender, to))
            packets.append(Packet(one.packet, what, one.message, label, sender, to, one.stamp, one.note, may_arrive))
        return tuple(packets)

    def find(
        self,
        to: Process | None = None,
        what: str = "",
        label: str = "",
        sender: Process | None = None,
        *,
        place: int = 1,
    ) -> Packet:
        """Return the oldest packet in flight that is like this, or a younger one; LookupError if there is none.

        >>> stage = Stage("none", 2)
        >>> _ = stage.submit(0, "hello", 1)
        >>> stage.find(to=1, label="hello").what
        'data'
        """
        receiver = None if to is None else self._index(to, "to")
        origin = None if sender is None else self._index(sender, "sender")
        arguments.text("what", what)
        arguments.text("label", label)
        place = integer("place", place)
        for packet in self.packets:
            is_like = (
                receiver in (None, packet.to)
                and origin in (None, packet.sender)
                and what in ("", packet.what)
                and label in ("", packet.label)
            )
            place -= is_like
            if is_like and place == 0:
                return packet
        raise LookupError(f"no such packet is in flight: to {to!r}, {what!r}, {label!r}, from {sender!r}")

    @property
    def is_quiet(self) -> bool:
        """Whether no packet is in flight and everything was delivered or dropped."""
        facts = self._facts()
        return not (facts.n_packets or facts.n_undelivered or facts.n_waiting)

    @property
    def stuck(self) -> tuple[Stuck, ...]:
        """Return what is undelivered (and not dropped), and where it is; after a run, it is so for good.  O(events)."""
        ended: set[tuple[int, int]] = set()
        arrived: set[tuple[int, int]] = set()
        for event in self._all_events():
            if event.kind in ("deliver", "drop"):
                ended.add((event.message, event.process))
            elif event.kind == "receive" and event.what in self._payloads:
                arrived.add((event.message, event.process))
        dead = {self._indices[name] for name in self.dead}
        flying = {(packet.message, packet.to) for packet in self.packets if packet.what in self._payloads}
        stuck = []
        for one in ((message, to) for message, targets in self._destinations.items() for to in targets):
            message, to = one
            if one in ended or to in dead:
                continue
            where = "in flight" if one in flying else "held" if one in arrived else "waiting"
            is_lost = one in self._lost or message >> 32 in dead
            where = "lost" if where == "waiting" and is_lost else where
            stuck.append(Stuck(message, self._labels[message], message >> 32, to, where))
        return tuple(stuck)

    def gauge(self, process: Process) -> dict[str, int]:
        """Return how a process looks from outside.

        `waiting`: messages of its own that wait to be sent; `outside`: those that the order has not taken so far;
        `held`: messages of others that came and were not delivered so far; `secret`: 1 where it may not send;
        `alarms`: how many it has set.

        >>> Stage("none", 1).gauge(0)
        {'waiting': 0, 'outside': 0, 'held': 0, 'secret': 0, 'alarms': 0}
        """
        gauge = ffi.new("busq_stage_gauge *")
        check(lib.busq_stage_examine_process(self._stage, self._index(process), gauge))
        return {
            "waiting": gauge.waiting,
            "outside": gauge.n_submits,
            "held": gauge.held,
            "secret": gauge.is_secret,
            "alarms": gauge.n_alarms,
        }

    def brings_payload(self, what: str) -> bool:
        """Return whether packets of this kind bring the message itself."""
        return arguments.text("what", what) in self._payloads

    def label(self, message: int) -> str:
        """Return what a message is called; ValueError if it was not submitted."""
        label = self._labels.get(integer("message", message))
        if label is None:
            raise ValueError(f"message is {message}: expected one that was submitted here")
        return label

    def execution(self) -> Execution:
        """Return everything that has happened so far.  O(events)."""
        return Execution(
            self._order,
            self._names,
            self._all_events(),
            dict(self._labels),
            dict(self._destinations),
            dict(self._multicasts),
            finished=self.is_finished,
        )

    @property
    def is_finished(self) -> bool:
        """Unless another send follows, what was not delivered never will be: what is under way is not lost yet.

        >>> stage = Stage("none", 2)
        >>> _ = stage.submit(0, "hello", 1)
        >>> stage.is_finished, stage.judge(["lost"])["lost"].text
        (False, '1 copy is not delivered yet')
        """
        return not (self.goes_on and any(one.where != "lost" for one in self.stuck))

    @property
    def goes_on(self) -> bool:
        """Whether a packet is under way, an alarm is set, or a process has to learn of a death.

        >>> stage = Stage("causal-vector:on_crash=go-on", 2)
        >>> _ = stage.crash(0)
        >>> stage.goes_on, [event.kind for event in stage.learn(1, 0)], stage.goes_on
        (True, ['learn'], False)
        """
        facts = self._facts()
        return bool(facts.n_packets or facts.n_notices or any(self.gauge(name)["alarms"] for name in self.processes))

    def history(self, *, whole: bool = False) -> History:
        """Return what observers judge, as Execution.history does, without a detour.  O(events)."""
        history = History(self._names)
        check(lib.busq_stage_tell(self._stage, bool(whole), core_of(history)))
        return history

    def judge(self, properties: Iterable[str] = PROPERTIES) -> dict[str, Verdict]:
        """Judge what has happened so far, as Execution.judge does: what is under way is not lost.  O(events)."""
        return judge(
            lambda whole: self.history(whole=whole),
            bool(self._multicasts),
            properties,
            self.label,
            finished=self.is_finished,
        )

    def _add_job(self, kind: str, process: Process, message: int) -> None:
        facts = self._facts()
        event = Event(float(facts.n_calls), self._index(process), kind, whole_number("message", message, 64))
        self._jobs.append((facts.n_events, event))

    def _all_events(self) -> tuple[Event, ...]:
        events = list(self._events_from(0))
        for place, job in reversed(self._jobs):
            events.insert(place, job)
        return tuple(events)

    def _facts(self) -> Any:
        facts = ffi.new("busq_stage_facts *")
        lib.busq_stage_examine(self._stage, facts)
        return facts

    def _packet(self, number: int) -> Packet:
        number = whole_number("packet", number, 32)
        for packet in self.packets:
            if packet.packet == number:
                return packet
        raise ValueError(f"packet {number} is not in flight")

    def _events_from(self, first: int) -> tuple[Event, ...]:
        raw = lib.busq_stage_events(self._stage)
        events = (raw[place] for place in range(first, self._facts().n_events))
        return tuple(event_of(one, float(one.step), _KINDS[one.kind], self._kinds) for one in events)

    def _index(self, process: Process, argument: str = "process") -> int:
        known = arguments.process(argument, process)
        index = self._indices.get(known, -1) if isinstance(known, str) else known
        if not 0 <= index < len(self._names):
            raise ValueError(f"{process!r} is not one of {', '.join(self._names)}")
        return index
