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
import secrets
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.deadline import Deadline
from busq._port.peeked import peeked
from busq._port.wide_progress import Asked, Progress, n_messages_of
from busq._port.wide_protocol import (
    DATA_BYTES_MAX,
    MESSAGE,
    MESSAGES_MAX,
    REFUSED,
    STORED,
    SYNC,
    WITHDRAW,
    WITHDRAWN,
    Answer,
    inbox_of,
    mark_of,
    number_in_tail,
    read_answer,
    request_head,
)

UNDER_WAY_MAX = 256  # requests of one call; a bus with a bridge has queues of twice as many
_MESSAGES_UNDER_WAY_MAX = 4096  # more wait until these were re-sent
_PARTS_MAX = 8  # of a request; more are joined first, which takes less time
GIVE_UP_S = 1.0  # how long a call waits, when its time is over, to learn what became of its messages


def domain_of(port: Any, group: str) -> str | None:
    """Return the domain of a wide group; None where no bridge has made it one on this bus."""
    mark = mark_of(group)
    try:
        core.lookup(port, mark)
    except (errors.UnknownPeer, errors.PeerDead, ValueError):  # a name that is too long is none
        return None
    raw = _raw_bus(port)
    found = peeked(raw, raw.peers(), mark, 1, 255)
    return found[0].data.decode() if found else None


def _raw_bus(port: Any) -> Any:
    return port._raw_bus()


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


def send(port: Any, to: Any, data: Any, handles: Any, timeout: float | None, progress: Progress) -> Any:
    """Do what `Peer.send` does; NotImplemented where no wide group is meant."""
    bundle = bundle_of(port, to, data, handles)
    if bundle is None:
        return NotImplemented
    client_of(port).send([bundle], Deadline(timeout), progress)
    return None


def bundle_of(port: Any, to: Any, data: Any, handles: Any) -> Bundle | None:
    """Return what is to be sent to a wide group; None where no such group is meant."""
    group = wide_group(port, to)
    if group is not None and handles is not None and len(tuple(handles)):
        raise ValueError(f"'@{group}' is a group of several machines: handles mean nothing on others")
    return None if group is None else Bundle.of(group, data)


def send_many(port: Any, failed: tuple[Any, Any], rest: Any, before: int, end_ns: int, progress: Progress) -> Any:
    """Do the rest of `Peer.send_many`, from the message on that failed; NotImplemented where no wide group is meant.

    Runs of messages to wide groups are under way together; any other message waits for those before it.
    """
    if wide_group(port, failed[0]) is None:
        return NotImplemented
    behind = itertools.islice(rest, before + 1, None) if isinstance(rest, list) else rest
    deadline = Deadline.until(end_ns)
    for together in _together(port, itertools.chain([failed], behind)):
        if isinstance(together[0], Bundle):
            client_of(port).send(together, deadline, progress)
        else:
            _send_here(port, together, deadline, progress)
    return progress.sent


def _send_here(port: Any, messages: list[Any], deadline: Deadline, progress: Progress) -> None:
    """Send to receivers of this bus."""
    try:
        n_sent = port.send_many(messages, timeout=deadline.left_s())
    except BaseException as error:
        progress.add(getattr(error, "sent", 0))
        raise
    progress.add(n_sent)


class Bundle:
    """Messages to one group that go with one request: their sizes, and their data, in one part or several."""

    __slots__ = ("group", "parts", "sizes")

    def __init__(self, group: str) -> None:
        self.group = group
        self.sizes: list[int] = []
        self.parts: list[Any] = []

    @classmethod
    def of(cls, group: str, data: Any) -> Bundle:
        """Make one of one message."""
        made = cls(group)
        made.add(data, _checked_size(data))
        return made

    def add(self, data: Any, size: int) -> None:
        """Put one more message into it."""
        self.sizes.append(size)
        if type(data) is bytes:
            self.parts.append(data)
        else:
            self.parts += _parts(data)

    def request(self, what: int, number: int, reply_to: str) -> list[Any]:
        """Return it as a payload."""
        head = request_head(what, number, self.group, reply_to, self.sizes)
        return [head, *self.parts] if len(self.parts) <= _PARTS_MAX else [head, b"".join(self.parts)]


