# SPDX-License-Identifier: Apache-2.0
"""Processes that share queues are killed and stopped, again and again, with everything that queues can do at once.

    python tests/core/strife_queues.py [KILLS [SECONDS]]

Guarantee: nothing that was put is lost but what a killed process had just got, nothing comes twice or out of order, no
object is damaged, and of each round nothing is left: no memory in use, no live participant, no more files; at the end
no file at all.  (The place of a queue that other processes have had stays until its bus ends.)

Mechanism. A round has new queues: plain ones, of views that are kept for a while, of tasks, and one with `ends=True`;
all are bounded, so an object is in when `put` returns. Putters note before and after each `put`, and getters what they
got, in memory of their own beside the bus. Every other round has a bus whose arena is too small for the largest
objects. At the end of a round each queue ends; the parent gets what is left, and compares.

What is judged, beside that:
`shutdown`: another process calls it, and may be killed or stopped in the middle; the parent does it again. Each process
    that waits wakes and ends by itself; a `put` that has raised has put nothing; nothing is got any more once the
    parent has found the end.
`shutdown(immediate=True)`: as well, and once it has returned nothing is got. Of each putter what is dropped lies behind
    all that was got, but for what killed getters had taken. `join` of tasks returns. No memory is kept.
`ends=True`: no getter finds the end while the parent may put. It comes without a call once no process is left that may:
    whether they were killed or have closed the queue.
stops: a worker stands still while others are killed, and while its queue is shut down and emptied: none waits for it.
    Continued, it ends as any other. One that may put holds up the end of `ends=True`, so there all go on before.
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
import threading
import time
import traceback
from collections import Counter, defaultdict
from typing import Any

import busq

PLAIN, SHOWN, TASKS, ENDING = range(4)
N_WORKERS = 12
N_STOPPED = 3
KILLS_A_ROUND = 100  # and of a short run half of its kills
SIZES = (10,) * 24 + (5_000, 70_000, 300_000, 3 << 20)
HEARD = struct.Struct("qqq")  # queue, putter, number
PATIENCE_S = 120


class Judge:
    """What one round came to."""

    def __init__(self, queues: list[Any]) -> None:
        self.has_tasks = [isinstance(queue, busq.JoinableQueue) for queue in queues]
        self.is_enough = mmap.mmap(-1, 1)  # for those that put until the end comes by itself
        self.dropped: set[int] = set()  # queues
        n_putters = KILLS_A_ROUND + N_WORKERS
        numbers = memoryview(mmap.mmap(-1, 16 * n_putters)).cast("q")  # each is written in one step, as a kill needs it
        self.begun, self.done = numbers[:n_putters], numbers[n_putters:]  # by each putter
        self.heard_fd = os.memfd_create("heard")  # a kill leaves whole records
        fcntl.fcntl(self.heard_fd, fcntl.F_SETFL, os.O_APPEND)
        self.putters: list[int] = []  # the queue of each
        self.getters_killed: Counter[int] = Counter()

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
            done, numbers = self.done[putter], Counter(heard[putter])
            assert all(1 <= number <= self.begun[putter] for number in numbers), "got what was not put"
            assert self.has_tasks[queue] or max(numbers.values(), default=1) == 1, "came twice"
            if queue in self.dropped:
                done = max(numbers, default=0)
            elif self.has_tasks[queue]:
                assert len(numbers) >= done, f"{done - len(numbers)} tasks are lost"
            lost[queue] += sum(number not in numbers for number in range(1, done + 1))
        assert lost <= self.getters_killed, (lost, self.getters_killed)
        os.close(self.heard_fd)
        return sum(map(len, heard.values())), lost.total()


def content(putter: int, number: int, size: int) -> bytearray:
    return bytearray([(putter * 7 + number) % 251]) * size


def check_content(putter: int, number: int, data: Any) -> None:
    expected = (putter * 7 + number) % 251
    assert data[0] == data[-1] == data[len(data) // 2] == expected, "damaged"


def put_all_the_time(queues: list[Any], which: int, judge: Judge, putter: int, chance: random.Random) -> None:
    """Until the queue is shut down, or it is enough."""
    use_alone(queues, which)
    number = 0
    while which != ENDING or not judge.is_enough[0]:
        number += 1
        judge.begun[putter] = number
        try:
            queues[which].put((putter, number, pickle.PickleBuffer(content(putter, number, chance.choice(SIZES)))))
        except busq.ShutDown:
            judge.begun[putter] = number - 1
            return
        judge.done[putter] = number
    queues[which].close()
    if chance.random() < 0.5:
        signal.pause()  # until it is killed


def get_all_the_time(queues: list[Any], which: int, judge: Judge, chance: random.Random | None) -> None:
    """Until the queue is shut down, and empty; views are kept for a while."""
    if chance is not None:
        use_alone(queues, which)
    queue, has_tasks = queues[which], judge.has_tasks[which]
    kept: list[tuple[int, int, Any]] = []
    last: dict[int, int] = {}
    while True:
        try:
            putter, number, data = queue.get(timeout=PATIENCE_S)
        except busq.ShutDown:
            return
        judge.note_got(which, putter, number)
        assert has_tasks or last.get(putter, 0) < number, "out of order"
        last[putter] = number
        check_content(putter, number, data)
        kept.append((putter, number, data))
        if has_tasks:
            queue.task_done()
        while len(kept) > 3:
            check_content(*kept.pop(0))
        if chance is not None and chance.random() < 0.01:
            time.sleep(0.002)


def use_alone(queues: list[Any], which: int) -> None:
    """Close what a forked worker doesn't use, or it would count as one that may put."""
    if which != ENDING:
        queues[ENDING].close()


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
        gc.collect()  # as in `main`: views of objects that were got may stand in a cycle of the round
        bus.repair(), bus.collect()
        reserved.append(os.stat(f"{directory}/small").st_blocks * 512)
        stats = bus.stats()
        assert stats["arena_used_bytes"] == 0, stats
        assert reserved[1] - reserved[0] < 1 << 20, reserved  # the first pages of what was beyond the arena
    return found


