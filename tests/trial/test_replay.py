# SPDX-License-Identifier: Apache-2.0
"""Replays: schedules that are read, executions between real processes, and what is noticed when something is wrong."""

from __future__ import annotations

import gzip
import itertools
import os
import signal
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S
from samples import MAILS, mails

import busq
from busq.lab import workload
from busq.orders import ORDERS
from busq.spec import PROPERTIES
from busq.trial import crew, host, replay
from busq.workload import Schedule, ScheduleError

pytestmark = pytest.mark.slow


def rows(schedule: Schedule) -> list[tuple[float, str, list[str], int]]:
    """A schedule as it was in the file."""
    names = schedule.participants
    return [
        (schedule.times_s[i], names[schedule.senders[i]], [names[to] for to in schedule.to(i)], schedule.sizes_bytes[i])
        for i in range(len(schedule))
    ]


# ---- schedules ----

LETTERS = """\
time,sender,recipients,size
0,ann,bob cleo,100
1.5,bob,ann,0
1.5,cleo,dan ann  bob,65536
"""

LETTERS_READ = [
    (0.0, "ann", ["bob", "cleo"], 100),
    (1.5, "bob", ["ann"], 0),
    (1.5, "cleo", ["dan", "ann", "bob"], 65536),
]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_csv_file_is_read(tmp_path: Path) -> None:
    schedule = workload.read(write(tmp_path / "letters.csv", LETTERS))
    assert rows(schedule) == LETTERS_READ
    assert (len(schedule), schedule.copies) == (3, 6)


def test_what_is_compressed_is_told_by_its_first_bytes(tmp_path: Path) -> None:
    for name in ("letters.csv.gz", "letters"):
        assert rows(workload.read(write(tmp_path / name, gzip.compress(LETTERS.encode())))) == LETTERS_READ


def test_columns_may_stand_in_any_order_among_others(tmp_path: Path) -> None:
    text = "\ufeffsubject,recipients, sender,time\r\nhi,bob cleo,ann,7\r\n\r\n"
    schedule = workload.read(write(tmp_path / "letters.csv", text), size_bytes=33)
    assert rows(schedule) == [(7.0, "ann", ["bob", "cleo"], 33)]


