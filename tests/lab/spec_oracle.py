# SPDX-License-Identifier: Apache-2.0
"""A slow, obviously right judge of histories, to hold the observers against.

Everything is taken from the definitions word by word: "happened before" is a transitive closure, faults are found by
comparing every pair, cycles by reachability.  Good for some tens of events.

A history is written as a transcript, one line per process::

    p0: send 1 to p1 p2; send 2 to p1
    p1: deliver 2; deliver 1
    p2: deliver 1
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from busq.spec import CONDITIONS, PROPERTIES, REMARKS, History, Witness


@dataclass(frozen=True)
class Event:
    """A send to some processes, or a delivery, for which ``to`` is None."""

    message: int
    to: tuple[int, ...] | None = None


Log = list[Event]


def parse(transcript: str) -> list[Log]:
    """Read a transcript; the lines have to come in the order p0, p1, ..."""
    logs: list[Log] = []
    for line in transcript.strip().splitlines():
        name, _, text = line.strip().partition(":")
        assert name == f"p{len(logs)}", f"line {len(logs)} of the transcript starts with {name!r}"
        logs.append([_parse_event(sentence.split()) for sentence in text.split(";") if sentence.strip()])
    return logs


def _parse_event(words: list[str]) -> Event:
    if words[0] == "deliver":
        assert len(words) == 2, words
        return Event(int(words[1]))
    assert words[::2][:2] == ["send", "to"], words
    return Event(int(words[1]), tuple(int(word.removeprefix("p")) for word in words[3:]))


def transcribe(logs: list[Log]) -> str:
    """The transcript of a history, for the message of a failed test."""
    return "\n".join(f"p{p}: " + "; ".join(_transcribe_event(event) for event in log) for p, log in enumerate(logs))


def _transcribe_event(event: Event) -> str:
    if event.to is None:
        return f"deliver {event.message}"
    return " ".join([f"send {event.message} to", *(f"p{q}" for q in event.to)])


def to_history(logs: list[Log]) -> History:
    """The same history, event by event, for the observers."""
    history = History(len(logs))
    for p, log in enumerate(logs):
        for event in log:
            if event.to is None:
                history.deliver(p, event.message)
            else:
                history.send(p, event.message, event.to)
    return history


Place = tuple[int, int]  # process, index in its log


@dataclass
class Oracle:
    """What is true of a history, derived from the definitions."""

    logs: list[Log]
    sends: dict[int, Place] = field(default_factory=dict)  # message -> its send
    first: dict[tuple[int, int], int] = field(default_factory=dict)  # (receiver, message) -> index
    impossible: set[Place] = field(default_factory=set)
    after: dict[Place, set[Place]] = field(default_factory=dict)  # what each event happened before
    claimed_after: dict[Place, set[Place]] = field(default_factory=dict)  # the same, impossible deliveries included
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Judge at once."""
        self.counts = dict.fromkeys(PROPERTIES + REMARKS + CONDITIONS, 0)
        for p, i, event in self.events():
            if event.to is not None and event.message in self.sends:
                self.counts["resent"] += 1
            elif event.to is not None:
                self.sends[event.message] = (p, i)
        self._judge_who_got_what()
        self.claimed_after = self._closure()
        self.impossible = self._find_impossible()
        self.counts["impossible"] = len(self.impossible)
        self.after = self._closure()
        self.counts["fifo"] = len({(r, late) for r, late, _ in self.fifo_faults()})
        self.counts["causal"] = len({(r, late) for r, late, _ in self.causal_faults()})
        self.counts["consistent"] = len({(p, q) for p, q, _, _ in self.disagreements()})
        self.counts["total"] = sum(len(component) for component in self.components())
        self.counts["synchronous"] = sum(len(component) for component in self.crown_components())
        self.counts["c1"] = len({(r, late) for r, late, _ in self.c1_faults()})
        self.counts["c2"] = len({(r, late) for r, late, _ in self.c2_faults()})
        self.counts["c3"] = self.counts["causal"]
        self.counts["mysterious"] = len({m for m, _ in self.mysterious_faults()})

    def events(self) -> Iterator[tuple[int, int, Event]]:
        """Every event with its process and index."""
        for p, log in enumerate(self.logs):
            for i, event in enumerate(log):
                yield p, i, event

    def destinations(self, message: int) -> frozenset[int]:
        """The destinations of the message; empty for one that was not sent."""
        if message not in self.sends:
            return frozenset()
        p, i = self.sends[message]
        return frozenset(self.logs[p][i].to or ())

    def _judge_who_got_what(self) -> None:
        for r, i, event in self.events():
            if event.to is not None:
                continue
            if r not in self.destinations(event.message):
                self.counts["phantom"] += 1
            if (r, event.message) in self.first:
                self.counts["duplicated"] += 1
            else:
                self.first[r, event.message] = i
        for message in self.sends:
            self.counts["lost"] += sum((q, message) not in self.first for q in self.destinations(message))

    def _edge_to(self, r: int, i: int) -> Place | None:
        """The send that hands its past on to this delivery, if there is one."""
        event = self.logs[r][i]
        if event.to is None and self.first[r, event.message] == i and (r, i) not in self.impossible:
            return self.sends.get(event.message)
        return None

    def _find_impossible(self) -> set[Place]:
        """Play the history; where no process can go on, break the circle at its lowest process."""
        done = [0] * len(self.logs)

        def blocker(p: int) -> int | None:
            if done[p] == len(self.logs[p]):
                return None
            send = self._edge_to(p, done[p])
            return send[0] if send is not None and done[send[0]] <= send[1] else None

        while any(done[p] < len(log) for p, log in enumerate(self.logs)):
            free = [p for p, log in enumerate(self.logs) if done[p] < len(log) and blocker(p) is None]
            for p in free:
                done[p] += 1
            if free:
                continue
            way = [next(p for p, log in enumerate(self.logs) if done[p] < len(log))]
            while (following := blocker(way[-1])) not in way:
                assert following is not None
                way.append(following)
            lowest = min(way[way.index(following) :])
            self.impossible.add((lowest, done[lowest]))
        return self.impossible

    def _closure(self) -> dict[Place, set[Place]]:
        after: dict[Place, set[Place]] = {(p, i): set() for p, i, _ in self.events()}
        for p, i, _ in self.events():
            if i:
                after[p, i - 1].add((p, i))
            send = self._edge_to(p, i)
            if send is not None:
                after[send].add((p, i))
        grows = True
        while grows:
            grows = False
            for successors in after.values():
                wider = successors.union(*(after[other] for other in successors))
                grows |= len(wider) > len(successors)
                successors |= wider
        return after

    def deliveries(self, r: int) -> list[int]:
        """The messages that a process delivered, in its order, each once."""
        return sorted((m for q, m in self.first if q == r), key=lambda m: self.first[r, m])

    def fifo_faults(self) -> set[tuple[int, int, int]]:
        """All (receiver, late message, message that overtook it)."""
        return {
            (r, late, other)
            for r in range(len(self.logs))
            for other, late in combinations(self.deliveries(r), 2)
            if r in self.destinations(late)
            and r in self.destinations(other)
            and self.sends[late][0] == self.sends[other][0]
            and self.sends[late][1] < self.sends[other][1]
        }

    def causal_faults(self) -> set[tuple[int, int, int]]:
        """All (receiver, late message, message that overtook it)."""
        return self.fifo_faults() | {
            (r, late, other)
            for r in range(len(self.logs))
            for other, late in combinations(self.deliveries(r), 2)
            if r in self.destinations(late)
            and self._edge_to(r, self.first[r, other]) is not None
            and self.sends[other] in self.after[self.sends[late]]
        }

    def _faults_after_a_delivery(self) -> set[tuple[int, int, int]]:
        """All (receiver, late message, other) where some delivery of the other happened before the late one's."""
        return {
            (r, late, other)
            for r, late in self.first
            if r in self.destinations(late)
            for q, other in self.first
            if other != late
            and self._edge_to(q, self.first[q, other]) is not None
            and (r, self.first[r, late]) in self.after[q, self.first[q, other]]
        }

    def c1_faults(self) -> set[tuple[int, int, int]]:
        """s1 -> s2 and r2 -> r1: all (receiver, late message, the other one)."""
        return self.fifo_faults() | {
            (r, late, other)
            for r, late, other in self._faults_after_a_delivery()
            if self.sends[other] in self.after[self.sends[late]]
        }

    def c2_faults(self) -> set[tuple[int, int, int]]:
        """s1 < s2 in one process and r2 -> r1: all (receiver, late message, the other one)."""
        return self.fifo_faults() | {
            (r, late, other)
            for r, late, other in self._faults_after_a_delivery()
            if self.sends[other][0] == self.sends[late][0] and self.sends[other][1] > self.sends[late][1]
        }

    def sent_before_delivery(self, *, are_logs_believed: bool = True) -> dict[int, set[int]]:
        """Message -> the other messages of which some delivery happened after its send.

        Where logs contradict each other, they are believed, or impossible deliveries left out.
        """
        after = self.claimed_after if are_logs_believed else self.after
        places = {(q, i): m for (q, m), i in self.first.items() if m in self.sends}
        return {
            m: {
                n
                for place, n in places.items()
                if n != m and place in after[self.sends[m]] and (are_logs_believed or place not in self.impossible)
            }
            for m in self.sends
        }

    def mysterious_faults(self) -> set[tuple[int, int]]:
        """All (m, n) that were each sent before a delivery of the other."""
        following = self.sent_before_delivery(are_logs_believed=False)
        return {(m, n) for m in following for n in following[m] if m in following[n]}

    def crown_components(self) -> list[frozenset[int]]:
        """The sets of messages that lie on common crowns."""
        following = self.sent_before_delivery()
        reached = {m: _reach(following, m) for m in following}
        return list({frozenset(n for n in reached[m] if m in reached[n]) for m in following if m in reached[m]})

    def disagreements(self) -> set[tuple[int, int, int, int]]:
        """All (p, q, m, n): p < q, p delivers m before n, q the other way around."""
        orders = [set(combinations(self.deliveries(r), 2)) for r in range(len(self.logs))]
        return {
            (p, q, m, n) for p, q in combinations(range(len(self.logs)), 2) for m, n in orders[p] if (n, m) in orders[q]
        }

    def precedes(self) -> dict[int, set[int]]:
        """Message -> those that some receiver delivers later."""
        following: dict[int, set[int]] = {m: set() for _, m in self.first}
        for r in range(len(self.logs)):
            for m, n in combinations(self.deliveries(r), 2):
                following[m].add(n)
        return following

    def components(self) -> list[frozenset[int]]:
        """The sets of messages that lie on common cycles of the union of all delivery orders."""
        following = self.precedes()
        reached = {m: _reach(following, m) for m in following}
        return list({frozenset(n for n in reached[m] if m in reached[n]) for m in following if m in reached[m]})

    def shortest_cycle(self, component: frozenset[int]) -> int:
        """The length of the shortest cycle in a component."""
        following = {m: successors & component for m, successors in self.precedes().items()}
        return min(_distance(following, m, m) for m in component)

    def shortest_chain(self, message: int, other: int) -> int:
        """How many messages it takes to carry the send of one message to the send of the other."""
        chain: dict[Place, list[Place]] = {place: [] for place in self.sends.values()}
        for r, m in self.first:
            send = self._edge_to(r, self.first[r, m])
            if send is not None:
                chain[send] += [place for place in self.sends.values() if place[0] == r and place[1] > self.first[r, m]]
        start, goal = self.sends[message], self.sends[other]
        starts = [place for place in self.sends.values() if place[0] == start[0] and place[1] >= start[1]]
        if goal in starts:
            return 0
        return min(_distance(chain, place, goal) for place in starts if goal in _reach(chain, place))


