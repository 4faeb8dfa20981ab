# SPDX-License-Identifier: Apache-2.0
"""What looks around on an executor.

It is pickled whole, by value, and runs where there may be no busq: so it uses the standard library and PyArrow, which
Spark needs too, and nothing of busq unless to find out whether it is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

import pyarrow

__all__ = ["Probe"]

_PACKAGES = ("pyarrow", "pandas", "numpy")
_NO_LIMIT = 1 << 62
_GRAIN = 28  # bits: so that answers of one machine are alike


class Probe:
    """The function of a task: one answer, in JSON.  Each row of its range holds its core for `seconds`, so that other
    executors come to work, too.
    """

    def __init__(self, paths: list[str], seconds: float) -> None:
        self.paths, self.seconds = paths, seconds

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Take rows, give the answer."""
        for _ in batches:
            time.sleep(self.seconds)
        yield pyarrow.RecordBatch.from_pydict({"answer": [self.answer()]})

    def answer(self) -> str:
        """Return what is here, in JSON."""
        version, fault = _busq()
        whole, free = _memory()
        answer = {
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "prefix": sys.prefix,
            "busq": version,
            "fault": fault,
            "packages": _packages(),
            "memory_bytes": whole,
            "free_bytes": free >> _GRAIN << _GRAIN,
            "unseen": {path: reason for path in self.paths if (reason := _unread(path))},
        }
        return json.dumps(answer)


def _busq() -> tuple[str, str]:
    try:
        import busq
        import busq._native  # the compiled part
    except Exception as error:
        return "", f"{type(error).__name__}: {error}"
    return busq.__version__, ""


def _packages() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def _unread(path: str) -> str:
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            with open(path, "rb") as file:
                file.read(1)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _memory() -> tuple[int, int]:
    """How much this machine or its container has, and how much is free."""
    limit = _number("/sys/fs/cgroup/memory.max", _NO_LIMIT)
    used = _number("/sys/fs/cgroup/memory.current", 0) if limit < _NO_LIMIT else 0
    whole = min(_number("/proc/meminfo", limit, "MemTotal:"), limit)
    return whole, min(_number("/proc/meminfo", whole, "MemAvailable:"), max(0, limit - used))


def _number(path: str, otherwise: int, name: str = "") -> int:
    """The number in a file, or in its line of that name, where it is in KiB."""
    with contextlib.suppress(OSError, ValueError), open(path) as file:
        for line in file:
            if line.startswith(name):
                return int(line.removeprefix(name).split()[0]) * (1024 if name else 1)
    return otherwise
