# SPDX-License-Identifier: Apache-2.0
"""A replicated state machine: a store of keys and values, kept by several processes that get the same updates.

Garg, section 12.3.4: "We can build such a service using t+1 processors": each starts in the same state and executes
the same requests in the same order.  Clients send conflicting updates by multicast.  Under a total order the replicas
stay identical, and t of them may crash; under a weaker one they diverge.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import busq
from busq import orders
from busq.lab.examples import verdicts
from busq.lab.examples.crew import Crew, Link
from busq.lab.execution import judge
from busq.lab.observers import PROPERTIES, History, Verdict

__all__ = ["Difference", "Outcome", "Store", "client", "replica", "run"]

KEYS = ("x", "y", "z")
MODULUS = 1_000_003  # a prime, so that nothing is forgotten
PATIENCE_S = 30.0
SHUFFLE_MS = 3.0
PAUSE_S_MAX = 0.0004  # between two updates of a client: so that those of several clients meet


class Store:
    """The state machine: deterministic, so that the same updates in the same order give the same state.

    >>> store = Store()
    >>> store.apply({"do": "add", "key": "x", "value": 2})
    >>> store.apply({"do": "double", "key": "x"})
    >>> store.values
    {'x': 4}
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def apply(self, update: dict[str, Any]) -> None:
        """Execute one update.  Two on the same key in another order leave another state for ever."""
        key, entry = update["key"], self.values.get(update["key"], 0)
        self.values[key] = (entry * 2 if update["do"] == "double" else entry + update["value"]) % MODULUS

    def digest(self) -> str:
        """Return the state in a few letters: equal where the states are equal."""
        text = json.dumps(self.values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def random_update(chance: random.Random) -> dict[str, Any]:
    """Draw an update that conflicts with others: there are few keys."""
    update: dict[str, Any] = {"do": chance.choice(("add", "double")), "key": chance.choice(KEYS)}
    if update["do"] == "add":
        update["value"] = chance.randrange(1, MODULUS)
    return update


@dataclass(frozen=True)
class Difference:
    """The first place at which two replicas executed different updates, each named by its client and number."""

    place: int
    replicas: tuple[str, str]
    updates: tuple[str, str]


@dataclass(frozen=True)
class Outcome:
    """The state of the replicas: the digest of each that lived, and how many updates each has executed."""

    order: str
    seed: int
    updates: int
    digests: dict[str, str]
    executed: dict[str, int]
    killed: tuple[str, ...]
    difference: Difference | None
    verdicts: dict[str, Verdict]
    seconds: float

    @property
    def are_identical(self) -> bool:
        """Whether all that live have the same state, by the same updates; and the killed were on the way to it."""
        return len(set(self.digests.values())) == 1 and self.difference is None

    @property
    def is_total(self) -> bool:
        """Whether the order promises that replicas stay identical."""
        return "total" in verdicts.claims(self.order)

    @property
    def ok(self) -> bool:
        """Whether everything is as the order promises."""
        return not verdicts.broken(self.order, self.verdicts) and (self.are_identical or not self.is_total)

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        difference = self.difference
        return {
            "ok": self.ok,
            "order": self.order,
            "seed": self.seed,
            "identical": self.are_identical,
            "promised": self.is_total,
            "digests": self.digests,
            "executed": self.executed,
            "killed": list(self.killed),
            "difference": None
            if difference is None
            else {"place": difference.place, **dict(zip(difference.replicas, difference.updates, strict=True))},
            "messages": self.updates,
            "deliveries": sum(self.executed.values()),
            "seconds": round(self.seconds, 3),
            "verdicts": verdicts.as_json(self.order, self.verdicts),
        }


def run(
    order: str = "skeen",
    *,
    replicas: int = 3,
    clients: int = 2,
    updates: int = 200,
    kill: int = 0,
    seed: int | None = None,
) -> Outcome:
    """Run replicas and clients as processes on a bus, and compare what the replicas did.

    Parameters: `updates` of each client; `kill`, how many replicas crash when they have executed half of all updates
    (only under bus1: the other orders have no answer to crashes); `seed` of the updates and of the network, which
    delays packets by up to 3 ms, though not of the interleaving.

    Errors: ValueError for what cannot be, CrewError.  Cost: about a second.
    """
    orders.parse(order)
    if replicas < 2 or clients < 1 or updates < 1 or not 0 <= kill < replicas:
        raise ValueError(
            f"{replicas} replicas, {kill} to kill, {clients} clients, {updates} updates: expected two replicas or "
            "more, of which one lives, and a client with an update"
        )
    if kill and order != "bus1":
        raise ValueError(f"order {order} has no answer to crashes: to kill replicas needs order bus1")
    chosen = random.SystemRandom().getrandbits(32) if seed is None else seed
    names = [f"r{number}" for number in range(replicas)], [f"c{number}" for number in range(clients)]
    with tempfile.TemporaryDirectory(prefix="busq-replicas-") as logs:
        return _Run(order, *names, updates, kill, chosen, Path(logs)).run()


class _Run:
    """One run: the bus, the processes, and what they wrote down."""

    def __init__(
        self, order: str, replicas: list[str], clients: list[str], updates: int, kill: int, seed: int, logs: Path
    ) -> None:
        self._order = order
        self._replicas = replicas
        self._clients = clients
        self._updates = updates
        self._killed = tuple(replicas[len(replicas) - kill :])
        self._seed = seed
        self._logs = logs

    def run(self) -> Outcome:
        name = f"replicas-{os.getpid()}-{time.monotonic_ns()}"
        everybody = [*self._replicas, *self._clients]
        with busq.Bus.create(name, order=self._order, peers=len(everybody)):
            try:
                with Crew() as crew:
                    self._start(crew, name)
                    crew.gather("joined", PATIENCE_S)
                    began_s = time.monotonic()
                    crew.tell_all(go=True)
                    ended = crew.gather("ended", PATIENCE_S, without_mortals=True)
                    seconds = time.monotonic() - began_s
            finally:
                busq.Bus.unlink(name)
        logs = {replica: (self._logs / replica).read_text().splitlines() for replica in self._replicas}
        return self._compare(logs, {name: ended[name] for name in self._replicas if name in ended}, seconds)

    def _start(self, crew: Crew, room: str) -> None:
        half = self._updates * len(self._clients) // 2
        for number, name in enumerate(self._replicas):
            is_killed = name in self._killed
            crew.start(
                name,
                "busq.lab.examples.replicas:replica",
                mortal=is_killed,
                room=room,
                name=name,
                log=str(self._logs / name),
                clients=self._clients,
                dies_after=half if is_killed else None,
                seed=self._seed + number,
            )
        for number, name in enumerate(self._clients):
            crew.start(
                name,
                "busq.lab.examples.replicas:client",
                room=room,
                name=name,
                replicas=self._replicas,
                updates=self._updates,
                seed=self._seed + len(self._replicas) + number,
            )

    def _compare(self, logs: dict[str, list[str]], digests: dict[str, str], seconds: float) -> Outcome:
        return Outcome(
            order=self._order,
            seed=self._seed,
            updates=self._updates * len(self._clients),
            digests=digests,
            executed={name: len(log) for name, log in logs.items()},
            killed=self._killed,
            difference=first_difference(logs, self._killed),
            verdicts=self._judge(logs),
            seconds=seconds,
        )

    def _judge(self, logs: dict[str, list[str]]) -> dict[str, Verdict]:
        """Return the verdicts of the observers about those that lived."""
        lived = [name for name in self._replicas if name not in self._killed]
        history = History([*lived, *self._clients])
        words: dict[int, str] = {}  # by message
        for number, name in enumerate(self._clients):
            for update in range(1, self._updates + 1):
                words[number << 32 | update] = f"{name}#{update}"
                history.send(name, number << 32 | update, lived)
        by_word = {word: message for message, word in words.items()}
        for name in lived:
            history.deliver_many(name, [by_word[line] for line in logs[name]])
        return judge(lambda whole: history, False, PROPERTIES, words.__getitem__)


def first_difference(logs: dict[str, list[str]], killed: Sequence[str] = ()) -> Difference | None:
    """Return the first place where two logs differ; one that was killed may end early.

    >>> first_difference({"r0": ["a", "b", "c"], "r1": ["a", "c", "b"]})
    Difference(place=1, replicas=('r0', 'r1'), updates=('b', 'c'))
    >>> first_difference({"r0": ["a", "b"], "r1": ["a"]}, killed=["r1"]) is None
    True
    """
    differences: list[Difference] = []
    names = [name for name in logs if name not in killed]
    for name in logs:
        if name == names[0]:
            continue
        pair = names[0], name
        length = len(logs[name]) if name in killed else max(len(logs[one]) for one in pair)
        for place in range(length):
            updates = tuple(logs[one][place] if place < len(logs[one]) else "nothing" for one in pair)
            if updates[0] != updates[1]:
                differences.append(Difference(place, pair, (updates[0], updates[1])))
                break
    return min(differences, key=lambda one: one.place, default=None)


# ---- in processes of their own ----


def replica(link: Link, room: str, name: str, log: str, clients: list[str], dies_after: int | None, seed: int) -> None:
    """Be a replica: execute updates as they are delivered, and write down which, until all clients have ended."""
    _shuffle(seed)
    store = Store()
    left = dict.fromkeys(clients, -1)  # how many updates are missing; negative: not known so far
    counts = dict.fromkeys(clients, 0)
    with busq.Bus.open(room) as bus, bus.join(name) as peer, open(log, "w", encoding="utf-8") as file:
        link.say(joined=True)
        link.hear()
        while any(left[client] != counts[client] for client in clients):
            message = peer.recv(timeout=PATIENCE_S)
            word = json.loads(message.data)
            if "end" in word:
                left[message.sender] = word["end"]
                continue
            store.apply(word)
            counts[message.sender] += 1
            file.write(f"{message.sender}#{word['number']}\n")
            file.flush()
            if sum(counts.values()) == dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
        link.say(ended=store.digest())
        with contextlib.suppress(EOFError):
            link.hear()


def client(link: Link, room: str, name: str, replicas: list[str], updates: int, seed: int) -> None:
    """Be a client: send updates to all replicas that live, and then how many there were."""
    chance = random.Random(seed)
    _shuffle(seed)
    with busq.Bus.open(room) as bus, bus.join(name) as peer:
        link.say(joined=True)
        link.hear()
        to = list(replicas)
        for number in range(1, updates + 1):
            to = _send(bus, peer, to, random_update(chance) | {"number": number})
            time.sleep(chance.uniform(0, PAUSE_S_MAX))
        _send(bus, peer, to, {"end": updates})
        link.say(ended=None)
        with contextlib.suppress(EOFError):
            link.hear()


def _shuffle(seed: int) -> None:
    """Let the packets of this process overtake each other, where its order has packets."""
    os.environ["BUSQ_SHUFFLE"] = f"{seed & 0xFFFFFFFF}:{SHUFFLE_MS}"


def _send(bus: busq.Bus, peer: Any, to: list[str], word: dict[str, Any]) -> list[str]:
    """Send to all of these that live, once; return which they are."""
    while True:
        try:
            peer.send(to, json.dumps(word).encode(), timeout=PATIENCE_S)
            return to
        except busq.PeerDead:  # no replica got it
            alive = bus.peers()
            to = [name for name in to if name in alive]