def _reach(following: dict, start: object) -> set:  # type: ignore[type-arg]
    reached: set[object] = set()
    front = set(following[start])
    while front:
        reached |= front
        front = {n for m in front for n in following[m]} - reached
    return reached


def _distance(following: dict, start: object, goal: object) -> int:  # type: ignore[type-arg]
    """Edges from the start to the goal, at least one."""
    front, steps = set(following[start]), 1
    while goal not in front:
        front, steps = front | {n for m in front for n in following[m]}, steps + 1
        assert steps <= len(following), "the goal cannot be reached"
    return steps


# ---- is a witness a real one? ----


# How many messages and processes a witness names.
_SHAPES = {
    "lost": (1, {2}),
    "duplicated": (1, {1}),
    "phantom": (1, {1, 2}),
    "fifo": (2, {2}),
    "causal": (2, {3}),
    "consistent": (2, {2}),
    "total": (0, {0}),
    "resent": (1, {2}),
    "impossible": (1, {2}),
    "c1": (2, {3}),
    "c2": (2, {3}),
    "c3": (2, {3}),
    "mysterious": (2, {0}),
}
_HAVE_STEPS = ("causal", "total", "synchronous", "c1", "c2", "c3", "mysterious")


def check_witness(oracle: Oracle, name: str, witness: Witness) -> None:
    """Assert that the witness is true of the history, and a fault of this property."""
    n_messages, n_processes = _SHAPES.get(name, (len(witness.messages), {0}))
    assert len(witness.messages) == n_messages
    assert len(witness.processes) in n_processes
    assert name in _HAVE_STEPS or not witness.steps
    assert witness.steps_left_out == 0
    assert witness.messages_left_out == 0
    if name in ("synchronous", "mysterious"):
        return _check_crown(oracle, name, witness)
    processes = [int(process.removeprefix("p")) for process in witness.processes]
    steps = [(message, int(process.removeprefix("p"))) for message, process in witness.steps]
    _CHECKS[name](oracle, list(witness.messages), processes, steps)
    return None


