# SPDX-License-Identifier: Apache-2.0
"""Are the tests of the shared memory any good?  Breaks one step of the core at a time: the search must notice.

    python tests/orders/mutants/multicast.py DIRECTORY [MUTANT...]

builds in DIRECTORY.  Without names: all scenes on the core as it is, which must pass, and then every mutant, each of
which must be caught in the scene that stands beside it; its schedule is shown.  Ends with 0 only then.
The core is built once; a mutant takes the compilation of the files that it changes, and one link: they come before the
core's own.  CC chooses the compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
for folder in (TESTS, TESTS / "orders"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from conftest import PATIENCE_S, cmake_command  # noqa: E402

from mutants.run import SOURCES, changed, run  # noqa: E402
from mutants.table import blocks  # noqa: E402

SEARCH = "test_explore_steps"


@dataclass(frozen=True)
class Mutant:
    """A core in which one file differs in some places; each of the old texts stands there once."""

    name: str
    slip: str  # what is broken
    scene: str  # in which the search notices
    file: str  # in csrc
    changes: tuple[tuple[str, str], ...]
    compiled: str = ""  # of a header: the file that is compiled with it


def read(name: str) -> list[Mutant]:
    """The mutants of a file: "NAME: SLIP", the scene, "FILE" or "FILE with COMPILED", and the changes."""
    mutants = []
    for (title, scene, files), changes in blocks(name):
        name, _, slip = title.partition(": ")
        file, _, compiled = files.partition(" with ")
        mutants.append(Mutant(name, slip, scene, file, changes, compiled))
    return mutants


MUTANTS = read("core.txt")


def mutated(mutant: Mutant) -> str:
    """The text of the file with the mutant's changes.  Raises StaleError where one does not fit once."""
    return changed(SOURCES / mutant.file, mutant.changes)


@dataclass(frozen=True)
class Workshop:
    """Where the search is built: with the core as it is, or with some files of a mutant before the core's own."""

    directory: Path

    def build(self, mutant: Mutant | None = None) -> Path:
        """The program that searches.  Raises StaleError.  The next one takes its place."""
        sources = self.directory / "mutant"
        shutil.rmtree(sources, ignore_errors=True)
        if mutant:
            made = sources / mutant.file
            made.parent.mkdir(parents=True)
            made.write_text(mutated(mutant))
        if mutant and mutant.compiled:
            copied = sources / mutant.compiled
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SOURCES / mutant.compiled, copied)
        cmake = cmake_command()
        options = ["-DBUSQ_TESTS=ON", "-DBUSQ_PYTHON=OFF", f"-DBUSQ_MUTANT={sources if mutant else ''}"]
        run([*cmake, "-S", SOURCES, "-B", self.directory, *options])
        run([*cmake, "--build", self.directory, "--parallel", "2", "--target", SEARCH])
        return self.directory / SEARCH


def search(program: Path, *arguments: str) -> tuple[bool, str]:
    """Return whether everything holds, and the output of the search."""
    done = subprocess.run(
        [str(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    return done.returncode == 0, done.stdout


def judge(workshop: Workshop, name: str) -> bool:
    if name == "NONE":
        print("==== nothing is broken", flush=True)
        holds, text = search(workshop.build())
        print(text if holds else f"{text}FAILS, though nothing is broken", flush=True)
        return holds
    chosen = next((mutant for mutant in MUTANTS if mutant.name == name), None)
    if not chosen:
        raise SystemExit(f"no mutant is called {name}; there are {', '.join(mutant.name for mutant in MUTANTS)}")
    print(f"==== {name}: {chosen.slip}", flush=True)
    holds, text = search(workshop.build(chosen), "--first", chosen.scene)
    is_caught = not holds and "BAD" in text
    print(text[text.index("BAD") :] if is_caught else f"{text}NOT CAUGHT", flush=True)
    return is_caught


def main(directory: str, *names: str) -> int:
    workshop = Workshop(Path(directory).resolve())
    workshop.directory.mkdir(parents=True, exist_ok=True)
    results = [judge(workshop, name) for name in names or ["NONE", *(mutant.name for mutant in MUTANTS)]]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
