# SPDX-License-Identifier: Apache-2.0
"""The process behind a peer, by the word of the operating system.

A process number alone proves nothing, because it may have been used again or belong to another pid namespace: what
/proc shows counts only if that process began before the peer joined and has this very bus open.  Otherwise the answer
is "unknown", with the reason.  A process of a pid namespace below ours has another number here; the kernel shows both.

Not given: an opinion about processes of other users.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Process", "process_of"]

# Start times in /proc are counted in ticks from a boot time that is known to the second.
START_SLACK_S = 2.0


@dataclass(frozen=True)
class Process:
    """The state of a peer's process, according to the operating system.

    `state` is running, sleeping, uninterruptible, stopped, traced, zombie, gone or unknown; `why` explains the unknown;
    `tracer_pid` is the debugger of one that is traced.
    """

    pid: int
    state: str
    why: str = ""
    tracer_pid: int | None = None

    @property
    def is_halted(self) -> bool:
        """Return whether it does nothing until it is continued."""
        return self.state in ("stopped", "traced")


_STATES = {
    "running": "running",
    "sleeping": "sleeping",
    "idle": "sleeping",
    "waking": "running",
    "parked": "sleeping",
    "disk-sleep": "uninterruptible",
    "stopped": "stopped",
    "tracing-stop": "traced",
    "zombie": "zombie",
    "dead": "zombie",
}


def process_of(peer: dict[str, Any], bus_file: os.stat_result | None) -> Process:
    """Return what the process of a peer is doing, "unknown" where it is not certain which process that is.

    `pid` is the number that the process has here.
    """
    found = _process(peer, peer["pid"], bus_file)
    if found.state != "unknown" or not peer["alive"]:
        return found
    below = (_process(peer, pid, bus_file) for pid in _called_elsewhere(peer["pid"]))
    return next((other for other in below if other.state != "unknown"), found)


def _called_elsewhere(pid: int) -> Iterator[int]:
    """Give the processes that have this number in a pid namespace below ours: by their numbers here."""
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/status", encoding="utf-8", errors="replace") as status:
            numbers = next((line.split()[1:] for line in status if line.startswith("NSpid:")), [])
            if len(numbers) > 1 and str(pid) in numbers[1:]:
                yield int(entry)


def _process(peer: dict[str, Any], pid: int, bus_file: os.stat_result | None) -> Process:
    import psutil  # only the doctor needs it

    is_alive = peer["alive"]
    try:
        process = psutil.Process(pid)
        state, started_s = _STATES.get(process.status(), "unknown"), process.create_time()
    except psutil.NoSuchProcess:
        if not is_alive:
            return Process(pid, "gone")
        return Process(pid, "unknown", f"it lives, but not as process {pid} of this pid namespace")
    except psutil.AccessDenied:
        return Process(pid, "unknown", f"process {pid} may not be looked at")
    if pid == os.getpid():  # in a container, it and the peer's process may both be called 1
        # The kernel rounds down to a tick, and no interpreter joins anything in its first one.
        is_younger = _own_start_s() + 1 / os.sysconf("SC_CLK_TCK") > peer["joined_s"]
    else:
        is_younger = started_s > peer["joined_s"] + START_SLACK_S
    if is_younger:
        if not is_alive:
            return Process(pid, "gone")
        return Process(pid, "unknown", f"process {pid} here is younger than this peer, so it is another one")
    if state == "zombie":
        return Process(pid, state if not is_alive else "unknown", "" if not is_alive else f"process {pid} here is dead")
    has_bus = _has_open(pid, bus_file)
    if not has_bus:
        why = f"process {pid} here does not have this bus open" if has_bus is False else f"process {pid} is not ours"
        return Process(pid, "unknown", why)
    return Process(pid, state, tracer_pid=_tracer_of(pid) if state == "traced" else None)


def _own_start_s() -> float:
    """Return when this process began, in seconds since 1970, to a tick."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def _has_open(pid: int, file: os.stat_result | None) -> bool | None:
    """Return whether a process has a file open; None where the system does not show it."""
    if file is None:
        return None
    try:
        entries = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for entry in entries:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{entry}"), file):
                return True
    return False


def _tracer_of(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith("TracerPid:"):
                return int(line.split()[1]) or None
    return None