Steps = list[tuple[int, int]]


def _check_lost(oracle: Oracle, messages: list[int], processes: list[int], _: Steps) -> None:
    assert processes[0] in oracle.destinations(messages[0])
    assert (processes[0], messages[0]) not in oracle.first
    assert oracle.sends[messages[0]][0] == processes[1]
    # It is the first that was sent, and the lowest destination that misses it.
    lost = [(oracle.sends[m], q) for m in oracle.sends for q in oracle.destinations(m) if (q, m) not in oracle.first]
    assert (oracle.sends[messages[0]], processes[0]) == min(lost)


def _check_duplicated(oracle: Oracle, messages: list[int], processes: list[int], _: Steps) -> None:
    assert oracle.logs[processes[0]].count(Event(messages[0])) > 1


def _check_phantom(oracle: Oracle, messages: list[int], processes: list[int], _: Steps) -> None:
    assert (processes[0], messages[0]) in oracle.first
    assert processes[0] not in oracle.destinations(messages[0])
    assert processes[1:] == ([oracle.sends[messages[0]][0]] if messages[0] in oracle.sends else [])


def _check_fifo(oracle: Oracle, messages: list[int], processes: list[int], _: Steps) -> None:
    late, other = messages
    assert (processes[0], late, other) in oracle.fifo_faults()
    assert processes[1] == oracle.sends[late][0]
    distance = min(oracle.first[r, n] - oracle.first[r, m] for r, n, m in oracle.fifo_faults())
    assert oracle.first[processes[0], late] - oracle.first[processes[0], other] == distance


