# SPDX-License-Identifier: Apache-2.0
"""The keys of what `--json` prints.

Each command below is run, small, on a directory of buses of its own, and what it prints is turned into a list of keys
with their types.  So the page says what this version prints, and nothing else has to be kept in step with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from busq.spec import PROPERTIES
from extension.pages import GENERATED, heading, table, write

SOUND = {"proc01.output": "b 1\nd 1 1\nd 2 1\n", "proc02.output": "d 1 1\nb 1\nd 2 1\n"}
LOGS = {"proc01.output": "b 1\nd 1 1\nd 2 1\n", "proc02.output": "b 1\nd 2 1\nd 1 1\n"}
BUS = "import busq; bus = busq.Bus.create('orders', peers=4); bus.join('ann').send('ann', b'hello')"
LETTERS = """
import time, busq
ann = busq.Bus.create("letters").join("ann")
while True:
    try:
        ann.send("bob", b"hello")
        break
    except busq.UnknownPeer:
        time.sleep(0.05)
"""
# The command that is shown, and what makes the object: the same command, with what keeps it short.
COMMANDS: list[tuple[str, list[str]]] = [
    ("busq demo", ["demo", "--messages", "100"]),
    ("busq replay FILE", ["replay", "mails.csv"]),
    ("busq replay FILE --orders ...", ["replay", "mails.csv", "--orders", "fifo,skeen", "--processes", "2"]),
    ("busq ls", ["ls"]),
    ("busq info NAME", ["info", "orders", "--interval", "0"]),
    ("busq top", ["top", "orders", "--count", "1", "--interval", "0.01"]),
    ("busq doctor", ["doctor", "orders"]),
    ("busq gc", ["gc", "--dry-run"]),
    ("busq soak", ["soak", "--kills", "2", "--seed", "1"]),
    ("busq record NAME DIR", ["record", "orders", "trace", "--seconds", "0.2"]),
    ("busq audit PATH", ["audit", "logs"]),
    ("busq audit --compare BEFORE AFTER", ["audit", "--compare", "sound", "logs"]),
    ("busq sim run", ["sim", "run", "--order", "mfss", "--processes", "3", "--messages", "4"]),
    ("busq sim advise", ["sim", "advise", "--processes", "3", "--messages", "4", "--seeds", "2"]),
    (
        "busq sim fig4",
        ["sim", "fig4", "--processes", "3,4", "--bandwidths", "100", "--messages", "5", "--seeds", "2"],
    ),
    ("busq sim fig5", ["sim", "fig5", "--processes", "3", "--messages", "5", "--seeds", "2"]),
    ("busq sim fig6", ["sim", "fig6", "--processes", "4", "--messages", "5", "--seeds", "2"]),
    ("busq check ORDER", ["check", "sync-naive", "--processes", "2", "--messages", "1"]),
    ("busq sweep GRID", ["sweep", "grid.toml", "--engine", "pool"]),
    ("busq bench", ["bench", "--workloads", "ping_pong", "--repeats", "1", "--seconds", "0.02"]),
    ("busq diagram", ["diagram", "figure-1"]),
    ("busq recv NAME", ["recv", "letters", "--name", "bob", "--count", "1", "--timeout", "5"]),
]
INTRODUCTION = """
The output of each command with ``--json``, printed by this version when the page was made. ``runs[].order`` is the
key ``order`` of each object in the list ``runs``; NAME stands for the name of a property, an order or a peer. Units
are part of a key (``_s``, ``_us``, ``_bytes``, ``_per_s``). A key whose type is *null* or *list* had nothing to say
in this run.

