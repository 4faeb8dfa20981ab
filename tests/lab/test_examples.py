# SPDX-License-Identifier: Apache-2.0
"""The examples: a replicated state machine, and three people with a secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from conftest import run_command

from busq.lab.examples import copies, leaders, mutex, plays, replicas, secret, threads
from busq.lab.examples.crew import Crew, CrewError, Link

run = partial(run_command, "example")


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
    # Not always: where one process at a time runs for long, all of its updates may come first, everywhere.
    for more in range(100):
        found = replicas.run("fifo", updates=150, seed=seed + more)
        assert found.ok, "fifo keeps what it promises"
        if not found.are_identical:
            break
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
    for seed in range(7, 107):  # until they diverge, as above
        found = run("replicas", "--order", "fifo", "--seed", str(seed))
        assert found.exit_code == 0
        if "First difference, update " in found.stdout:
            break
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


# ---- copies of a file, and a token: problem 12.1 ----


@pytest.mark.parametrize("order", ["causal-matrix", "mfss", "cykas", "sequencer", "bus1", "bus1:unicast=direct"])
def test_under_causal_order_all_updates_at_all_sites_happen_in_the_same_order(order: str, seed: int) -> None:
    """Garg, problem 12.1: "all updates at all sites happen in the same order"."""
    found = copies.run(order, sites=4, executions=30, seed=seed)
    assert found.ok
    assert found.diverged == 0


@pytest.mark.parametrize("order", ["none", "fifo", "skeen"])
def test_without_causal_order_copies_differ(order: str) -> None:
    """A total order alone does not do either: a site makes its own changes at once, not in their turn."""
    found = copies.run(order, seed=1)
    assert found.ok, "it keeps what it promises"
    assert found.diverged > 10
    assert len(set(found.changes.values())) > 1, "shown is an execution in which they do"
    assert not found.verdicts["causal"].ok


# ---- mutual exclusion: section 12.1 ----


def test_requests_are_honoured_in_the_order_they_are_made_under_causal_order() -> None:
    """Garg 12.1: "the order in which requests are received cannot violate the happened-before order"."""
    for order in ("causal-matrix", "mfss", "cykas", "lamport", "bus1"):
        found = mutex.run(order)
        assert found.is_fair
        assert found.granted == ("P1", "P2")
        assert found.ok


def test_under_fifo_the_coordinator_is_unfair() -> None:
    found = mutex.run("fifo")
    assert found.requested == ("P1", "P2")
    assert found.granted == ("P2", "P1")
    assert not found.verdicts["causal"].ok
    assert found.ok, "fifo keeps what it promises"
    entered = [text for _, text in sorted(found.transcript()) if "enters" in text]
    assert entered == ["P2 enters the critical section", "P1 enters the critical section"]


# ---- sends that are partially ordered: problem 12.6 ----


def test_what_does_not_depend_on_each_other_does_not_wait() -> None:
    whole, parts = threads.run(whole=True), threads.run(whole=False)
    assert whole.delivered == ("m1", "m2", "c2")
    assert whole.waited == ("m2", "c2")
    assert parts.delivered == ("c2", "m1", "m2")
    assert parts.waited == ("m2",), "mail still waits for mail"
    assert whole.verdict.ok
    assert parts.verdict.ok


def test_a_fork_depends_on_what_was_before_and_a_join_on_both() -> None:
    """Garg 12.6: "when the send events from a single process do not form a total order"."""
    whole, parts = threads.run_forks(whole=True), threads.run_forks(whole=False)
    assert whole.delivered == ("first", "mail", "chat", "last")
    assert parts.delivered == ("first", "chat", "mail", "last")
    assert parts.waited == ("chat", "last"), "for what was sent before the fork; and for all that was joined"
    assert whole.waited == ("chat", "last")
    assert parts.verdict.ok
    assert whole.verdict.ok


# ---- groups with leaders: problem 12.7 ----


def test_leaders_keep_causal_order_with_smaller_matrices(seed: int) -> None:
    flat, through = (leaders.run(way, messages=150, seed=seed) for way in ("flat", "leaders"))
    for found in (flat, through):
        assert all(one.ok for one in found.verdicts.values()), found.verdicts
        assert found.messages == 150
    assert flat.packets == 150
    assert flat.clock_entries == 150 * 16**2
    assert through.packets <= 3 * flat.packets
    assert through.clock_entries == through.packets * 4**2


def test_without_causal_order_in_the_groups_the_whole_has_none() -> None:
    assert not leaders.run("leaders", order="fifo", groups=2, messages=400, seed=1).verdicts["causal"].ok


# ---- all of them, on the command line ----


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["copies"], "In 0 of 100 executions sites differ; causal-matrix promises causal order."),
        (["copies", "--order", "fifo"], "fifo does not promise causal order."),
        (["mutex"], "causal-matrix is fair here: P1 before P2"),
        (["mutex", "--order", "fifo"], "fifo is unfair here: P2 before P1"),
        (["threads"], "Bob gets c2, m1, m2; m2 had to wait for others."),
        (["threads", "--fork"], "Bob gets first, chat, mail, last; chat and last had to wait for others."),
        (["leaders"], "200 messages among 16 processes"),
    ],
)
def test_an_example_of_the_chapter_is_told(arguments: list[str], says: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 0, found.output
    assert says in found.stdout
    told = json.loads(run(*arguments, "--json").stdout)
    assert told["ok"]


def test_leaders_without_causal_order_end_with_exit_code_1() -> None:
    assert run("leaders", "--order", "fifo", "--groups", "2", "--messages", "400").exit_code == 1


def test_an_unfair_grant_is_drawn(tmp_path: Path) -> None:
    assert run("mutex", "--order", "fifo", "--plot", str(tmp_path / "unfair.svg")).exit_code == 0
    assert "</svg>" in (tmp_path / "unfair.svg").read_text()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: copies.run("sorted"), "sorted"),
        (lambda: copies.run(sites=2), "2 sites"),
        (lambda: mutex.run("sorted"), "sorted"),
        (lambda: leaders.run("round"), "expected flat or leaders"),
        (lambda: leaders.run(groups=1), "1 groups"),
    ],
)
def test_what_an_example_can_not_be_is_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()