def _check_causal(oracle: Oracle, messages: list[int], processes: list[int], steps: Steps) -> None:
    late, other = messages
    assert (processes[0], late, other) in oracle.causal_faults()
    assert processes[1:] == [oracle.sends[late][0], oracle.sends[other][0]]
    assert len(steps) == oracle.shortest_chain(late, other)
    # Where there is a fault that is no FIFO fault, it is the witness.
    fifo = {(r, n) for r, n, _ in oracle.fifo_faults()}
    assert ((processes[0], late) in fifo) == ({(r, n) for r, n, _ in oracle.causal_faults()} == fifo)
    place = oracle.sends[late]
    for message, process in steps:
        assert oracle.sends[message][0] == place[0]
        assert oracle.sends[message][1] >= place[1]
        place = (process, oracle.first[process, message])
        assert place not in oracle.impossible
    assert oracle.sends[other][0] == place[0]
    assert oracle.sends[other][1] > place[1]


def _check_c2(oracle: Oracle, messages: list[int], processes: list[int], steps: Steps) -> None:
    late = messages[0]
    later = steps[0][0] if steps else messages[1]
    assert (processes[0], late, later) in oracle.c2_faults()
    assert processes[1:] == [oracle.sends[late][0], oracle.sends[messages[1]][0]]
    place = oracle.sends[late]
    for message, process in [*steps, (messages[1], processes[0])]:
        assert message != late
        assert oracle.sends[message][0] == place[0]
        assert oracle.sends[message][1] > place[1]
        place = (process, oracle.first[process, message])
    assert place[1] < oracle.first[processes[0], late]


def _check_crown(oracle: Oracle, name: str, witness: Witness) -> None:
    crown = list(witness.messages)
    following = oracle.sent_before_delivery(are_logs_believed=name == "synchronous")
    assert len(set(crown)) == len(crown) >= 2
    for message, other in zip(crown, crown[1:] + crown[:1], strict=True):
        assert other in following[message]
    if name == "synchronous":
        components = oracle.crown_components()
        mine = next(component for component in components if crown[0] in component)
        assert len(mine) == min(map(len, components))
        assert len(crown) == min(_distance(following, m, m) for m in mine)
    # The steps lead around it, from one event to a later one of the same log, then to another event of that message.
    assert len(witness.steps) == len(witness.kinds)
    places = []
    for kind, (message, process) in zip(witness.kinds, witness.steps, strict=True):
        p = int(process.removeprefix("p"))
        places.append(oracle.sends[message] if kind == "send" else (p, oracle.first[p, message]))
        assert places[-1][0] == p
    assert len(places) % 2 == 0
    assert all(p == q and i < j for (p, i), (q, j) in zip(places[::2], places[1::2], strict=True))
    met = [message for message, _ in witness.steps]
    assert met[1::2] == met[2::2] + met[:1]
    assert set(crown) <= set(met)


