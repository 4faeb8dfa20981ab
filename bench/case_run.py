# SPDX-License-Identifier: Apache-2.0
"""One case, measured once, in processes of its own.

The caller forks a leader; the leader prepares what is shared and forks one process for each end. All go through the
same steps together: open, connect, settle, go, close. No process goes before all are settled, and none closes before
all are done. A case that takes too long is killed as a whole, by the id of its group, and reported as hung.

What it does not do: choose the core on which a process runs, unless the workload asks for cores of their own.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import mmap
import multiprocessing
import os
import resource
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

import psutil

from busq._util.patience import Patience
from busq._util.processes import die_with_parent

from . import loops
from .peers.base import Adapter, Endpoint
from .plan import Case

GRACE_SECONDS = 20.0  # beyond the time of measuring: start, drain, end; without what others take of the processors
LOOK_SECONDS = 0.25

_tokens = itertools.count()

Outcome = dict[str, Any]


def measure(case: Case, adapter: Adapter, seconds: float, patience_s: float = GRACE_SECONDS) -> Outcome:
    """Measure `case` once for about `seconds`.

    `patience_s`: how long it may take beyond that, of time in which its processes have a processor.
    The outcome has "status": "ok" and the figures, "failed" or "hung" and a "reason".
    """
    token = f"bqb{os.getpid()}x{next(_tokens)}"
    alone = adapter.alone(case, token, seconds)
    try:
        return in_child(alone or (lambda: _lead(case, adapter, token, seconds)), seconds + patience_s)
    finally:
        adapter.sweep(token)


def in_child(work: Callable[[], Outcome], timeout_s: float) -> Outcome:
    """Run `work` in a forked child with a process group of its own, and give back what it returned.

    After `timeout_s` the whole group is killed and the outcome is "hung"; time in which one of its processes wants a
    processor that others have does not count.
    """
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()  # what is buffered belongs to the caller; a child must not write it once more
    sys.stderr.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        # The caller may have threads; the child touches nothing that could be theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _be_child(work, write_fd, parent)
    os.close(write_fd)
    try:
        line = _read_line(read_fd, pid, timeout_s)
    finally:
        os.close(read_fd)
        # The rest of the group. Its leader has not been reaped, so the id still means this group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if line is None:
        return {"status": "hung", "reason": f"no result after {timeout_s:.0f} s with a processor; killed"}
    if not line:
        return {"status": "failed", "reason": "the process died without a word"}
    outcome: Outcome = json.loads(line)
    return outcome


def _be_child(work: Callable[[], Outcome], write_fd: int, parent: int) -> None:
    """The child's life: never returns."""
    try:
        os.setpgid(0, 0)  # no session: the kernel may give each of those the same share, whatever runs in it
        die_with_parent(parent)  # nothing spins on after a harness that was killed
        os.write(write_fd, json.dumps(attempt(work)).encode() + b"\n")
        # Wait for the end, so that the group's id is the group's until it was killed.
        signal.pause()
    finally:
        os._exit(1)


def attempt(work: Callable[[], Outcome]) -> Outcome:
    """`work()`, or a "failed" outcome that names the error."""
    try:
        return {"status": "ok"} | work()
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(at.filename)}:{at.lineno}"
        return {"status": "failed", "reason": f"{type(error).__name__}: {error} ({where})"}


@contextlib.contextmanager
def crowd(count: int) -> Iterator[None]:
    """Have so many processes beside that do nothing but want the cores."""
    context = multiprocessing.get_context("fork")
    crowded = [context.Process(target=_want_a_core, args=(os.getpid(),), daemon=True) for _ in range(count)]
    try:
        with warnings.catch_warnings():
            # The caller may have threads; a child touches nothing that could be theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            for process in crowded:
                process.start()
        yield
    finally:
        for process in crowded:
            if process.pid is not None:
                process.kill()
                process.join()


