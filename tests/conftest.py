# SPDX-License-Identifier: Apache-2.0
"""What all tests share: buses that are always removed, processes that always end, seeds that are always printed."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import functools
import gc
import inspect
import itertools
import json
import math
import multiprocessing
import os
import pickle
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest_plugins = ["watchdog"]

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
# The installed package is what is tested, in editable mode or not: the sources beside the tests hold no compiled core.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]

import busq  # noqa: E402

if TYPE_CHECKING:
    from click.testing import Result

# A test waits so long for what must come, however busy the machine is: it ends what hangs, and judges nothing.
# (The time limit of a whole test, in pyproject.toml, is longer.)
PATIENCE_S = 600


def set_up_hypothesis() -> None:
    """Not when this file is imported: processes that tests spawn do so too, and it takes longer than all else there."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "busq",
        database=None,
        deadline=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate, Phase.target, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("busq")


def pytest_configure(config: pytest.Config) -> None:
    """Leave slow files out only where none is named."""
    set_up_hypothesis()
    if hasattr(config, "workerinput"):
        config.option.markexpr = config.workerinput["markexpr"]
        return
    is_default = config.option.markexpr == "not long and not slow"  # pyproject.toml
    if is_default and config.args_source is pytest.Config.ArgsSource.ARGS:
        config.option.markexpr = "not long"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let the workers leave out what this process does: each of them is given the names of files."""
    node.workerinput["markexpr"] = node.config.option.markexpr


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep every Nth case of a test with several, with BUSQ_TEST_PART=N; .ci/deep has all."""
    part = int(os.environ.get("BUSQ_TEST_PART", "1"))
    if part == 1:
        return
    cases: dict[str, Iterator[int]] = {}
    left_out = {
        item for item in items if next(cases.setdefault(item.nodeid.partition("[")[0], itertools.count())) % part
    }
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what was collected for what stays: looking for garbage among thousands of tests takes as long as running
    them, and many a test has it looked for.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Two workers for each core, since many tests wait for other processes most of the time."""
    return 2 * len(os.sched_getaffinity(0)) if config.option.numprocesses == "auto" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Let no teardown hang: the time limit of a test is lifted when it fails, so what comes after needs its own."""
    if signal.getitimer(signal.ITIMER_REAL)[0]:  # the limit still stands
        yield
        return

    def give_up(*_: Any) -> None:
        raise TimeoutError(f"tearing down {item.nodeid} took longer than {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Have a full queue that a test has dropped go before the next test, and not when the collector comes by.

    Were a process forked meanwhile, it would have that queue as well; then the thread that puts waits for ever.
    """
    done = yield
    at_exit = sys.modules.get("busq._queues.at_exit")
    if at_exit is not None and at_exit.overflows:
        gc.collect()
    return done


# ---- buses ----


@pytest.fixture(scope="session", autouse=True)
def bus_directory() -> Iterator[Path]:
    """A directory of buses for this run alone, in memory, removed afterwards whatever happens."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix=f"busq-tests-{os.getpid()}-", dir=base))
    former = os.environ.get("BUSQ_DIR")
    os.environ["BUSQ_DIR"] = str(path)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything is torn down
    # Not in what a test forks: a handler in Python runs between two instructions, so a process that falls asleep in a
    # semaphore just behind a SIGTERM takes note of it when it wakes up, and the pool that ends it waits for ever.
    os.register_at_fork(after_in_child=functools.partial(signal.signal, signal.SIGTERM, signal.SIG_DFL))
    # Shells let what they start in the background ignore Ctrl-C, and so would the processes that tests press it for.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield path
    if former is None:
        del os.environ["BUSQ_DIR"]
    else:
        os.environ["BUSQ_DIR"] = former
    shutil.rmtree(path, ignore_errors=True)


_numbers = itertools.count()


def unlink_quietly(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        busq.Bus.unlink(name)


@pytest.fixture
def own_directory(bus_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of buses for one test, removed afterwards with what is in it."""
    path = Path(tempfile.mkdtemp(prefix="own-", dir=bus_directory))
    monkeypatch.setenv("BUSQ_DIR", str(path))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def buses(own_directory: Path) -> Iterator[Path]:
    """A directory of buses for one test; none is left in it at the end."""
    yield own_directory
    assert os.listdir(own_directory) == []


@pytest.fixture(params=["", "1"], ids=["", "lost-proposals"])
def stale(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As is, and where the first proposal of every multicast is lost."""
    monkeypatch.setenv("BUSQ_STALE_PROPOSALS", request.param)
    return str(request.param)


@pytest.fixture
def bus_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name that no other test and no other run uses; whatever has it afterwards is removed."""
    word = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:60].strip("-")
    name = f"{word}-{os.getpid()}-{next(_numbers)}"
    yield name
    unlink_quietly(name)


@pytest.fixture
def make_bus(bus_name: str) -> Iterator[Callable[..., busq.Bus]]:
    """Buses with the parameters of Bus.create, small unless asked otherwise."""
    made: list[busq.Bus] = []

    def make(**config: Any) -> busq.Bus:
        chosen = {"peers": 8, "capacity": 64, "arena": 1 << 20} | config
        bus = busq.Bus.create(f"{bus_name}-{len(made)}", **chosen)
        made.append(bus)
        return bus

    yield make
    for bus in made:
        unlink_quietly(bus.name)


@pytest.fixture
def bus(make_bus: Callable[..., busq.Bus]) -> busq.Bus:
    """A bus for 8 peers, 64 messages per queue, 1 MiB of messages on their way."""
    return make_bus()


# ---- data ----


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what the module of that name makes."""
    from samples import write

    return write(tmp_path_factory.mktemp("samples"))


# ---- randomness ----


@pytest.fixture
def seed() -> int:
    """What a randomised test draws from; printed, so that pytest shows it on failure.  BUSQ_TEST_SEED replays it."""
    chosen = os.environ.get("BUSQ_TEST_SEED")
    value = int(chosen) if chosen else random.SystemRandom().getrandbits(32)
    print(f"seed: BUSQ_TEST_SEED={value}")
    return value


# ---- event loops ----

Run = Callable[[Callable[[], Awaitable[Any]]], Any]


def run_asyncio(main: Callable[[], Awaitable[Any]]) -> Any:
    import asyncio  # not in every process that a test spawns

    return asyncio.run(main(), debug=False)  # type: ignore[arg-type]


def run_uvloop(main: Callable[[], Awaitable[Any]]) -> Any:
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def run_trio(main: Callable[[], Awaitable[Any]]) -> Any:
    pytest.importorskip("anyio")
    return pytest.importorskip("trio").run(main)


@pytest.fixture(params=[run_asyncio, run_uvloop, run_trio], ids=["asyncio", "uvloop", "trio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Every event loop that is installed; an `async def test_` that takes it is run by it."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[run_asyncio, run_uvloop], ids=["asyncio", "uvloop"])
def run_tasks(request: pytest.FixtureRequest) -> Run:
    """Every event loop that has asyncio's tasks."""
    return request.param  # type: ignore[no-any-return]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in the event loop of its fixture, or in asyncio's."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    runner = arguments.get("run") or arguments.get("run_tasks") or run_asyncio
    runner(functools.partial(pyfuncitem.obj, **arguments))
    return True


# ---- processes ----


class FailedError(AssertionError):
    """A child failed; carries its traceback as text."""


class Child:
    """A forked process that runs one function; its result or its exception comes back through a pipe."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.name = getattr(function, "__name__", "child")
        self._reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reader)
            _child_main(writer, function, arguments)
        os.close(writer)
        self.status: int | None = None

    def result(self, timeout: float = PATIENCE_S) -> Any:
        """What the function returned.  Raises FailedError if it raised, died, or took longer (then it is killed)."""
        answer = b""
        end = time.monotonic() + timeout
        while True:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._reader], [], [], left)[0]:
                self.kill()
                raise FailedError(f"{self.name} (pid {self.pid}) did not end within {timeout} s and was killed")
            part = os.read(self._reader, 1 << 20)
            if not part:
                break
            answer += part
        status = self.wait()
        if not answer:
            raise FailedError(f"{self.name} (pid {self.pid}) ended without an answer, status {status}")
        is_good, value = pickle.loads(answer)
        if not is_good:
            raise FailedError(f"{self.name} (pid {self.pid}) raised:\n{value}")
        return value

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Kill it by its pid and reap it; returns the wait status."""
        if self.status is None:
            os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Reap it; returns the wait status."""
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]
        return self.status

    def close(self) -> None:
        """End it, if it has not ended, and give its descriptor back."""
        if self.status is None:
            self.kill()
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1


def _child_main(writer: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Never returns into the test run of the parent."""
    code = 1
    try:
        faulthandler.disable()  # tests that kill children mean it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            answer = (True, function(*arguments))
        except BaseException:
            answer = (False, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(answer))
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())  # nothing else would report it
    finally:
        os._exit(code)


@pytest.fixture
def fork() -> Iterator[Callable[..., Child]]:
    """fork(function, *arguments) runs it in a child process; what still lives when the test ends is killed by pid."""
    children: list[Child] = []

    def start(function: Callable[..., Any], *arguments: Any) -> Child:
        child = Child(function, arguments)
        children.append(child)
        return child

    yield start
    for child in children:
        child.close()


def pattern(size: int, number: int = 0) -> bytes:
    """Bytes of which those of each number are others."""
    return random.Random(number).randbytes(size)


def depth(bus: busq.Bus, name: str) -> int:
    """How many messages wait for a peer."""
    return next(int(peer["depth"]) for peer in bus.stats()["peers"] if peer["name"] == name and peer["alive"])


def run_command(*arguments: Any, **more: Any) -> Result:
    """Run a command of busq in this process; `more` as click's runner has it, such as `input` and `env`."""
    from click.testing import CliRunner

    from busq.cli import commands

    # What would be a traceback is raised.
    return CliRunner().invoke(commands, [*map(str, arguments)], prog_name="busq", catch_exceptions=False, **more)


def command_json(*arguments: Any, code: int = 0) -> Any:
    """What a command prints with --json, and its exit code is this one."""
    result = run_command(*arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def fresh_python(
    code: str, *arguments: str, timeout: float = PATIENCE_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that shares nothing with this one; it may import the modules beside the tests."""
    beside = [entry for entry in sys.path if TESTS in (Path(entry), *Path(entry).parents)]
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=TESTS,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(beside)} | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def wait_until(condition: Callable[[], bool], timeout: float = PATIENCE_S, what: str = "the condition") -> None:
    """Look every millisecond until it holds, and less often the longer it takes: others need the processor for that."""
    begin = now = time.monotonic()
    while not condition():
        assert now - begin < timeout, f"{what} did not come true within {timeout} s"
        time.sleep(min(0.001 + (now - begin) / 50, 0.05))
        now = time.monotonic()


@contextlib.contextmanager
def process(method: str, target: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """A child of `multiprocessing`, started by this method; it has to end by itself."""
    child = multiprocessing.get_context(method).Process(target=target, args=arguments, daemon=True)  # type: ignore[attr-defined]
    child.start()
    try:
        yield child
        child.join(PATIENCE_S)
        assert child.exitcode is not None
    finally:
        child.kill()
        child.join()


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A bus made by itself that holds 16 objects per queue."""
    from busq._queues import process_state

    monkeypatch.setattr(process_state, "CAPACITY", 16)
    monkeypatch.setattr(process_state, "PEERS", 48)
    monkeypatch.setattr(process_state, "_default", None)
    yield 16
    process_state._default = None


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage of earlier tests.

    The ends of their queues would count as what a call does, and an exception that is raised in one of those is lost.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def shortest(measure: Callable[[], float], enough_s: float, tries: int = 50) -> float:
    """The shortest time of many tries, or the first that is short enough.

    What is slow by itself is so every time; what a busy machine holds up is not.
    """
    best_s = math.inf
    for _ in range(tries):
        best_s = min(best_s, measure())
        if best_s < enough_s:
            break
    return best_s


# ---- building the C tests ----


def cmake_command() -> list[str]:
    """How to call CMake on csrc/; skips where something that building takes is not there."""
    found = [["cmake"]] if shutil.which("cmake") else []
    module = [sys.executable, "-m", "cmake"]
    if not found and subprocess.run([*module, "--version"], capture_output=True, check=False).returncode == 0:
        found = [module]
    if not found:
        pytest.skip("needs cmake, on the PATH or as the Python package of that name")
    if not any(map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))):
        pytest.skip("needs a C compiler")
    if not (ROOT / "csrc" / "CMakeLists.txt").exists():
        pytest.skip("needs the C sources, which are not part of an installation")
    return found[0]


@pytest.fixture(scope="session")
def c_build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """c_build(*targets) builds these programs of csrc and tests/c, once for all tests; answers with their directory."""
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ  # the workers' own folders are beside each other
    base = tmp_path_factory.getbasetemp()
    # Where several runs of pytest follow each other, as in .ci/run, they can share what they build.
    directory = Path(os.environ.get("BUSQ_TEST_BUILD", (base.parent if is_one_of_many else base) / "c"))

    # They take longer to build than to run, and half of the time is spent above -O1; .ci/run has those of threads at
    # -O2, and .ci/deep all.
    options = ["-DBUSQ_TESTS=ON", "-DBUSQ_PYTHON=OFF", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG"]

    @functools.cache
    def build(*targets: str) -> Path:
        cmake = cmake_command()
        directory.mkdir(parents=True, exist_ok=True)
        with open(directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one worker builds, the others find it built
            for command in (
                [*cmake, "-S", str(ROOT / "csrc"), "-B", str(directory), *options],
                [*cmake, "--build", str(directory), "--parallel", str(os.cpu_count() or 1), "--target", *targets],
            ):
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                assert done.returncode == 0, done.stdout
        return directory

    return build