class Round:
    """Its queues, and the processes that use them."""

    def __init__(self, chance: random.Random, bus: busq.Bus | None) -> None:
        self.chance = chance
        kind = chance.choice([busq.Queue, busq.JoinableQueue])
        self.queues: list[Any] = [
            busq.Queue(100, bus=bus),
            busq.Queue(100, bus=bus, views=True),
            busq.JoinableQueue(100, bus=bus, views=chance.random() < 0.5),
            kind(100, bus=bus, views=chance.random() < 0.5, ends=True),
        ]
        self.judge = Judge(self.queues)
        self.workers: list[tuple[int, int, bool]] = []  # process, queue, whether it gets
        self.stopped: list[int] = []
        self.n_stops = 0
        for which in range(len(self.queues)):
            self.start(which, True), self.start(which, False), self.start(which, False)

    def start(self, which: int, gets: bool) -> None:
        seed = random.Random(self.chance.random())
        if gets:
            pid = in_a_child(get_all_the_time, self.queues, which, self.judge, seed)
        else:
            self.judge.putters.append(which)
            putter = len(self.judge.putters) - 1
            pid = in_a_child(put_all_the_time, self.queues, which, self.judge, putter, seed)
        self.workers.append((pid, which, gets))

    def kill(self, worker: tuple[int, int, bool], *, may_have_ended: bool = False) -> None:
        pid, which, gets = worker
        self.workers.remove(worker)
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        did = f"a worker that {'gets from' if gets else 'puts into'} queue {which} ended by itself: status {status}"
        assert os.WIFSIGNALED(status) or (may_have_ended and status == 0), did
        if pid in self.stopped:
            self.stopped.remove(pid)
        if gets:
            self.judge.getters_killed[which] += 1

    def stop(self, pid: int) -> None:
        if pid not in self.stopped:
            os.kill(pid, signal.SIGSTOP)
            self.stopped.append(pid)
            self.n_stops += 1

    def go_on(self) -> None:
        while self.stopped:
            os.kill(self.stopped.pop(), signal.SIGCONT)

    def strike(self, n_kills: int) -> None:
        """Kill workers, some of them stopped before, and start others instead."""
        for _ in range(n_kills):
            if self.chance.random() < 0.3 and len(self.stopped) < N_STOPPED:
                self.stop(self.chance.choice(self.workers)[0])
            elif self.chance.random() < 0.2:
                self.go_on()
            time.sleep(self.chance.random() * 0.02)
            worker = self.chance.choice(self.workers)
            self.kill(worker)
            self.start(*worker[1:])

    def shut_down(self, which: int) -> None:
        """Have one process do it, which may not come to its end, and do it again."""
        queue, chance = self.queues[which], self.chance
        drops = [chance.random() < 0.3, chance.random() < 0.3]
        if any(drops):
            self.judge.dropped.add(which)
        ender = in_a_child(queue.shutdown, drops[0])
        end = chance.choice([None, signal.SIGKILL, signal.SIGSTOP])
        if end is not None:
            time.sleep(chance.random() * 0.004)
            os.kill(ender, end)
        queue.shutdown(drops[1])
        if drops[1]:
            self.expect_end(which)
        if end is signal.SIGSTOP:
            get_all_the_time(self.queues, which, self.judge, None)
            os.kill(ender, signal.SIGCONT)
        assert os.waitpid(ender, 0)[1] in (0, signal.SIGKILL)

    def expect_end(self, which: int) -> None:
        """Find nothing left in a queue."""
        try:
            raise AssertionError(("got behind the end", self.queues[which].get(timeout=PATIENCE_S)))
        except busq.ShutDown:
            assert self.queues[which].empty()

    def end(self, which: int) -> None:
        """End a queue, get what is left, and await those that use it."""
        mine = [worker for worker in self.workers if worker[1] == which]
        assert all(os.waitpid(worker[0], os.WNOHANG)[0] == 0 for worker in mine), "ended before its end"
        for worker in mine:
            if self.chance.random() < 0.3:
                self.stop(worker[0])
        if which != ENDING or self.chance.random() < 0.3:
            self.shut_down(which)
        else:
            self.go_on()
            self.judge.is_enough[0] = 1
            if self.chance.random() < 0.5:
                get_all_the_time(self.queues, which, self.judge, None)
        for worker in mine:
            if self.chance.random() < 0.3:
                self.kill(worker, may_have_ended=True)
        get_all_the_time(self.queues, which, self.judge, None)
        self.expect_end(which)
        self.go_on()
        for worker in mine:
            if worker in self.workers and not worker[2] and which == ENDING:
                self.kill(worker, may_have_ended=True)  # it may have closed the queue
            elif worker in self.workers:
                self.workers.remove(worker)
                assert os.waitpid(worker[0], 0)[1] == 0, "a worker has failed"
        if self.judge.has_tasks[which]:
            self.queues[which].join()

    def close(self) -> None:
        assert not self.workers
        for thread in threading.enumerate():  # which have awaited the end
            if thread is not threading.main_thread():
                thread.join(PATIENCE_S)


