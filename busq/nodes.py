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

import contextlib
import functools
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeAlias

from busq._native import ffi, lib
from busq._port import core as _core

__all__ = ["Handle", "Node", "Receiver"]


class Handle(_core.HandleBase):  # type: ignore[misc]
    """The right to send to a node of a peer.  It comes from `Node.handle`, or in a message (`Message.handles`).

    Give it to `Peer.send` in place of a name, or hand it on with `handles=[handle]`.  All messages that bring a handle
    of one node give a peer the same object.  When the last one who holds a handle has let go of it, by `release`, by
    dropping the object, by closing its peer or by its death, the node's owner receives a "node_released".

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

    __slots__ = ("__weakref__", "_counted", "_is_dead", "_is_released", "_node", "_owner", "_raw")

    _raw: Any
    _node: int
    _owner: str
    _counted: list[int | None]  # nothing, or None and the node, which the core counts for this object
    _is_dead: bool
    _is_released: bool

    def __init__(self) -> None:
        raise TypeError("a Handle is received in a message, or taken from `Node.handle`")

    @classmethod
    def _made(cls, raw: Any, node: int, owner: str, is_counted: bool, is_dead: bool) -> Handle:
        """Make one; counted, it is one of those that the core releases."""
        handle = cls.__new__(cls)
        handle._raw, handle._node, handle._owner = raw, node, owner
        handle._is_dead, handle._is_released = is_dead, False
        handle._counted = [None, node] if is_counted else []
        handle._attach(int(ffi.cast("uintptr_t", raw)), node)
        return handle

    @property
    def owner(self) -> str:
        """The name of the peer whose node it is; "" where it arrived dead and its owner is not known any more."""
        return self._owner

    @property
    def is_dead(self) -> bool:
        """True once this peer has received the notice of the node's end, or if the handle arrived after it.

        Cost: none; it says where this peer stands in the order, and asks nobody.
        """
        return self._is_dead

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
        if lib.busq_peer_is_forked(self._raw):
            _core.fail(lib.BUSQ_FORKED)
        if not self._is_own():
            self._is_released = True
            self._detach()
            self._let_go()

    def _is_own(self) -> bool:
        return self._node & 0xFFFF == (int(lib.busq_peer_target(self._raw)) & 0xFFFF)

    def _let_go(self) -> None:
        # In one step of C, so that no handler of a signal comes between counting it no more and releasing it.
        with contextlib.suppress(IndexError):  # another thread has done so
            release = functools.partial(lib.busq_peer_handle_release, self._raw)
            deque(map(release, iter(self._counted.pop, None)), maxlen=0)

    def __del__(self) -> None:
        # In a forked child the core does nothing.
        if getattr(self, "_counted", None) and lib is not None:
            self._let_go()

    def __repr__(self) -> str:
        state = " (released)" if self._is_released else " (dead)" if self._is_dead else ""
        return f"<Handle of a node of {self._owner!r}{state}>"

    def __reduce__(self) -> Any:
        raise TypeError("a handle can't be pickled; send it in a message: send(to, data, handles=[handle])")


class Node:
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

    __slots__ = ("_handle", "_node", "_owner", "_raw")

    _raw: Any
    _node: int
    _owner: str
    _handle: Handle

    def __init__(self) -> None:
        raise TypeError("a Node is made by a peer: call `Peer.node`")

    @classmethod
    def _made(cls, raw: Any, node: int, owner: str) -> Node:
        made = cls.__new__(cls)
        made._raw, made._node, made._owner = raw, node, owner
        made._handle = Handle._made(raw, node, owner, is_counted=False, is_dead=False)
        return made

    @property
    def handle(self) -> Handle:
        """The handle to give to others, in `send(..., handles=[node.handle])`."""
        return self._handle

    @property
    def is_destroyed(self) -> bool:
        """True once this peer has received the notice of the node's end."""
        return self._handle._is_dead

    def destroy(self, *, timeout: float | None = None) -> None:
        """End the node, for everybody at one place in the order of messages.

        The owner, and everybody who holds a handle, receives one message of the kind "node_destroyed".  What was sent
        to the node and stands before it in the order is delivered, what stands behind it is passed over, and its sender
        gets PeerDead.  Behind the notice nobody receives the handle again, but dead.  Destroying twice is harmless.

        Parameters: `timeout`, how many seconds to wait for room in the queues of those who are told: None waits for
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
        deadline = _core.Deadline(timeout)
        while True:
            result = lib.busq_peer_node_destroy(self._raw, self._node, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                return _core.check(result)

    def __repr__(self) -> str:
        return f"<Node of {self._owner!r}{' (destroyed)' if self.is_destroyed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError("a node can't be pickled; send its handle in a message: send(to, data, handles=[node.handle])")


_BY_NAME = 0xFFFF  # in place of an index

Receiver: TypeAlias = "str | Handle"


class Nodes:
    """What a peer knows of its own nodes, and of the handles that it holds.  Made when the first one is there."""

    def __init__(self, raw: Any, name: str) -> None:
        self._raw, self._name = raw, name
        self._slot = int(lib.busq_peer_target(raw)) & 0xFFFF
        self.own: dict[int, Node] = {}
        self.held: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
        self._inherited: list[Handle] = []  # of a predecessor: kept until they are released

    def inherit(self) -> None:
        """Take over what a predecessor held."""
        self._inherited = self.handles()

    def make(self) -> Node:
        """Make a node."""
        node = ffi.new("uint64_t *")
        _core.check(lib.busq_peer_node(self._raw, node))
        for old in [old for old, known in list(self.own.items()) if known.is_destroyed]:
            self.own.pop(old, None)
        made = self.own[int(node[0])] = Node._made(self._raw, int(node[0]), self._name)
        return made

    def is_own(self, node: int) -> bool:
        """Tell whether it is one of this peer's."""
        return (node & 0xFFFF) == self._slot

    def own_node(self, node: int) -> Node:
        """Return a node of this peer, also one that a predecessor has made."""
        known = self.own.get(node)
        return known if known is not None else self.own.setdefault(node, Node._made(self._raw, node, self._name))

    def _owner_of(self, node: int) -> str:
        name, size = ffi.new("char[256]"), ffi.new("size_t *")
        if lib.busq_peer_node_owner(self._raw, node, name, size):
            return ""
        return str(ffi.unpack(name, size[0]).decode("utf-8", "replace"))

    def arrived(self, message: Any, place: int, bit: int) -> Handle:
        """Return the handle that a message has brought; from here on, the object counts for it."""
        node = int(lib.busq_message_node(ffi.addressof(message), place))
        is_alive = bool(int(message.handles_alive) & bit)
        if self.is_own(node):
            own = self.own.get(node)
            return own.handle if own is not None else self._dead(node) if not is_alive else self.own_node(node).handle
        if not is_alive:
            return self._dead(node)
        known = self.held.get(node)
        if known is not None and known._counted:
            message.handles_alive &= ~bit
            lib.busq_peer_handle_release(self._raw, node)
            return known
        made = Handle._made(self._raw, node, self._owner_of(node), is_counted=True, is_dead=False)
        message.handles_alive &= ~bit
        self.held[node] = made
        return made

    def _dead(self, node: int) -> Handle:
        known = self.held.get(node)
        if known is not None and known._is_dead:
            return known
        return Handle._made(self._raw, node, self._owner_of(node), is_counted=False, is_dead=True)

    def ended(self, node: int) -> Node | Handle:
        """Return the node, or the handle, whose end this peer is told of."""
        if self.is_own(node):
            own = self.own_node(node)  # which stays known until another one is made: the message may come again
            own._handle._is_dead = True
            return own
        handle = self.held.get(node)
        if handle is None:
            handle = Handle._made(self._raw, node, self._owner_of(node), is_counted=False, is_dead=True)
        handle._is_dead, handle._counted = True, []
        return handle

    def fill(self, made: Any, message: Any) -> None:
        """Let a message tell of nodes and handles."""
        address = ffi.addressof(message)
        nodes = [int(lib.busq_message_node(address, i)) for i in range(message.n_nodes)]
        if message.kind == lib.BUSQ_KIND_NODE_DESTROYED:
            made._kind, made._node = "node_destroyed", self.ended(nodes[0])
            made._sender = made._node._owner
        elif message.kind == lib.BUSQ_KIND_NODE_RELEASED:
            made._kind, made._node = "node_released", self.own_node(nodes[0])
        else:
            # Whoever is named, or a member, gets the message behind the node's end as well: not as one to the node.
            ours = (self.own_node(node) for node in nodes if self.is_own(node) and (node >> 16) & 0xFFFF != _BY_NAME)
            made._node = next((node for node in ours if not node.is_destroyed), None)
        places = range(message.n_handles)
        made._handles = tuple(self.arrived(message, message.n_nodes + place, 1 << place) for place in places)

    def _all(self) -> Iterable[tuple[int, bool]]:
        place, node, is_own = ffi.new("uint64_t *"), ffi.new("uint64_t *"), ffi.new("uint32_t *")
        while lib.busq_peer_next_node(self._raw, place, node, is_own) == lib.BUSQ_OK:
            yield int(node[0]), bool(is_own[0])

    def nodes(self) -> list[Node]:
        """Return the nodes that live."""
        return [self.own_node(node) for node, is_own in self._all() if is_own]

    def handles(self) -> list[Handle]:
        """Return the handles that are held."""
        found = []
        for node, is_own in self._all():
            if is_own:
                continue
            handle = self.held.get(node)
            if handle is None:
                handle = Handle._made(self._raw, node, self._owner_of(node), is_counted=True, is_dead=False)
                self.held[node] = handle
            found.append(handle)
        return found