A command that judges an execution prints at least ``ok``, ``messages``, ``deliveries`` and, for each property,
``verdicts.NAME.ok``, ``verdicts.NAME.count`` and ``verdicts.NAME.claimed``; ``ok`` means that every property that is
claimed holds.  :doc:`busq.spec` says what each property counts.
"""
GRID = 'title = "shape"\nseeds = 2\n[all]\norder = ["fifo", "mfss"]\nprocesses = 3\nmessages = 4\n'
MAILS = "time,sender,recipients\n0,ann,bob\n0.1,bob,ann cleo\n"


def kind_of(value: Any) -> str:
    """Return the type of a value of JSON, in words."""
    names = {bool: "true or false", int: "integer", float: "number", str: "text", type(None): "null"}
    if isinstance(value, list):
        return f"list of {kind_of(value[0])}" if value and not isinstance(value[0], dict) else "list"
    return names.get(type(value), "object")


def _merged(values: list[Any]) -> Any:
    """One value with the keys of all: objects of a list need not have the same keys."""
    together: dict[str, Any] = {}
    for value in values:
        for key, one in value.items():
            if together.get(key) in (None, [], {}):
                together[key] = one
    return together


def _is_by_name(value: dict[str, Any]) -> bool:
    """Whether the keys are names: of properties, or of things that all look alike."""
    shapes = {tuple(one) if isinstance(one, dict) else None for one in value.values()}
    are_properties = set(value) <= {*PROPERTIES, "side", "clock"}
    return len(value) > 1 and (are_properties or (len(shapes) == 1 and None not in shapes))


def keys(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of everything in an object."""
    if isinstance(value, dict):
        if _is_by_name(value):
            value = {"NAME": _merged(list(value.values()))}
        for key, one in value.items():
            inner = f"{path}.{key}" if path else key
            if not isinstance(one, dict) or not one:
                yield inner + ("[]" if isinstance(one, list) else ""), kind_of(one)
            if isinstance(one, dict):
                yield from keys(one, inner)
            elif isinstance(one, list) and one and all(isinstance(each, dict) for each in one):
                yield from keys(_merged(one), f"{inner}[]")


def _printed(arguments: list[str], folder: str, environment: dict[str, str]) -> Any:
    command = [sys.executable, "-m", "busq", *arguments, "--json"]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    if ran.returncode not in (0, 1) or not ran.stdout.startswith("{"):
        raise RuntimeError(f"{' '.join(command)}: exit code {ran.returncode}: {ran.stderr.strip()}")
    return json.loads(ran.stdout.splitlines()[0])


def _world(folder: str, buses: str) -> dict[str, str]:
    environment = {**os.environ, "BUSQ_DIR": buses, "PYTHONSAFEPATH": "1"}
    for place, files in (("logs", LOGS), ("sound", SOUND)):
        Path(folder, place).mkdir()
        for name, text in files.items():
            Path(folder, place, name).write_text(text)
    Path(folder, "mails.csv").write_text(MAILS)
    Path(folder, "grid.toml").write_text(GRID)
    subprocess.run([sys.executable, "-c", BUS], env=environment, cwd=folder, check=True)
    return environment


def _letters(environment: dict[str, str], folder: str) -> subprocess.Popen[bytes]:
    """A process that sends what `busq recv` prints, again and again until it is received."""
    return subprocess.Popen([sys.executable, "-c", LETTERS], env=environment, cwd=folder)


def generate(folder: Path) -> None:
    """Run the commands, and write the page of their keys."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory(dir=memory) as buses:
        environment = _world(work, buses)
        sender = _letters(environment, work)
        try:
            while not Path(buses, "letters").exists() and sender.poll() is None:
                time.sleep(0.01)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = list(pool.map(lambda one: _printed(one[1], work, environment), COMMANDS))
        finally:
            sender.kill()
            sender.wait()
    lines = [".. _json:", "", *heading("Keys of ``--json``")]
    lines += [INTRODUCTION]
    for (title, _), value in zip(COMMANDS, found, strict=True):
        lines += heading(f"``{title}``", "-")
        lines += table(["key", "type"], ([f"``{path}``", kind] for path, kind in keys(value)), "70 30")
    write(folder / GENERATED / "shapes.rst", lines)
