# SPDX-License-Identifier: Apache-2.0
"""The C tests: built with CMake into a temporary directory and run, mutants and the long run included."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import cmake_command

HERE = Path(__file__).parent
SOURCES = HERE.parent / "csrc"
TESTS = sorted(path.stem for path in (HERE / "c").glob("test_*.c"))
MUTANTS = ("ACCEPT_EQUAL", "COMMIT_BEFORE_SYNC", "SEAL_AT_MAXIMUM")

Build = Callable[..., Path]


def run(command: list[str], seconds: int = 110, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build the core and some targets; answer with the directory where they are."""
    cmake = cmake_command()
    root = tmp_path_factory.mktemp("c")

    def build_targets(*targets: str, mutant: str = "") -> Path:
        directory = root / (mutant or "core")
        options = ["-DBUSQ_TESTS=ON", "-DBUSQ_PYTHON=OFF", f"-DBUSQ_MUTANT={mutant}"]
        for command in (
            [*cmake, "-S", str(SOURCES), "-B", str(directory), *options],
            [*cmake, "--build", str(directory), "--parallel", str(os.cpu_count() or 1), "--target", *targets],
        ):
            done = run(command)
            assert done.returncode == 0, done.stdout
        return directory

    return build_targets


@pytest.fixture(scope="module")
def core(build: Build) -> Path:
    return build(*TESTS, "stress")


def check(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout
    print(done.stdout)
    return done.stdout


@pytest.mark.parametrize("name", TESTS)
def test_everything_in_a_program_of_tests_holds(core: Path, name: str) -> None:
    assert check(run([str(core / name)])).strip()


@pytest.mark.parametrize(
    "options",
    [
        ("--deliveries", "10000000"),
        ("--deliveries", "10000000", "--stale"),
        ("--deliveries", "1000000", "--processes", "8", "--capacity", "4"),
        ("--deliveries", "1000000", "--threads", "--capacity", "16"),
        ("--deliveries", "1000000", "--arena", "65536"),
    ],
    ids=" ".join,
)
def test_millions_of_deliveries_are_all_in_order(core: Path, options: tuple[str, ...]) -> None:
    assert "lost 0 duplicated 0" in check(run([str(core / "stress"), *options]))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_core_is_noticed_and_the_schedule_that_shows_it_can_be_followed(build: Build, mutant: str) -> None:
    search = str(build("test_explore_steps", mutant=mutant) / "test_explore_steps")
    done = run([search, "--first"])
    assert done.returncode == 1, done.stdout
    print(done.stdout)
    command = shlex.split(done.stdout.split("again: ")[1])
    followed = run(command)
    assert followed.returncode == 1
    assert followed.stdout.strip() in done.stdout
