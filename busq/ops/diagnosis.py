# SPDX-License-Identifier: Apache-2.0
"""Diagnoses a bus: which peers wait, for what and for how long, which are stopped, what was left behind, what helps.

Every bus is looked at several times (`looks`), so that a wait that lasts differs from one that has just ended, and a
reader that is slow from one that does nothing.

Not given: an opinion about processes of other users, and what a peer does between two of its calls.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import busq
from busq._port.directory import default_directory
from busq._port.lost_names import REASONS, lost
from busq._util.humanize import amount, duration, listed, size, size_in_use
from busq.bus import bus_names
from busq.groups import View
from busq.ops import leftovers
from busq.ops.processes import Process, process_of
from busq.ops.snapshots import UNNOTICED, WAIT_S_MIN, Looks

__all__ = ["Finding", "Process", "Report", "examine", "process_of", "waits_of"]

LOOKS = 4
LOOK_EVERY_S = 0.08
# Readers get out of their way what blocks them within a few tens of milliseconds.
BLOCKED_S_MIN = 0.5

WRONG, REPAIRED, NOTE = "wrong", "repaired", "note"


@dataclass(frozen=True)
class Finding:
    """One thing that was found; `level` is wrong, repaired or note, `remedy` is what to do about it."""

    level: str
    kind: str
    text: str
    remedy: str = ""
    peers: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass
class Report:
    """The findings about one bus, or, without a name, about the directory."""

    name: str | None
    opened: bool = True
    facts: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is wrong, or nothing any more."""
        return all(finding.level != WRONG for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as what JSON knows."""
        findings = [asdict(finding) for finding in self.findings]
        return {"name": self.name, "ok": self.ok, "opened": self.opened, **self.facts, "findings": findings}


def waits_of(peer: dict[str, Any], names: dict[int, str]) -> tuple[str, str]:
    """Return in words what a peer waits for, and for how long; dashes where it waits for nothing."""
    if peer["waits"] is None:
        return "-", "-"
    target = names.get(peer["waits_for_slot"], "") if peer["waits_for_slot"] is not None else ""
    about = f": {target or '?'}" if peer["waits"] in ("room", "blocked") else ""
    return f"{peer['waits']}{about}", duration(peer["waited_s"])


def _names(peers: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(peer["name"] for peer in peers)


class _Diagnosis:
    """The findings that follow from the looks at one bus."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._findings: list[Finding] = []

    @property
    def _quoted(self) -> str:
        return shlex.quote(self._looks.name)

    def report(self, stale_fifos: Sequence[str]) -> Report:
        """Return all that was found."""
        cycles = self._looks.cycles()
        self._find_deaths()
        self._find_stalled()
        self._find_cycles(cycles)
        self._find_waits_for_room({slot for cycle in cycles for slot in cycle})
        self._find_other_waits()
        self._find_queues()
        self._find_halted()
        self._find_views()
        self._find_memory()
        self._find_growth()
        self._find_rest(stale_fifos)
        order = (WRONG, REPAIRED, NOTE)
        self._findings.sort(key=lambda finding: order.index(finding.level))
        return Report(self._looks.name, facts=self._facts(cycles), findings=self._findings)

    def _find(self, level: str, kind: str, text: str, remedy: str = "", **more: Any) -> None:
        self._findings.append(Finding(level, kind, text, remedy, **more))

    def _find_stalled(self) -> None:
        if self._looks.helped:
            what = "1 message stood" if self._looks.helped == 1 else f"{self._looks.helped} messages stood"
            remedy = "what waits behind can be received; its sender, if it lives, sends it again by itself"
            self._find(REPAIRED, "stalled", f"{what} still, half sent", remedy)

    def _find_deaths(self) -> None:
        still = {slot for slot, peer in self._looks.peers.items() if peer["state"] == UNNOTICED}
        for peer in self._looks.unnoticed:
            text = f"{peer['name']!r} had died and nobody had noticed"
            if peer["slot"] not in still:
                self._find(REPAIRED, "death", text, "what it was doing has been put in order", peers=(peer["name"],))
                continue
            remedy = f"busq doctor {self._quoted} puts in order what it left"
            if self._looks.repairs:
                remedy = "another process was putting in order what it left, and seems to be stopped: continue that one"
            self._find(WRONG, "death", text, remedy, peers=(peer["name"],))

    def _find_cycles(self, cycles: list[list[int]]) -> None:
        edges = self._looks.room_edges()
        for cycle in cycles:
            members = [self._looks.peers[slot] for slot in cycle]
            seconds = min(edges[slot][1] for slot in cycle)
            ring = " -> ".join(repr(peer["name"]) for peer in [*members, members[0]])
            text = (
                f"deadlock: {ring} have waited {duration(seconds)} for room in each other's queues, and none receives"
            )
            if len(cycle) == 1:
                text = f"{members[0]['name']!r} has waited {duration(seconds)} for room in its own queue"
            processes = [self._looks.processes[slot] for slot in cycle]
            pids = [process.pid for process in processes if process.state not in ("unknown", "gone")]
            remedy = "give send() a timeout and receive in between; to get out now, end one of them"
            remedy += f", as with kill {pids[0]}" if pids else ""
            for process in processes:
                remedy = self._continue(process) if process.is_halted else remedy
            self._find(
                WRONG, "cycle", text, remedy, peers=tuple(peer["name"] for peer in members), seconds=round(seconds, 3)
            )

    def _find_waits_for_room(self, in_cycles: set[int]) -> None:
        edges = self._looks.room_edges()
        by_target: dict[int, list[int]] = {}
        for slot, (target, _) in edges.items():
            if slot not in in_cycles:
                by_target.setdefault(target, []).append(slot)
        for target, slots in by_target.items():
            slots.sort(key=lambda slot: -edges[slot][1])
            waiters = [self._looks.peers[slot] for slot in slots]
            seconds = edges[slots[0]][1]
            text = f"{listed([repr(peer['name']) for peer in waiters])} {'has' if len(slots) == 1 else 'have'} waited "
            text += f"{'' if len(slots) == 1 else 'up to '}{duration(seconds)} for room in the queue of "
            cause, remedy, is_wrong = self._why_full(target, edges, in_cycles)
            peers = tuple(peer["name"] for peer in [*waiters, self._looks.peers[target]])
            level = WRONG if is_wrong else NOTE
            self._find(level, "waiting for room", text + cause, remedy, peers=peers, seconds=round(seconds, 3))

    def _why_full(
        self, target: int, edges: dict[int, tuple[int, float]], in_cycles: set[int], passed: tuple[int, ...] = ()
    ) -> tuple[str, str, bool]:
        """Return why nothing is taken out of a queue, what to do, and whether that is wrong."""
        peer, process = self._looks.peers[target], self._looks.processes[target]
        name = repr(peer["name"])
        if not peer["alive"]:
            return f"{name}, which is {self._gone(peer)}", self._revive(peer), True
        if process.is_halted:
            return f"{name}, whose process {process.pid} is {process.state}", self._continue(process), True
        if target in in_cycles:
            return f"{name}, which is part of a deadlock", "see there", True
        if target in edges and not self._looks.is_moving(target) and target not in passed:
            cause, remedy, is_wrong = self._why_full(edges[target][0], edges, in_cycles, (*passed, target))
            return f"{name}, which itself waits for {cause}", remedy, is_wrong
        if self._looks.is_moving(target):
            return name, "it receives, but others send faster, and a full queue holds them back as it should", False
        if process.state == "unknown":
            return f"{name}, which receives nothing; {process.why}", "look at its process where it runs", True
        text = f"{name}, whose process {process.pid} is {process.state} and receives nothing"
        return text, f"let it receive, or end it with kill {process.pid}", True

    @staticmethod
    def _continue(process: Process) -> str:
        if process.state == "traced":
            by = f" (process {process.tracer_pid})" if process.tracer_pid else ""
            return f"let its debugger{by} continue it"
        return f"continue it with kill -CONT {process.pid}"

    @staticmethod
    def _gone(peer: dict[str, Any]) -> str:
        return f"{peer['state']}{' and durable' if peer['durable'] else ''}"

    def _revive(self, peer: dict[str, Any]) -> str:
        command = f"busq gc {self._quoted} --remove {shlex.quote(peer['name'])}"
        return f"start it again with resume=True, or drop its messages with {command}"

    def _find_other_waits(self) -> None:
        for slot, peer in self._looks.peers.items():
            waits = self._looks.waits(slot) if peer["alive"] else None
            if not waits:
                continue
            kind, whom, seconds = waits
            if kind == "memory" and seconds >= WAIT_S_MIN:
                self._find_wait_for_memory(peer, seconds)
            if kind == "blocked" and seconds >= BLOCKED_S_MIN:
                sender = self._looks.peers[whom]["name"] if whom in self._looks.peers else None
                text = f"{peer['name']!r} has been blocked for {duration(seconds)} by a message"
                text += f" of {sender!r} that is not final" if sender else " that is not final"
                peers = (peer["name"], *([sender] if sender else []))
                process = self._looks.processes[slot]
                remedy = "readers finish or pass such messages by themselves within 0.1 s: please report this"
                remedy = self._continue(process) if process.is_halted else remedy
                self._find(WRONG, "blocked", text, remedy, peers=peers, seconds=round(seconds, 3))

    def _find_wait_for_memory(self, peer: dict[str, Any], seconds: float) -> None:
        used, total = self._looks.stats["arena_used_bytes"], self._looks.stats["arena_bytes"]
        longest = max(self._looks.peers.values(), key=lambda other: other["depth"])
        text = f"{peer['name']!r} has waited {duration(seconds)} for memory: {size_in_use(used, total)} are in use"
        remedy = "let messages be received and views be released, or create the bus with a larger arena"
        if longest["depth"]:
            process = self._looks.processes[longest["slot"]]
            text += f", and most messages ({longest['depth']:,}) wait for {longest['name']!r}"
            if not longest["alive"]:
                text, remedy = f"{text}, which is {self._gone(longest)}", self._revive(longest)
            elif process.is_halted:
                text, remedy = f"{text}, whose process {process.pid} is {process.state}", self._continue(process)
        peers = (peer["name"],)
        self._find(WRONG, "waiting for memory", text, remedy, peers=peers, seconds=round(seconds, 3))

    @property
    def _has_fixed_group(self) -> bool:
        """Return whether each slot is given once: only bus1 can give one to another peer."""
        return str(self._looks.stats["order"]) != "bus1"

    def _waited_for(self) -> set[str]:
        return {finding.peers[-1] for finding in self._findings if finding.kind == "waiting for room"}

    def _find_queues(self) -> None:
        capacity = self._looks.stats["capacity"]
        waited_for = self._waited_for()
        waited_for |= {name for finding in self._findings if finding.kind == "cycle" for name in finding.peers}
        left: list[dict[str, Any]] = []
        kept: list[dict[str, Any]] = []
        for slot, peer in self._looks.peers.items():
            is_full = peer["depth"] >= capacity
            if not peer["alive"] and peer["depth"] and peer["state"] != "closing":
                if peer["durable"] and is_full:
                    text = f"{peer['name']!r} is {self._gone(peer)}, and its queue holds "
                    text += f"{amount(peer['depth'], 'message')}, which is all it can hold: whoever sends to it waits"
                    self._find(WRONG, "durable", text, self._revive(peer), peers=(peer["name"],))
                else:
                    (kept if peer["durable"] else left).append(peer)
            elif peer["alive"] and is_full and peer["name"] not in waited_for and not self._looks.is_moving(slot):
                self._find_full(peer, self._looks.processes[slot])
        if kept:
            remedy = f"start them again with resume=True, or drop messages with busq gc {self._quoted} --remove NAME"
            remedy = self._revive(kept[0]) if len(kept) == 1 else remedy
            self._find(NOTE, "durable", self._gone_with_messages(kept), remedy, peers=_names(kept))
        if left:
            remedy = "kept for a resume until the room is needed; busq gc drops them now"
            if self._has_fixed_group:
                remedy = f"nobody can resume under order {self._looks.stats['order']}: busq gc drops them"
            self._find(NOTE, "left messages", self._gone_with_messages(left), remedy, peers=_names(left))

    def _gone_with_messages(self, peers: Sequence[dict[str, Any]]) -> str:
        """Return in one sentence which peers are gone, however many, and what their queues hold."""
        count = amount(sum(peer["depth"] for peer in peers), "message")
        if len(peers) == 1:
            return f"{peers[0]['name']!r} is {self._gone(peers[0])}, and its queue holds {count}"
        states = " or ".join(sorted({self._gone(peer) for peer in peers}))
        return f"{listed([repr(name) for name in _names(peers)])} are {states}, and their queues hold {count}"

    def _find_full(self, peer: dict[str, Any], process: Process) -> None:
        if process.is_halted:
            return  # a finding about its process
        text = f"the queue of {peer['name']!r} is full ({amount(peer['depth'], 'message')}) and it receives nothing"
        if process.state == "unknown":
            remedy = "look at its process where it runs, for it may be stopped: the next send to it waits"
            self._find(WRONG, "full", f"{text}; {process.why}", remedy, peers=(peer["name"],))
        else:
            self._find(NOTE, "full", text, "let it receive: the next send to it waits", peers=(peer["name"],))

    def _find_halted(self) -> None:
        """Find stopped processes that no peer waits for yet."""
        waited_for = self._waited_for()
        for slot, peer in self._looks.peers.items():
            process = self._looks.processes[slot]
            if not peer["alive"] or not process.is_halted or peer["name"] in waited_for:
                continue
            count = amount(peer["depth"], "message")
            text = f"process {process.pid} of {peer['name']!r} is {process.state}"
            text += f", and {count} wait for it" if peer["depth"] else ""
            level = WRONG if peer["depth"] else NOTE
            self._find(level, process.state, text, self._continue(process), peers=(peer["name"],))

    def _find_views(self) -> None:
        """Find views that name dead members, and members that have not got to the latest one."""
        by_name = {peer["name"]: slot for slot, peer in self._looks.peers.items()}
        for group, view in self._looks.views.items():
            slots = {name: by_name[name] for name in view.members if name in by_name}
            living = [name for name, slot in slots.items() if self._looks.peers[slot]["alive"]]
            dead = [name for name in view.members if name not in living]
            if dead:
                self._find_dead_members(group, view, dead, living)
            behind = [name for name in living if self._looks.seen.get(group, {}).get(slots[name], 0) < view.number]
            for name in behind:
                self._find_behind(group, view, name, slots[name])

    def _find_dead_members(self, group: str, view: View, dead: list[str], living: list[str]) -> None:
        text = f"view {view.number} of {f'@{group}'!r} names {listed([repr(name) for name in dead])}"
        text += ", which is gone" if len(dead) == 1 else ", which are gone"
        halted = list(self._members_halted(living))
        if not living:
            text += ", and nobody else"
            self._find(NOTE, "view", text, "whoever enters or sends to the group makes it right", peers=tuple(dead))
        elif len(halted) == len(living):
            text += f", and no other member can notice: process {halted[0].pid} is {halted[0].state}"
            self._find(WRONG, "view", text, self._continue(halted[0]), peers=(*dead, *living))
        else:
            remedy = "the other members change it when they receive next, whoever sends to the group at once"
            self._find(NOTE, "view", text, remedy, peers=tuple(dead))

    def _members_halted(self, names: list[str]) -> Iterator[Process]:
        for slot, peer in self._looks.peers.items():
            if peer["name"] in names and self._looks.processes[slot].is_halted:
                yield self._looks.processes[slot]

    def _find_behind(self, group: str, view: View, name: str, slot: int) -> None:
        seen = self._looks.seen.get(group, {}).get(slot, 0)
        where = f"it is in view {seen}" if seen else "it has entered, and received no view so far"
        text = f"{name!r} has not come to view {view.number} of {f'@{group}'!r}: {where}"
        process = self._looks.processes[slot]
        remedy = self._continue(process) if process.is_halted else "let it receive"
        if len(view.members) > 1:
            remedy += "; until then, who enters may wait for a state that it has to give"
        self._find(NOTE, "view", text, remedy, peers=(name,))

    def _find_memory(self) -> None:
        used = self._looks.stats["arena_used_bytes"]
        needed = any(peer["alive"] or peer["durable"] or peer["depth"] for peer in self._looks.peers.values())
        is_used = any(peer["state"] in ("closing", UNNOTICED) for peer in self._looks.peers.values())
        if used and not needed and not is_used:
            text = f"{size(used)} of memory are in use though nobody lives and no message waits"
            remedy = f"busq gc {self._quoted}; if that does not help, please report it"
            self._find(WRONG, "leak", text, remedy)

    def _find_growth(self) -> None:
        """Find queues that can't hold as many as they may, for there is no memory for more."""
        disk = os.statvfs(default_directory())
        free = disk.f_bavail * disk.f_frsize
        short = [peer for peer in self._looks.peers.values() if peer["depth"] and peer["growth_bytes"] > free]
        if not short:
            return
        names = _names(short)
        queues, they = ("queue", "it") if len(short) == 1 else ("queues", "they")
        text = f"the {queues} of {listed([repr(name) for name in names])} can't grow to all {they} may hold, for that"
        text += f" takes {size(short[0]['growth_bytes'])}, and the file system of the bus has {size(free)} free"
        remedy = "free memory there (busq gc removes what is left of buses), or receive; until then senders wait sooner"
        self._find(WRONG, "growth", text, remedy, peers=names)

    def _find_rest(self, stale_fifos: Sequence[str]) -> None:
        if stale_fifos:
            text = f"{amount(len(stale_fifos), 'FIFO')} of peers that are gone: {stale_fifos[0]}"
            self._find(WRONG, "fifo", text, f"busq gc {self._quoted} removes them")
        for peer in self._looks.peers.values():
            if peer["state"] == "closing":
                text = f"{peer['name']!r} has closed, but still looks at messages that it took"
                self._find(NOTE, "closing", text, "release their views", peers=(peer["name"],))
        if self._looks.stats["shut_down"]:
            remedy = f"busq rm {self._quoted} when its last messages are received"
            self._find(NOTE, "shut down", "the bus was shut down", remedy)
        kept = sum(peer["alive"] or peer["durable"] for peer in self._looks.peers.values())
        if self._has_fixed_group and len(self._looks.peers) >= self._looks.stats["peer_slots"]:
            order = self._looks.stats["order"]
            text = f"all {len(self._looks.peers)} places of the group are given, and order {order} gives each once"
            self._find(NOTE, "slots", text, "nobody else can join: create another bus, with more peers")
        elif kept >= self._looks.stats["peer_slots"]:
            text = f"all {kept} peer slots are taken by live or durable peers: nobody else can join"
            self._find(NOTE, "slots", text, "close or remove some, or create the bus with more peers")

    def _facts(self, cycles: list[list[int]]) -> dict[str, Any]:
        names = {slot: peer["name"] for slot, peer in self._looks.peers.items()}
        peers = []
        for slot, peer in self._looks.peers.items():
            waits = self._looks.waits(slot) if peer["alive"] else None
            kind, whom, seconds = waits or (None, None, 0.0)
            facts = {**peer, "waits": kind, "waits_for_slot": whom, "waited_s": seconds}
            facts["waits_for"] = names.get(whom) if whom is not None else None
            peers.append({**facts, "process": asdict(self._looks.processes[slot])})
        gone = sum(peer["memory_bytes"] for peer in peers if peer["state"] in leftovers.GONE)
        keys = ("order", "capacity", "peer_slots", "segment_bytes", "created_s", "creator_pid", "shut_down")
        used = self._looks.stats["arena_used_bytes"]
        memory = {"bytes": self._looks.stats["arena_bytes"], "used_bytes": used, "gone_bytes": gone}
        return {
            **{key: self._looks.stats[key] for key in keys},
            "memory": memory,
            "peers": peers,
            "groups": {
                group: {"view": view.number, "members": list(view.members)} for group, view in self._looks.views.items()
            },
            "cycles": [[names[slot] for slot in cycle] for cycle in cycles],
            "buried": self._looks.buried,
            "helped": self._looks.helped,
        }


def _unopenable(name: str, error: OSError | busq.BusqError) -> Finding:
    """Return in words what keeps a bus from being opened, and what to do."""
    text, remove = leftovers.text_of(error).partition(": remove it")[0], f"busq rm {shlex.quote(name)}"
    if isinstance(error, FileNotFoundError):
        return Finding(WRONG, "missing", text, "busq ls shows which there are")
    if isinstance(error, PermissionError):
        return Finding(WRONG, "denied", text, "look at it as its owner")
    if isinstance(error, busq.VersionMismatch):
        return Finding(WRONG, "version", text, f"{remove} removes it, once nobody uses it")
    if leftovers.is_stale(error):
        return Finding(WRONG, "stale", text, f"busq gc {shlex.quote(name)} removes it")
    if isinstance(error, busq.CorruptSegment):
        return Finding(WRONG, "damaged", text, f"{remove} once nobody uses it, and create it again")
    return Finding(WRONG, "unopenable", text, "try again when the system allows it")


def _of_lost(name: str, pids: Sequence[int]) -> Report:
    """Return a report on a bus that is used, and that no other process finds."""
    who = f"process {pids[0]} uses" if len(pids) == 1 else f"processes {listed([str(pid) for pid in pids])} use"
    text = f"{who} a bus that has lost its name: no process that opens {name!r} finds it"
    finding = Finding(
        WRONG, "lost", text, f"end them, and begin anew; it was removed otherwise than by busq, {REASONS}"
    )
    return Report(name, opened=False, facts={"error": "it has lost its name", "pids": list(pids)}, findings=[finding])


def _report(looks: Looks, stale_fifos: Sequence[str]) -> Report:
    looks.end()
    if looks.error is not None:
        facts = {"error": leftovers.text_of(looks.error)}
        return Report(looks.name, opened=False, facts=facts, findings=[_unopenable(looks.name, looks.error)])
    return _Diagnosis(looks).report(stale_fifos)


def examine(
    names: Sequence[str] = (), *, repair: bool = True, pause: Callable[[float], None] = time.sleep
) -> list[Report]:
    """Look at buses, all of the directory where none are named, and return a report for each.

    Where no bus is named and FIFOs of buses that are gone lie in the directory, the last report is about them and has
    no name.  With `repair`, peers that died unnoticed are buried; no message is dropped.

    Errors: ValueError for a name that no bus can have; PermissionError, OSError for the directory.
    Cost: about a third of a second.

    >>> import busq
    >>> with busq.Bus.create("doc-doctor", peers=2) as bus:
    ...     [report.ok for report in examine(["doc-doctor"])]
    [True]
    >>> busq.Bus.unlink("doc-doctor")
    """
    every = [Looks(name) for name in dict.fromkeys(names or bus_names())]
    for looks in every:
        looks.open(repair=repair)
    for turn in range(LOOKS if any(looks.error is None for looks in every) else 0):
        pause(LOOK_EVERY_S if turn else 0)
        for looks in every:
            looks.look(is_last=turn == LOOKS - 1)
    stale = leftovers.stale_fifos()
    reports = [_report(looks, [fifo for fifo, owner in stale if owner == looks.name]) for looks in every]
    reports += [
        _of_lost(name, pids) for name, pids in sorted(lost(default_directory()).items()) if not names or name in names
    ]
    homeless = [fifo for fifo, owner in stale if owner is None]
    if homeless and not names:
        text = f"{amount(len(homeless), 'FIFO')} of buses that are gone, which nobody has open: {homeless[0]}"
        reports.append(Report(None, findings=[Finding(WRONG, "fifo", text, "busq gc removes them")]))
    return reports
