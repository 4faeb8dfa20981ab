# SPDX-License-Identifier: Apache-2.0
"""`busq top` and `busq metrics`: the counters of buses, look by look and as text for other programs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, run_command

import busq
from busq.ops import top
from busq.ops.metrics import exposition

SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)+)\} (\S+)')


def look(sent: int, *, slot: int = 0, created_s: float = 1.0) -> dict[str, Any]:
    peer = {"slot": slot, "joined_s": 2.0, "sent": sent, "received": 2 * sent}
    return {"name": "orders", "created_s": created_s, "peers": [peer]}


# ---- rates ----


def test_rates_are_those_since_the_look_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([100.0, 104.0, 106.0])
    monkeypatch.setattr(top.time, "monotonic", lambda: next(now_s))
    rates = top.Rates()
    seen = []
    for facts in (look(10), look(30), look(31)):
        rates.begin()
        rates.add(facts)
        seen.append((rates.interval_s, facts["peers"][0]["sent_per_s"], facts["peers"][0]["received_per_s"]))
    assert seen == [(0.0, None, None), (4.0, 5.0, 10.0), (2.0, 0.5, 1.0)]


@pytest.mark.parametrize("other", [look(1, slot=1), look(1, created_s=9.0)])
def test_another_peer_has_no_rate_so_far(other: dict[str, Any]) -> None:
    """Nor has one of another bus that has taken the name."""
    rates = top.Rates()
    for facts in (look(10), other):
        rates.begin()
        rates.add(facts)
    assert other["peers"][0]["sent_per_s"] is None


# ---- busq top ----


def test_top_shows_the_peers_of_all_buses(own_directory: Path) -> None:
    with busq.Bus.create("orders", temporary=True) as bus, bus.join("ann") as ann, bus.join("bob"):
        ann.send_many([("bob", b"x")] * 3)
        with busq.Bus.create("mails", temporary=True) as mails, mails.join("cleo"):
            shown = run_command("top", "--count", "2", "--interval", "0.01")
            assert (shown.exit_code, shown.stderr) == (0, "")
            for peer in ("orders ann", "orders bob", "mails cleo"):
                assert len(re.findall(peer.replace(" ", " +"), shown.stdout)) == 2
            assert re.search(r"bob +live +- +- +3 ", shown.stdout)
            looks = run_command("top", "--count", "2", "--interval", "0.01", "--json").stdout.splitlines()
            for found in map(json.loads, looks):
                assert found["interval_s"] > 0
                assert [facts["name"] for facts in found["buses"]] == ["mails", "orders"]
                peers = {peer["name"]: peer for peer in found["buses"][1]["peers"]}
                assert (peers["ann"]["sent"], peers["ann"]["sent_per_s"], peers["bob"]["depth"]) == (3, 0, 3)
            assert len(looks) == 2
            only = run_command("top", "mails", "--count", "1", "--interval", "0.01").stdout
            assert "cleo" in only
            assert "ann" not in only


def test_top_of_no_bus(own_directory: Path) -> None:
    assert run_command("top", "--count", "1", "--interval", "0.01").stdout == "no peers\n"
    missing = run_command("top", "orders", "--count", "1", "--interval", "0.01")
    assert (missing.exit_code, missing.stdout) == (
        1,
        'orders: there is no bus "orders"; create it first\nno peers\n',
    )
    assert run_command("top", "--interval", "0").exit_code == 2


@pytest.mark.parametrize("end", ["reader", "interrupt"])
def test_top_goes_on_until_it_is_interrupted_or_nobody_reads(own_directory: Path, end: str) -> None:
    command = [sys.executable, "-m", "busq", "top", "--interval", "0.01", "--json"]
    with subprocess.Popen(
        command, cwd=own_directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:  # in the root of a checkout Python finds the sources first
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(3):
            assert json.loads(process.stdout.readline())["buses"] == []
        if end == "reader":
            process.stdout.close()
        else:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == (0 if end == "reader" else 130)
        assert b"Traceback" not in process.stderr.read()


# ---- busq metrics ----


def samples(text: str) -> dict[tuple[str, str], float]:
    """The samples of a text, by metric and labels; each stands below the head of its family, and the end is marked."""
    *lines, end = text.splitlines()
    assert end == "# EOF"
    found: dict[tuple[str, str], float] = {}
    family = kind = ""
    families = set()
    for line in lines:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split()
            assert family not in families
            families.add(family)
        elif line.startswith("# HELP "):
            assert line.split()[2] == family
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match[1] == family + ("_total" if kind == "counter" else "")
            assert (match[1], match[2]) not in found
            found[match[1], match[2]] = float(match[3])
    return found


def test_metrics_are_the_counters(own_directory: Path) -> None:
    with busq.Bus.create("orders", peers=7, temporary=True) as bus, bus.join("ann") as ann, bus.join("bob") as bob:
        ann.send_many([("bob", b"x")] * 3)
        bob.recv(0)
        result = run_command("metrics")
        assert (result.exit_code, result.stderr) == (0, "")
        found = samples(result.stdout)
        ann_is, bob_is = 'bus="orders",peer="ann",slot="0"', 'bus="orders",peer="bob",slot="1"'
        assert found["busq_bus_up", 'bus="orders"'] == 1
        assert found["busq_bus_peer_slots", 'bus="orders"'] == 7
        assert found["busq_peer_sent_messages_total", ann_is] == 3
        assert found["busq_peer_received_messages_total", bob_is] == 1
        assert found["busq_peer_queue_messages", bob_is] == 2
        assert run_command("metrics", "orders").stdout.count("busq_bus_up{") == 1


def test_a_bus_that_cannot_be_opened_is_down(own_directory: Path) -> None:
    stranger = own_directory / "stranger"
    stranger.write_bytes(b"x" * 10_000)
    stranger.chmod(0o600)
    try:
        for names, text in ((["stranger"], "stranger: "), (["nothing"], "there is no bus"), ([], "stranger: ")):
            result = run_command("metrics", *names)
            assert result.exit_code == 1
            assert list(samples(result.stdout).values()) == [0]
            assert text in result.stderr
    finally:
        stranger.unlink()


def test_names_are_escaped(own_directory: Path) -> None:
    name = 'a"b\\c\nd'
    with busq.Bus.create(name, temporary=True) as bus, bus.join(name):
        found = samples(exposition({name: bus.stats()}))
    assert ("busq_bus_up", r'bus="a\"b\\c\nd"') in found
