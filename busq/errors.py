# SPDX-License-Identifier: Apache-2.0
"""The errors of busq, one class per cause.

The text of an error names what was found, what was expected and what to do.
"""

from __future__ import annotations

import queue
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from busq.nodes import Handle

__all__ = [
    "BusqError",
    "CorruptSegment",
    "Diverged",
    "Empty",
    "ForkedHandle",
    "Full",
    "NoSpace",
    "PeerDead",
    "PeerExists",
    "ShutDown",
    "Unfinished",
    "UnknownPeer",
    "Unreachable",
    "VersionMismatch",
]


class BusqError(Exception):
    """The root of busq's own errors.

    >>> import busq
    >>> with busq.Bus.create("doc-error", capacity=2) as bus, bus.join("alice") as alice:
    ...     try:
    ...         alice.send_many([("alice", b"1"), ("alice", b"2"), ("alice", b"3")], timeout=0)
    ...     except busq.BusqError as error:
    ...         type(error).__name__, error.sent
    ('Full', 2)
    >>> busq.Bus.unlink("doc-error")
    """

    sent: int  # how many messages had been sent by the call that failed; other calls than sends set it for Full alone


class Empty(BusqError, queue.Empty):
    """Nothing came before the timeout.

    >>> import busq, queue
    >>> with busq.Bus.create("doc-empty") as bus, bus.join("alice") as alice:
    ...     try:
    ...         alice.recv(timeout=0)
    ...     except queue.Empty as error:
    ...         print(error)
    nothing came before the timeout
    >>> busq.Bus.unlink("doc-empty")
    """


class Diverged(BusqError):
    """Replicas are not alike any more: a command depends on more than its arguments and the state.

    Its `position` is the first at which they differ, or the last of some, if `command`, the name, is None.

    >>> import busq
    >>> issubclass(busq.Diverged, busq.BusqError)
    True
    """

    def __init__(self, text: str, position: int, command: str | None) -> None:
        super().__init__(text, position, command)
        self.position = position  # the first at which they differ; the last of some, if `command` is None
        self.command = command  # its name, if it is known

    def __str__(self) -> str:
        return str(self.args[0])