def _together(port: Any, pairs: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield what is under way together: bundles to wide groups, or pairs to others as they are.

    Where a message can't be sent, what stands before it goes first.
    """
    known: dict[str, str | None] = {}
    bundles: list[Any] = []
    others: list[Any] = []
    bundle = None
    n_messages = left_bytes = 0
    try:
        for pair in pairs:
            to, data = pair
            group = known[to] if type(to) is str and to in known else _group_of(port, to, known)
            if group is None:
                if bundles:
                    yield bundles
                    bundles, bundle, n_messages = [], None, 0
                others.append(pair)
                if len(others) == UNDER_WAY_MAX:
                    yield others
                    others = []
                continue
            if others:
                yield others
                others = []
            size = len(data) if type(data) is bytes else _checked_size(data)
            left_bytes -= size
            if bundle is None or left_bytes < 0 or bundle.group != group or len(bundle.sizes) == MESSAGES_MAX:
                _check_size(size)
                if len(bundles) == UNDER_WAY_MAX or n_messages >= _MESSAGES_UNDER_WAY_MAX:
                    yield bundles
                    bundles, n_messages = [], 0
                bundle = Bundle(group)
                bundles.append(bundle)
                left_bytes = DATA_BYTES_MAX - size
            bundle.add(data, size)
            n_messages += 1
    except Exception:
        if bundles or others:
            yield bundles or others
        raise
    if bundles or others:
        yield bundles or others


def _group_of(port: Any, to: Any, known: dict[str, str | None]) -> str | None:
    if not isinstance(to, str):
        return wide_group(port, to) if isinstance(to, list | tuple | set | frozenset) else None
    if to not in known:
        known[to] = wide_group(port, to)
    return known[to]


def sync(port: Any, group: Any, timeout: float | None) -> None:
    """Do what `Peer.sync` does."""
    ask(port, marker_of(port, group), timeout, SYNC)


def ask(port: Any, bundle: Bundle, timeout: float | None, what: int) -> None:
    """Ask the bridge for something else than to send messages, and wait until that is done."""
    progress = Progress()
    try:
        client_of(port).send([bundle], Deadline(timeout), progress, what)
    except BaseException as error:
        progress.report(error)
        raise


def marker_of(port: Any, group: Any) -> Bundle:
    """Return what waits for all that was stored for a group."""
    if not isinstance(group, str) or not group.startswith("@"):
        raise ValueError(f'{group!r} can\'t be waited for: expected "@" and the name of a group of several machines')
    if client_of(port).domain(group[1:]) is None:
        raise errors.UnknownPeer(f"{group!r} is no group of several machines on this bus: no bridge has made it one")
    return Bundle.of(group[1:], b"")


def _parts(data: Any) -> Iterable[Any]:
    return data if isinstance(data, list | tuple) else (data,)


def _checked_size(data: Any) -> int:
    """Return how many bytes a message has; TypeError or ValueError for what is none, or too large."""
    core.check_plain("data", data)
    size = sum(memoryview(part).nbytes for part in _parts(data))
    _check_size(size)
    return size


def _check_size(size: int) -> None:
    if size > DATA_BYTES_MAX:
        raise ValueError(f"{size} bytes to a group of several machines: at most {DATA_BYTES_MAX} go with one message")


class Client:
    """What one peer has under way to wide groups.  Its calls take turns: one thread at a time sends.

    A handler of a signal, or a `__del__`, may run on top of a call, and would wait for what it keeps from going on: the
    lock knows its thread, and a call on top of another is refused.
    """

    def __init__(self, port: Any) -> None:
        self._weak_port = weakref.ref(port)  # the port owns this, and goes with its last user
        self._turn: Any = threading.RLock()
        self._is_my_turn: Any = self._turn._is_owned  # type: ignore[attr-defined]
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

    def send(self, bundles: list[Bundle], deadline: Deadline, progress: Progress, what: int = MESSAGE) -> None:
        """Send messages to wide groups of one domain or several, in order, and wait until all were re-sent here.

        After an error `progress` knows how many of them were, the first ones.
        """
        if core.is_forked(self._port):  # another thread of the parent may have had its turn
            core.check(core.FORKED)
        if self._is_my_turn():
            raise RuntimeError(
                "a signal handler, or a __del__, has sent to a group of several machines on top of such a call of the "
                "same peer in the same thread, which goes on only when it returns: send there by another peer"
            )
        try:
            try:
                left_s = deadline.left_s()
                if not self._turn.acquire(timeout=-1 if left_s is None else left_s):
                    raise errors.Full("another thread of this peer sends to a wide group, and has not ended")
                self._send(bundles, deadline, progress, what)
            finally:
                self._let_go()
        finally:  # a signal handler may have raised in the inner block
            self._let_go()

    def _let_go(self) -> None:
        if self._is_my_turn():
            self._turn.release()

    def _send(self, bundles: list[Bundle], deadline: Deadline, progress: Progress, what: int) -> None:
        self._take({}, Deadline(0))  # what earlier calls have left
        under_way, requests = self.requests(bundles, what)
        progress.ask(under_way)
        try:
            self._port.send_many(requests, timeout=deadline.left_s())
        except BaseException as error:
            n_asked = _n_asked(error)
            if n_asked is None:
                raise
            progress.not_asked(n_asked)
            if isinstance(error, errors.BusqError):
                raise self.no_bridge(error, bundles[n_asked].group) from None
            raise
        self._wait(under_way, deadline, progress)
        core.follow(self._port, self._replies)

    def requests(self, bundles: list[Bundle], what: int) -> tuple[dict[int, Asked], list[Any]]:
        """Make them; return their numbers, each with what is under way, and what is to be sent."""
        replies = self.replies
        living = {one["name"] for one in _raw_bus(self._port).peers() if one["alive"]}
        under_way, requests = {}, []
        for bundle in bundles:
            inbox = inbox_of(self._domains[bundle.group])
            if inbox not in living:
                self._domains.pop(bundle.group, None)
                raise errors.PeerDead(
                    f"'@{bundle.group}': no bridge runs; expected one: busq bridge run ... --group {bundle.group}"
                )
            self._number += 1
            under_way[self._number] = Asked(inbox, len(bundle.sizes))
            requests.append((inbox, bundle.request(what, self._number, replies.name)))
        return under_way, requests

    def no_bridge(self, error: errors.BusqError, group: str) -> errors.BusqError:
        """Return the error of a request that could not be sent to the bridge of a group."""
        if not isinstance(error, errors.UnknownPeer | errors.PeerDead):
            return error
        self._domains.pop(group, None)
        return errors.PeerDead(f"'@{group}': its bridge has gone; expected one: busq bridge run ... --group {group}")

    @property
    def replies(self) -> Any:
        """The peer that gets what bridges re-send, and what they answer; its name is new in each life of its owner."""
        if self._replies is None:
            bus = self._port.bus
            still_open = type(bus)._of(_raw_bus(self._port), bus.name, bus._directory)  # the peer outlives its Bus
            self._replies = still_open.join(f"reply@{core.target(self._port):x}-{secrets.token_hex(4)}")
        return self._replies

    # ---- waiting ----

    def _wait(self, under_way: dict[int, Asked], deadline: Deadline, progress: Progress) -> None:
        """Wait until all of them were re-sent; Unreachable or Full at the end of the time."""
        while under_way:
            refused = [one for one in self._take(under_way, deadline) if one.what == REFUSED]
            if refused:
                progress.never({one.number for one in refused})
                raise ValueError(refused[0].text)
            if deadline.left_ns() == 0 and under_way:
                fates = self._give_up(under_way)
                if under_way:  # otherwise the last ones came meanwhile
                    raise unreachable(under_way, fates, progress)

    def _take(self, under_way: dict[int, Asked], deadline: Deadline) -> list[Answer]:
        """Take replies, waiting for one until the deadline; return the answers to what is under way."""
        answers: list[Answer] = []
        if self._replies is None:
            return answers
        try:
            messages = self._replies.recv_many(UNDER_WAY_MAX, timeout=deadline.left_s())
        except errors.Empty:
            return answers
        for message in messages:
            tail = core.wide_tail(message)
            if tail is None:
                answers.append(read_answer(message.data))
            else:
                under_way.pop(number_in_tail(tail), None)
        return [one for one in answers if one.number in under_way]

    def _give_up(self, under_way: dict[int, Asked]) -> dict[int, Answer]:
        """Withdraw requests, the last one first, and return what became of each that was not re-sent meanwhile."""
        fates: dict[int, Answer] = {}
        deadline = Deadline(GIVE_UP_S)
        try:
            for number in reversed(list(under_way)):
                head = request_head(WITHDRAW, number, "", self._replies.name)
                self._port.send(under_way[number].inbox, head, timeout=deadline.left_s())
            while under_way.keys() - fates.keys() and deadline.left_ns():
                fates |= {one.number: one for one in self._take(under_way, deadline)}
        except errors.BusqError:
            pass  # what is not known is open
        return {number: fate for number, fate in fates.items() if number in under_way}


def _n_asked(error: BaseException) -> int | None:
    """Return how many requests `send_many` has sent, of its error; None where another piece of Python has raised it.

    A signal handler may have, also just behind the call; and what it raises may have a number of its own.
    """
    traceback = error.__traceback__
    is_ours = traceback is not None and traceback.tb_next is None
    return getattr(error, "sent", None) if is_ours else None


def unreachable(under_way: dict[int, Asked], fates: dict[int, Answer], progress: Progress) -> errors.BusqError:
    """Make the error of what was not re-sent in time."""

    def those(*what: int) -> dict[int, Asked]:
        return {number: asked for number, asked in under_way.items() if number in fates and fates[number].what in what}

    withdrawn, stored = those(WITHDRAWN, REFUSED), those(STORED)
    n_left, n_withdrawn, n_stored = map(n_messages_of, (under_way, withdrawn, stored))
    why = next((fate.text for fate in fates.values() if fate.text), "the bridge has not re-sent it, or has no answer")
    first = fates.get(next(iter(under_way)))
    if first is not None and first.n_resent:
        progress.part(first.n_resent)
        n_left -= first.n_resent
        n_stored -= first.n_resent if first.what == STORED else 0
    progress.never(withdrawn)
    progress.is_stored = n_left == n_stored == 1
    if n_withdrawn == n_left:
        kind = errors.Full if why.startswith("full") else errors.Unreachable
        return kind(f"nothing of {n_left} left this machine before the timeout: {why}")
    n_open = n_left - n_withdrawn - n_stored
    return errors.Unreachable(
        f"of {n_left}, at the timeout: {n_withdrawn} withdrawn, {n_stored} stored and to be delivered, {n_open} open, "
        f"which are delivered once or never: {why}"
    )
