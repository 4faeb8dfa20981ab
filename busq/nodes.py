# SPDX-License-Identifier: Apache-2.0
"""Nodes and handles: addresses whose end has a place in the order of messages.

>>> import busq
>>> with busq.Bus.create("doc-nodes") as bus, bus.join("server") as server, bus.join("client") as client:
...     session = server.node()
...     server.send("client", b"your session", handles=[session.handle])
...     [handle] = client.recv().handles
...     client.send(handle, b"hello")
...     message = server.recv()
...     message.data, message.node is session
...     session.destroy()
...     client.recv().kind, handle.is_dead
(b'hello', True)
('node_destroyed', True)
>>> busq.Bus.unlink("doc-nodes")
"""

from __future__ import annotations

from typing import Any, TypeAlias

from busq._native import _core as core

__all__ = ["Handle", "Node", "Receiver"]


class Handle(core.Handle):
    """The right to send to a node of a peer.  It comes from `Node.handle`, or in a message (`Message.handles`).

    Give it to `Peer.send` in place of a name, or hand it on with `handles=[handle]`.  All messages that bring a handle
    of one node give a peer the same object, also after `release`.  When the last peer that holds a handle has let go of
    it, by `release`, by dropping the object, by closing its peer or by its death, the node's owner receives a
    "node_released".

    A handle belongs to the peer that received it: it can't be pickled, and it can't be used in a forked child.

    >>> import busq
    >>> with busq.Bus.create("doc-handle") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
    ...     alice.send("bob", b"here", handles=[alice.node().handle])
    ...     (handle,) = bob.recv().handles
    ...     bob.send(handle, b"thanks")
    ...     alice.recv().data
    b'thanks'
    >>> busq.Bus.unlink("doc-handle")
    """

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError("a Handle is received in a message, or taken from `Node.handle`")

    @property
    def owner(self) -> str:
        """The name of the peer whose node it is; "" where it arrived dead and its owner is not known any more."""
        return super().owner

    @property
    def is_dead(self) -> bool:
        """True once this peer has received the notice of the node's end, or if the handle arrived after it.

        Cost: none; it shows where this peer stands in the order, and asks no process.
        """
        return super().is_dead

    def release(self) -> None:
        """Let go of the handle: this peer can't send to the node any more, until a message brings it again.

        Dropping the object does the same.  A handle that the node's owner has itself counts for nothing, and letting go
        of it changes nothing.  Releasing twice is harmless.

        Errors: ForkedHandle in a forked child.

        Cost: an atomic step, and waking the owner, if it waits.

        >>> import busq
        >>> with busq.Bus.create("doc-release") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     node = alice.node()
        ...     alice.send("bob", b"", handles=[node.handle])
        ...     bob.recv().handles[0].release()
        ...     message = alice.recv()
        ...     message.kind, message.node is node
        ('node_released', True)
        >>> busq.Bus.unlink("doc-release")
        """
        super().release()

    def __reduce__(self) -> Any:
        raise TypeError("a handle can't be pickled; send it in a message: send(to, data, handles=[handle])")


class Node(core.Node):
    """An address of a peer beside its name, made by `Peer.node`, with an end that the peer chooses.

    What is sent to it comes to its owner's queue, in the one order, with `message.node` the node.

    >>> import busq
    >>> with busq.Bus.create("doc-node") as bus, bus.join("alice") as alice:
    ...     node = alice.node()
    ...     node.destroy()
    ...     alice.recv().kind
    'node_destroyed'
    >>> busq.Bus.unlink("doc-node")
    """

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError("a Node is made by a peer: call `Peer.node`")

    @property
    def handle(self) -> Handle:
        """The handle to give to others, in `send(..., handles=[node.handle])`."""
        return super().handle

    @property
    def is_destroyed(self) -> bool:
        """True once this peer has received the notice of the node's end."""
        return super().is_destroyed

    def destroy(self, *, timeout: float | None = None) -> None:  # type: ignore[override]
        """End the node, for all at one place in the order of messages.

        The owner, and each peer that holds a handle, receives one message of the kind "node_destroyed".  What was sent
        to the node and stands before it in the order is delivered, what stands behind it is passed over, and its sender
        gets PeerDead.  Behind the notice no peer receives the handle again, but dead.  Destroying twice is harmless.

        Parameters: `timeout`, how many seconds to wait for room in the queues of its receivers: None waits for
        ever, 0 tries once.

        Errors: Full; ShutDown if this peer was closed; ForkedHandle in a forked child; ValueError, TypeError for a
        wrong timeout.  After Full the node is still alive.

        Cost: that of a message to its holders, and some loads for each peer that the bus has room for.

        >>> import busq
        >>> with busq.Bus.create("doc-destroy") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     node = alice.node()
        ...     alice.send("bob", b"", handles=[node.handle])
        ...     [handle] = bob.recv().handles
        ...     node.destroy()
        ...     try:
        ...         bob.send(handle, b"too late")
        ...     except busq.PeerDead as error:
        ...         error.missed == (handle,)
        True
        >>> busq.Bus.unlink("doc-destroy")
        """
        super().destroy(timeout)

    def __reduce__(self) -> Any:
        raise TypeError("a node can't be pickled; send its handle in a message: send(to, data, handles=[node.handle])")


Receiver: TypeAlias = "str | Handle"
