# SPDX-License-Identifier: Apache-2.0
"""Groups of peers, and peers that are watched: what peers are there, as part of the order.

A group has members, and every change of them is a *view*: an event that stands at one place of the order, the same for
all.  `Peer.enter`, `Peer.view` and `Peer.watch` describe the methods; the core is csrc/shm/group/group.h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from busq._native import _core as core

__all__ = ["View", "ViewMessage"]


class _View(NamedTuple):
    number: int
    members: tuple[str, ...]
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    died: tuple[str, ...] = ()


class View(_View):
    """The members of a group, from one place of the order to the next.

    `number` counts the views of the group, from 1, and never goes back for as long as the bus is there, also where the
    group was empty and its place was needed for another one in between: so it is a fence.  (Where groups lose their
    places to others, one of another name may begin above 1.)  `members` are names, the same at every member, those that
    entered first come first; `joined` and `left` name the changes from the view before, and `died` those that left by
    dying.

    Names are given again; lives are not.  `lives` has for each member the number of its process, which is the
    `Message.sender_life` of what it sends; `life` is that of the peer that has joined, left or died.  A member that was
    resumed before its death was noticed goes on as one, with another life, which the next view shows.  Both are no part
    of the tuple.

    >>> import busq
    >>> with busq.Bus.create("doc-groups-view") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
    ...     alice.enter("workers")
    ...     bob.enter("workers")
    ...     view = [alice.recv().view for _ in range(2)][-1]
    ...     view, view.life == view.lives[1]
    (View(number=2, members=('alice', 'bob'), joined=('bob',), left=(), died=()), True)
    >>> busq.Bus.unlink("doc-groups-view")
    """

    _lives: tuple[int, ...] = ()
    _life: int | None = None

    @classmethod
    def _of(cls, fields: tuple[Any, ...], lives: tuple[int, ...], life: int | None) -> View:
        view = cls(*fields)
        view._lives, view._life = lives, life
        return view

    @property
    def lives(self) -> tuple[int, ...]:
        """The life of each member, in the order of `members`; none in a view that was made by hand."""
        return self._lives

    @property
    def life(self) -> int | None:
        """The life of the peer that has joined, left or died; None in a view that was not delivered, but looked up."""
        return self._life


def made_view(fields: tuple[Any, ...], lives: tuple[int, ...], life: int | None) -> View:
    """Return a view of these fields, which knows the lives of its members, and that of the peer it is about."""
    return View._of(fields, lives, life)


class EventMessage(core.Message):
    """An event that stands in the order as messages do: its `kind` is what happened, its `sender` the peer it is about.

    It has no payload.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Message: {self.sender!r} has {self.kind}>"


class ViewMessage(EventMessage):
    """The event that a group has another view from here on.

    >>> import busq
    >>> with busq.Bus.create("doc-view-message") as bus, bus.join("alice") as alice:
    ...     alice.enter("workers")
    ...     message = alice.recv()
    ...     isinstance(message, busq.ViewMessage), message.view.members
    (True, ('alice',))
    >>> busq.Bus.unlink("doc-view-message")
    """

    __slots__ = ()

    @property
    def group(self) -> str:
        """The name of the group, without "@"."""
        return core.event_group(self)

    @property
    def view(self) -> View:  # type: ignore[override]
        """The view that begins here."""
        return core.event_view(self)

    def __repr__(self) -> str:
        view = self.view
        return f"<Message: view {view.number} of '@{self.group}': {', '.join(view.members) or 'nobody'}>"
