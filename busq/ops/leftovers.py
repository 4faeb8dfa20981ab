# SPDX-License-Identifier: Apache-2.0
"""Finds files that are not needed any more in the directory of buses, and removes them for `busq gc`.

Guarantee: nothing is removed that a live process uses, and nothing that is not busq's.  A file counts as a bus of an
earlier boot, or as half made, only if that is why the core refuses to open it: what is damaged, or never was a bus,
stays.  A FIFO counts as left behind only if its name is one that busq gives, and either its peer is gone by
the bus, or it is open nowhere by the kernel.  No message is dropped but those that `Bus.collect` drops.

Whether another process has a file open is asked with a lease, which the kernel grants only to a process that has it
open alone; it is held until the file is removed, so that no process comes in between.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import busq
from busq._native import ffi, lib
from busq._port.directory import default_directory
from busq._port.through_cffi import check
from busq.bus import bus_names

__all__ = ["Cleaning", "Removed", "collect", "is_stale", "path_of", "remove_peers", "stale_fifos", "text_of"]

# The core's words for a file that has the mark of a bus and a sound header, and is no bus any more.
STALE = ("was made before this machine was booted", "is half made")

# Names that other processes must not know beforehand end with a random part.
FIFO_NAME = re.compile(r"\.busq-([0-9a-f]{16})-(\d{1,10})-(\d{1,10})-[0-9a-f]{16}")
TRACE_NAME = re.compile(r"\.busq-([0-9a-f]{16})-trace-[0-9a-f]{16}")  # the rings of a recorder that was killed
# Between making a FIFO and opening it its owner needs a moment.
FIFO_AGE_S_MIN = 10.0

GONE = ("closed", "dead", "dead, unnoticed")


def path_of(name: str) -> str:
    """Return the file of a bus."""
    return os.path.join(default_directory(), os.fsdecode(name.encode("utf-8", "surrogateescape")))


def text_of(error: OSError | busq.BusqError) -> str:
    """Return the text of an error, without its number."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


# ---- files ----


def is_stale(error: Exception) -> bool:
    """Return whether a bus can't be opened because it is of an earlier boot or half made, which nothing can mend."""
    return isinstance(error, busq.CorruptSegment) and any(words in str(error) for words in STALE)


@contextlib.contextmanager
def _alone(path: str) -> Iterator[bool]:
    """Yield whether no other process has a file open; while the block runs, none can open it either."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # A signal announces that a process wants to open the file; it must be one that does no harm.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            is_alone = True
        except OSError as error:
            # Without leases in the file system, it must do that no peer lives.
            is_alone = error.errno != errno.EAGAIN
        yield is_alone
    finally:
        os.close(descriptor)


# ---- FIFOs ----


def stale_fifos() -> list[tuple[str, str | None]]:
    """Return the FIFOs that peers have left behind, each with its bus, or None where that is gone."""
    directory = default_directory()
    fifos = [(entry.name, match) for entry in os.scandir(directory) if (match := FIFO_NAME.fullmatch(entry.name))]
    owners = _generations() if fifos else {}
    stale = []
    for name, match in sorted(fifos, key=lambda pair: pair[0]):
        owner, peers = owners.get(match[1], (None, {}))
        if _is_stale_fifo(os.path.join(directory, name), peers.get(int(match[2])), int(match[3]), owner):
            stale.append((name, owner))
    return stale


def _generations() -> dict[str, tuple[str | None, dict[int, dict[str, Any]]]]:
    """Return the buses that can be opened, by the number that their FIFOs are named after."""
    buses: dict[str, tuple[str | None, dict[int, dict[str, Any]]]] = {}
    for name in bus_names():
        with contextlib.suppress(OSError, busq.BusqError, ValueError), busq.Bus.open(name) as bus:
            number = int.from_bytes(bus._generation()[:8], "little")
            buses[f"{number:016x}"] = (name, {peer["slot"]: peer for peer in bus.stats()["peers"]})
    return buses


def _is_stale_fifo(path: str, peer: dict[str, Any] | None, incarnation: int, owner: str | None) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISFIFO(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
        return False
    if owner is not None and peer is not None:
        if peer["alive"] and peer.get("incarnation", incarnation) == incarnation:
            return False
        # A forked child may still have it open, but no process writes to one whose peer is gone.
        if not peer["alive"] and peer.get("incarnation") == incarnation and peer["state"] in GONE:
            return True
    return time.time() - status.st_ctime > FIFO_AGE_S_MIN and not _has_reader(path)


def _has_reader(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        return error.errno != errno.ENXIO
    return True


# ---- removing ----


@dataclass(frozen=True)
class Removed:
    """One thing that was removed, or would be; `kind` is bus, fifo, trace, messages or peer."""

    kind: str
    bus: str | None
    name: str
    why: str
    messages: int = 0
    size_bytes: int = 0


@dataclass
class Cleaning:
    """A report: what was removed, what was left alone because it could not be looked into, and what failed."""

    dry_run: bool
    removed: list[Removed] = field(default_factory=list)
    left: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Everything that should go went."""
        return not self.failed

    def fail(self, bus: str, error: OSError | busq.BusqError) -> None:
        """Note what could not be done."""
        self.failed.append({"bus": bus, "why": text_of(error)})

    def leave(self, bus: str, error: OSError | busq.BusqError) -> None:
        """Note what is not ours to judge."""
        self.left.append({"bus": bus, "why": text_of(error).partition(": remove it")[0]})

    def as_json(self) -> dict[str, Any]:
        """Return it as what JSON knows."""
        return {"ok": self.ok, **asdict(self)}


