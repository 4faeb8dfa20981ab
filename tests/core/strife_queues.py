# SPDX-License-Identifier: Apache-2.0
"""Processes that share queues are killed and stopped, again and again, with everything that queues can do at once.

    python tests/core/strife_queues.py [KILLS [SECONDS]]

Guarantee: nothing that was put is lost but what a killed process had just got, nothing comes twice or out of order, no
object is damaged, and of each round nothing is left: no memory in use, no live participant, no more files; at the end
no file at all.  (The place of a queue that other processes have had stays until its bus ends.)

Mechanism. A round has new queues: `plain` and `shown`, whose arrays are views that are kept for a while, and a
`JoinableQueue`; all are bounded, so an object is in when `put` returns. Putters note before and after each `put`, and
getters what they got, in memory of their own beside the bus. Every other round has a bus whose arena is too small for
the largest objects. At the end of a round any process may be the one that shuts a queue down, and may be killed in the
middle; the parent does it again, gets what is left, and compares.
"""

from __future__ import annotations

import fcntl
import gc
import mmap
import os
import pickle
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from typing import Any

import busq

N_WORKERS = 9
KILLS_A_ROUND = 250  # and of a short run half of its kills
SIZES = (10,) * 24 + (5_000, 70_000, 300_000, 3 << 20)
SLOT = struct.Struct("qq")  # of a putter: how many it has begun to put, and how many it has put
HEARD = struct.Struct("qqq")  # queue, putter, number
PATIENCE_S = 120


class Judge:
    """What one round came to."""

    def __init__(self) -> None:
        self.slots = mmap.mmap(-1, SLOT.size * 3 * (KILLS_A_ROUND + 2 * N_WORKERS))
        self.heard_fd = os.memfd_create("heard")  # a kill leaves whole records
        fcntl.fcntl(self.heard_fd, fcntl.F_SETFL, os.O_APPEND)
        self.putters: list[int] = []  # the queue of each
        self.getters_killed: Counter[int] = Counter()

    def note_put(self, putter: int, begun: int, done: int) -> None:
        SLOT.pack_into(self.slots, SLOT.size * putter, begun, done)

    def note_got(self, queue: int, putter: int, number: int) -> None:
        os.write(self.heard_fd, HEARD.pack(queue, putter, number))

    def judge(self) -> tuple[int, int]:
        """Return how many were got, and how many were lost with a process that had got them."""
        size = os.fstat(self.heard_fd).st_size
        heard: dict[int, list[int]] = defaultdict(list)
        for queue, putter, number in HEARD.iter_unpack(os.pread(self.heard_fd, size, 0)):
            assert queue == self.putters[putter], "got from another queue than it was put into"
            heard[putter].append(number)
        lost: Counter[int] = Counter()
        for putter, queue in enumerate(self.putters):
            begun, done = SLOT.unpack_from(self.slots, SLOT.size * putter)
            numbers = Counter(heard[putter])
            assert all(1 <= number <= begun for number in numbers), "got what was not put"
            assert queue == 2 or max(numbers.values(), default=1) == 1, "came twice"
            lost[queue] += sum(number not in numbers for number in range(1, done + 1))
        assert not lost[2], f"{lost[2]} of a JoinableQueue are lost"
        assert lost <= self.getters_killed, (lost, self.getters_killed)
        os.close(self.heard_fd)
        return sum(map(len, heard.values())), lost.total()


def content(putter: int, number: int, size: int) -> bytearray:
    return bytearray([(putter * 7 + number) % 251]) * size


