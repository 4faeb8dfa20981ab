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


MULTICAST, COMMIT = "shm/send/multicast.c", "shm/message/commit.c"
RECEIVE, BLOCKED = "shm/receive/receive.c", "shm/receive/holes.c"
LOOK, SEVERAL = "shm/receive/look.h", "shm/receive/shared_receive.c"
SHARE, GRAVE = "shm/message/shared_take.c", "shm/burial/grave.c"
RESERVE = "shm/memory/reserve.c"
GROUP, GROUP_SEND, GROUP_RECEIVE = "shm/group/group_table.c", "shm/group/group_send.c", "shm/group/group_receive.c"
NODE, NODE_END, NODE_RECEIVE, NODE_SEND = (
    "shm/node/node_table.c",
    "shm/node/node_end.c",
    "shm/node/node_receive.c",
    "shm/letter/letter.c",
)


def mutant(name: str, slip: str, scene: str, file: str, *changes: tuple[str, str], compiled: str = "") -> Mutant:
    return Mutant(name, slip, scene, file, changes, compiled)


MUTANTS = [
    mutant(
        "ACCEPT_EQUAL",
        "a proposal equal to the clock is accepted",
        "two senders, the same two receivers",
        "queue/ring.h",
        ("const bool accepted = seen.lo < timestamp;", "const bool accepted = seen.lo <= timestamp;"),
        compiled=MULTICAST,
    ),
    mutant(
        "SEAL_AT_MAXIMUM",
        "sealed at the highest clock seen, not above it",
        "two senders, the same two receivers",
        MULTICAST,
        (
            "busq_timestamp_max(self->proposal, self->clock_max) + 1;",
            "busq_timestamp_max(self->proposal, self->clock_max);",
        ),
    ),
    mutant(
        "COMMIT_BEFORE_SYNC",
        "committed before every clock has reached the timestamp",
        "a side channel",
        MULTICAST,
        (
            "  busq_commit_sync(peer->bus, record, timestamp);\n",
            "  (void)busq_commit_swap(record, tag, BUSQ_PHASE_SEALED, timestamp, BUSQ_PHASE_COMMITTED, timestamp);\n"
            "  busq_commit_sync(peer->bus, record, timestamp);\n",
        ),
    ),
    mutant(
        "HOLE_NOT_SKIPPED",
        "a reader waits for ever for what fills a hole",
        "one sender, one receiver, anybody may be killed",
        BLOCKED,
        (
            "    (void)(peer->receiver.is_consumer ? busq_ring_skip_if_not_passed : busq_ring_skip)"
            "(&peer->receiver.ring, peer->receiver.scan);\n",
            "",
        ),
    ),
    mutant(
        "BIT_BEFORE_READ",
        "released before the reader has read it",
        "still looks at the last message",
        RECEIVE,
        (
            '  BUSQ_STEP("pin");\n',
            '  BUSQ_STEP("pin");\n'
            "  busq_arena_release(peer->bus, peer->slot, found->record, found->mark);\n"
            "  peer->receiver.pins++;\n"
            "  return;\n",
        ),
    ),
    mutant(
        "WAKE_BEFORE_COMMIT",
        "the sender looks for sleepers before its message can be received",
        "one receiver, who sleeps and is woken",
        MULTICAST,
        (
            "  int result = is_unicast ? unicast(",
            "  readers_wake(peer, n_targets);\n  int result = is_unicast ? unicast(",
        ),
        (
            "  if (n_targets == 1)\n"
            "    busq_wake_reader(peer, only->reader, only->slot);\n"
            "  else\n"
            "    readers_wake(peer, n_targets);\n",
            "",
        ),
    ),
    mutant(
        "SLEEP_WITHOUT_LOOKING",
        "a reader does not look again between raising its flag and sleeping",
        "one receiver, who sleeps and is woken",
        "shm/wait/receive_call.c",
        (
            "  int result = receive_ready(peer, &blocker);\n",
            "  int result = BUSQ_EMPTY;\n  blocker.help_in_ns = UINT64_MAX;\n",
        ),
    ),
    mutant(
        "ATTEMPT_NOT_CHECKED",
        "a reference of an attempt that was put off counts",
        "one multicast, the sender may be stopped",
        LOOK,
        (
            "((state ^ reference.tag) & ~BUSQ_PHASE_MASK) ||",
            "((state ^ reference.tag) & ~(uint64_t)0 << 10) ||",
        ),
        compiled=RECEIVE,
    ),
    mutant(
        "SEQUENCE_NOT_CHECKED",
        "a reference counts whatever the record now holds",
        "one multicast, the sender may be stopped",
        LOOK,
        ("((state ^ reference.tag) & ~BUSQ_PHASE_MASK) ||", ""),
        compiled=RECEIVE,
    ),
    mutant(
        "TAIL_NOT_READ",
        "a late message is delivered without reading the tail again",
        "two senders, the same two receivers, proposals lost",
        LOOK,
        (
            '    BUSQ_STEP("tail");\n    return busq_ring_tail(&peer->receiver.ring) == peer->receiver.scan;',
            '    BUSQ_STEP("tail");\n    return true;',
        ),
        compiled=RECEIVE,
    ),
    mutant(
        "COMMIT_BY_STORE",
        "the owner commits without finding out that it was put off",
        "one multicast, the sender may be stopped",
        MULTICAST,
        (
            "busq_commit_swap(record, tag, BUSQ_PHASE_STAGING, 0, BUSQ_PHASE_COMMITTED, self->proposal);\n",
            "true;\n    busq_send_set_state(record, tag, BUSQ_PHASE_COMMITTED, self->proposal);\n",
        ),
    ),
    mutant(
        "SEALED_LEFT",
        "nobody commits what a dead sender has sealed",
        "one multicast, proposal lost, the sender may be killed",
        COMMIT,
        ("  (void)busq_commit_swap(record, tag, BUSQ_PHASE_SEALED, timestamp, BUSQ_PHASE_COMMITTED, timestamp);\n", ""),
    ),
    mutant(
        "COMPLETE_WITHOUT_SYNC",
        "a helper that completes a message does not raise the clocks",
        "a sender who dies anywhere, then a side channel",
        COMMIT,
        ("  busq_commit_sync(bus, record, timestamp);\n", ""),
    ),
    mutant(
        "HEAD_BEFORE_MARK",
        "the position is given back before the message is released",
        "one multicast, a receiver may be killed",
        RECEIVE,
        (
            "  busq_found_release_record(peer, found->record, found->mark);\n  position_done(peer, found->position);\n",
            "  position_done(peer, found->position);\n  busq_found_release_record(peer, found->record, found->mark);\n",
        ),
    ),
    mutant(
        "CLAIM_WITHOUT_LOOKING",
        "a reader of a shared queue does not find out that another one was faster",
        "two readers share a queue",
        SHARE,
        (
            "  return busq_ring_change(&ring, busq_place_position(place), seen, to);",
            "  (void)busq_ring_change(&ring, busq_place_position(place), seen, to);\n  return true;",
        ),
    ),
    mutant(
        "END_TOO_FAR",
        "the end of a short ring moves on over what was not received",
        "a short ring that stays so, two senders",
        RESERVE,
        ("  uint64_t next = head + BUSQ_RING_SHORT;", "  uint64_t next = head + 2 * BUSQ_RING_SHORT;"),
    ),
    mutant(
        "END_BY_STORE",
        "a short ring becomes whole without finding out that its end has moved on",
        "a short ring that becomes whole at last, two senders",
        RESERVE,
        ("  (void)busq_cas64(&queue->backing, seen, next);", "  busq_store_release(&queue->backing, next);"),
    ),
    mutant(
        "END_NOT_SEEN",
        "a reader goes on as if the ring were short",
        "a short ring that becomes whole, two senders",
        "shm/memory/peer.h",
        ("position < receiver->backing ? busq_ring_slot_in", "position ? busq_ring_slot_in"),
        compiled=RECEIVE,
    ),
    mutant(
        "END_NOT_SEEN_BY_MEMBER",
        "a member goes on as if its ring were short",
        "a message of a member against one who enters, with rings that become whole",
        "shm/memory/peer.h",
        ("position < receiver->backing ? busq_ring_slot_in", "position ? busq_ring_slot_in"),
        compiled=RECEIVE,
    ),
    mutant(
        "END_NOT_SEEN_BY_HOLDER",
        "a holder of a node goes on as if its ring were short",
        "a node's end against messages to it, with rings that become whole",
        "shm/memory/peer.h",
        ("position < receiver->backing ? busq_ring_slot_in", "position ? busq_ring_slot_in"),
        compiled=RECEIVE,
    ),
    mutant(
        "CLAIMS_NOT_SETTLED",
        "who buries a reader of a shared queue leaves what it had in its hands",
        "two readers share a queue and acknowledge, a reader may be killed",
        GRAVE,
        ("    return busq_share_settle(bus, slot, true);", "    return true;"),
    ),
    mutant(
        "HANDS_NOT_LOOKED_INTO",
        "what a dead reader had reached for is set free, though it stands in its hands too",
        "two readers share a queue and acknowledge, a reader may be killed",
        SHARE,
        ("  if (hands_hold(bus, reader, seen))", "  if (!bus && hands_hold(bus, reader, seen))"),
    ),
    mutant(
        "DONE_BEFORE_IN_HAND",
        "a message is taken out of a shared queue before it stands in its reader's hands",
        "two readers share a queue and acknowledge, a reader may be killed",
        SEVERAL,
        (
            "  if (mode == BUSQ_TAKE_COPIED)\n    busq_found_release_record(peer, found->record, found->mark);\n",
            "  if (mode != BUSQ_TAKE_COPIED)\n"
            "    busq_share_done(peer->bus, found->position, peer->receiver.inbox_slot);\n"
            "  if (mode == BUSQ_TAKE_COPIED)\n    busq_found_release_record(peer, found->record, found->mark);\n",
        ),
    ),
    mutant(
        "UNMARKED_RETURN",
        "what comes back into a shared queue is not marked",
        "two readers share a queue and acknowledge, a reader may be killed",
        SHARE,
        ("bits = BUSQ_RING_OFFERED | (seen.sender & BUSQ_RING_RETURNED);", "bits = seen.sender & BUSQ_RING_RETURNED;"),
    ),
    mutant(
        "NO_LOOK_AFTER_COMMIT",
        "the sender to a group does not look whether its message came too late for the view",
        "a message to a group against one who enters",
        GROUP_SEND,
        ("  if (is_missed)\n    return BUSQ_AGAIN;\n", ""),
    ),
    mutant(
        "MEMBERS_DO_NOT_COMPARE",
        "a member delivers what was sent in a view that has ended",
        "a message to a group against one who enters",
        GROUP_RECEIVE,
        ("    verdict = BUSQ_GROUP_MISSED;\n  else if", "    verdict = BUSQ_GROUP_COUNTS;\n  else if"),
    ),
    mutant(
        "SENDER_DOES_NOT_INSTALL",
        "the sender whose message missed the view does not install the one that follows, and finds the old one again",
        "a message to a group whose members do not receive",
        GROUP,
        (
            "    if (number > view)\n",
            "    if (look.phase == BUSQ_CLAIM_DECIDED)\n"
            "      return busq_key_less(busq_place_key(key), busq_place_key(look.key)) ? BUSQ_GROUP_COUNTS\n"
            "                                                                           : BUSQ_GROUP_MISSED;\n"
            "    if (number > view)\n",
        ),
    ),
    mutant(
        "NO_GRANT",
        "whoever sends a handle does not say so before its message can be received",
        "brings its handle to the owner, too",
        NODE_SEND,
        (
            "    if (slot != name.slot)\n      (void)busq_node_word_change(",
            "    if (false && slot != name.slot)\n      (void)busq_node_word_change(",
        ),
    ),
    mutant(
        "GRANT_NOT_SETTLED",
        "whoever sends a handle leaves an end open that does not list its receivers",
        "brings its handle to the owner, too",
        NODE_SEND,
        (
            "  if (busq_node_settle(peer->bus, name, BUSQ_NODE_BREAK, peer->sender.destinations, n_targets, &end)"
            " == BUSQ_NODE_ENDED)\n",
            "  busq_claim_look look;\n  if (busq_node_look(peer->bus, name, &end, &look) == BUSQ_NODE_ENDED)\n",
        ),
    ),
    mutant(
        "LIST_NOT_LOOKED_AT_AGAIN",
        "whoever ends a node does not look again who may have got its handle meanwhile",
        "a node's end against a message that brings its handle",
        NODE_END,
        (
            "  return list_is_whole(peer, ending) ? BUSQ_OK : BUSQ_AGAIN;\n",
            "  return true || list_is_whole(peer, ending) ? BUSQ_OK : BUSQ_AGAIN;\n",
        ),
    ),
    mutant(
        "SENT_BEHIND_THE_END",
        "the owner delivers what was sent to its node whatever its place",
        "a node's end against a message to it",
        NODE_RECEIVE,
        (
            "(state == BUSQ_NODE_ENDED && busq_node_is_before(key, end));\n}\n\n/* Set before",
            "state == BUSQ_NODE_ENDED;\n}\n\n/* Set before",
        ),
    ),
    mutant(
        "SENDER_NOT_TOLD",
        "the sender does not compare its message's place with the end's",
        "a node's end against a message to it",
        NODE_SEND,
        (
            "  return state == BUSQ_NODE_ALIVE || busq_node_is_before(key, end);\n",
            "  return true || state == BUSQ_NODE_ALIVE || busq_node_is_before(key, end);\n",
        ),
    ),
    mutant(
        "OPEN_END_NOT_PUT_OFF",
        "the sender takes an end that is open for one that comes later",
        "a node's end against a message to it",
        NODE,
        (
            "    if (how == BUSQ_NODE_PUT_OFF && busq_claim_put_off(&look))\n",
            "    if (how == BUSQ_NODE_PUT_OFF)\n",
        ),
    ),
]


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
