# SPDX-License-Identifier: Apache-2.0
"""The C tests: built with CMake into a temporary directory and run, mutants and the long run included."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S, ROOT, cmake_command
from mutants.multicast import MUTANTS, Mutant, Workshop
from mutants.run import StaleError

import busq

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent.parent
TESTS = sorted(path.stem for path in (HERE / "c").glob("test_*.c"))
SEARCHED = ("ACCEPT_EQUAL", "COMMIT_BEFORE_SYNC", "SEAL_AT_MAXIMUM")  # of all mutants: .ci/deep searches the others too
# They take longer to build than to run.  The others are long here, and .ci/run has them under sanitizers.
SHORT = {"test_multicast", "test_ring", "test_views", "test_wake"}
LONG = set(TESTS) - SHORT

Build = Callable[..., Path]


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture
def core(request: pytest.FixtureRequest, c_build: Build) -> Path:
    """Where the programs of this test are, and of all others that are long, or short, as this one."""
    is_long = request.node.get_closest_marker("long") is not None
    return c_build(*(name for name in TESTS if (name in LONG) == is_long), "stress")


def check(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout
    print(done.stdout)
    return done.stdout


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in TESTS]
)
def test_everything_in_a_program_of_tests_holds(core: Path, name: str) -> None:
    assert check(run([str(core / name)])).strip()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--deliveries", "10000000"), marks=pytest.mark.long),
        pytest.param(("--deliveries", "10000000", "--stale"), marks=pytest.mark.long),
        ("--deliveries", "500000", "--stale"),
        ("--deliveries", "300000", "--processes", "8", "--capacity", "4"),
        ("--deliveries", "300000", "--threads", "--capacity", "16"),
        ("--deliveries", "500000", "--arena", "65536"),
    ],
    ids=" ".join,
)
def test_many_deliveries_are_all_in_order(core: Path, options: tuple[str, ...]) -> None:
    assert "lost 0 duplicated 0" in check(run([str(core / "stress"), *options]))


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("mutants"))


@pytest.mark.long
@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name in SEARCHED], ids=lambda mutant: mutant.name)
def test_a_broken_core_is_noticed_and_the_schedule_that_shows_it_can_be_followed(
    workshop: Workshop, mutant: Mutant
) -> None:
    search = str(workshop.build(mutant))
    done = run([search, "--first"])
    assert done.returncode == 1, done.stdout
    print(done.stdout)
    command = shlex.split(done.stdout.split("again: ")[1])
    followed = run(command)
    assert followed.returncode == 1
    assert followed.stdout.strip() in done.stdout


def test_a_mutant_that_does_not_fit_its_file_any_more_is_not_built(workshop: Workshop) -> None:
    gone = Mutant("GONE", "", "", "shm/send/multicast.c", (("what nobody wrote", ""),))
    twice = Mutant("TWICE", "", "", "shm/send/multicast.c", (("busq_wake_reader(", ""),))
    for stale in (gone, twice):
        with pytest.raises(StaleError, match=r"multicast\.c has [02] times"):
            workshop.build(stale)


# ---- what CMake installs, for programs in C ----

NEWCOMER = r"""
#include <busq.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  const busq_config config = {.peers = 2, .capacity = 16, .arena_bytes = 1 << 20, .permissions = 0600};
  busq_bus *bus = NULL;
  busq_peer *alice = NULL;
  uint64_t target = 0;
  busq_message message;
  uint32_t count = 0;
  if (argc != 3 || busq_bus_create(argv[1], argv[2], &config, &bus) || busq_peer_join(bus, "alice", 5, &alice) ||
      busq_peer_lookup(alice, "alice", 5, &target) || busq_peer_send(alice, &target, 1, "hello", 5, 0) ||
      busq_peer_recv(alice, &message, 1, &count, 0))
    return fprintf(stderr, "%s\n", busq_error_text()), 1;
  printf("%.*s\n", (int)message.size_bytes, (const char *)message.data);
  busq_peer_release(alice, &message);
  return busq_peer_close(alice) || busq_bus_unlink(argv[1], argv[2]);
}
"""


@pytest.fixture(scope="module")
def installed(c_build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix into which the core was installed."""
    prefix = tmp_path_factory.mktemp("prefix")
    check(run([*cmake_command(), "--install", str(c_build("busq_core")), "--prefix", str(prefix)]))
    return prefix


def flags(installed: Path) -> list[str]:
    """What a program is compiled and linked with, by pkg-config, or else by the file that it would read."""
    (said,) = installed.rglob("busq.pc")
    if shutil.which("pkg-config"):
        command = ["pkg-config", "--cflags", "--libs", "busq"]
        return shlex.split(check(run(command, PKG_CONFIG_PATH=str(said.parent))))
    known = {"pcfiledir": str(said.parent)}
    for key, separator, value in re.findall(r"(?m)^(\w+)(=|: )(.*)$", said.read_text()):
        known[key] = re.sub(r"\$\{(\w+)\}", lambda word: known[word[1]], value)
        assert separator
    return shlex.split(f"{known['Cflags']} {known['Libs']}")


def test_a_program_is_built_against_what_is_installed(installed: Path, tmp_path: Path, bus_directory: Path) -> None:
    source = tmp_path / "newcomer.c"
    source.write_text(NEWCOMER)
    program = tmp_path / "newcomer"
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "clang"
    check(run([compiler, "-std=c11", "-Wall", "-Werror", str(source), *flags(installed), "-o", str(program)]))
    assert check(run([str(program), str(bus_directory), "newcomer"])) == "hello\n"


def test_only_the_public_headers_are_installed(installed: Path) -> None:
    names = {path.name for path in installed.rglob("*") if path.is_file()}
    assert names == {"busq.h", "busq_lab.h", "libbusq.a", "busq.pc"}


def test_a_program_of_the_laboratory_is_built_against_what_is_installed(installed: Path, tmp_path: Path) -> None:
    source = tmp_path / "judge.c"
    source.write_text("#include <busq_lab.h>\nint main(void) { return busq_property_name(BUSQ_PROPERTY_LOST) == 0; }\n")
    program = tmp_path / "judge"
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "clang"
    check(run([compiler, "-std=c11", "-Wall", "-Werror", str(source), *flags(installed), "-o", str(program)]))
    check(run([str(program)]))


def test_the_version_is_the_same_everywhere(installed: Path) -> None:
    (said,) = installed.rglob("busq.pc")
    assert f"\nVersion: {busq.__version__}\n" in said.read_text()
    assert f'\nversion = "{busq.__version__}"\n' in (ROOT / "pyproject.toml").read_text()
