# SPDX-License-Identifier: Apache-2.0
"""Two machines and three servers, of which one thing after another fails; then all that was sent is accounted for.

    PYTHONPATH=tests/bridge:tests python tests/bridge/campaign.py --faults 10000 --seed 1

Each machine has a sender and a member.  A sender follows each wide message with a local one to its machine's member,
which must come behind it.  In the end: both members have the same wide messages in the same order; each message whose
send returned once, what was refused never, what is open at most once, and each sender's in its order.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bridging import WAIT_S, Machine, run_busq, wait_until
from proxy import Proxy

import busq
from busq.bench.nats_servers import NatsServer, servers

LEASE_S = 120.0  # above any fault: no machine is put out
SENDERS = ("m1/sender", "m2/sender")
_BUSES = "busq-campaign"  # what the directories of their buses are called


class Supervised(Machine):
    """A machine whose bridge is begun again, as by a service manager, where it ends since no server answers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ended: list[str] = []  # for a reason that beginning again does not take away
        self._turn, self._is_closed = threading.Lock(), False
        self._supervisor = threading.Thread(target=self._supervise)

    def supervise(self) -> None:
        self._supervisor.start()

    def begin_again(self, after_s: float = 0.0) -> None:
        with self._turn:
            self.end()
            time.sleep(after_s)
            self.begin(waits=False)

    def _supervise(self) -> None:
        while not self._is_closed:
            with self._turn:
                if not self._is_closed and self.process and self.process.poll() is not None:
                    code, written = self.end()
                    if code in (7, 8, 9):
                        self.ended.append(f"the bridge of {self.name} ended with {code}: {written[-300:]}")
                        return
                    self.begin(waits=False)
            time.sleep(0.2)

    def close(self) -> None:
        self._is_closed = True
        self._supervisor.join()
        super().close()


PERHAPS = 2  # beside 1, was sent, and 0, was not: what became of a message


class Wide(NamedTuple):
    """The wide messages that one has received, in columns: ten thousand faults see tens of millions of them."""

    senders: bytearray  # an index into SENDERS
    numbers: array[int]
    batches: array[int]
    indices: array[int]

    @classmethod
    def none(cls) -> Wide:
        return cls(bytearray(), *(array("q") for _ in range(3)))

    def keep(self, message: busq.Message) -> None:
        assert message.place
        row = (SENDERS.index(message.sender), int(message.data), *message.place)
        for column, value in zip(self, row, strict=True):
            column.append(value)

    def row(self, at: int) -> tuple[int, ...] | None:
        return tuple(column[at] for column in self) if at < len(self.senders) else None