class Full(BusqError, queue.Full):
    """A receiver's queue, or the memory for messages, stayed full until the timeout; its text says which.

    Its attribute sent is how many messages the call had sent.

    Also at once, whatever the timeout, where the full queue is the sender's own, and no other thread receives from it.

    >>> import busq
    >>> with busq.Bus.create("doc-full", capacity=1) as bus, bus.join("alice") as alice:
    ...     alice.send("alice", b"1")
    ...     try:
    ...         alice.send("alice", b"2", timeout=0)
    ...     except busq.Full as error:
    ...         print(str(error).partition(":")[0])
    ...         error.sent
    the queue of "alice" on bus "doc-full" stayed full until the timeout
    0
    >>> busq.Bus.unlink("doc-full")
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.sent = 0  # of any call, also one that could have sent nothing


class Unfinished(Full):
    """A send that lasts until its message is delivered had not ended at the timeout; the message is in flight.

    It is a `Full`, and has in `sent` that it must not be sent again.

    >>> import busq
    >>> def rendezvous(peer, to, data):
    ...     try:
    ...         peer.send(to, data, timeout=0.5)
    ...     except busq.Unfinished as error:
    ...         return f"{error.sent} under way"
    ...     return "delivered"
    >>> with busq.Bus.create("doc-unfinished", order="sync", peers=2) as bus:
    ...     with bus.join("alice") as alice, bus.join("bob") as bob:
    ...         rendezvous(alice, "bob", b"hello") in ("delivered", "1 under way")
    True
    >>> busq.Bus.unlink("doc-unfinished")
    """


class PeerDead(BusqError):
    """A receiver has left or died; no receiver got the message.

    >>> import busq
    >>> with busq.Bus.create("doc-dead") as bus, bus.join("alice") as alice:
    ...     bus.join("bob").close()
    ...     try:
    ...         alice.send(["alice", "bob"], b"to both, or to nobody")
    ...     except busq.PeerDead:
    ...         print("bob has gone")
    bob has gone
    >>> busq.Bus.unlink("doc-dead")

    Of a message to nodes: some of them were over at its place in the order.  The attribute missed has their
    handles; the other receivers have the message, if sent is 1.  A pickle leaves missed out: a handle belongs to the
    peer that has received it.
    """

    missed: tuple[Handle, ...] = ()

    def __reduce__(self) -> Any:
        attributes = {name: value for name, value in self.__dict__.items() if name != "missed"}
        return (type(self), self.args, attributes)


class Unreachable(BusqError):
    """A message to a wide group was not delivered here before the timeout; the attribute `sent` is what became of it.

    0: it was withdrawn, and is never sent.  1: it is stored, and will be delivered.  None: it is open: it is delivered
    once, or never.  Of several, `Peer.send_many` has the number of those before the first that was not delivered.

    >>> import busq
    >>> issubclass(busq.Unreachable, busq.BusqError)
    True
    """


class UnknownPeer(BusqError, LookupError):
    """No peer of that name has joined.

    >>> import busq
    >>> with busq.Bus.create("doc-unknown") as bus, bus.join("alice") as alice:
    ...     try:
    ...         alice.send("bob", b"hello")
    ...     except busq.UnknownPeer:
    ...         print("no bob so far")
    no bob so far
    >>> busq.Bus.unlink("doc-unknown")
    """


class PeerExists(BusqError):
    """A live process has joined under that name.

    >>> import busq
    >>> with busq.Bus.create("doc-exists") as bus, bus.join("alice"):
    ...     try:
    ...         bus.join("alice")
    ...     except busq.PeerExists:
    ...         print("there is one")
    there is one
    >>> busq.Bus.unlink("doc-exists")
    """


class CorruptSegment(BusqError):
    """The file is damaged, half made, or not a bus.

    >>> import busq
    >>> def is_whole(name):
    ...     try:
    ...         busq.Bus.open(name).close()
    ...     except busq.CorruptSegment:  # its text says what was found, and what to do
    ...         return False
    ...     return True
    >>> busq.Bus.create("doc-corrupt").close()
    >>> is_whole("doc-corrupt")
    True
    >>> busq.Bus.unlink("doc-corrupt")
    """


class VersionMismatch(BusqError):
    """The bus was made by an incompatible build of busq.

    >>> import busq
    >>> def open_or_replace(name):
    ...     try:
    ...         return busq.Bus.open(name)
    ...     except busq.VersionMismatch:  # of before the upgrade
    ...         busq.Bus.unlink(name)
    ...         return busq.Bus.create(name)
    """


class NoSpace(BusqError, OSError):
    """Memory, file space or peer slots ran out.

    >>> import busq
    >>> with busq.Bus.create("doc-space", peers=1) as bus, bus.join("alice"):
    ...     try:
    ...         bus.join("bob")
    ...     except busq.NoSpace:
    ...         print("no place for bob")
    no place for bob
    >>> busq.Bus.unlink("doc-space")
    """


class ForkedHandle(BusqError):
    """A handle of the parent process was used after fork; open the bus and join again in the child.

    >>> import busq, os
    >>> with busq.Bus.create("doc-forked") as bus, bus.join("alice") as alice:
    ...     child = os.fork()
    ...     if child == 0:
    ...         try:
    ...             alice.send("alice", b"hello")
    ...         except busq.ForkedHandle:
    ...             os._exit(17)
    ...     os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    17
    >>> busq.Bus.unlink("doc-forked")
    """


if sys.version_info >= (3, 13):
    _QueueShutDown = queue.ShutDown
else:

    class _QueueShutDown(Exception):
        """What queue.ShutDown is from Python 3.13 on."""


class ShutDown(BusqError, _QueueShutDown):
    """The bus or the queue was shut down, or this handle was closed.

    It is a queue.ShutDown, where Python has that: from 3.13 on.

    >>> import busq
    >>> with busq.Bus.create("doc-shut-down") as bus, bus.join("alice") as alice:
    ...     bus.shutdown()
    ...     try:
    ...         alice.recv()
    ...     except busq.ShutDown:
    ...         print("nothing comes any more")
    nothing comes any more
    >>> busq.Bus.unlink("doc-shut-down")
    """
