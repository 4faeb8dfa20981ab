# SPDX-License-Identifier: Apache-2.0
"""Programs in C that measure themselves: the floor of the machine, and busq without Python; and the floor of Python.

Their processes take the cores in turn. Where the scheduler puts two of them on one core they never wait for each
other's cache, and a bare ring is three times as fast as between two cores: that measures neither.
"""

from __future__ import annotations

import importlib.resources
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from ..plan import Case
from .base import Adapter, Endpoint, load

PROGRAMS = "BUSQ_BENCH_PROGRAMS"  # a directory to look in first


def program_path(name: str) -> Path:
    """Where the program `name` is: among the files of this package, where the build puts it."""
    directory = os.environ.get(PROGRAMS)
    return Path(directory) / name if directory else Path(str(importlib.resources.files("busq.bench") / name))


class _ProgramAdapter(Adapter):
    program: ClassVar[str]

    def missing(self) -> str | None:
        path = program_path(self.program)
        return (
            None
            if os.access(path, os.X_OK)
            else f"no program {self.program!r} next to the package: it comes with the wheel"
        )

    def version(self) -> str:
        return "this build"

    def arguments(self, case: Case) -> list[str] | None:
        """The program's arguments for `case`; None if it can't do it."""
        raise NotImplementedError

    def refuses(self, case: Case) -> str | None:
        return None if self.arguments(case) is not None else "not one of its cases"

    def alone(self, case: Case, token: str, seconds: float) -> Callable[[], dict[str, Any]] | None:
        arguments = self.arguments(case) or []

        def run() -> dict[str, Any]:
            command = [str(program_path(self.program)), *arguments, "--seconds", str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(
                    f"{self.program} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}"
                )
            figures: dict[str, Any] = json.loads(done.stdout)
            return figures

        return run


class FloorAdapter(_ProgramAdapter):
    """Bare exchanges between two processes: a ring of records, a ball on one word."""

    name = "c-floor"
    program = "floor"

    def arguments(self, case: Case) -> list[str] | None:
        if case.size_bytes != 64 or case.calls > 1:
            return None
        return {
            "one_to_one": ["ring", "--across"],
            "ping_pong": ["spin", "--across"],
            "ping_pong_asleep": ["futex", "--across"],
        }.get(case.workload.name)


class CoreAdapter(_ProgramAdapter):
    """busq from C to C; where several messages go into a call, only the receiving side takes several."""

    name = "busq-c"
    program = "core"
    ordered = True

    def arguments(self, case: Case) -> list[str] | None:
        workload = case.workload.name
        if workload == "depth":
            return ["depth", "--waiting", str(case.waiting), *(["--stale"] if case.stale else [])]
        if workload == "one_to_one":
            return ["one_to_one", "--across", "--size", str(case.size_bytes), "--limit", str(case.calls)]
        if workload == "all_to_all":
            return ["all_to_all", "--across", "--size", str(case.size_bytes), "--window", str(case.window)]
        return None


class RingAdapter(Adapter):
    """A bare ring of one producer and one consumer behind an extension module (`ring.c`): what Python itself costs."""

    name = "c-ring"

    def missing(self) -> str | None:
        try:
            self._ring()
        except ImportError as error:
            return f"its module comes with the wheel: {error}"
        return None

    def version(self) -> str:
        return "this build"

    @staticmethod
    def _ring() -> Any:
        return load("busq.bench._ring").Ring

    def refuses(self, case: Case) -> str | None:
        names = ("one_to_one", "ping_pong", "ping_pong_asleep")
        is_for_two = case.workload.work_us is not None or case.workload.name in names
        if not is_for_two or case.size_bytes > 1024:
            return "one producer, one consumer, 1 KiB"
        return "no calls for several messages" if case.calls > 1 else None

    def prepare(self, case: Case, token: str) -> Any:
        return {receiver: self._ring()(sleeps=case.workload.asleep) for receiver in case.workload.receivers}

    def open(self, shared: Any, case: Case, me: int) -> Endpoint:
        endpoint = Endpoint()
        for target in case.workload.targets[me]:
            endpoint.names["put"] = shared[target].put
            endpoint.send = "put(data)"
        if me in shared:
            endpoint.names["get"] = shared[me].get
            endpoint.recv = "data = get()"
        return endpoint