class Sender(threading.Thread):
    """Sends numbered messages to the group, alone or many at once, and a local one behind the last that was sent."""

    def __init__(self, machine: Machine, member: str, ends: threading.Event, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._machine, self._member, self._ends, self._chance = machine, member, ends, chance
        self.name_there = f"{machine.name}/sender"
        self.fates = bytearray()  # by number
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            with self._machine.bus.join("sender") as peer:
                while not self._ends.is_set():
                    self._send(peer, self._chance.choice((0.05, 1.0, WAIT_S)))
                self._send(peer, 10 * WAIT_S)
                while not self._end(peer):  # what the last fault has done may not be over
                    time.sleep(0.005)
        except BaseException as error:
            self.failed = error

    def _end(self, peer: Any) -> bool:
        with contextlib.suppress(busq.Unreachable, busq.PeerDead):
            peer.send("@prices", b"", timeout=10 * WAIT_S)
            return True
        return False

    def _send(self, peer: Any, timeout_s: float) -> None:
        first = len(self.fates)
        numbers = range(first, first + self._chance.choice((1, 1, 1, 3, 300)))
        messages = [("@prices", b"%d" % number) for number in numbers]
        n_sent, others = len(messages), 0  # what became of the others
        try:
            if n_sent == 1:
                peer.send(*messages[0], timeout=timeout_s)
            else:  # the messages of a request go through the stream together
                peer.send_many(messages, timeout=timeout_s)
        except (busq.Unreachable, busq.PeerDead, busq.Full) as error:
            of_one = PERHAPS if error.sent is None else error.sent
            n_sent, others = (error.sent, PERHAPS) if len(messages) > 1 else (0, of_one)
            time.sleep(0.005)
        self.fates += bytes(1 if at < n_sent else others for at in range(len(numbers)))
        if n_sent:
            peer.send(self._member, b"%d" % numbers[n_sent - 1], timeout=WAIT_S)


class Member(threading.Thread):
    """Receives, and notes the wide messages and the local ones, until both senders have ended."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(daemon=True)
        self._peer = machine.bus.join("member")
        self._peer.enter("prices")
        self.wide = Wide.none()
        self.wrong: list[str] = []

    def run(self) -> None:
        ended, newest = set(), -1  # of its machine's sender
        with self._peer as peer:
            while len(ended) < 2:
                message = peer.recv(timeout=20 * WAIT_S)
                if message.kind != "data":
                    continue
                if message.place is None:
                    if int(message.data) > newest:
                        self.wrong.append(f"local {message.data!r} came before the wide one")
                    continue
                if not message.data:
                    ended.add(message.sender)
                    continue
                self.wide.keep(message)
                if message.sender.startswith(self._peer_machine):
                    newest = int(message.data)

    def on(self, machine: Machine) -> Member:
        self._peer_machine = f"{machine.name}/"
        return self


def has_entered(peer: busq.Peer) -> bool:
    """Enters, if its bridge is not dead just now."""
    try:
        peer.enter("prices")
    except busq.PeerDead:
        return False
    return True


class Visitor:
    """A member in a process of its own, which is killed and stopped."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.begin()

    def begin(self) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException), busq.Bus.open(self._machine.bus.name) as bus:
                peer = bus.join(f"visitor-{os.getpid()}")
                while not has_entered(peer):
                    time.sleep(0.01)
                while os.getppid() != 1:
                    with contextlib.suppress(busq.Empty):
                        peer.recv_many(100, timeout=1)
            os._exit(0)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class World:
    """What can fail."""

    def __init__(self, started: list[NatsServer], stack: contextlib.ExitStack, chance: random.Random) -> None:
        self.servers, self._chance = started, chance
        ports = [int(one.url.rpartition(":")[2]) for one in started]
        self.machines, self.proxies = [], []
        for name in ("m1", "m2"):
            proxies = [stack.enter_context(contextlib.closing(Proxy(port))) for port in ports]
            machine = stack.enter_context(contextlib.closing(Supervised(started[0], name)))
            urls = [f"nats://127.0.0.1:{proxy.port}" for proxy in proxies]
            machine.options = ["--lease", str(LEASE_S), *(word for url in urls for word in ("--server", url))]
            machine.server = machine  # type: ignore[assignment]  # its own way to the servers
            machine.url = urls[0]  # type: ignore[attr-defined]
            machine.begin()
            machine.supervise()
            self.machines.append(machine)
            self.proxies += proxies
        self.visitor = Visitor(self.machines[1])
        stack.callback(lambda: self.visitor.end())

    def _while_s(self) -> float:
        return self._chance.choice((0.01, 0.1, 0.5))

    def bridge_killed(self) -> None:
        self._chance.choice(self.machines).begin_again(self._chance.choice((0.0, 0.05)))

    def bridge_killed_twice(self) -> None:
        machine = self._chance.choice(self.machines)
        for _ in range(2):
            machine.begin_again()
            time.sleep(self._chance.random() * 0.6)

    def bridge_stopped(self) -> None:
        machine = self._chance.choice(self.machines)
        assert machine.process
        self._stop(machine.process.pid)

    def server_killed(self) -> None:
        self._kill_servers(1)

    def servers_killed(self) -> None:
        self._kill_servers(2)

    def server_stopped(self) -> None:
        self._stop(self._chance.choice(self.servers).process.pid)

    def leader_moved(self) -> None:
        run_busq("bridge", "leader-move", "d", *(word for one in self.servers for word in ("--server", one.url)))

    def member_killed(self) -> None:
        self.visitor.end()
        self.visitor.begin()

    def member_stopped(self) -> None:
        self._stop(self.visitor.pid)

    def network_cut(self) -> None:
        self._chance.choice(self.proxies).cut(self._while_s())

    def network_flaps(self) -> None:
        proxy = self._chance.choice(self.proxies)
        for _ in range(3):
            proxy.cut(0.02)
            time.sleep(0.05)

    def network_has_a_hole(self) -> None:
        self._chance.choice(self.proxies).hole(self._while_s())

    def machine_cut_off(self) -> None:
        half = self._chance.choice((self.proxies[:3], self.proxies[3:]))
        threads = [threading.Thread(target=proxy.cut, args=(0.3,)) for proxy in half]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _kill_servers(self, count: int) -> None:
        victims = self._chance.sample(self.servers, count)
        for one in victims:
            one.end()
        time.sleep(self._while_s())
        for one in victims:
            one.start()

    def _stop(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self._while_s())
            os.kill(pid, signal.SIGCONT)


