# SPDX-License-Identifier: Apache-2.0
"""Inputs to begin with, by name: what a damage means, written as the bytes that fuzz_world.h reads.

    python3 tests/c/corpus/seeds.py         writes them into attach/ and receive/ beside this file

Files there that begin with "found-" are not made here: fuzzing has found them, and they are kept.
"""

from __future__ import annotations

import struct
from pathlib import Path

HERE = Path(__file__).parent

# ---- what fuzz_world.h and play.h call them, by number ----

SLOT = [
    "clock",
    "tail",
    "head",
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
HEADER = [
    "is_shut_down",
    "memory_wanted",
    "magic",
    "version",
    "state",
    "stamp",
    "generation",
    "permissions",
    "checksum",
    "peers",
    "capacity",
    "arena_bytes",
    "slot_count",
    "extent_bytes",
    "extents",
    "rings_offset",
    "segment_bytes",
]
RECORD = [
    "state",
    "timestamp",
    "proposal",
    "size_bytes",
    "sender",
    "destinations",
    "sender_life",
    "first_slot",
    "first_mark",
    "second_slot",
    "second_mark",
]
OPERATIONS = [
    "send",
    "receive",
    "let_go",
    "examine",
    "poll",
    "join_again",
    "receive_in_place",
    "send_late",
    "shut_down",
    "join_as",
    "receive_offered",
    "collect",
    "remove",
]

# ---- places ----


def header(field: str) -> bytes:
    return bytes([0, HEADER.index(field)])


def slot(number: int, field: str) -> bytes:
    return bytes([1, number, SLOT.index(field)])


def cell(number: int, behind_head: int, half: int) -> bytes:
    return bytes([2, number, behind_head, half])


def extent(number: int, field: int) -> bytes:
    return bytes([3, number, field])


def record_at(number: int, behind_head: int, field: str) -> bytes:
    """The record that a queue refers to."""
    return bytes([4, 1, number, behind_head, RECORD.index(field)])


def record_in(extent_number: int, unit: int, field: str) -> bytes:
    return bytes([4, 0, extent_number, unit, RECORD.index(field)])


# ---- values ----


def small(value: int) -> bytes:
    return bytes([0, value])


def plus(value: int) -> bytes:
    return bytes([1, value & 255])


def flip(bit: int) -> bytes:
    return bytes([2, bit])


def exactly(value: int) -> bytes:
    return b"\3" + struct.pack("<Q", value)


def largest(minus: int = 0) -> bytes:
    return bytes([4, minus])


def last_time(plus_value: int) -> bytes:
    return bytes([5, plus_value & 255])


# ---- turns ----


def damage(place: bytes, value: bytes) -> bytes:
    return b"\0" + place + value


def damage_within(steps: int, place: bytes, value: bytes) -> bytes:
    """So many accesses to the segment, at most 128, after the next operation has begun."""
    return bytes([1, steps - 1]) + place + value


def does(who: int, operation: str, *choices: int) -> bytes:
    return bytes([(who << 2) | 2, OPERATIONS.index(operation), *choices])


def stops(who: int, steps: int, operation: str, *choices: int) -> bytes:
    """In the middle of it; goes on when it is its turn again."""
    word = next(word for word in range(128, 192) if word % 4 == 2 and (word >> 2) % 3 == who)
    return bytes([word, OPERATIONS.index(operation), steps - 1, *choices])


def dies(who: int, steps: int, operation: str, *choices: int) -> bytes:
    word = next(word for word in range(192, 256) if word % 4 == 2 and (word >> 2) % 3 == who)
    return bytes([word, OPERATIONS.index(operation), steps - 1, *choices])


def joins(who: int, flags: int = 0) -> bytes:
    return does(who, "send", flags)


H0, H1 = 3, 1  # the slots they get
BOTH, ALL = 0b011, 0b111  # h0 and h1, which join and read; with h2, whose durable queue fills up


def sends(who: int, to: int = BOTH, size: int = 2, late: bool = False) -> bytes:
    return does(who, "send_late" if late else "send", to, size, 1)


def receives(who: int, limit: int = 7) -> bytes:
    """And keeps the messages, and their places."""
    return does(who, "receive", limit, 1)


def reads(who: int) -> bytes:
    return does(who, "receive_in_place") * 4


def waits(who: int) -> bytes:
    return does(who, "receive", 7, 0)


MET = joins(0) + joins(1, 1) + reads(0) + reads(1)
TALK = sends(0) + sends(1, late=True) + reads(0) + receives(1) + waits(0)
USE = TALK + does(1, "examine") + does(0, "collect") + does(1, "join_as", 1) + waits(1)


def talk_with(*turns: bytes, past: int = 70) -> bytes:
    """Two join, speak, something happens, they go on."""
    return bytes([past]) + MET + sends(0) + sends(1, late=True) + b"".join(turns) + USE


RECEIVE = {
    "nothing-happens": talk_with(),
    "a-durable-queue-fills-up": talk_with(*(sends(0, ALL) + reads(0) + reads(1) for _ in range(6))),
    **{f"died-at-step-{past + 1}": talk_with(past=past) for past in range(0, 80, 10)},
    "clock-at-its-end": talk_with(damage(slot(H0, "clock"), last_time(-1))),
    "clock-beyond-its-end": talk_with(damage(slot(H1, "clock"), largest())),
    "clock-jumps-in-a-multicast": talk_with(damage_within(45, slot(H1, "clock"), last_time(-3))),
    "tail-far-ahead": talk_with(damage(slot(H0, "tail"), exactly((1 << 51) | (1 << 52)))),
    "tail-behind-head": talk_with(damage(slot(H0, "tail"), plus(-20))),
    "head-far-ahead": talk_with(damage(slot(H1, "head"), exactly(1 << 40))),
    "head-jumps-in-a-send": talk_with(damage_within(25, slot(H1, "head"), largest())),
    "life-of-another": talk_with(damage(slot(H1, "life"), plus(1)), damage(slot(H0, "life"), flip(33))),
    "life-unknown": talk_with(damage(slot(H1, "life"), small(77))),
    "durable-by-damage": talk_with(damage(slot(H1, "life"), flip(8)), dies(1, 20, "receive", 7, 1)),
    "name-too-long": talk_with(damage(slot(H0, "name_bytes"), largest())),
    "sequences-at-their-end": talk_with(damage(slot(3, "sequence_reserved"), largest(9))),
    "arming-of-nobody": talk_with(does(0, "poll"), damage(slot(H0, "wake_flags"), largest())),
    "reference-beyond-the-arena": talk_with(damage(cell(H0, 0, 0), flip(31)), damage(cell(H1, 0, 0), flip(12))),
    "reference-to-another-record": talk_with(damage(cell(H0, 0, 0), flip(1)), damage(cell(H1, 1, 0), flip(6))),
    "reference-of-nobody": talk_with(damage(cell(H0, 0, 0), flip(47)), damage(cell(H1, 0, 0), flip(33))),
    "hole-in-front": talk_with(damage(cell(H0, 0, 0), flip(50)), waits(0)),
    "too-many-destinations": talk_with(damage(record_at(H0, 0, "destinations"), largest())),
    **{
        f"destinations-change-while-filling-{step}": talk_with(
            damage_within(step, record_in(3, 2, "destinations"), largest()) + sends(0)
        )
        for step in range(30, 40, 2)
    },
    "size-beyond-the-arena": talk_with(damage(record_at(H0, 0, "size_bytes"), largest())),
    "size-changes-while-held": talk_with(receives(0, 1), damage(record_in(0, 0, "size_bytes"), largest()), receives(1)),
    "sender-unknown": talk_with(damage(record_at(H0, 0, "sender"), largest())),
    "not-a-destination": talk_with(damage(record_at(H0, 0, "first_slot"), small(5))),
    "released-by-damage": talk_with(damage(record_at(H0, 0, "first_mark"), small(2)), sends(0), sends(0)),
    "sealed-for-ever": talk_with(damage(record_at(H0, 0, "state"), plus(-1)), waits(0)),
    "staging-for-ever": talk_with(damage(record_at(H0, 0, "state"), plus(-2)), waits(0)),
    "sealed-at-an-impossible-time": talk_with(
        damage(record_at(H0, 0, "state"), plus(-1)), damage(record_at(H0, 0, "timestamp"), largest()), waits(0)
    ),
    "timestamp-jumps": talk_with(damage(record_at(H0, 0, "timestamp"), last_time(-2))),
    "proposal-jumps": talk_with(damage_within(50, record_in(3, 2, "proposal"), largest()), sends(0)),
    "extent-of-another": talk_with(damage(extent(0, 0), flip(16)), damage(extent(1, 0), flip(8))),
    "extents-never-free": talk_with(*(damage(extent(n, 0), exactly(0x0000_0001_0001_0100)) for n in range(6, 10))),
    "run-longer-than-the-arena": talk_with(
        sends(0, size=6), damage(extent(9, 1), largest()), damage(extent(8, 1), largest()), receives(0), receives(1)
    ),
    "class-unknown": talk_with(damage(extent(0, 0), flip(7)), dies(0, 40, "send", BOTH, 2, 1)),
    "carved-too-much": talk_with(damage(extent(0, 1), largest()), sends(0), dies(0, 40, "send", BOTH, 3, 1)),
    "shut-down-by-damage": talk_with(damage(header("is_shut_down"), small(1)), waits(0)),
    "memory-wanted-for-ever": talk_with(damage(header("memory_wanted"), largest()), sends(0)),
    "generation-changes": talk_with(does(0, "poll"), damage(header("generation"), largest()), does(1, "poll")),
    "sender-stops-and-goes-on": talk_with(stops(0, 55, "send_late", BOTH, 2, 1), waits(1), sends(1), does(0, "send")),
    "sender-dies": talk_with(dies(0, 60, "send_late", BOTH, 2, 1), waits(1), joins(0, 1), waits(0)),
    "gravedigger-dies": talk_with(
        dies(0, 60, "send_late", BOTH, 2, 1), dies(1, 50, "send", BOTH, 2, 1), joins(0, 1), joins(1, 1)
    ),
    "gravedigger-stops": talk_with(
        dies(0, 60, "send_late", BOTH, 2, 1), stops(1, 40, "collect"), joins(2), sends(2), does(1, "collect"), waits(1)
    ),
    "unacknowledged": talk_with(
        does(0, "receive_offered"),
        does(0, "receive_offered"),
        dies(0, 15, "receive_in_place"),
        joins(0, 1),
        receives(0),
    ),
    "removed-while-waiting": talk_with(does(1, "remove", 2), does(0, "remove", 0), joins(2, 3)),
    "joining-dies": bytes([5]) + dies(0, 30, "send", 1) + dies(1, 60, "send", 1) + MET + USE,
}

# ---- attaching: flags, past, number of words that change, the words, turns ----

RAW, FIX_STAMP, FIX_BOOT, FIX_SIZES, FIX_SUM, CUT = 1, 2, 4, 8, 16, 32


def attach(flags: int, *damages: tuple[bytes, bytes], past: int = 4, turns: bytes = MET + USE) -> bytes:
    return bytes([flags, past, len(damages)]) + b"".join(place + value for place, value in damages) + turns


ATTACH = {
    "as-it-is": attach(0),
    "empty": bytes([RAW, 0]),
    "short": bytes([RAW, 0]) + b"short",
    "text": bytes([RAW, 0]) + b"not a bus\n" * 40,
    "zeros-with-a-sound-stamp": bytes([RAW | FIX_STAMP | FIX_BOOT | FIX_SUM, 0]) + bytes(600),
    "raw-of-the-right-size": bytes([RAW | FIX_STAMP | FIX_BOOT | FIX_SIZES | FIX_SUM, 0])
    + bytes(56)
    + struct.pack("<IIQ", 3, 5, 5000)
    + bytes(500),
    "magic": attach(0, (header("magic"), plus(1))),
    "version": attach(FIX_SUM, (header("version"), plus(1))),
    "half-made": attach(FIX_SUM, (header("state"), small(0))),
    "layout": attach(FIX_SUM, (header("stamp"), flip(7))),
    "checksum": attach(0, (header("checksum"), flip(7))),
    "sizes-contradict": attach(FIX_SUM, (header("peers"), small(5))),
    "sizes-vast": attach(FIX_SUM, (header("arena_bytes"), largest()), (header("segment_bytes"), largest())),
    "offset-beyond": attach(FIX_SUM, (header("rings_offset"), exactly(1 << 60))),
    "one-peer": attach(FIX_SIZES | FIX_SUM, (header("peers"), small(1))),
    "smallest": attach(
        FIX_SIZES | FIX_SUM,
        (header("peers"), small(1)),
        (header("capacity"), small(1)),
        (header("arena_bytes"), exactly(4096)),
    ),
    "other-sizes": attach(
        FIX_SIZES | FIX_SUM,
        (header("peers"), small(8)),
        (header("capacity"), small(16)),
        (header("arena_bytes"), exactly(50000)),
    ),
    "cut-short": attach(CUT, turns=bytes([9, 1])),
    "cut-in-the-header": attach(CUT, turns=bytes([9, 0])),
    "queue-damaged": attach(0, (slot(0, "head"), largest()), (slot(2, "tail"), plus(-40))),
    "everybody-dead-and-damaged": attach(
        0, (extent(0, 1), largest()), (record_at(0, 0, "destinations"), largest()), (slot(1, "head"), small(0)), past=9
    ),
    "names-damaged": attach(0, (slot(0, "name_bytes"), largest()), (slot(1, "name"), largest()), past=19),
}


def all_seeds() -> dict[Path, bytes]:
    """The content of every file that is made here."""
    seeds = {HERE / "receive" / name: content for name, content in RECEIVE.items()}
    return seeds | {HERE / "attach" / name: content for name, content in ATTACH.items()}


if __name__ == "__main__":
    for path, content in all_seeds().items():
        path.write_bytes(content)
    print(f"{len(all_seeds())} inputs")
