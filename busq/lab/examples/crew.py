# SPDX-License-Identifier: Apache-2.0
"""Processes of an example: started by name, driven by lines of JSON, ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import subprocess
from collections.abc import Iterator
from typing import Any

import busq
from busq._util.patience import Patience
from busq._util.processes import call, end, how_ended, start, uninterrupted

__all__ = ["Crew", "CrewError", "Link"]

GRACE_S = 2.0

Word = dict[str, Any]


class CrewError(Exception):
    """A process of an example failed, was killed or fell silent."""


class Link:
    """A process's end of the pipe to the process that started it: a JSON object per line, both ways."""

    def __init__(self) -> None:
        self._heard = b""

    def say(self, **word: Any) -> None:
        """Send a word."""
        print(json.dumps(word), flush=True)

    def hear(self, timeout_s: float | None = None) -> Word | None:
        """Wait for the next word; None if that takes too long, EOFError when no further one can come."""
        while b"\n" not in self._heard:
            if not select.select([0], [], [], timeout_s)[0]:
                return None
            part = os.read(0, 1 << 16)
            if not part:
                raise EOFError("whoever started this process is gone")
            self._heard += part
        line, self._heard = self._heard.split(b"\n", 1)
        word: Word = json.loads(line)
        return word


def serve(target: str) -> None:
    """Run as a process of a crew: `target` is a module and a function in it, "busq.lab.examples.chat:speaker"."""
    link = Link()
    with contextlib.suppress(EOFError):
        arguments = link.hear() or {}
        try:
            call(target, link, **arguments)
        except (busq.BusqError, OSError, ValueError) as error:
            link.say(failed=f"{type(error).__name__}: {error}")
            raise SystemExit(1) from None


class Crew:
    """The processes of an example, by name, for the process that starts them; a context manager that ends them all.

    Each runs `function(link, **arguments)` of a module in an interpreter of its own.
    """

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._heard: dict[str, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._ended: set[str] = set()
        self._mortal: set[str] = set()

    def start(self, name: str, target: str, /, *, mortal: bool = False, **arguments: Any) -> None:
        """Start a process, and send it its arguments; one that is `mortal` may be killed without being an error."""
        if mortal:
            self._mortal.add(name)
        with uninterrupted():
            popen = self._processes[name] = start("busq.lab.examples.crew:serve", target, has_pipes=True)
        self._heard[name] = b""
        assert popen.stdout is not None
        os.set_blocking(popen.stdout.fileno(), False)
        self._selector.register(popen.stdout, selectors.EVENT_READ, name)
        self.tell(name, **arguments)

    def tell(self, name: str, /, **word: Any) -> None:
        """Send a word to one process; one that is gone misses it."""
        stdin = self._processes[name].stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(word).encode() + b"\n")
            stdin.flush()

    def tell_all(self, **word: Any) -> None:
        """Send the same word to all processes."""
        for name in self._processes:
            self.tell(name, **word)

    def hear(self, timeout_s: float) -> Iterator[tuple[str, Word]]:
        """Yield words of processes, with their names, until none comes for so long (CrewError).

        Time in which one of them runs, or wants a processor and has none, does not count.
        """
        patience, heard = Patience(timeout_s), 0
        while True:
            for key, _ in self._selector.select(0.1):
                for word in self._read(key.data):
                    heard += 1
                    if "failed" in word:
                        raise CrewError(f"{key.data}: {word['failed']}")
                    yield key.data, word
            if patience.is_over(heard, [process.pid for process in self._processes.values()]):
                raise CrewError(f"nothing happened for {timeout_s:g} s")

    def gather(self, key: str, timeout_s: float, *, without_mortals: bool = False) -> dict[str, Any]:
        """Wait until all have sent a word with this key, the mortal perhaps not; return its value by process."""
        awaited = set(self._processes) - (self._mortal if without_mortals else set())
        answers: dict[str, Any] = {}
        heard = self.hear(timeout_s)
        while awaited - set(answers):
            name, word = next(heard)
            if key in word:
                answers[name] = word[key]
        return answers

    def _read(self, name: str) -> Iterator[Word]:
        process = self._processes[name]
        assert process.stdout is not None
        part = process.stdout.read()
        if not part:
            if part is None:
                return
            self._selector.unregister(process.stdout)
            if name not in self._ended:
                self._ended.add(name)
                code = process.wait()
                if code and name not in self._mortal:
                    raise CrewError(f"{name} (pid {process.pid}) {how_ended(code)}")
            return
        *lines, self._heard[name] = (self._heard[name] + part).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def close(self) -> None:
        """Let all processes end, and kill those that don't."""
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
        end(self._processes.values(), GRACE_S)
        for process in self._processes.values():
            process.stdout.close()  # type: ignore[union-attr]
        self._selector.close()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