FAULTS: tuple[Callable[[World], None], ...] = (
    *(World.bridge_killed, World.bridge_killed_twice, World.bridge_stopped),
    *(World.server_killed, World.servers_killed, World.server_stopped, World.leader_moved),
    *(World.member_killed, World.member_stopped),
    *(World.network_cut, World.network_flaps, World.network_has_a_hole, World.machine_cut_off),
)


@contextlib.contextmanager
def own_buses() -> Iterator[None]:
    """A directory of buses for this process alone; those that killed ones have left are removed."""
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    for left in base.glob(f"{_BUSES}-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    former = os.environ.get("BUSQ_DIR")
    with tempfile.TemporaryDirectory(prefix=f"{_BUSES}-{os.getpid()}-", dir=base) as made:
        os.environ["BUSQ_DIR"] = made
        try:
            yield
        finally:
            os.environ.pop("BUSQ_DIR")
            os.environ.update({"BUSQ_DIR": former} if former else {})


def run(n_faults: int, seed: int, directory: Path, say: Callable[[str], object] = lambda _: None) -> list[str]:
    """Let so many things fail; return what was wrong."""
    chance = random.Random(seed)
    with servers(directory, 3) as started, contextlib.ExitStack() as stack:
        urls = [word for one in started for word in ("--server", one.url)]
        init = ("bridge", "init", "d", "--replicas", "3", *urls)
        wait_until("the servers have found each other", lambda: run_busq(*init).returncode == 0)
        world, ends = World(started, stack, chance), threading.Event()
        members = [Member(machine).on(machine) for machine in world.machines]
        senders = [Sender(machine, "member", ends, random.Random(seed + n)) for n, machine in enumerate(world.machines)]
        for thread in (*members, *senders):
            thread.start()
        done: collections.Counter[str] = collections.Counter()
        for number in range(n_faults):
            fault = chance.choice(FAULTS)
            fault(world)
            done[fault.__name__] += 1
            time.sleep(chance.choice((0.0, 0.05, 0.3)))
            if (number + 1) % 50 == 0:
                n_sent = sum(sender.fates.count(1) for sender in senders)
                say(f"{number + 1:,} of {n_faults:,} faults, {n_sent:,} messages sent")
            ended = [text for machine in world.machines for text in machine.ended]
            if ended:
                return ended
        ends.set()
        for sender in senders:
            sender.join()
        if any(sender.failed for sender in senders):  # then its last message never comes, and the members wait for that
            return [f"{sender.name_there}: {sender.failed!r}" for sender in senders if sender.failed]
        for member in members:
            member.join()
    say(", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in sorted(done.items())))
    return list(found_wrong(members, senders))


def found_wrong(members: list[Member], senders: list[Sender]) -> Iterator[str]:
    """Compare what the members have received with the fates of what was sent."""
    first, second = (member.wide for member in members)
    if first != second:
        rows = max(len(first.senders), len(second.senders))
        at = next(n for n in range(rows) if first.row(n) != second.row(n))
        yield f"the members differ at {at:,}: {first.row(at)} and {second.row(at)}"
    if not all(one < other for one, other in pairwise(zip(first.batches, first.indices, strict=True))):
        yield "places are used twice, or go back"
    for member in members:
        yield from member.wrong[:3]
    for sender in senders:
        if sender.failed is not None:
            yield f"{sender.name_there}: {type(sender.failed).__name__}: {sender.failed}"
        own = SENDERS.index(sender.name_there)
        numbers = array("q", (number for at, number in zip(first.senders, first.numbers, strict=True) if at == own))
        if not all(one < other for one, other in pairwise(numbers)):
            yield f"{sender.name_there}: doubled, or out of order"
        received = bytearray(len(sender.fates))
        for number in numbers:
            received[number] = 1
        lost, invented = (
            [n for n, pair in enumerate(zip(sender.fates, received, strict=True)) if pair == bad]
            for bad in ((1, 0), (0, 1))
        )
        if lost or invented:
            yield f"{sender.name_there}: lost {lost[:5]}, came though withdrawn {invented[:5]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: all processes are ended
    with own_buses(), tempfile.TemporaryDirectory() as directory:
        wrong = run(options.faults, options.seed, Path(directory), lambda text: print(text, flush=True))
    print("\n".join(wrong) or "nothing lost, doubled or disordered")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
