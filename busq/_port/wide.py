# SPDX-License-Identifier: Apache-2.0
"""Sending to a group of several machines: a request to the bridge of its domain, and the wait until it was re-sent.

The core knows no wide groups.  Where it finds no group of a name, and a bridge has left its mark for one, the send goes
on here; so it costs nothing where no bridge runs, and a wide group hides no group of the bus.

A request stands in the bridge's inbox, durable, until the bridge has re-sent the message on this machine: to the
members here, to its cursor and to the queue in which its sender waits, in one multicast.  So what the sender does next
comes after the message, everywhere.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.deadline import Deadline
from busq._port.peeked import peeked
from busq._port.wide_words import (
    DATA_BYTES_MAX,
    MESSAGE,
    REFUSED,
    STORED,
    SYNC,
    WITHDRAW,
    WITHDRAWN,
    inbox_of,
    mark_of,
    number_in_tail,
    read_answer,
    request_head,
)

UNDER_WAY_MAX = 256  # requests of one call; a bus with a bridge has queues of twice as many
_GIVE_UP_S = 1.0  # how long a call waits, when its time is over, to learn what became of its messages


def domain_of(port: Any, group: str) -> str | None:
    """Return the domain of a wide group; None where no bridge has made it one on this bus."""
    mark = mark_of(group)
    try:
        core.lookup(port, mark)
    except (errors.UnknownPeer, ValueError):  # a name that is too long is none
        return None
    raw = port._raw_bus()
    found = peeked(raw, raw.peers(), mark, 1, 255)
    return found[0].data.decode() if found else None


def wide_group(port: Any, to: Any) -> str | None:
    """Return the wide group that a message is sent to, without "@"; ValueError where others stand beside it."""
    if isinstance(to, str):
        return to[1:] if to.startswith("@") and _is_wide(port, to[1:]) else None
    names = [name for name in to if isinstance(name, str) and name.startswith("@")]
    wide = next((name for name in names if _is_wide(port, name[1:])), None)
    if wide is None:
        return None
    if len(to) > 1:
        raise ValueError(
            f"{wide!r} is a group of several machines, and {len(to) - 1} other receivers stand beside it: a message "
            "to it goes to it alone, since the others have no place in the order of its domain; send twice"
        )
    return wide[1:]


def _is_wide(port: Any, group: str) -> bool:
    return client_of(port).domain(group) is not None


def client_of(port: Any) -> Client:
    """Return what a peer sends to wide groups with."""
    known: Client | None = port.__dict__.get("_wide")
    return known or port.__dict__.setdefault("_wide", Client(port))  # of two threads, one makes it


def send(port: Any, to: Any, data: Any, handles: Any, timeout: float | None) -> Any:
    """Do what `Peer.send` does; NotImplemented where no wide group is meant."""
    group = wide_group(port, to)
    if group is None:
        return NotImplemented
    if handles is not None and len(tuple(handles)):
        raise _with_sent(ValueError(f"'@{group}' is a group of several machines: handles mean nothing on others"), 0)
    client_of(port).send([(group, data)], Deadline(timeout))
    return None


def send_many(port: Any, failed: tuple[Any, Any], rest: Any, before: int, end_ns: int) -> Any:
    """Do the rest of `Peer.send_many`, from the message on that failed; NotImplemented where no wide group is meant.

    Runs of messages to wide groups are under way together; any other message waits for those before it.
    """
    if wide_group(port, failed[0]) is None:
        return NotImplemented
    behind = itertools.islice(rest, before + 1, None) if isinstance(rest, list) else rest
    deadline, sent = Deadline.until(end_ns), before
    for is_wide, messages in _runs(port, itertools.chain([failed], behind)):
        try:
            if is_wide:
                client_of(port).send(messages, deadline)
            else:
                port.send_many(messages, timeout=deadline.left_s())
        except BaseException as error:
            error.sent = sent + (getattr(error, "sent", 0) or 0)  # type: ignore[attr-defined]
            raise
        sent += len(messages)
    return sent


def _runs(port: Any, pairs: Iterable[Any]) -> Iterator[tuple[bool, list[Any]]]:
    """Yield messages to wide groups together, as (group, data), and others together, as they are."""
    known: dict[str, str | None] = {}

    def group_of(pair: Any) -> str | None:
        to, _ = pair
        if not isinstance(to, str):
            return wide_group(port, to) if isinstance(to, list | tuple | set | frozenset) else None
        if to not in known:
            known[to] = wide_group(port, to)
        return known[to]

    for is_wide, run in itertools.groupby(pairs, lambda pair: group_of(pair) is not None):
        while messages := list(itertools.islice(run, UNDER_WAY_MAX)):
            yield is_wide, [(group_of(pair), pair[1]) for pair in messages] if is_wide else messages


def sync(port: Any, group: Any, timeout: float | None) -> None:
    """Do what `Peer.sync` does."""
    if not isinstance(group, str) or not group.startswith("@"):
        raise ValueError(f'{group!r} can\'t be waited for: expected "@" and the name of a group of several machines')
    client = client_of(port)
    if client.domain(group[1:]) is None:
        raise errors.UnknownPeer(f"{group!r} is no group of several machines on this bus: no bridge has made it one")
    client.send([(group[1:], b"")], Deadline(timeout), SYNC)


def _with_sent(error: BaseException, sent: int | None) -> BaseException:
    error.sent = sent  # type: ignore[attr-defined]
    return error


def _size_of(data: Any) -> int:
    parts = data if isinstance(data, list | tuple) else [data]
    return sum(memoryview(part).nbytes for part in parts)


class Client:
    """What one peer has under way to wide groups.  Its calls take turns: one thread at a time sends."""

    def __init__(self, port: Any) -> None:
        self._weak_port = weakref.ref(port)  # the port owns this, and goes with its last user
        self._turn = threading.Lock()
        self._replies: Any = None  # a peer of its own, made by the first send
        self._number = 0
        self._domains: dict[str, str] = {}

    @property
    def _port(self) -> Any:
        return self._weak_port()  # there is one, since its calls come here

    def domain(self, group: str) -> str | None:
        """Return the domain of a group, asked once."""
        known = self._domains.get(group)
        if known is None:
            known = domain_of(self._port, group)
            if known is not None:
                self._domains[group] = known
        return known

    def close(self) -> None:
        """Leave; a call that waits gets ShutDown."""
        if self._replies is not None:
            self._replies.close()

    def send(self, messages: list[tuple[str, Any]], deadline: Deadline, what: int = MESSAGE) -> None:
        """Send messages to wide groups of one domain or several, in order, and wait until all were re-sent here.

        After an error its `sent` is how many of them were, the first ones; None where there is one, which is open.
        """
        for _, data in messages:
            self._check(data)
        left_s = deadline.left_s()
        if not self._turn.acquire(timeout=-1 if left_s is None else left_s):
            raise _with_sent(errors.Full("another thread of this peer sends to a wide group, and has not ended"), 0)
        try:
            self._send(messages, deadline, what)
        finally:
            self._turn.release()

    def _check(self, data: Any) -> None:
        try:
            core.check_plain("data", data)
            size = _size_of(data)
            if size > DATA_BYTES_MAX:
                raise ValueError(
                    f"{size} bytes to a group of several machines: at most {DATA_BYTES_MAX} go with one message"
                )
        except (TypeError, ValueError) as error:
            raise _with_sent(error, 0) from None

    def _send(self, messages: list[tuple[str, Any]], deadline: Deadline, what: int) -> None:
        under_way: dict[int, str] = {}  # numbers of requests, in order, and where they wait
        n_asked = 0
        try:
            self._take(under_way, Deadline(0))  # what earlier calls have left
            requests = self._requests(messages, what, under_way)
            try:
                n_asked = self._port.send_many(requests, timeout=deadline.left_s())
            except errors.BusqError as error:
                n_asked = error.sent
                raise self._no_bridge(error, messages[n_asked][0]) from None
            finally:
                for number in list(under_way)[n_asked:]:
                    del under_way[number]
            self._wait(under_way, deadline)
        except BaseException as error:
            self._end(error, under_way, n_asked)
            raise
        core.follow(self._port, self._replies)

    def _requests(self, messages: list[tuple[str, Any]], what: int, under_way: dict[int, str]) -> list[Any]:
        replies = self._reply_peer()
        living = {one["name"] for one in self._port._raw_bus().peers() if one["alive"]}
        requests = []
        for group, data in messages:
            inbox = inbox_of(self._domains[group])
            if inbox not in living:
                self._domains.pop(group, None)
                raise errors.PeerDead(f"'@{group}': no bridge runs; expected one: busq bridge run ... --group {group}")
            self._number += 1
            under_way[self._number] = inbox
            head = request_head(what, self._number, group, replies.name)
            requests.append((inbox, [head, *data] if isinstance(data, list | tuple) else [head, data]))
        return requests

    def _no_bridge(self, error: errors.BusqError, group: str) -> errors.BusqError:
        if not isinstance(error, errors.UnknownPeer | errors.PeerDead):
            return error
        self._domains.pop(group, None)
        return errors.PeerDead(f"'@{group}': its bridge has gone; expected one: busq bridge run ... --group {group}")

    def _reply_peer(self) -> Any:
        if self._replies is None:
            bus = self._port.bus
            still_open = type(bus)._of(self._port._raw_bus(), bus.name, bus._directory)  # the peer outlives its Bus
            self._replies = still_open.join(f"reply@{core.target(self._port):x}")
        return self._replies

    # ---- waiting ----

    def _wait(self, under_way: dict[int, str], deadline: Deadline) -> None:
        """Wait until all of them were re-sent; Unreachable or Full at the end of the time."""
        n_whole = len(under_way)
        while under_way:
            if self._take(under_way, deadline):
                continue
            n_done = n_whole - len(under_way)
            fates = self._give_up(under_way)
            if not under_way:
                return  # the last ones came while they were given up
            raise _unreachable(n_whole, n_done, fates)

    def _take(self, under_way: dict[int, str], deadline: Deadline) -> bool:
        """Take replies, of which there is one at least before the deadline; False if none came."""
        if self._replies is None:
            return False
        try:
            messages = self._replies.recv_many(UNDER_WAY_MAX, timeout=deadline.left_s())
        except errors.Empty:
            return False
        for message in messages:
            tail = core.wide_tail(message)
            if tail is not None:
                under_way.pop(number_in_tail(tail), None)
                continue
            what, number, text = read_answer(message.data)
            if what == REFUSED and number in under_way:
                raise ValueError(text)
        return True

    def _give_up(self, under_way: dict[int, str]) -> dict[int, tuple[int, str]]:
        """Withdraw requests, the last one first, and return what became of each that was not re-sent meanwhile."""
        fates: dict[int, tuple[int, str]] = {}
        deadline = Deadline(_GIVE_UP_S)
        try:
            for number in reversed(list(under_way)):
                head = request_head(WITHDRAW, number, "", self._replies.name)
                self._port.send(under_way[number], head, timeout=deadline.left_s())
            while len(fates) < len(under_way):
                message = self._replies.recv(timeout=deadline.left_s())
                tail = core.wide_tail(message)
                if tail is not None:
                    under_way.pop(number_in_tail(tail), None)
                    fates.pop(number_in_tail(tail), None)
                    continue
                what, number, text = read_answer(message.data)
                if number in under_way:
                    fates[number] = what, text
        except errors.BusqError:
            pass  # what is not known is open
        return fates

    def _end(self, error: BaseException, under_way: dict[int, str], n_asked: int) -> None:
        """Note how many of the messages were re-sent, the first ones; None of one that is open."""
        if isinstance(error, errors.Unreachable):
            return
        n_done = n_asked - len(under_way)
        error.sent = n_done if n_asked != 1 or not under_way else None  # type: ignore[attr-defined]


def _unreachable(n_whole: int, n_done: int, fates: dict[int, tuple[int, str]]) -> errors.BusqError:
    """Make the error of messages that were not re-sent in time; of one alone, its `sent` is what became of it."""
    left = n_whole - n_done
    n_withdrawn = sum(what == WITHDRAWN for what, _ in fates.values())
    n_stored = sum(what == STORED for what, _ in fates.values())
    why = next((text for _, text in fates.values() if text), "the bridge has not re-sent it, or has no answer")
    if n_withdrawn == left:
        kind = errors.Full if why.startswith("full") else errors.Unreachable
        error: errors.BusqError = kind(f"nothing of {left} left this machine before the timeout: {why}")
        error.sent = n_done
        return error
    n_open = left - n_withdrawn - n_stored
    error = errors.Unreachable(
        f"of {left}, at the timeout: {n_withdrawn} withdrawn, {n_stored} stored and to be delivered, {n_open} open, "
        f"which are delivered once or never: {why}"
    )
    error.sent = n_done
    if n_whole == 1:
        error.sent = 1 if n_stored else None  # type: ignore[assignment]
    return error
