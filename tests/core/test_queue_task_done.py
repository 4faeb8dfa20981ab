# SPDX-License-Identifier: Apache-2.0
"""`JoinableQueue.task_done` in a process that has not got the object: it counts, as with multiprocessing."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue as standard
import random
import signal
from typing import Any

import pytest
from conftest import PATIENCE_S

import busq

METHODS = multiprocessing.get_all_start_methods()


def reports(tasks: Any, count: int) -> None:
    for _ in range(count):
        tasks.task_done()
    with pytest.raises(ValueError, match="too many times"):
        tasks.task_done()


@pytest.mark.parametrize("method", METHODS)
def test_a_process_reports_what_another_has_got(method: str) -> None:
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    for number in range(3):
        tasks.put(number)
    assert [tasks.get(), tasks.get()] == [0, 1]
    child = multiprocessing.get_context(method).Process(target=reports, args=(tasks, 3), daemon=True)  # type: ignore[attr-defined]
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == 0
    tasks.join()
    assert tasks.get() == 2  # done with, and there all the same
    tasks.put(3)
    assert not tasks._is_done(), "what is put later is waited for"
    assert tasks.get() == 3
    for _ in range(4):
        tasks.task_done()
    tasks.join()
    with pytest.raises(ValueError, match="too many times"):
        tasks.task_done()
    tasks.put(4)
    assert not tasks._is_done(), "reports of what was done already leave nothing behind"


def works_until_killed(tasks: Any, pipe: Any) -> None:
    for _ in range(3):
        tasks.get()
    pipe.send("has them")
    signal.pause()


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_empties_the_queue_of_workers_that_it_has_killed(method: str) -> None:
    """As mpire does: get all that is there, then report until it is once too often, and join."""
    context: Any = multiprocessing.get_context(method)
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    ours, its = context.Pipe()
    for number in range(10):
        tasks.put(number)
    worker = context.Process(target=works_until_killed, args=(tasks, its), daemon=True)
    worker.start()
    assert ours.recv() == "has them"
    worker.kill()
    with contextlib.suppress(standard.Empty):
        while True:
            tasks.get(block=False)
            tasks.task_done()
    with contextlib.suppress(ValueError):
        while True:
            tasks.task_done()
    tasks.join()
    worker.join()
    tasks.join()


def test_what_was_dropped_by_an_end_is_not_reported() -> None:
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    for number in range(3):
        tasks.put(number)
    tasks.get()
    tasks.shutdown(immediate=True)
    assert not tasks._is_done()
    tasks.task_done()
    tasks.join()
    with pytest.raises(ValueError, match="too many times"):
        tasks.task_done()


# ---- against a count ----


def obeys(tasks: Any, pipe: Any) -> None:
    """Do what comes through the pipe, and answer."""
    while (word := pipe.recv()) != "end":
        if word == "get":
            pipe.send(tasks.get(timeout=PATIENCE_S))
        else:
            try:
                tasks.task_done()
                pipe.send(True)
            except ValueError:
                pipe.send(False)


class Game:
    """Two processes, this one and a child, and how many objects are there, held by either, and not done with."""

    def __init__(self) -> None:
        self.context: Any = multiprocessing.get_context("fork")
        self.tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
        self.n_there = self.n_mine = self.n_its = self.n_undone = 0
        self.begin_child()

    def begin_child(self) -> None:
        self.pipe, its = self.context.Pipe()
        self.child = self.context.Process(target=obeys, args=(self.tasks, its), daemon=True)
        self.child.start()

    @property
    def n_ahead(self) -> int:
        return self.n_there + self.n_mine + self.n_its - self.n_undone

    def ask(self, word: str) -> Any:
        self.pipe.send(word)
        return self.pipe.recv()

    def put(self) -> None:
        self.tasks.put(1)
        self.n_there += 1
        self.n_undone += 1

    def get(self) -> None:
        if self.n_there:
            self.tasks.get(timeout=PATIENCE_S)
            self.n_there, self.n_mine = self.n_there - 1, self.n_mine + 1

    def its_get(self) -> None:
        if self.n_there:
            self.ask("get")
            self.n_there, self.n_its = self.n_there - 1, self.n_its + 1

    def report(self) -> None:
        is_held, is_undone = self.n_mine > 0, self.n_undone > 0
        try:
            self.tasks.task_done()
            is_taken = True
        except ValueError:
            is_taken = False
        assert is_taken == (is_held or is_undone)
        self.n_mine -= is_held
        self.n_undone -= is_undone

    def its_report(self) -> None:
        is_held, is_undone = self.n_its > 0, self.n_undone > 0
        assert self.ask("report") == (is_held or is_undone)
        self.n_its -= is_held
        self.n_undone -= is_undone

    def kill(self) -> None:
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.join()
        self.tasks._local.home.raw.repair()  # otherwise what it had comes back as a process gets and finds nothing
        self.n_there, self.n_its = self.n_there + self.n_its, 0
        self.begin_child()

    def end(self) -> None:
        for _ in range(self.n_its):  # dropped: one that was reported ahead, as far as there are any
            self.n_undone -= self.n_ahead == 0
            self.n_its -= 1
        self.pipe.send("end")
        self.child.join(PATIENCE_S)
        assert self.child.exitcode == 0
        self.begin_child()

    def check(self) -> None:
        assert self.tasks.qsize() == self.n_there
        assert self.tasks._is_done() == (self.n_undone == 0)


def test_reports_count_as_a_counter_does(seed: int) -> None:
    dice, game = random.Random(seed), Game()
    moves = [game.put] * 8 + [game.get, game.its_get] * 5 + [game.report, game.its_report] * 6 + [game.kill, game.end]
    try:
        for _ in range(400):
            move = dice.choice(moves)
            move()
            game.check()
    finally:
        game.child.kill()
        game.child.join()