def test_rows_are_sorted_by_time_and_keep_their_order_where_it_is_the_same(tmp_path: Path) -> None:
    text = "time,sender,recipients\n5,a,b c\n3,b,a\n5,c,a\n-1,d,a b c\n"
    assert [row[1] for row in rows(workload.read(write(tmp_path / "x.csv", text)))] == ["d", "b", "a", "c"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "the file is empty; expected the columns time,sender,recipients"),
        ("time,sender,recipients\n", "no message in it, only a header"),
        ("\n\n", "line 1: no column time, sender, recipients in ''"),
        ("time,from,to\n1,a,b\n", "line 1: no column sender, recipients in 'time,from,to'"),
        ("time,time,sender,recipients\n1,1,a,b\n", "line 1: the column time is there twice"),
        ("time,sender,recipients\n1,a,b\nsoon,b,a\n", "line 3: time 'soon': expected a number of seconds"),
        ("time,sender,recipients\nnan,a,b\n", "line 2: time 'nan'"),
        ("time,sender,recipients\n1,a\n", "line 2: found 2 fields; expected 3"),
        ("time,sender,recipients\n1,a,b,c\n", "line 2: found 4 fields; expected 3"),
        ("time,sender,recipients\n1,a, \n", "line 2: no recipients: expected names separated by spaces"),
        ("time,sender,recipients\n1,a,b;c\n", "line 2: recipient 'b;c': found ';' in a name"),
        ('time,sender,recipients\n1,a,"b,c"\n', "line 2: recipient 'b,c': found ',' in a name"),
        ("time,sender,recipients\n1,a,b c b\n", "line 2: recipient 'b' is given twice"),
        ("time,sender,recipients\n1,,b\n", "line 2: sender '': expected a name"),
        ("time,sender,recipients\n1,a/b,b\n", "line 2: sender 'a/b': found '/' in a name"),
        ("time,sender,recipients\n1,two words,b\n", "line 2: sender 'two words': found ' ' in a name"),
        ("time,sender,recipients\n1,a,@all\n", "line 2: recipient '@all': names that begin with '@'"),
        ("time,sender,recipients\n1,a," + "é" * 128 + "\n", "a name of 256 bytes; expected at most 255"),
        ("time,sender,recipients,size\n1,a,b,-1\n", "line 2: size '-1': expected a whole number of bytes"),
        ("time,sender,recipients,size\n1,a,b,1.5\n", "line 2: size '1.5': expected a whole number of bytes"),
        ("time,sender,recipients,size\n1,a,b,4294967296\n", "line 2: size '4294967296'"),
        (b"time,sender,recipients\n1,a,b\n2,\xff,b\n", "line 3: found the byte 0xff at column 3; expected UTF-8"),
        (b"time,sender,recipients\n1,a\0b,b\n", "line 2"),
        ("time,sender,recipients\n1,a,b" + "x" * 200_000 + "\n", "line 2: field larger than field limit"),
        (gzip.compress(LETTERS.encode(), mtime=0)[:-12], "the gzip data is damaged or cut short"),
        (gzip.compress(b"", mtime=0)[:-1] + b"x", "the gzip data is damaged or cut short"),
        (b"\x1f\x8bno, this is not gzip", "the gzip data is damaged or cut short"),
        (gzip.compress(b"", mtime=0), "no column time, sender, recipients"),
        (b"PAR1 and then nothing", "no readable Parquet"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_place(tmp_path: Path, content: str | bytes, text: str) -> None:
    path = write(tmp_path / "letters.csv", content)
    if text.startswith("no readable Parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(ScheduleError) as caught:
        workload.read(path)
    assert str(path) in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(("suffix", "text"), [(".csv.gz", "expected gzip data"), (".parquet", "expected b'PAR1'")])
def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path, suffix: str, text: str) -> None:
    with pytest.raises(ScheduleError, match=text):
        workload.read(write(tmp_path / f"letters{suffix}", LETTERS))


def test_more_participants_than_a_bus_takes_are_refused(tmp_path: Path) -> None:
    text = "time,sender,recipients\n" + "".join(f"{i},a{i},b{i}\n" for i in range(2048))
    with pytest.raises(ScheduleError, match="line 2049: recipient 'b2047' is one too many: a bus takes 4095"):
        workload.read(write(tmp_path / "crowd.csv", text))


def test_a_parquet_file_is_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times, senders, recipients, sizes = zip(*LETTERS_READ, strict=True)
    for form in (recipients, [" ".join(names) for names in recipients]):
        columns = {"size": sizes, "recipients": form, "extra": [None] * 3, "sender": senders, "time": times}
        parquet.write_table(
            arrow.table({name: list(values) for name, values in columns.items()}), tmp_path / "x.parquet"
        )
        assert rows(workload.read(tmp_path / "x.parquet")) == LETTERS_READ


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"time": [1, None], "sender": ["a", "b"], "recipients": ["b", "a"]}, "row 2: time None: expected a number"),
        ({"time": [1], "sender": ["a"], "recipients": [3]}, "row 1: recipients 3: expected a text of names, or a list"),
        ({"time": [1], "sender": ["a"], "recipients": [["b", None]]}, "row 1: recipient None: expected a name"),
        ({"time": [1], "sender": [7], "recipients": ["b"]}, "row 1: sender 7: expected a name"),
        ({"time": [1], "sender": ["a"]}, "no column recipients in 'time,sender'"),
    ],
)
def test_a_bad_parquet_file_is_refused_with_the_row(tmp_path: Path, columns: dict[str, Any], text: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), tmp_path / "x.parquet")
    with pytest.raises(ScheduleError) as caught:
        workload.read(tmp_path / "x.parquet")
    assert text in str(caught.value)


def test_without_pyarrow_parquet_is_refused_with_the_name_of_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ScheduleError, match=r"needs pyarrow: pip install 'busq\[spark\]'"):
        workload.read(write(tmp_path / "x.parquet", b"PAR1..."))


def test_the_skewed_workload_is_skewed_and_repeats() -> None:
    schedule = workload.skewed(20_000, seed=3)
    assert schedule == workload.skewed(20_000, seed=3)
    assert schedule != workload.skewed(20_000, seed=4)
    sent = [list(schedule.senders).count(person) for person in range(4)]
    received = [list(schedule.recipients).count(person) for person in range(4)]
    fan_outs = [[len(schedule.to(i)) for i in range(len(schedule))].count(count) for count in (1, 2, 3, 4)]
    assert sent == sorted(sent, reverse=True)
    assert sent[0] > 3 * sent[3]
    assert received == sorted(received)
    assert received[3] > 2 * received[0]
    assert fan_outs == sorted(fan_outs, reverse=True)
    assert schedule.times_s[-1] == pytest.approx(20, rel=0.1)


# ---- payloads ----


