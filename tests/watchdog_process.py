# SPDX-License-Identifier: Apache-2.0
"""The program that watches a process that runs tests, for `watchdog.py`, which starts it.

    python tests/watchdog_process.py PID STUCK_S LIMIT_S

Reads lines "BUSQ_DIR<tab>step" from standard input, and describes a step that takes long: the threads of all processes
below the one that runs tests, as the kernel sees them and, where they let Python's handler of faults do so, with their
Python stacks; and each bus in that directory.  It never waits without a limit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STACKS = signal.SIGRTMIN + 7  # a process that catches it writes its Python stacks; no test uses it
PROCESSES_MAX = 30
ALIKE_MAX = 3
LINES_MAX, LINE_MAX = 60, 200  # of a diagnosis
SETTLED_S = 5.0  # a younger process may be about to call exec, which takes its handlers away
DOCTOR_S = 60.0
LOOK_S = 5.0


def words_of(path: str) -> str:
    """The content of a file in /proc, on one line."""
    try:
        return " ".join(Path(path).read_text(errors="replace").replace("\0", " ").split())
    except OSError as error:
        return f"({error.strerror})"


def fields_of(path: str) -> list[str]:
    """The fields of a `stat` in /proc from the third one on; the second may hold any text."""
    return words_of(path).rpartition(")")[2].split()


def writes_stacks(pid: int) -> bool:
    """Whether it has a handler for that signal, which would end it otherwise."""
    fields = fields_of(f"/proc/{pid}/stat")
    caught = words_of(f"/proc/{pid}/status").partition("SigCgt: ")[2].split()
    if len(fields) < 20 or not caught:
        return False
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return age_s > SETTLED_S and bool(int(caught[0], 16) >> (STACKS - 1) & 1)


def threads_of(pid: int) -> Iterator[str]:
    """A line on the kernel's state of each thread, and of a few of those that wait alike, as idle ones of a Java do."""
    alike: dict[str, list[str]] = {}
    for task in sorted(Path(f"/proc/{pid}/task").glob("*"), key=lambda task: int(task.name)):
        state, *_ = fields_of(f"{task}/stat") or "?"
        call = " ".join(words_of(f"{task}/syscall").split()[:4])
        name, place, kernel = (words_of(f"{task}/{file}") for file in ("comm", "wchan", "stack"))
        in_kernel = f", kernel {kernel}" if kernel.startswith("[<") else ""
        waits = f"state {state}, waits in {place}, system call {call.split(' ')[0]}"
        alike.setdefault(waits, []).append(f"  thread {task.name} {name}: {waits} {call.partition(' ')[2]}{in_kernel}")
    for waits, lines in alike.items():
        yield from lines[:ALIKE_MAX]
        if len(lines) > ALIKE_MAX:
            yield f"  and {len(lines) - ALIKE_MAX} more: {waits}"


def descendants(pid: int) -> list[int]:
    """All processes below it but this one and its own."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        fields = fields_of(f"/proc/{entry}/stat") if entry.isdigit() else []
        if len(fields) > 1:
            parents[int(entry)] = int(fields[1])
    found, new = [], {pid}
    while new:
        new = {one for one, parent in parents.items() if parent in new and one != os.getpid()}
        found += sorted(new)
    return found


def write(*lines: str) -> None:
    """Write at once: Python's handler of faults writes to the same descriptor."""
    with contextlib.suppress(OSError):
        os.write(2, "".join(line + "\n" for line in lines).encode(errors="replace"))


def describe(worker: int, directory: str, step: str, took_s: float) -> None:
    write("", f"==== {step} takes longer than {took_s:.0f} s, and goes on; where it is: ====")
    for pid in [worker, *descendants(worker)][:PROCESSES_MAX]:
        write(f"---- process {pid}: {words_of(f'/proc/{pid}/cmdline')[:300]}", *threads_of(pid))
        if writes_stacks(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, STACKS)
            time.sleep(0.2)
    write(f"---- busq doctor, {directory or 'no directory of buses'}")
    if directory:
        write(doctor(directory))
    write(f"==== end of the report on {step} ====")


def doctor(directory: str) -> str:
    """The diagnosis of all buses there.  It only looks: repairs would change what the test is stuck in."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "busq", "doctor", "--no-repair"],
            cwd="/",  # not where the package lies without its compiled core
            env=os.environ | {"BUSQ_DIR": directory},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DOCTOR_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {DOCTOR_S:.0f} s"
    lines, half = [line[:LINE_MAX] for line in done.stdout.strip().splitlines()], LINES_MAX // 2
    left_out = [f"({len(lines) - LINES_MAX} lines are left out)"] if len(lines) > LINES_MAX else []
    return "\n".join([*lines[:half], *left_out, *lines[half:][-half:]])


def abort(worker: int, step: str, took_s: float) -> None:
    """End a process that no time limit ends; Python's handler of faults writes its stacks once more."""
    write(f"==== {step} takes longer than {took_s:.0f} s, and no limit ends it: process {worker} is aborted ====")
    started = descendants(worker)
    os.kill(worker, signal.SIGABRT)
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(LOOK_S)
    if os.getppid() == worker:
        os.kill(worker, signal.SIGKILL)


def watch(worker: int, stuck_s: float, limit_s: float) -> None:
    """Read which step runs, until the process that runs tests ends."""
    directory, step, began_s, reports = "", "", 0.0, 0
    rest = b""
    while os.getppid() == worker:
        due_s = began_s + stuck_s * 2**reports - time.monotonic() if step else LOOK_S
        if select.select([0], [], [], max(0.0, min(due_s, LOOK_S)))[0]:
            part = os.read(0, 1 << 16)
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            if lines:
                directory, step = lines[-1].decode().split("\t", 1)
                began_s, reports = time.monotonic(), 0
        took_s = time.monotonic() - began_s
        if step and limit_s and took_s >= 2 * limit_s:
            abort(worker, step, took_s)
            return
        if step and took_s >= stuck_s * 2**reports:
            reports += 1
            describe(worker, directory, step, took_s)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C reaches all; the process that is watched decides
        signal.signal(number, signal.SIG_IGN)
    watch(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