def _want_a_core(parent: int) -> None:
    """The life of a busy process: it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its maker ends it
    die_with_parent(parent)
    while True:
        pass


def _read_line(fd: int, pid: int, timeout_s: float) -> bytes | None:
    """What comes before the newline; None if none came in time; less than a line if the other side is gone."""
    patience = Patience(timeout_s, excuses_work=False)  # a peer that hangs may well spin
    read = b""
    while not read.endswith(b"\n"):
        ready, _, _ = select.select([fd], [], [], min(LOOK_SECONDS, timeout_s))
        if not ready:
            if patience.is_over(None, _family(pid)):
                return None
            continue
        part = os.read(fd, 1 << 16)
        if not part:
            return b""
        read += part
    return read


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(pid)
        return [pid, *(child.pid for child in leader.children(recursive=True))]
    return [pid]


# ---- the leader ----


def _lead(case: Case, adapter: Adapter, token: str, seconds: float) -> Outcome:
    if case.workload.asleep:
        os.environ["BUSQ_SPIN_US"] = "0"
    stop = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
    stop[0] = 1 << 62
    shared = adapter.prepare(case, token)
    context, leader = multiprocessing.get_context("fork"), os.getpid()
    lines: list[Connection[Any, Any]] = []
    for me in range(case.workload.processes):
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_work, args=(case, adapter, shared, me, seconds, stop, theirs, leader), daemon=True
        )
        process.start()
        theirs.close()
        lines.append(ours)

    # Pure receivers go first: a sender then finds them waiting.
    order = sorted(range(len(lines)), key=lambda me: len(case.workload.targets[me]))
    for step in ("open", "connect", "settle", "go"):
        for me in order:
            lines[me].send(step)
        answers = _answers(lines, step)
    for line in lines:
        line.send("close")
    _answers(lines, "close")
    adapter.release(shared)
    return _judge(case, answers)


def _answers(lines: list[Connection[Any, Any]], step: str) -> list[Outcome]:
    """The answers of all. The first fault ends it: the others may wait for ever for the one that failed."""
    answers: dict[int, Outcome] = {}
    while len(answers) < len(lines):
        for line in connection.wait([line for me, line in enumerate(lines) if me not in answers]):
            me = lines.index(line)  # type: ignore[arg-type]
            try:
                answers[me] = lines[me].recv()
            except EOFError:
                raise RuntimeError(f"process {me} died in {step!r}") from None
            if answers[me]["status"] != "ok":
                raise RuntimeError(f"process {me} in {step!r}: {answers[me]['reason']}")
    return [answers[me] for me in range(len(lines))]


# ---- the others ----


def _work(
    case: Case,
    adapter: Adapter,
    shared: Any,
    me: int,
    seconds: float,
    stop: memoryview,
    line: Connection[Any, Any],
    leader: int,
) -> None:
    """One process's life: a step for each word of the leader. Leaves without Python's own end, which could wait."""
    die_with_parent(leader)
    if case.workload.asleep:
        _take_own_core(me)
    steps = _steps(case, adapter, shared, me, seconds, stop)
    try:
        while True:
            word = line.recv()
            line.send(attempt(functools.partial(_next, steps, word)))
            if word == "close":
                break
    finally:
        os._exit(0)


def _next(steps: Iterator[tuple[str, Outcome]], word: str) -> Outcome:
    step, outcome = next(steps)
    if step != word:
        raise RuntimeError(f"asked to {word}, about to {step}")
    return outcome


def _steps(
    case: Case, adapter: Adapter, shared: Any, me: int, seconds: float, stop: memoryview
) -> Iterator[tuple[str, Outcome]]:
    endpoint = adapter.open(shared, case, me)
    yield "open", {}
    endpoint.connect()
    yield "connect", {}
    endpoint.settle()
    part = PARTS[case.workload.kind](case, endpoint, me, seconds, stop)
    yield "settle", {}
    cpu_s = _cpu_seconds()
    outcome = part()
    yield "go", outcome | {"cpu_s": _cpu_seconds() - cpu_s}
    endpoint.close()
    yield "close", {}


def _take_own_core(me: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[me % len(cores)]})


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# ---- the part of a process at the word "go" ----

Part = Callable[[], Outcome]


def _stream_part(case: Case, endpoint: Endpoint, me: int, seconds: float, stop: memoryview) -> Part:
    is_regime, is_sender = case.workload.work_us is not None, bool(case.workload.targets[me])
    own: Outcome = {"own_ns": loops.own_ns(case, is_sender)} if is_regime else {}
    if is_sender:
        send = (loops.work_sender if is_regime else loops.stream_sender)(case, endpoint, seconds)

        def sender() -> Outcome:
            start_ns, sent = send()
            return own | {"start_ns": start_ns, "sent": sent}

        return sender
    ledger = loops.Ledger(len(case.workload.senders_to(me)))
    receive = (loops.work_receiver if is_regime else loops.stream_receiver)(case, endpoint, ledger)

    def receiver() -> Outcome:
        end_ns, received = receive()
        return own | {"end_ns": end_ns, "received": received, "announced": ledger.announced}

    return receiver


def _ping_part(case: Case, endpoint: Endpoint, me: int, seconds: float, stop: memoryview) -> Part:
    if me == 0:
        serve = loops.pinger(case, endpoint, seconds, loops.Ledger(0))
        return lambda: _round_trips(serve())
    ledger = loops.Ledger(1)
    answer = loops.ponger(case, endpoint, ledger)

    def ponger() -> Outcome:
        received = answer()
        return {"received": received, "announced": ledger.announced}

    return ponger


def _windows_part(case: Case, endpoint: Endpoint, me: int, seconds: float, stop: memoryview) -> Part:
    run = loops.windows(case, endpoint, seconds, me, stop)

    def windows() -> Outcome:
        start_ns, end_ns, count, order = run()
        sent = count * case.window
        counts = {"sent": sent, "received": sent * len(case.workload.senders_to(me))}
        return {"start_ns": start_ns, "end_ns": end_ns, "order": order} | counts

    return windows


PARTS: dict[str, Callable[[Case, Endpoint, int, float, memoryview], Part]] = {
    "stream": _stream_part,
    "ping": _ping_part,
    "windows": _windows_part,
}


def _round_trips(stamps_ns: list[int]) -> Outcome:
    rounds_ns = sorted(after - before for before, after in itertools.pairwise(stamps_ns))
    if not rounds_ns:
        raise RuntimeError("not one round trip")

    def at(share: float) -> float:
        return rounds_ns[int(share * (len(rounds_ns) - 1))] / 1e3

    return {
        "rounds": len(rounds_ns),
        "rtt_us_min": at(0.0),
        "rtt_us_p50": at(0.5),
        "rtt_us_p99": at(0.99),
        "rtt_us_p999": at(0.999),
    }


# ---- the verdict ----


def _judge(case: Case, answers: list[Outcome]) -> Outcome:
    """The figures of all processes together. Counts are compared: what was announced and did not come is lost."""
    lost = sum(answer["announced"] - answer["received"] for answer in answers if "announced" in answer)
    cpu_s = sum(answer["cpu_s"] for answer in answers)
    if case.workload.kind == "ping":
        figures = {key: value for key, value in answers[0].items() if key.startswith(("rtt_", "rounds"))}
        return figures | {"lost": lost, "cpu_us_per_delivery": cpu_s * 1e6 / (2 * figures["rounds"])}
    start_ns = min(answer["start_ns"] for answer in answers if "start_ns" in answer)
    end_ns = max(answer["end_ns"] for answer in answers if "end_ns" in answer)
    seconds = (end_ns - start_ns) / 1e9
    sent = sum(answer.get("sent", 0) for answer in answers)
    received = sum(answer.get("received", 0) for answer in answers)
    outcome: Outcome = {
        "seconds": seconds,
        "messages": sent,
        "lost": lost,
        "rate_per_s": sent / seconds,
        "deliveries_per_s": received / seconds,
        "bytes_per_s": received * case.size_bytes / seconds,
        "cpu_us_per_delivery": cpu_s * 1e6 / max(1, received),
    }
    if case.workload.work_us is not None:
        own_ns = max(answer["own_ns"] for answer in answers)
        outcome |= {"own_ns": own_ns, "ns_above_work": max(seconds * 1e9 / max(1, sent) - own_ns, 1.0)}
    if case.workload.kind == "windows":
        outcome["same_order"] = len({answer["order"] for answer in answers}) == 1
    return outcome
