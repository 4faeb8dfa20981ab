# SPDX-License-Identifier: Apache-2.0
"""Buses in use whose names were taken away: by logind at logout (RemoveIPC), or with all else in their directory.

Their processes go on, and no other finds them.  The kernel shows in /proc which files a process of this user has open.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from busq._native import _core as core

__all__ = ["REASONS", "lost", "text_of_loss", "text_of_namesake"]

REASONS = (
    "as by logind at the end of a session (RemoveIPC=yes in logind.conf), or by what empties that directory; "
    "RemoveIPC=no, or a BUSQ_DIR elsewhere, prevents it"
)


def lost(directory: str) -> dict[str, list[int]]:
    """Return the buses of a directory that lost their names, and the processes that have them open.

    Cost: a look at every descriptor of every process of this user.
    """
    beginning = os.path.realpath(directory) + os.sep
    found: dict[str, list[int]] = {}
    for pid, link, path in _descriptors():
        # The file's name does not stand there where its creator has it open.
        if path.startswith(beginning) and path.endswith(" (deleted)") and (name := _lost_name(link)) is not None:
            pids = found.setdefault(name, [])
            if pid not in pids:
                pids.append(pid)
    return found


def text_of_loss(name: str, directory: str) -> str:
    """Return the warning of a process that joins such a bus."""
    what = f"bus {name!r} has lost its name in {directory}, and no process that opens it by name finds it"
    return f"{what}: it was removed otherwise than by busq, {REASONS}"


def text_of_namesake(name: str, pids: list[int]) -> str:
    """Return the warning of a process that has made a bus in place of such a one."""
    shown = ", ".join(map(str, pids[:5])) + (f" and {len(pids) - 5} more" if len(pids) > 5 else "")
    which = f"process {shown}" if len(pids) == 1 else f"processes {shown}"
    what = f"bus {name!r} is new, and another one of that name is in use by {which}"
    return f"{what}, which lost it: it was removed otherwise than by busq, {REASONS}"


def _descriptors() -> Iterator[tuple[int, str, str]]:
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # ended, or another user's
            for number in os.listdir(f"/proc/{entry}/fd"):
                link = f"/proc/{entry}/fd/{number}"
                with contextlib.suppress(OSError):
                    yield int(entry), link, os.readlink(link)


def _lost_name(link: str) -> str | None:
    try:
        descriptor = os.open(link, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return core.lost_name(descriptor)
    finally:
        os.close(descriptor)