@pytest.mark.parametrize("size_bytes", [0, 19, 20, 21, 64, 4096, 61_500, 1 << 20])
def test_a_payload_carries_its_message_and_any_changed_byte_is_noticed(size_bytes: int) -> None:
    payload = host.make_payload(123456, size_bytes, 987654321)
    assert len(payload) == max(20, size_bytes)
    assert host.read_payload(payload) == (123456, 987654321)
    for place in range(0, len(payload), max(1, len(payload) // 50)):
        damaged = bytearray(payload)
        damaged[place] ^= 0x10
        assert host.read_payload(bytes(damaged)) is None
    assert host.read_payload(payload[:-1]) is None
    assert host.read_payload(payload[:10]) is None


# ---- executions ----

ROUND = """\
time,sender,recipients,size
0,ann,bob cleo dan,64
0.01,bob,ann cleo,10000
0.02,cleo,cleo,1
0.02,dan,ann bob cleo dan,70000
0.03,ann,dan,0
"""


def names_of(verdicts: dict[str, Any], ok: bool) -> list[str]:
    """The properties that bus1 promises and that hold, or do not."""
    return [name for name, verdict in verdicts.items() if verdict.ok is ok and name in ORDERS["bus1"].claims]


@pytest.mark.parametrize("processes", [1, 3, 9])
def test_every_copy_arrives_in_order(tmp_path: Path, buses: Path, processes: int) -> None:
    outcome = replay.run(workload.read(write(tmp_path / "round.csv", ROUND)), processes=processes)
    assert outcome.ok
    assert (outcome.messages, outcome.deliveries) == (5, 11)
    assert outcome.processes == min(4, processes)
    assert list(outcome.verdicts) == list(PROPERTIES)
    assert outcome.claims == {"lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total"}
    assert names_of(outcome.verdicts, ok=False) == []
    assert len(outcome.latencies_ns) == 11
    cleo = outcome.logs[outcome.schedule.participants.index("cleo")]
    assert (len(cleo.kinds), cleo.kinds.count(1), list(cleo.destinations)) == (5, 1, [2])


def test_what_a_process_writes_down_is_its_program_order(buses: Path) -> None:
    schedule = workload.skewed(3000, seed=5)
    outcome = replay.run(schedule, capacity=2)
    assert outcome.ok
    assert outcome.full > 0
    for person, log in outcome.logs.items():
        sent = [message for kind, message in zip(log.kinds, log.messages, strict=True) if kind]
        assert sent == [i for i, sender in enumerate(schedule.senders) if sender == person]
        assert len(log.kinds) - len(sent) == list(schedule.recipients).count(person)
        assert list(log.counts) == [len(schedule.to(message)) for message in sent]
        assert log.destinations == sum((schedule.to(message) for message in sent), array("I"))


def test_a_delivery_that_is_missing_from_the_logs_is_found_lost(buses: Path) -> None:
    outcome = replay.run(workload.skewed(500, seed=6))
    log = outcome.logs[2]
    last = log.kinds.rindex(0)
    del log.kinds[last], log.messages[last]
    verdicts = replay._history(outcome.schedule, outcome.logs).judge()
    assert names_of(verdicts, ok=False) == ["lost"]


def test_two_deliveries_that_are_swapped_in_a_log_are_found_out_of_order(buses: Path) -> None:
    outcome = replay.run(workload.skewed(500, seed=7))
    log, schedule = outcome.logs[3], outcome.schedule
    received = [place for place, kind in enumerate(log.kinds) if not kind]
    first, second = next(
        (i, j)
        for i, j in itertools.pairwise(received)
        if schedule.senders[log.messages[i]] == schedule.senders[log.messages[j]]
    )
    log.messages[first], log.messages[second] = log.messages[second], log.messages[first]
    broken = names_of(replay._history(schedule, outcome.logs).judge(), ok=False)
    assert "fifo" in broken
    assert "causal" in broken


def test_at_a_pace_messages_go_when_they_are_due(buses: Path) -> None:
    schedule = workload.skewed(400, seed=8)
    outcome = replay.run(schedule, pace=0.5)
    assert outcome.ok
    span_s = (schedule.times_s[-1] - schedule.times_s[0]) / 0.5
    assert span_s - outcome.behind_s_max <= outcome.seconds


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"processes": 0}, "processes=0"),
        ({"pace": 0.0}, "pace=0.0"),
        ({"pace": float("nan")}, "pace=nan"),
        ({"arena": 8192}, "the largest message has 16384 bytes"),
        ({"capacity": 0}, "capacity"),
        ({"order": "best"}, "best"),
        ({"order": "bus1", "shuffle": 1}, "order bus1 sends no packets that could overtake each other"),
        ({"order": "fifo", "shuffle": -1}, "shuffle=-1"),
        ({"order": "fifo", "shuffle": 1, "shuffle_ms": 0.0}, "shuffle_ms=0.0"),
    ],
)
def test_what_cannot_be_replayed_is_refused(buses: Path, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        replay.run(workload.skewed(200), **arguments)


def test_percentiles_are_values_that_occurred() -> None:
    values = list(range(1, 1001))
    assert [replay.percentile(values, share) for share in (50, 90, 99, 99.9, 100)] == [500, 900, 990, 999, 1000]
    assert [replay.percentile([7], share) for share in (0, 50, 100)] == [7, 7, 7]


# ---- what goes wrong while it runs ----


class Running:
    """A replay in a thread, slow enough to meddle with it."""

    def __init__(self, schedule: Schedule, **options: Any) -> None:
        self.outcome: replay.Outcome | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(schedule, options))
        self._thread.start()

    def _run(self, schedule: Schedule, options: dict[str, Any]) -> None:
        try:
            self.outcome = replay.run(schedule, **options)
        except Exception as error:
            self.error = error

    def bus(self, directory: Path, is_ready: Callable[[dict[str, Any]], bool]) -> busq.Bus:
        """The bus of the replay, once it is ready."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s and self._thread.is_alive():
            for name in [name for name in os.listdir(directory) if not name.startswith(".")]:
                bus = busq.Bus.open(name)
                if is_ready(bus.stats()):
                    return bus
            time.sleep(0.01)
        self._thread.join()
        raise AssertionError(f"the replay never got so far: {self.error or self.outcome}")

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def has_sent(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda stats: sum(peer["sent"] for peer in stats["peers"]) >= count


@pytest.mark.parametrize("order", ["bus1", "skeen"])
def test_a_process_that_is_killed_is_named(buses: Path, order: str) -> None:
    running = Running(workload.skewed(4000), pace=1.0, order=order, folded=False)
    bus = running.bus(buses, has_sent(50))
    victim = next(peer for peer in bus.stats()["peers"] if peer["name"] == "cleo")
    os.kill(victim["pid"], signal.SIGKILL)
    running.join()
    assert isinstance(running.error, replay.ReplayError)
    assert f"(pid {victim['pid']}, hosts cleo) was killed by SIGKILL after sending" in str(running.error)
    assert running.error.messages >= (50 if order == "bus1" else 1)  # a bus counts packets, and skeen needs several


def test_foreign_messages_are_noticed(buses: Path) -> None:
    schedule = workload.skewed(1000)
    to_dan = next(i for i in range(len(schedule)) if 3 in schedule.to(i))
    running = Running(schedule, pace=0.5)
    bus = running.bus(buses, has_sent(10))
    with bus, bus.join("mallory") as mallory:
        mallory.send("ann", b"not even a header")
        mallory.send(["bob", "cleo"], bytearray(64))
        mallory.send("dan", host.make_payload(to_dan, schedule.sizes_bytes[to_dan], time.monotonic_ns()))
        mallory.send("dan", host.make_payload(10**6, 64, time.monotonic_ns()))
    running.join()
    outcome = running.outcome
    assert outcome is not None
    assert not outcome.ok
    assert outcome.damaged == 5
    assert "mallory" in outcome.faults[0]
    assert names_of(outcome.verdicts, ok=False) == []


def test_a_standstill_is_judged_as_it_stands(buses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = threading.Event()
    watch = crew.Crew.watch

    def watch_and_say(*arguments: Any) -> str | None:
        standstill = watch(*arguments)
        judged.set()
        return standstill

    monkeypatch.setattr(crew.Crew, "watch", watch_and_say)
    running = Running(workload.skewed(20_000), pace=2.0, capacity=4, patience_s=0.5)
    bus = running.bus(buses, has_sent(50))
    stopped = next(peer["pid"] for peer in bus.stats()["peers"] if peer["name"] == "dan")
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert judged.wait(PATIENCE_S)  # however long a loaded machine takes for that
    finally:
        os.kill(stopped, signal.SIGCONT)
    running.join()
    outcome = running.outcome
    assert outcome is not None
    assert not outcome.ok
    assert outcome.faults[0].startswith("nothing moved for 0.5 s: ")
    assert outcome.messages < 20_000


# ---- mails ----


@pytest.mark.parametrize("which", MAILS)
@pytest.mark.parametrize(
    "options",
    [{"processes": 4}, {"processes": 2}, {"processes": 8}, {"processes": 4, "capacity": 8}],
    ids=["four", "two", "eight", "four-crowded"],
)
def test_all_copies_of_the_mails_arrive_in_order(
    buses: Path, samples: Path, options: dict[str, int], which: str
) -> None:
    outcome = replay.run(workload.read(mails(samples, which)), **options)
    assert (outcome.messages, outcome.deliveries) == MAILS[which]
    assert names_of(outcome.verdicts, ok=False) == []
    assert outcome.ok