def _check_consistent(oracle: Oracle, messages: list[int], processes: list[int], _: Steps) -> None:
    (p, q), (m, n) = processes, messages
    assert (p, q, m, n) in oracle.disagreements()
    distances = dict(_fallen_neighbours(oracle))
    assert distances[p, q, m, n] == min(distances.values())


def _fallen_neighbours(oracle: Oracle) -> Iterator[tuple[tuple[int, int, int, int], int]]:
    """Disagreements about neighbours among the second receiver's common messages, and how far these are apart at both.

    Only messages on cycles are counted.
    """
    on_cycles = {m for component in oracle.components() for m in component}
    orders = [[m for m in oracle.deliveries(r) if m in on_cycles] for r in range(len(oracle.logs))]
    for p, q in combinations(range(len(orders)), 2):
        for n, m in pairwise(m for m in orders[q] if m in orders[p]):
            distance_p = orders[p].index(n) - orders[p].index(m)
            if distance_p > 0:
                yield (p, q, m, n), distance_p + orders[q].index(m) - orders[q].index(n)


def _check_total(oracle: Oracle, _: list[int], __: list[int], steps: Steps) -> None:
    following = [message for message, _ in steps[1:] + steps[:1]]
    for (message, process), other in zip(steps, following, strict=True):
        assert oracle.first[process, message] < oracle.first[process, other]
    components = oracle.components()
    mine = next(component for component in components if steps[0][0] in component)
    assert len(mine) == min(map(len, components))
    assert len(steps) == oracle.shortest_cycle(mine)


def _check_resent(oracle: Oracle, messages: list[int], processes: list[int], _: Steps) -> None:
    sender, i = oracle.sends[messages[0]]
    assert processes[1] == sender
    assert any(
        event.message == messages[0] and event.to is not None and p == processes[0] and (p, j) != (sender, i)
        for p, j, event in oracle.events()
    )


def _check_impossible(oracle: Oracle, messages: list[int], processes: list[int], _: Steps) -> None:
    assert (processes[0], oracle.first[processes[0], messages[0]]) in oracle.impossible
    assert processes[1] == oracle.sends[messages[0]][0]


_CHECKS = {
    "lost": _check_lost,
    "duplicated": _check_duplicated,
    "phantom": _check_phantom,
    "fifo": _check_fifo,
    "causal": _check_causal,
    "consistent": _check_consistent,
    "total": _check_total,
    "resent": _check_resent,
    "impossible": _check_impossible,
    "c1": _check_causal,
    "c2": _check_c2,
    "c3": _check_causal,
}


# ---- histories at random ----


def random_logs(rng: random.Random, *, is_honest: bool, processes_max: int = 5) -> list[Log]:
    """A history of some processes and some 30 events.

    An honest one could happen: messages arrive after they were sent, late, out of order, lost, twice or where they
    should not.  Otherwise the events are thrown together, and logs contradict each other.
    """
    n = rng.randint(1, processes_max)
    return _play(rng, n) if is_honest else _throw(rng, n)


def _play(rng: random.Random, n: int) -> list[Log]:
    logs: list[Log] = [[] for _ in range(n)]
    on_their_way: list[tuple[int, int]] = []
    faults = rng.choice([0.0, 0.05, 0.3])
    straightness = rng.random()
    next_message = 0
    for _ in range(rng.randint(0, 30)):
        if rng.random() < 0.4:
            to = tuple(rng.sample(range(n), rng.randint(0, n)))
            logs[rng.randrange(n)].append(Event(next_message, to))
            on_their_way += [(r, next_message) for r in to if rng.random() >= faults]
            next_message += 1
        elif on_their_way:
            r, m = on_their_way.pop(0 if rng.random() < straightness else rng.randrange(len(on_their_way)))
            logs[r].append(Event(m))
            if rng.random() < faults:
                on_their_way.append((rng.randrange(n), rng.randrange(next_message + 1)))
    return logs


def _throw(rng: random.Random, n: int) -> list[Log]:
    logs: list[Log] = [[] for _ in range(n)]
    n_messages = rng.randint(1, 8)
    for message in range(n_messages):
        for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 1, 2])):
            to = tuple(rng.sample(range(n), rng.randint(0, n)))
            log = rng.choice(logs)
            log.insert(rng.randint(0, len(log)), Event(message, to))
    for _ in range(rng.randint(0, 20)):
        log = rng.choice(logs)
        log.insert(rng.randint(0, len(log)), Event(rng.randrange(n_messages)))
    return logs