def check_content(putter: int, number: int, data: Any) -> None:
    expected = (putter * 7 + number) % 251
    assert data[0] == data[-1] == data[len(data) // 2] == expected, "damaged"


def put_all_the_time(queue: Any, judge: Judge, putter: int, chance: random.Random) -> None:
    number = 0
    while True:
        number += 1
        judge.note_put(putter, number, number - 1)
        try:
            queue.put((putter, number, pickle.PickleBuffer(content(putter, number, chance.choice(SIZES)))))
        except busq.ShutDown:
            return
        judge.note_put(putter, number, number)


def get_all_the_time(queue: Any, which: int, judge: Judge, chance: random.Random | None) -> None:
    """Until the queue is shut down, and empty; views are kept for a while."""
    kept: list[tuple[int, int, Any]] = []
    last: dict[int, int] = {}
    while True:
        try:
            putter, number, data = queue.get(timeout=PATIENCE_S)
        except busq.ShutDown:
            return
        judge.note_got(which, putter, number)
        assert which == 2 or last.get(putter, 0) < number, "out of order"
        last[putter] = number
        check_content(putter, number, data)
        kept.append((putter, number, data))
        if which == 2:
            queue.task_done()
        while len(kept) > 3:
            check_content(*kept.pop(0))
        if chance is not None and chance.random() < 0.01:
            time.sleep(0.002)


def in_a_child(body: Any, *arguments: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        body(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def play_on_a_small_bus(n_kills: int, chance: random.Random, directory: str) -> tuple[int, int, int]:
    """Play a round in which the largest objects are larger than the arena, and leave none of their memory reserved."""
    with busq.Bus.create("small", peers=64, arena=1 << 20, temporary=True) as bus:
        reserved = [os.stat(f"{directory}/small").st_blocks * 512]
        found = play_round(n_kills, chance, bus)
        bus.repair(), bus.collect()
        reserved.append(os.stat(f"{directory}/small").st_blocks * 512)
        assert bus.stats()["arena_used_bytes"] == 0
        assert reserved[1] - reserved[0] < 1 << 20, reserved  # the first pages of what was beyond the arena
    return found


def play_round(n_kills: int, chance: random.Random, bus: busq.Bus | None) -> tuple[int, int, int]:
    """Return how many objects were got, how many were lost with their getter, and how many kills it took."""
    judge = Judge()
    queues: list[Any] = [
        busq.Queue(100, bus=bus),
        busq.Queue(100, bus=bus, views=True),
        busq.JoinableQueue(100, bus=bus),
    ]
    workers: list[tuple[int, int, bool]] = []  # process, queue, whether it gets

    def start(which: int, gets: bool) -> None:
        seed = random.Random(chance.random())
        if gets:
            pid = in_a_child(get_all_the_time, queues[which], which, judge, seed)
        else:
            judge.putters.append(which)
            pid = in_a_child(put_all_the_time, queues[which], judge, len(judge.putters) - 1, seed)
        workers.append((pid, which, gets))

    def end(worker: tuple[int, int, bool]) -> None:
        pid, which, gets = worker
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status), f"a worker of queue {which} ended by itself"
        if gets:
            judge.getters_killed[which] += 1

    for which in range(3):
        start(which, True), start(which, False), start(which, False)
    for _ in range(n_kills):
        worker = workers.pop(chance.randrange(len(workers)))
        if chance.random() < 0.3:
            os.kill(worker[0], signal.SIGSTOP)
            time.sleep(chance.random() * 0.01)
            os.kill(worker[0], signal.SIGCONT)
        time.sleep(chance.random() * 0.02)
        end(worker)
        start(*worker[1:])
    for which, queue in enumerate(queues):
        ender = in_a_child(queue.shutdown)
        if chance.random() < 0.5:
            time.sleep(chance.random() * 0.004)
            os.kill(ender, signal.SIGKILL)
        os.waitpid(ender, 0)
        queue.shutdown()
        for worker in [worker for worker in workers if worker[1] == which and not worker[2]]:
            workers.remove(worker)
            os.kill(worker[0], signal.SIGKILL)  # or it has met ShutDown already
            os.waitpid(worker[0], 0)
        get_all_the_time(queue, which, judge, None)
    for worker in workers:
        assert os.waitpid(worker[0], 0)[1] == 0, "a getter has failed"
    found = judge.judge()
    return *found, n_kills


def alive(bus: busq.Bus) -> list[str]:
    return [peer["name"] for peer in bus.stats()["peers"] if peer["alive"]]


def main(arguments: list[str]) -> None:
    n_kills = int(arguments[0]) if arguments else 20_000
    limit_s = float(arguments[1]) if len(arguments) > 1 else float("inf")
    seed = int(os.environ.get("BUSQ_TEST_SEED") or random.randrange(1 << 32))
    print(f"BUSQ_TEST_SEED={seed}", flush=True)
    chance = random.Random(seed)
    began = time.monotonic()
    n_done = n_got = n_lost = 0
    n_kills_a_round = min(KILLS_A_ROUND, (n_kills + 1) // 2)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.environ["BUSQ_DIR"] = directory
        first: busq.Queue[int] = busq.Queue()  # keeps the bus: so what a round leaves would be seen
        bus = first._home.bus
        before = alive(bus), 0, os.listdir("/proc/self/fd")
        while n_done < n_kills and time.monotonic() - began < limit_s:
            asked = min(n_kills_a_round, n_kills - n_done)
            is_small = n_done // n_kills_a_round % 2 == 1
            got, lost, killed = (
                play_on_a_small_bus(asked, chance, directory) if is_small else play_round(asked, chance, None)
            )
            n_done, n_got, n_lost = n_done + killed, n_got + got, n_lost + lost
            gc.collect()
            bus.repair(), bus.collect()
            left = alive(bus), bus.stats()["arena_used_bytes"], os.listdir("/proc/self/fd")
            assert left == before, (left, before)
            blocks = sum(os.stat(f"{directory}/{name}").st_blocks * 512 for name in os.listdir(directory))
            print(f"{n_done:,} kills, {n_got:,} objects, {n_lost} lost; {blocks:,} bytes reserved", flush=True)
        del first, bus
        gc.collect()
        assert not os.listdir(directory), os.listdir(directory)
    print(f"{n_done:,} kills: {n_got:,} objects got, {n_lost} lost, each with a killed process that had got it")


if __name__ == "__main__":
    main(sys.argv[1:])