def collect(names: Sequence[str] = (), *, unused: bool = False, dry_run: bool = False) -> Cleaning:
    """Remove what is stale: in these buses, or, where none are named, in the whole directory.

    Parameters: `unused`, remove also buses that no process has open and that hold nothing; `dry_run`, only report
    what would go.

    Errors: ValueError for a name that no bus can have; PermissionError, OSError for the directory.

    >>> import busq
    >>> busq.Bus.create("doc-gc").close()
    >>> [(one.kind, one.name) for one in collect(["doc-gc"], unused=True).removed]
    [('bus', 'doc-gc')]
    """
    cleaning = Cleaning(dry_run)
    _remove_temporary(cleaning, names)  # before a bus is opened, with which they go
    for fifo, owner in stale_fifos():
        if not names or owner in names:
            _remove_fifo(cleaning, fifo, owner)
    if not names:
        _remove_traces(cleaning)
    gone = {one.name for one in cleaning.removed}
    for name in dict.fromkeys(names or bus_names()):
        if name in gone:
            continue
        try:
            _collect_bus(cleaning, name, unused)
        except (OSError, busq.BusqError) as error:
            if names:
                cleaning.fail(name, error)
            elif not isinstance(error, FileNotFoundError):  # removed meanwhile
                cleaning.leave(name, error)
    return cleaning


def _temporary() -> dict[str, int]:
    """The temporary buses, each with the bytes of its file."""
    found: dict[str, int] = {}
    for name in bus_names():
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path_of(name))
            if status.st_mode & stat.S_ISVTX:
                found[name] = status.st_size
    return found


def _remove_temporary(cleaning: Cleaning, names: Sequence[str]) -> None:
    """Remove the temporary buses that no process has open any more, all of them: opening any bus does that."""
    before = _temporary()
    removed = ffi.new("uint32_t *")
    check(lib.busq_bus_sweep(os.fsencode(default_directory()), removed))
    after = _temporary() if removed[0] else before
    for name, size_bytes in before.items():
        if name not in after and (not names or name in names):
            why = "it was temporary, and its last process was killed"
            cleaning.removed.append(Removed("bus", name, name, why, 0, size_bytes))


def _remove_fifo(cleaning: Cleaning, fifo: str, owner: str | None) -> None:
    why = "its peer is gone" if owner else "its bus is gone, and nobody has it open"
    try:
        if not cleaning.dry_run:
            os.unlink(path_of(fifo))
    except FileNotFoundError:
        return  # another process has buried its peer
    except OSError as error:
        cleaning.fail(owner or fifo, error)
        return
    cleaning.removed.append(Removed("fifo", owner, fifo, why))