def play_round(n_kills: int, chance: random.Random, bus: busq.Bus | None) -> tuple[int, int, int]:
    """Return how many objects were got, how many were lost with their getter, and how many stops there were."""
    round_ = Round(chance, bus)
    round_.strike(n_kills)
    for which in range(len(round_.queues)):
        round_.end(which)
    round_.close()
    return *round_.judge.judge(), round_.n_stops


def alive(bus: busq.Bus) -> list[str]:
    return [peer["name"] for peer in bus.stats()["peers"] if peer["alive"]]


def main(arguments: list[str]) -> None:
    n_kills = int(arguments[0]) if arguments else 20_000
    limit_s = float(arguments[1]) if len(arguments) > 1 else float("inf")
    seed = int(os.environ.get("BUSQ_TEST_SEED") or random.randrange(1 << 32))
    print(f"BUSQ_TEST_SEED={seed}", flush=True)
    chance = random.Random(seed)
    began = time.monotonic()
    n_done = n_got = n_lost = n_stops = 0
    n_kills_a_round = min(KILLS_A_ROUND, (n_kills + 1) // 2)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.environ["BUSQ_DIR"] = directory
        first: busq.Queue[int] = busq.Queue()  # keeps the bus: so what a round leaves would be seen
        bus = first._home.bus
        before = alive(bus), 0, os.listdir("/proc/self/fd")
        while n_done < n_kills and time.monotonic() - began < limit_s:
            asked = min(n_kills_a_round, n_kills - n_done)
            is_small = n_done // n_kills_a_round % 2 == 1
            got, lost, stops = (
                play_on_a_small_bus(asked, chance, directory) if is_small else play_round(asked, chance, None)
            )
            n_done, n_got, n_lost, n_stops = n_done + asked, n_got + got, n_lost + lost, n_stops + stops
            gc.collect()
            bus.repair(), bus.collect()
            left = alive(bus), bus.stats()["arena_used_bytes"], os.listdir("/proc/self/fd")
            assert left == before, (left, before)
            blocks = sum(os.stat(f"{directory}/{name}").st_blocks * 512 for name in os.listdir(directory))
            print(f"{n_done:,} kills, {n_got:,} objects, {n_lost} lost; {blocks:,} bytes reserved", flush=True)
        del first, bus
        gc.collect()
        assert not os.listdir(directory), os.listdir(directory)
    print(f"{n_done:,} kills: {n_stops:,} stops, {n_got:,} objects got, {n_lost} lost, each with one that had got it")


if __name__ == "__main__":
    main(sys.argv[1:])
