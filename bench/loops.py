# SPDX-License-Identifier: Apache-2.0
"""The measured loops.

A loop is a text into which a peer's own statements are put before it is compiled, as `timeit` does: nothing of the
harness stands between the loop and the call that is measured, and every peer is called as its user would call it.

Every message is looked at. Its first byte is its kind; up to `COMPARED_BYTES_MAX` the rest is compared as well,
above that the length. A sender's last message holds how many came before it, so losses are counted and not guessed.
"""

from __future__ import annotations

import functools
import itertools
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from .peers.base import Endpoint
from .plan import COMPARED_BYTES_MAX, Case

DATA = 1
END = 2

# The last window of a lock-step run is announced this far ahead. No process can be two
# windows ahead of another: the first to finish a window needs as many messages as all four send in it.
WINDOWS_AHEAD = 4

WORK_CHUNK = 64  # messages that a sender with work sends between two looks at the time
OWN_MESSAGES, OWN_SECONDS, OWN_TRIES = 256, 0.0005, 50  # short tries, of which some are not interrupted


class WrongMessageError(Exception):
    """A message came that was not sent like this."""


def message(size_bytes: int, sender: int = 0) -> bytes:
    """A data message of `size_bytes`, with its sender in the second byte.

    >>> message(64, sender=3)[:4]
    b'\\x01\\x03\\x02\\x03'
    """
    pattern = bytes(range(256)) * (size_bytes // 256 + 1)
    return bytes((DATA, sender)) + pattern[2:size_bytes]


def end_message(size_bytes: int, sent: int) -> bytes:
    """The last message of a sender that sent `sent` messages before it."""
    return bytes((END,)) + sent.to_bytes(8, "little") + bytes(size_bytes - 9)


class Ledger:
    """The numbers that the senders sent at the end: the receiver's side of the end messages."""

    def __init__(self, senders: int) -> None:
        self.open = senders
        self.announced = 0

    def note(self, data: Any) -> bool:
        """Take a message that is not data; True after the last sender's end."""
        if len(data) < 9 or data[0] != END:
            raise WrongMessageError(f"{len(data)} bytes that begin with {bytes(data[:16]).hex()}")
        self.announced += int.from_bytes(data[1:9], "little")
        self.open -= 1
        return self.open == 0


STREAM_SEND = """
start_ns = now_ns()
end_ns = start_ns + duration_ns
data = payload
sent = 0
while now_ns() < end_ns:
    for _ in repeat(None, chunk):
        {send}
        {work}
    {pause}
    sent += chunk
data = end_message(size, sent)
{send}
return start_ns, sent
"""

STREAM_SEND_MANY = """
start_ns = now_ns()
end_ns = start_ns + duration_ns
sent = 0
while now_ns() < end_ns:
    {send_many}
    sent += calls
data = end_message(size, sent)
{send}
return start_ns, sent
"""

STREAM_RECV = """
others = 0
for count in forever():
    {recv}
    if {is_wrong}:
        others += 1
        finished = note(data)
        {done}
        if finished:
            break
        continue
    {done}
    {work}
return now_ns(), count + 1 - others
"""

STREAM_RECV_MANY = """
count = 0
finished = False
while not finished:
    {recv_many}
    good = batch.count(payload)
    count += good
    if good != len(batch):
        for data in batch:
            if data != payload and note(data):
                finished = True
return now_ns(), count
"""

PING = """
for _ in repeat(None, warm_rounds):
    data = payload
    {send}
    {recv}
    {done}
stamps_ns = []
stamp = stamps_ns.append
last_ns = now_ns()
end_ns = last_ns + duration_ns
stamp(last_ns)
while last_ns < end_ns:
    data = payload
    {send}
    {recv}
    if {is_wrong}:
        note(data)
    {done}
    last_ns = now_ns()
    stamp(last_ns)
data = end_message(size, len(stamps_ns) - 1 + warm_rounds)
{send}
return stamps_ns
"""

PONG = """
for count in forever():
    {recv}
    if {is_wrong}:
        note(data)
        {done}
        return count
    {done}
    data = payload
    {send}
"""

WINDOWS = """
start_ns = now_ns()
end_ns = start_ns + duration_ns
window = order = 0
announced = False
while window < stop[0]:
    data = payload
    for _ in repeat(None, n_send):
        {send}
    seen = []
    take = seen.append
    for _ in repeat(None, n_recv):
        {recv}
        take(data)
    order = check_window(seen, order)
    window += 1
    if leads and not announced and now_ns() >= end_ns:
        stop[0] = window + windows_ahead
        announced = True
return start_ns, now_ns(), window, order
"""


def compile_loop(template: str, endpoint: Endpoint, names: Mapping[str, Any]) -> Callable[[], Any]:
    """The loop of `template` around the endpoint's statements, as a function without arguments.

    All names become local variables of the function, the cheapest kind.
    """
    case_bytes = names["size"]
    is_wrong = "data != payload" if case_bytes <= COMPARED_BYTES_MAX else f"data[0] != {DATA} or len(data) != size"
    statements = {
        "send": endpoint.send,
        "recv": endpoint.recv,
        "done": endpoint.done,
        "send_many": endpoint.send_many,
        "recv_many": endpoint.recv_many,
        "work": "for _ in repeat(None, turns):\n    pass" if names.get("turns") else "",
        "pause": "for _ in repeat(None, pause_turns):\n    pass" if names.get("pause_turns") else "",
    }
    variables = {**endpoint.names, **names}
    lines = [f"def loop({', '.join(variables)}):"]
    for line in template.strip().splitlines():
        inner = line.lstrip()
        indent = " " * (4 + len(line) - len(inner))
        if inner.startswith("{") and inner.endswith("}"):
            lines.extend(indent + statement for statement in statements[inner[1:-1]].strip().splitlines())
        else:
            lines.append(indent + inner.replace("{is_wrong}", is_wrong))
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<loop of {type(endpoint).__name__}>", "exec"), scope)
    loop = scope["loop"]
    return lambda: loop(**variables)


def _common(case: Case) -> dict[str, Any]:
    clock = {"now_ns": time.monotonic_ns}
    return clock | {"repeat": itertools.repeat, "forever": itertools.count, "size": case.size_bytes}


def stream_sender(case: Case, endpoint: Endpoint, seconds: float) -> Callable[[], Any]:
    """Sends for `seconds`, then announces how much it was; gives (start_ns, sent)."""
    names = _common(case) | {"duration_ns": int(seconds * 1e9), "end_message": end_message}
    payload = message(case.size_bytes)
    if case.calls > 1:
        names |= {"calls": case.calls, "batch": endpoint.batch(payload, case.calls)}
        return compile_loop(STREAM_SEND_MANY, endpoint, names)
    return compile_loop(STREAM_SEND, endpoint, names | {"payload": payload, "chunk": case.chunk})


def stream_receiver(case: Case, endpoint: Endpoint, ledger: Ledger) -> Callable[[], Any]:
    """Receives until every sender has ended; gives (end_ns, received)."""
    names = _common(case) | {"payload": message(case.size_bytes), "note": ledger.note}
    if case.calls > 1:
        return compile_loop(STREAM_RECV_MANY, endpoint, names | {"calls": case.calls})
    return compile_loop(STREAM_RECV, endpoint, names)


def work_turns(case: Case, side: int) -> int:
    """How many empty turns of a loop are the work of a regime: side 0 is the sender's, 1 the receiver's."""
    work_us = (case.workload.work_us or (0.0, 0.0))[side]
    return round(work_us * (case.workload.burst if side == 0 else 1) * 1e3 / turn_ns())


def work_sender(case: Case, endpoint: Endpoint, seconds: float) -> Callable[[], Any]:
    """As `stream_sender`, with the sender's work of a regime: behind each message, or between bursts."""
    turns, burst = work_turns(case, 0), case.workload.burst
    names = _common(case) | {
        "duration_ns": int(seconds * 1e9),
        "end_message": end_message,
        "payload": message(case.size_bytes),
    }
    work = {"chunk": WORK_CHUNK, "turns": turns} if burst == 1 else {"chunk": burst, "pause_turns": turns}
    return compile_loop(STREAM_SEND, endpoint, names | work)


def work_receiver(case: Case, endpoint: Endpoint, ledger: Ledger) -> Callable[[], Any]:
    """As `stream_receiver`, with the receiver's work of a regime."""
    names = _common(case) | {"payload": message(case.size_bytes), "note": ledger.note}
    return compile_loop(STREAM_RECV, endpoint, names | {"turns": work_turns(case, 1)})


@functools.cache
def turn_ns() -> float:
    """What an empty turn of a loop takes in this process: the least of some tries."""
    turns, tries = 2000, 50

    def try_once() -> float:
        begin_ns = time.perf_counter_ns()
        for _ in itertools.repeat(None, turns):
            pass
        return (time.perf_counter_ns() - begin_ns) / turns

    return max(min(try_once() for _ in range(tries)), 0.1)


class _NoEndpoint(Endpoint):
    """Sends and receives nothing: what is left of a loop is the harness and the work."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.names = {"limit": OWN_MESSAGES, "last": end_message(size_bytes, OWN_MESSAGES)}
        self.send = "pass"
        self.recv = "data = payload if count < limit else last"


def own_ns(case: Case, is_sender: bool) -> float:
    """What a message costs a side of a regime without sending or receiving it: the work, and the harness's loop."""

    turn_ns()
    nothing, ledger = _NoEndpoint(case.size_bytes), Ledger(1)
    loop = work_sender(case, nothing, OWN_SECONDS) if is_sender else work_receiver(case, nothing, ledger)

    def try_once() -> float:
        count = 0
        while not count:  # a process that was off the processor until its time was up has sent nothing
            ledger.open = 1
            begin_ns = time.perf_counter_ns()
            _, count = loop()
        return float((time.perf_counter_ns() - begin_ns) / count)

    return min(try_once() for _ in range(OWN_TRIES))


def pinger(case: Case, endpoint: Endpoint, seconds: float, ledger: Ledger) -> Callable[[], Any]:
    """Sends and receives in turn for `seconds`; gives the list of stamps in ns, one after each round."""
    names = _common(case) | {
        "payload": message(case.size_bytes),
        "duration_ns": int(seconds * 1e9),
        "warm_rounds": 200,
        "end_message": end_message,
        "note": ledger.note,
    }
    return compile_loop(PING, endpoint, names)


def ponger(case: Case, endpoint: Endpoint, ledger: Ledger) -> Callable[[], Any]:
    """Answers every message until the end; gives how many it answered."""
    return compile_loop(PONG, endpoint, _common(case) | {"payload": message(case.size_bytes), "note": ledger.note})


def windows(case: Case, endpoint: Endpoint, seconds: float, me: int, stop: memoryview) -> Callable[[], Any]:
    """Sends a window, receives those of all, and so on; gives (start_ns, end_ns, windows, order).

    `order` is a checksum over the senders of all messages in the order in which they came. `stop[0]` is shared by all
    processes and holds after how many windows to stop; process 0 sets it when the time is over.
    """
    senders = len(case.workload.senders_to(me))
    names = _common(case) | {
        "payload": message(case.size_bytes, me),
        "duration_ns": int(seconds * 1e9),
        "n_send": case.window,
        "n_recv": case.window * senders,
        "check_window": window_check(case.size_bytes, case.window * senders),
        "stop": stop,
        "leads": me == 0,
        "windows_ahead": WINDOWS_AHEAD,
    }
    return compile_loop(WINDOWS, endpoint, names)


def window_check(size_bytes: int, count: int) -> Callable[[list[bytes], int], int]:
    """A function that checks the `count` messages of a window and extends the checksum over their senders.

    >>> check = window_check(64, 2)
    >>> forth, back = check([message(64, 0), message(64, 1)], 0), check([message(64, 1), message(64, 0)], 0)
    >>> forth == back
    False
    """
    marks = bytes((DATA,)) * count
    crc32 = zlib.crc32

    def check_joined(seen: list[bytes], order: int) -> int:
        joined = b"".join(seen)
        if len(joined) != size_bytes * count or joined[::size_bytes] != marks:
            raise WrongMessageError(f"a window of {count} messages of {size_bytes} B is not what was sent")
        return crc32(joined[1::size_bytes], order)

    def check_each(seen: list[bytes], order: int) -> int:
        if any(len(data) != size_bytes or data[0] != DATA for data in seen):
            raise WrongMessageError(f"a window of {count} messages of {size_bytes} B is not what was sent")
        return crc32(bytes(data[1] for data in seen), order)

    return check_joined if size_bytes <= COMPARED_BYTES_MAX else check_each
