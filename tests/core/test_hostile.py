# SPDX-License-Identifier: Apache-2.0
"""Damaged files: no crash, no hang, no read outside the mapping.

tests/c/hostile.c does everything that a program can do with a bus, built with AddressSanitizer and
UndefinedBehaviorSanitizer and with guard areas around the mapping; Hypothesis chooses which bytes are wrong, before it
is opened or while it is in use.  The inputs of the fuzz targets (tests/c/fuzz) are run here too; tests/c/fuzz/fuzz.sh
looks for new ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import platform
import runpy
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from conftest import PATIENCE_S, ROOT, TESTS, Child, fresh_python, wait_until
from hypothesis import given, settings

import busq

EXAMPLES = int(os.environ.get("BUSQ_HOSTILE_EXAMPLES", "250"))
ROOMS = ("base", "clock", "queue", "order", "trace", "shm")
PARTS = ("header", "peers", "rings", "table", "arena", "end")


FUZZ_WRAPS = "mmap munmap clock_gettime nanosleep sched_yield syscall open openat close"
CORPUS = TESTS / "c" / "fuzz" / "corpus"

# ---- the programs ----


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """sanitized(name, define, wrapped, *sources): the path of a program of these files of tests/c and the core."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("needs gcc or clang")
    csrc = ROOT / "csrc"
    if not csrc.exists():
        pytest.skip("needs the C sources, which are not part of an installation")
    sources = [source for room in ROOMS for source in sorted((csrc / room).rglob("*.c"))] + [csrc / "busq.c"]
    flags = [
        "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-pthread", "-fno-omit-frame-pointer", "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all", f"-I{csrc}", f"-I{TESTS / 'c'}",
        *(["-mcx16"] if platform.machine() == "x86_64" else []),
    ]  # fmt: skip
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ  # the workers' own folders are beside each other
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if is_one_of_many else base) / "sanitized"

    def compile_in(directory: Path, *arguments: object) -> None:
        done = subprocess.run(
            [compiler, *flags, *map(str, arguments)], cwd=directory, capture_output=True, text=True, check=False
        )
        if "cannot find" in done.stderr and "asan" in done.stderr:
            pytest.skip("the compiler comes without the sanitizers' libraries")
        assert done.returncode == 0, done.stderr

    def build(name: str, define: str, wrapped: str, *files: str) -> str:
        core, program = directory / define, directory / name
        directory.mkdir(exist_ok=True)
        with open(directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one worker builds, the others find it built
            if not core.exists():
                build_core(core, define)
            if not program.exists():
                wraps = "-Wl" + "".join(f",--wrap={function}" for function in wrapped.split())
                own = [TESTS / "c" / file for file in files]
                compile_in(core, define, wraps, *core.rglob("*.o"), *own, "-o", core / name)
                (core / name).rename(program)
        return str(program)

    def build_core(core: Path, define: str) -> None:
        half = directory / "half"
        shutil.rmtree(half, ignore_errors=True)
        rooms: dict[Path, list[Path]] = {}  # of one room at a time: files of two may have the same name
        for source in sources:
            rooms.setdefault(source.parent, []).append(source)
        for room, files_of_room in rooms.items():
            part = half / room.relative_to(csrc)
            part.mkdir(parents=True, exist_ok=True)
            compile_in(part, define, "-c", *files_of_room)
        half.rename(core)

    return build


@pytest.fixture(scope="session")
def hostile(sanitized: Callable[..., str]) -> str:
    """The path of the program that uses a damaged bus."""
    return sanitized("hostile", "-DNDEBUG", "mmap munmap", "hostile.c")


def run(hostile: str, directory: Path, name: str, *arguments: object) -> str:
    """What it printed; fails if a sanitizer, a signal or the alarm ended it."""
    command = [hostile, str(directory), name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, (
        f"{' '.join(command[2:])}\nended with {done.returncode}\n{done.stdout}\n{done.stderr[:5000]}"
    )
    return done.stdout


# ---- something to damage ----


@dataclass
class Specimen:
    """A file with everything in it: full queues, large messages, the remains of two processes that were killed."""

    image: bytes
    layout: dict[str, int]


def leave_remains(name: str, mine: str, other: str) -> None:
    peer = busq.Bus.open(name).join(mine)
    peer.fileno()
    while other not in peer.bus.peers():
        time.sleep(0.001)
    for size in (0, 10, 100, 700, 5000):
        peer.send(mine, b"m" * size, timeout=0)
        peer.send([mine, other], b"b" * size, timeout=PATIENCE_S)
        peer.recv(timeout=0)
    time.sleep(60)


@pytest.fixture(scope="module")
def workplace(bus_directory: Path) -> Iterator[Path]:
    path = bus_directory / "hostile"
    path.mkdir(mode=0o700)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def image(bus_directory: Path) -> bytes:
    """The file of a bus whose peers were killed."""
    name = f"specimen-{os.getpid()}"
    path = bus_directory / name
    bus = busq.Bus.create(name, peers=6, capacity=16, arena=1 << 16)
    children = [Child(leave_remains, (name, mine, other)) for mine, other in (("v0", "v1"), ("v1", "v0"))]
    try:
        sent = [0]
        wait_until(lambda: sum(peer["sent"] for peer in bus.stats()["peers"]) == 20, what=f"20 messages {sent}")
    finally:
        for child in children:
            child.close()
    content = path.read_bytes()
    busq.Bus.unlink(name)
    return content


@pytest.fixture(scope="module")
def specimen(hostile: str, workplace: Path, image: bytes) -> Specimen:
    place(workplace, "whole", image)
    lines = run(hostile, workplace, "whole", "layout").split()
    return Specimen(image, {word: int(number) for word, number in zip(lines[::2], lines[1::2], strict=True)})


def place(directory: Path, name: str, image: bytes) -> None:
    """Put a file there as a fresh one."""
    path = directory / name
    path.unlink(missing_ok=True)
    path.write_bytes(image)
    path.chmod(0o600)


# ---- which bytes ----


@st.composite
def offsets(draw: st.DrawFn, layout: dict[str, int]) -> int:
    """Where it may hurt: words that are indices, lengths and states, or anywhere."""
    slot, ring, extent = layout["slot"], layout["ring"], layout["extent"]
    record = st.builds(
        lambda e, r, byte: layout["arena"] + e * extent + r * 64 + byte,
        st.integers(0, (layout["end"] - layout["arena"]) // extent - 1),
        st.integers(0, 3),
        st.integers(0, 47),
    )
    entry = st.builds(lambda n: layout["table"] + n, st.integers(0, 16 * 24 - 1))
    position = st.builds(lambda p, n: layout["rings"] + p * ring + n, st.integers(0, 3), st.integers(0, ring - 1))
    member = st.builds(
        lambda p, field, byte: layout["peers"] + p * slot + field + byte,
        st.integers(0, 3),
        st.sampled_from([offset for word, offset in layout.items() if word.startswith("field.")]),
        st.integers(0, 7),
    )
    head = st.integers(0, 511)
    anywhere = st.integers(0, layout["end"] - 1)
    return min(draw(st.one_of(record, entry, position, member, head, anywhere)), layout["end"] - 1)


byte_values = st.one_of(st.sampled_from([0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF]), st.integers(0, 255))
randomness = st.integers(0, 1 << 30)


@pytest.mark.long
def test_the_program_itself_works(hostile: str, specimen: Specimen, workplace: Path) -> None:
    """Without damage it sends, receives and joins: otherwise the tests below would test nothing."""
    place(workplace, "b", specimen.image)
    out = run(hostile, workplace, "b", 1, 500)
    counts = dict(pair.split(":") for pair in out.split()[:-1])
    assert int(counts["0"]) > 400
    assert "12" not in counts, "nothing is damaged"


@pytest.mark.long
def test_a_byte_flipped_file_does_no_harm(hostile: str, specimen: Specimen, workplace: Path) -> None:
    @settings(max_examples=EXAMPLES)
    @given(
        damages=st.lists(st.tuples(offsets(specimen.layout), byte_values), min_size=1, max_size=20),
        seed=randomness,
    )
    def check(damages: list[tuple[int, int]], seed: int) -> None:
        image = bytearray(specimen.image)
        for offset, value in damages:
            image[offset] = value
        place(workplace, "b", bytes(image))
        run(hostile, workplace, "b", seed, 100)

    check()


@pytest.mark.long
def test_bytes_that_flip_while_it_is_in_use_do_no_harm(hostile: str, specimen: Specimen, workplace: Path) -> None:
    @settings(max_examples=EXAMPLES)
    @given(
        damages=st.lists(st.tuples(offsets(specimen.layout), byte_values), min_size=1, max_size=40),
        seed=randomness,
    )
    def check(damages: list[tuple[int, int]], seed: int) -> None:
        place(workplace, "b", specimen.image)
        run(hostile, workplace, "b", seed, 100, *(f"{offset}:{value}" for offset, value in damages))

    check()


@pytest.mark.long
def test_a_file_of_the_wrong_length_is_refused(hostile: str, specimen: Specimen, workplace: Path) -> None:
    size = len(specimen.image)
    edges = [0, 1, 7, 8, 255, 256, 4095, 4096, size // 2, size - 4096, size - 1]

    @settings(max_examples=40)
    @given(length=st.one_of(st.sampled_from(edges), st.integers(0, size - 1)))
    def check(length: int) -> None:
        place(workplace, "b", specimen.image[:length])
        assert run(hostile, workplace, "b", 0, 0).startswith("open 12 ")

    check()
    place(workplace, "b", specimen.image)
    os.truncate(workplace / "b", 1 << 40)  # messages behind the arena make it longer, but not by so much
    assert run(hostile, workplace, "b", 0, 0).startswith("open 12 ")


# ---- what fuzzing began with, and what it has found ----


@pytest.mark.long
@pytest.mark.parametrize("target", ["attach", "receive"])
def test_the_inputs_of_the_fuzz_targets_do_no_harm(sanitized: Callable[..., str], target: str) -> None:
    program = sanitized(f"fuzz_{target}", "-DBUSQ_STEPS", FUZZ_WRAPS, f"fuzz/fuzz_{target}.c", "fuzz/fuzz_main.c")
    inputs = len(list((CORPUS / target).iterdir()))
    done = subprocess.run(
        [program, str(CORPUS / target)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert inputs > 20
    assert f"{inputs} inputs" in done.stdout


def test_the_inputs_are_those_that_are_written_down() -> None:
    seeds = runpy.run_path(str(CORPUS / "seeds.py"))["all_seeds"]()
    found = {path: path.read_bytes() for target in ("attach", "receive") for path in (CORPUS / target).iterdir()}
    assert {path: content for path, content in found.items() if not path.name.startswith("found-")} == seeds, (
        "run tests/c/fuzz/corpus/seeds.py"
    )


# ---- the same through Python ----

USER = """
import busq, sys
allowed = (busq.BusqError, ValueError, OSError)
def attempt(call):
    try: return call()
    except allowed: return None
bus = attempt(lambda: busq.Bus.open(sys.argv[1]))
peers = [p for p in (attempt(lambda: bus.join(n)) for n in ("alice", "bob")) if p] if bus else []
for round in range(20):
    attempt(lambda: bus.stats()) if bus else None
    for peer in peers:
        attempt(lambda: peer.send("bob", b"x" * 100, timeout=0.001))
        attempt(lambda: peer.send(["alice", "bob"], b"x" * 9000, timeout=0.001))
        for message in attempt(lambda: peer.recv_many(5, timeout=0.001)) or []:
            attempt(lambda: (message.sender, len(message.data)))
        attempt(peer.fileno)
for peer in peers: peer.close()
print("end")
"""


@pytest.mark.long
def test_python_gets_errors_from_damaged_files_and_nothing_else(specimen: Specimen, workplace: Path) -> None:
    @settings(max_examples=15)
    @given(damages=st.lists(st.tuples(offsets(specimen.layout), byte_values), min_size=1, max_size=30))
    def check(damages: list[tuple[int, int]]) -> None:
        image = bytearray(specimen.image)
        for offset, value in damages:
            image[offset] = value
        place(workplace, "p", bytes(image))
        done = fresh_python(USER, "p", BUSQ_DIR=str(workplace))
        assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr

    check()


# ---- one peer's queue is damaged, and the others go on ----

VICTIM_FIELDS = [
    "queue.clock_tail.lo",
    "queue.clock_tail.hi",
    "queue.head",
    "queue.backing",
    "life",
    "wake_seq",
    "wake_flags",
    "room_seq",
    "room_waiters",
    "memory_seq",
    "memory_waits",
    "sequence_reserved",
    "sent",
    "received",
    "pid",
    "name_bytes",
    "name",
]
RECORD_BYTES = 48
CONFIGS: dict[str, dict[str, Any]] = {
    "whole": {"peers": 4, "capacity": 8, "arena": 1 << 16},
    "short": {"peers": 4, "capacity": 300, "arena": 1 << 16, "reserve": False},
}
DOCUMENTED = (busq.BusqError, ValueError, OSError)

words = st.one_of(
    st.sampled_from([0, 1, 2, 3, 5, 255, 1 << 31, (1 << 32) - 1, 1 << 52, (1 << 62) - 2, 1 << 62, (1 << 64) - 1]),
    st.integers(0, (1 << 64) - 1),
)


@st.composite
def words_of_the_victim(draw: st.DrawFn, layout: dict[str, int]) -> tuple[str, int]:
    """(region, offset in it): a word of its slot, of its ring, or of a record that it or its friend has sent."""
    region = draw(st.sampled_from(["slot", "ring", "record", "friend"]))
    if region == "slot":
        return region, layout["field." + draw(st.sampled_from(VICTIM_FIELDS))] & ~7
    if region == "ring":
        return region, draw(st.integers(0, layout["ring"] // 8 - 1)) * 8
    return region, draw(st.integers(0, 7)) * 64 + draw(st.integers(0, RECORD_BYTES // 8 - 1)) * 8


def steps_with(layout: dict[str, int]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """What happens: a word changes (set, or some bits flipped), or a peer does something."""
    return st.lists(
        st.one_of(
            st.tuples(st.just("set"), words_of_the_victim(layout), words),
            st.tuples(st.just("flip"), words_of_the_victim(layout), st.integers(0, 63).map(lambda bit: 1 << bit)),
            st.tuples(
                st.sampled_from(
                    ["friend sends", "victim sends", "both send", "victim receives", "victim polls", "all look"]
                ),
                st.integers(0, 6000),
            ),
        ),
        min_size=3,
        max_size=25,
    )


class Company:
    """Ann and Bea, in contact with each other; the victim, whose words are changed, and its friend, in contact too."""

    def __init__(self, directory: Path, layout: dict[str, int], rings: str) -> None:
        self.bus = busq.Bus.create("company", **CONFIGS[rings])
        self.ann, self.bea, self.victim, self.friend = map(self.bus.join, ("ann", "bea", "victim", "friend"))
        slots = {peer["name"]: peer["slot"] for peer in self.bus.stats()["peers"]}
        self.begin = {
            "slot": layout["peers"] + slots["victim"] * layout["slot"],
            "ring": layout["rings"] + slots["victim"] * layout["ring"],
            "record": layout["arena"] + slots["victim"] * layout["extent"],
            "friend": layout["arena"] + slots["friend"] * layout["extent"],
        }
        with (directory / "company").open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.said = 0
        self.due: list[bytes] = []
        self.perhaps: set[bytes] = set()

    def change(self, how: str, place: tuple[str, int], value: int) -> None:
        region, offset = place
        at = self.begin[region] + offset
        if how == "flip":
            value ^= struct.unpack_from("<Q", self.memory, at)[0]
        struct.pack_into("<Q", self.memory, at, value)

    def attempt(self, call: Callable[[], Any]) -> None:
        """Whatever comes is documented: anything else ends this process with a traceback."""
        with contextlib.suppress(*DOCUMENTED):
            call()

    def do(self, what: str, size: int) -> None:
        data = b"x" * size
        if what == "friend sends":
            self.attempt(lambda: self.friend.send("victim", data, timeout=0.001))
        elif what == "victim sends":
            self.attempt(lambda: self.victim.send("friend", data, timeout=0.001))
        elif what == "both send":
            self.attempt(lambda: self.friend.send(["victim", "friend"], data, timeout=0.001))
        elif what == "victim receives":
            for peer in (self.victim, self.friend):
                self.attempt(lambda peer=peer: [(m.sender, m.data) for m in peer.recv_many(4, timeout=0.001)])
        elif what == "victim polls":
            self.attempt(self.victim.fileno)
        else:
            self.attempt(self.bus.stats)
            self.attempt(self.bus.peers)

    def the_others_go_on(self) -> None:
        """Ann speaks to Bea, and to Bea and the victim; Bea hears all that was sent, in order, and nothing twice."""
        self.said += 1
        direct, shared = b"direct %d" % self.said, b"shared %d" % self.said
        self.ann.send("bea", direct, timeout=PATIENCE_S)
        self.due.append(direct)
        try:
            self.ann.send(["victim", "bea"], shared, timeout=0)
            self.due.append(shared)
        except DOCUMENTED:
            self.perhaps.add(shared)  # a multicast that finds a damaged queue half-way has reached the others
        while self.due:
            heard = self.bea.recv(timeout=PATIENCE_S).data
            if heard in self.perhaps:
                self.perhaps.remove(heard)
            else:
                assert heard == self.due.pop(0)
        self.bea.send("ann", b"heard", timeout=PATIENCE_S)
        assert self.ann.recv(timeout=PATIENCE_S).data == b"heard"


def goes_through(directory: str, layout: dict[str, int], rings: str, steps: list[tuple[Any, ...]]) -> int:
    os.environ["BUSQ_DIR"] = directory
    company = Company(Path(directory), layout, rings)
    for step in steps:
        if step[0] in ("set", "flip"):
            company.change(*step)
        else:
            company.do(*step)
        company.the_others_go_on()
    for peer in (company.victim, company.friend, company.bea):
        peer.close()
    return company.said


@pytest.mark.long
@pytest.mark.parametrize("rings", CONFIGS)
def test_a_peer_whose_words_are_changed_gets_errors_and_the_others_go_on(
    hostile: str, bus_directory: Path, rings: str
) -> None:
    directory = bus_directory / f"company-{rings}"
    directory.mkdir(mode=0o700)
    monkey = os.environ["BUSQ_DIR"]
    os.environ["BUSQ_DIR"] = str(directory)
    try:
        busq.Bus.create("layout", **CONFIGS[rings]).close()
    finally:
        os.environ["BUSQ_DIR"] = monkey
    lines = run(hostile, directory, "layout", "layout").split()
    layout = {word: int(number) for word, number in zip(lines[::2], lines[1::2], strict=True)}

    @settings(max_examples=EXAMPLES)
    @given(steps=steps_with(layout))
    def check(steps: list[tuple[Any, ...]]) -> None:
        (directory / "company").unlink(missing_ok=True)
        child = Child(goes_through, (str(directory), layout, rings, steps))
        try:
            assert child.result(20) == len(steps)
        finally:
            child.close()

    check()


# ---- named errors ----


def header_with(image: bytes, offset: int, change: bytes) -> bytes:
    return image[:offset] + change + image[offset + len(change) :]


@pytest.mark.parametrize(
    ("offset", "change", "error", "word"),
    [
        (0, b"PK\x03\x04", busq.CorruptSegment, "not a bus"),
        (8, struct.pack("<I", 999), busq.VersionMismatch, "999"),
        (16, b"\xaa" * 8, busq.VersionMismatch, "layout"),
        (12, struct.pack("<I", 0), busq.CorruptSegment, "half made"),
        (24, b"\x55" * 16, busq.CorruptSegment, "remove it"),
        (56, struct.pack("<I", 5), busq.CorruptSegment, "damaged"),
        (64, struct.pack("<Q", 1 << 60), busq.CorruptSegment, "damaged"),
    ],
    ids=["magic", "version", "stamp", "state", "boot-id", "peers", "arena-bytes"],
)
def test_a_wrong_header_is_named(
    image: bytes,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    offset: int,
    change: bytes,
    error: type[Exception],
    word: str,
) -> None:
    monkeypatch.setenv("BUSQ_DIR", str(workplace))
    wrong = header_with(image, offset, change)
    place(workplace, "wrong", wrong)
    with pytest.raises(error, match=word):
        busq.Bus.open("wrong")
    assert (workplace / "wrong").read_bytes() == wrong, "nothing was changed"
    with pytest.raises(error):
        busq.Bus.create("wrong", exist_ok=True)
    busq.Bus.unlink("wrong")
    with busq.Bus.create("wrong", peers=2) as bus:
        assert bus.peers() == []
    busq.Bus.unlink("wrong")


@pytest.mark.parametrize(
    "content", [b"", b"short", b"text " * 10_000, b"\0" * 200_000], ids=["empty", "short", "text", "zeros"]
)
def test_a_file_that_is_no_bus_is_corrupt(workplace: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setenv("BUSQ_DIR", str(workplace))
    place(workplace, "other", content)
    with pytest.raises(busq.CorruptSegment, match="other"):
        busq.Bus.open("other")
    assert (workplace / "other").read_bytes() == content


def test_no_way_to_a_bus_is_left_half_way(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    """Another process opens and uses a bus in the very moment in which it is made, over and over."""
    name = make_bus().name
    busq.Bus.unlink(name)

    def open_and_use(end: float) -> int:
        opened = 0
        while time.monotonic() < end:
            try:
                with busq.Bus.open(name) as bus, bus.join("child") as peer:
                    peer.send("child", b"whole")
                    assert peer.recv(timeout=0).data == b"whole"
                    opened += 1
            except (FileNotFoundError, busq.PeerExists):
                pass
        return opened

    child = fork(open_and_use, time.monotonic() + 1)
    while child.status is None and not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        busq.Bus.create(name, peers=16, capacity=256, arena=1 << 20).close()
        time.sleep(0.001)
        busq.Bus.unlink(name)
    assert child.result() > 10
    busq.Bus.create(name, peers=1).close()  # for the fixture to remove
