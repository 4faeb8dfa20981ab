# SPDX-License-Identifier: Apache-2.0
"""The examples: a replicated state machine, and three people with a secret."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from busq.cli import commands
from busq.examples import plays, replicas, secret
from busq.examples.crew import Crew, CrewError, Link


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["example", *arguments], prog_name="busq")


# ---- replicas ----


@pytest.mark.parametrize("order", ["skeen", "sequencer", "bus1"])
def test_each_replica_produces_the_same_output_under_a_total_order(order: str, seed: int) -> None:
    """Garg 12.3.4: "executes the requests in the same order, then each will produce the same output"."""
    found = replicas.run(order, updates=100, seed=seed)
    assert found.ok
    assert found.are_identical
    assert found.executed == {"r0": 200, "r1": 200, "r2": 200}
    assert len(set(found.digests.values())) == 1
    assert all(found.verdicts[name].ok for name in ("lost", "duplicated", "phantom", "consistent", "total"))


def test_replicas_diverge_under_fifo(seed: int) -> None:
    found = replicas.run("fifo", updates=150, seed=seed)
    assert found.ok, "fifo keeps what it promises"
    assert not found.are_identical
    assert len(set(found.digests.values())) > 1
    assert found.difference is not None
    assert found.difference.updates[0] != found.difference.updates[1]
    assert not found.verdicts["total"].ok
    assert found.verdicts["fifo"].ok


def test_a_service_of_t_plus_1_replicas_tolerates_t_faults(seed: int) -> None:
    """Garg 12.3.4: "We can build such a service using t+1 processors"."""
    found = replicas.run("bus1", replicas=4, kill=2, updates=100, seed=seed)
    assert found.ok
    assert found.are_identical, "what the crashed ones did is how the others began"
    assert found.killed == ("r2", "r3")
    assert found.executed == {"r0": 200, "r1": 200, "r2": 100, "r3": 100}
    assert set(found.digests) == {"r0", "r1"}


def test_replicas_are_told_with_their_first_difference() -> None:
    found = run("replicas", "--order", "fifo", "--seed", "7")
    assert found.exit_code == 0
    assert "First difference, update " in found.stdout
    assert "The replicas have diverged: fifo does not promise a total order." in found.stdout
    told = json.loads(run("replicas", "--order", "bus1", "--updates", "20", "--json").stdout)
    assert told["identical"]
    assert told["difference"] is None
    assert told["verdicts"]["total"] == {
        "ok": True,
        "count": 0,
        "claimed": True,
        "text": "all delivery orders fit into one",
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["replicas", "--order", "sorted"], "sorted"),
        (["replicas", "--order", "skeen", "--kill", "1"], "needs order bus1"),
        (["replicas", "--order", "bus1", "--kill", "3"], "of which one lives"),
        (["replicas", "--replicas", "1"], "1"),
        (["secret", "--order", "sorted"], "sorted"),
        (["secret", "--plot", "secret.bmp"], "expected a name that ends in"),
        (["secrets"], "secrets"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(arguments: list[str], complaint: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert complaint in found.stderr
    assert found.stderr.count("\n") == 1


# ---- a crew ----


def whine(link: Link) -> None:
    raise ValueError("enough")


def vanish(link: Link) -> None:
    os._exit(3)


@pytest.mark.parametrize(("name", "complaint"), [("whine", "ann: ValueError: enough"), ("vanish", "exit code 3")])
def test_a_process_that_fails_is_named(name: str, complaint: str) -> None:
    with Crew() as crew:
        crew.start("ann", f"test_examples:{name}")
        with pytest.raises(CrewError, match=complaint):
            crew.gather("joined", 20)


# ---- Alice, Bob and Carol ----


def test_bob_has_to_wait_under_mfss_and_starts_his_job_early_under_cykas() -> None:
    """Cykas paper, 2.1: "a way to let Bob receive and get started early on the long-running job"."""
    late, early, free = (secret.tell(order) for order in ("mfss", "cykas", "none"))
    assert late.job_start_s is not None
    assert early.job_start_s is not None
    assert early.job_start_s < late.job_start_s
    assert early.job_start_s == free.job_start_s, "not a moment later than without any protocol"
    assert early.end_s < late.end_s
    assert early.verdicts["causal"].ok
    assert late.verdicts["causal"].ok


def test_in_secret_mode_bob_works_but_does_not_send() -> None:
    found = secret.tell("cykas")
    told = [text for _, text in found.transcript()]
    begins, ends = told.index("Bob keeps a secret, and may not send"), told.index("Bob may tell")
    assert begins < told.index("Bob ends the work on m2") < told.index("Bob wants to send m3") < ends
    assert ends < told.index("Bob sends normal m3 to Carol")
    sent = [text for text in told[begins:ends] if text.startswith("Bob sends")]
    assert sent == ["Bob sends ack m2 to Alice"], "cannot send any messages except ACK and YCT"


def test_without_a_protocol_a_head_start_violates_causality() -> None:
    execution = plays.perform(plays.PLAYS["figure-2-none"])
    assert not execution.judge(["causal"])["causal"].ok


def test_the_secret_is_told_and_drawn(tmp_path: Path) -> None:
    path = tmp_path / "secret.svg"
    found = run("secret", "--plot", str(path))
    assert found.exit_code == 0
    assert "Bob's work starts after" in found.stdout
    assert "job-m2-1" in path.read_text()
    told = json.loads(run("secret", "--order", "mfss", "--json").stdout)
    assert told["ok"]
    assert told["job_start_s"] > secret.tell("cykas").job_start_s  # type: ignore[operator]