def _remove_traces(cleaning: Cleaning) -> None:
    """Remove the rings of recordings whose bus is gone."""
    directory = default_directory()
    rings = [(entry.name, match) for entry in os.scandir(directory) if (match := TRACE_NAME.fullmatch(entry.name))]
    owners = _generations() if rings else {}
    for name, match in sorted(rings, key=lambda pair: pair[0]):
        path = path_of(name)
        if match[1] in owners or not stat.S_ISREG(os.lstat(path).st_mode):
            continue
        with contextlib.suppress(FileNotFoundError), _alone(path) as is_alone:
            if not is_alone:
                continue
            size_bytes = os.lstat(path).st_blocks * 512
            if not cleaning.dry_run:
                os.unlink(path)
            why = "its bus is gone, and nobody has it open"
            cleaning.removed.append(Removed("trace", None, name, why, 0, size_bytes))


def _collect_bus(cleaning: Cleaning, name: str, unused: bool) -> None:
    try:
        bus = busq.Bus.open(name)
    except busq.CorruptSegment as error:
        if not is_stale(error):
            raise
        _remove_bus(cleaning, name, str(error).partition(": remove it")[0])
        return
    with bus:
        before = bus.stats()
        left = [peer for peer in before["peers"] if peer["state"] in GONE and peer["depth"] and not peer["durable"]]
        dropped = sum(peer["depth"] for peer in left) if cleaning.dry_run else bus.collect()
        after = before if cleaning.dry_run else bus.stats()
    freed = max(0, before["arena_used_bytes"] - after["arena_used_bytes"])
    if dropped or (freed and not any(peer["alive"] for peer in after["peers"])):
        peers = ", ".join(repr(peer["name"]) for peer in left) or "peers"
        cleaning.removed.append(
            Removed("messages", name, peers, "left by peers that are gone and not durable", dropped, freed)
        )
    if unused and all(
        peer["state"] in GONE and not peer["durable"] and (not peer["depth"] or cleaning.dry_run)
        for peer in after["peers"]
    ):
        _remove_bus(cleaning, name, "nobody uses it and it holds nothing")


def _remove_bus(cleaning: Cleaning, name: str, why: str) -> None:
    path = path_of(name)
    with _alone(path) as is_alone:
        if not is_alone:
            return
        size_bytes = os.lstat(path).st_size
        if not cleaning.dry_run:
            os.unlink(path)
    cleaning.removed.append(Removed("bus", name, name, why, 0, size_bytes))


def remove_peers(name: str, peers: Sequence[str], *, dry_run: bool = False) -> Cleaning:
    """Drop what these dead or closed peers of a bus have left, durable or not.

    Errors: PeerExists while one lives; UnknownPeer if one has left nothing; those of `Bus.open`.
    """
    cleaning = Cleaning(dry_run)
    with busq.Bus.open(name) as bus:
        facts = {peer["name"]: peer for peer in bus.stats()["peers"]}
        for peer in peers:
            its = facts.get(peer)
            left = _left(bus, its) if its is not None else 0
            if its is None and not dry_run:
                bus.remove(peer)  # raises what fits
            if its is None or not (its["alive"] or its["durable"] or left):
                raise busq.UnknownPeer(f"{peer!r} has left nothing on bus {name!r}")
            if dry_run and its["alive"]:
                raise busq.PeerExists(f"{peer!r} lives on bus {name!r}")
            if not dry_run:
                bus.remove(peer)
            cleaning.removed.append(Removed("peer", name, peer, "asked for by name", left))
    return cleaning


def _left(bus: busq.Bus, peer: dict[str, Any]) -> int:
    """Return how many messages are left to a peer that is gone; of a shared queue, also what its readers had."""
    return peer["depth"] if peer["consumers"] is None else len(bus.peek(peer["name"], bytes_max=0))
