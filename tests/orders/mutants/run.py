# SPDX-License-Identifier: Apache-2.0
"""Builds mutants of orders and lets the checker loose on them.

    python tests/orders/mutants/run.py [WORD...]

prints a table of all mutants, or of those whose names contain a word.  The core is built once; a mutant takes one
compilation of its order's file, and one link: its object comes before the core's own.  CC chooses the compiler.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[2]
for folder in (TESTS, TESTS / "orders"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from conftest import PATIENCE_S, ROOT, cmake_command  # noqa: E402

from mutants.table import GO_ON, LABORATORY, MUTANTS, Bound, Mutant  # noqa: E402

SOURCES = ROOT / "csrc"
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-function", "-Wno-unused-parameter", "-Werror"]
ALL_REDUCTIONS = 7
MORTAL_REDUCTIONS = 24  # where processes die


class StaleError(Exception):
    """A change of the table does not fit its file any more."""


def run(command: Sequence[str | Path]) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def changed(file: Path, changes: Sequence[tuple[str, str]]) -> str:
    """The text of a file with some changes.  Raises StaleError where one does not fit once."""
    text = file.read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise StaleError(f"{file.name} has {text.count(old)} times what should stand there once:\n{old}")
        text = text.replace(old, new)
    return text


def mutated(mutant: Mutant) -> str:
    """The text of the order's file with the mutant's changes.  Raises StaleError where one does not fit once."""
    return changed(SOURCES / "order" / mutant.file, mutant.changes)


@dataclass(frozen=True)
class Workshop:
    """Where mutants are built: the core, and the program that searches, once for all of them."""

    directory: Path

    @cached_property
    def core(self) -> Path:
        cmake = cmake_command()
        run([*cmake, "-S", SOURCES, "-B", self.directory, "-DBUSQ_PYTHON=OFF"])
        run([*cmake, "--build", self.directory, "--parallel", "2", "--target", "busq_core"])
        return self.directory / "libbusq.a"

    @cached_property
    def compiler(self) -> list[str]:
        """The compiler that CMake has found, with the flags that matter."""
        cache = (self.core.parent / "CMakeCache.txt").read_text()
        found = dict(re.findall(r"(?m)^(\w+):\w+=(.*)$", cache))
        flags = shlex.split(found["CMAKE_C_FLAGS"])
        return [found["CMAKE_C_COMPILER"], *flags, "-std=c11", "-D_GNU_SOURCE", "-O2", f"-I{SOURCES}", *WARNINGS]

    @cached_property
    def searcher(self) -> Path:
        """The object of the program that searches."""
        made = self.directory / "check_order.o"
        run([*self.compiler, "-c", TESTS / "c" / "check_order.c", "-o", made])
        return made

    @cached_property
    def sound(self) -> Path:
        """The program that searches, with the orders as they are."""
        return self.link("sound", [])

    def link(self, name: str, objects: list[Path]) -> Path:
        made = self.directory / name
        run([*self.compiler, *objects, self.searcher, self.core, "-pthread", "-o", made])
        return made

    def build(self, mutant: Mutant) -> Path:
        """The program that searches, with this order mutated.  Raises StaleError."""
        name = re.sub(r"\W+", "-", mutant.name)
        source = self.directory / f"{name}.c"
        source.write_text(mutated(mutant))
        run([*self.compiler, "-c", source, "-o", source.with_suffix(".o")])
        return self.link(name, [source.with_suffix(".o")])


def search(program: Path, order: str, bound: Bound, reductions: int, *arguments: str) -> dict[str, Any]:
    """What a search finds: see tests/c/check_order.c."""
    answer = run([program, order, *bound.arguments(), f"reductions={reductions}", *arguments])
    found: dict[str, Any] = json.loads(answer)
    return found


def look(program: Path, mutant: Mutant, reductions: int, *arguments: str) -> dict[str, Any]:
    """What a search for what this mutant breaks finds."""
    return search(program, mutant.order, mutant.bound, reductions, f"judged={mutant.breaks}", *arguments)


def main(words: list[str]) -> None:
    print("| order | mutant | breaks | bound | states until found | with reductions | shortest, in moves |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        workshop = Workshop(Path(directory))
        for mutant in [*LABORATORY, *MUTANTS, *GO_ON]:
            if words and not any(word in mutant.name for word in words):
                continue
            program = workshop.build(mutant)
            told = [mutant.order, mutant.slip, mutant.breaks, str(mutant.bound)]
            for reductions in (0, MORTAL_REDUCTIONS if mutant.bound.crashes else ALL_REDUCTIONS):
                found = look(program, mutant, reductions)
                hidden = "hidden, and known to be" if found["contradicted"] else "not found"
                told.append(f"{found['states']:,}" if found["broken"] else hidden)
            shortest = look(program, mutant, 0, "search=breadth", "memory_mib=1024")
            told.append(str(len(shortest["steps"])) if shortest["broken"] else "not found")
            print(f"| {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
