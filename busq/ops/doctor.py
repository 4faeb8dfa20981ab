# SPDX-License-Identifier: Apache-2.0
"""Diagnoses a bus: who waits for whom and for how long, who is stopped, what was left behind, and what helps.

The facts come from three places: the bus says who waits and what stands in the queues, the kernel's locks say who
lives, and /proc says what the process of a peer is doing.  A process number alone proves nothing, because it may have
been used again or belong to another pid namespace: what /proc says counts only if that process began before the peer
joined and has this very bus open; otherwise the answer is "unknown", with the reason.

Every bus is looked at several times, so that a wait that lasts can be told from one that has just ended, and a reader
that is slow from one that does nothing.

Not given: an opinion about processes of other users, and what a peer does between two of its calls.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import busq
from busq._util.humanize import amount, duration, listed, size
from busq.bus import bus_names
from busq.groups import View, seen_in
from busq.ops import leftovers

__all__ = ["Finding", "Process", "Report", "examine", "process_of", "waits_of"]

LOOKS = 4
LOOK_EVERY_S = 0.08
# A wait shorter than this is traffic, not trouble.
WAIT_S_MIN = 0.1
# Readers get out of their way what blocks them within a few tens of milliseconds.
BLOCKED_S_MIN = 0.5
# Start times in /proc are counted in ticks from a boot time that is known to the second.
START_SLACK_S = 2.0

UNNOTICED = "dead, unnoticed"

WRONG, REPAIRED, NOTE = "wrong", "repaired", "note"


@dataclass(frozen=True)
class Process:
    """The state of a peer's process, according to the operating system.

    `state` is running, sleeping, uninterruptible, stopped, traced, zombie, gone or unknown; `why` explains the unknown;
    `tracer_pid` is the debugger of one that is traced.
    """

    pid: int
    state: str
    why: str = ""
    tracer_pid: int | None = None

    @property
    def is_halted(self) -> bool:
        """It does nothing until somebody continues it."""
        return self.state in ("stopped", "traced")


@dataclass(frozen=True)
class Finding:
    """One thing that was found; `level` is wrong, repaired or note, `remedy` says what to do about it."""

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


# ---- processes ----

_STATES = {
    "running": "running",
    "sleeping": "sleeping",
    "idle": "sleeping",
    "waking": "running",
    "parked": "sleeping",
    "disk-sleep": "uninterruptible",
    "stopped": "stopped",
    "tracing-stop": "traced",
    "zombie": "zombie",
    "dead": "zombie",
}


def process_of(peer: dict[str, Any], bus_file: os.stat_result | None) -> Process:
    """Say what the process of a peer is doing, or "unknown" where it can't be told for sure which process that is."""
    import psutil  # only a doctor needs it

    pid, is_alive = peer["pid"], peer["alive"]
    try:
        process = psutil.Process(pid)
        state, started_s = _STATES.get(process.status(), "unknown"), process.create_time()
    except psutil.NoSuchProcess:
        if not is_alive:
            return Process(pid, "gone")
        return Process(pid, "unknown", f"it lives, but not as process {pid} of this pid namespace")
    except psutil.AccessDenied:
        return Process(pid, "unknown", f"process {pid} may not be looked at")
    if started_s > peer["joined_s"] + START_SLACK_S:
        if not is_alive:
            return Process(pid, "gone")
        return Process(pid, "unknown", f"process {pid} here is younger than this peer, so it is another one")
    if state == "zombie":
        return Process(pid, state if not is_alive else "unknown", "" if not is_alive else f"process {pid} here is dead")
    has_bus = _has_open(pid, bus_file)
    if not has_bus:
        why = f"process {pid} here does not have this bus open" if has_bus is False else f"process {pid} is not ours"
        return Process(pid, "unknown", why)
    return Process(pid, state, tracer_pid=_tracer_of(pid) if state == "traced" else None)


def _has_open(pid: int, file: os.stat_result | None) -> bool | None:
    """Whether a process has a file open; None where it may not be asked."""
    if file is None:
        return None
    try:
        entries = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for entry in entries:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{entry}"), file):
                return True
    return False


def _tracer_of(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith("TracerPid:"):
                return int(line.split()[1]) or None
    return None


# ---- waiting ----


def waits_of(peer: dict[str, Any], names: dict[int, str]) -> tuple[str, str]:
    """Return in words what a peer waits for, and for how long; dashes where it waits for nothing."""
    if peer["waits"] is None:
        return "-", "-"
    whom = names.get(peer["waits_for_slot"], "") if peer["waits_for_slot"] is not None else ""
    about = f": {whom or '?'}" if peer["waits"] in ("room", "blocked") else ""
    return f"{peer['waits']}{about}", duration(peer["waited_s"])


class _Patient:
    """One bus, what was seen of it, and what follows from that."""

    def __init__(self, name: str) -> None:
        self.report = Report(name)
        self._bus: busq.Bus | None = None
        self._file: os.stat_result | None = None
        self._looks: list[dict[int, dict[str, Any]]] = []
        self._stats: dict[str, Any] = {}
        self._peers: dict[int, dict[str, Any]] = {}
        self._views: dict[str, View] = {}
        self._seen: dict[str, dict[int, int]] = {}  # by group and slot: the last view that was delivered there
        self._processes: dict[int, Process] = {}
        self._unnoticed: list[dict[str, Any]] = []
        self._buried = 0
        self._helped = 0
        self._repairs = False

    @property
    def _quoted(self) -> str:
        return shlex.quote(str(self.report.name))

    # -- looking --

    def open(self) -> None:
        """Open the bus, or find why that is impossible."""
        name = str(self.report.name)
        with self._giving_up():
            self._bus = busq.Bus.open(name)
            with contextlib.suppress(FileNotFoundError):
                self._file = os.stat(leftovers.path_of(name))

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """A bus that turns out to be damaged is not looked at any further."""
        try:
            yield
        except (OSError, busq.BusqError) as error:
            self._bus = None
            self.report.opened = False
            self.report.facts = {"error": leftovers.text_of(error)}
            self.report.findings.append(_unopenable(str(self.report.name), error))

    def begin(self, repair: bool) -> None:
        """Look for the first time, and bury whoever died unnoticed."""
        if self._bus is not None:
            with self._giving_up():
                self._begin(self._bus, repair)

    def _begin(self, bus: busq.Bus, repair: bool) -> None:
        self._repairs = repair
        self._unnoticed = [peer for peer in bus.stats()["peers"] if peer["state"] == UNNOTICED]
        if repair:
            self._repair(bus)

    def _repair(self, bus: busq.Bus) -> None:
        done = bus.repair()
        self._buried += done.buried
        self._helped += done.helped

    def look(self, *, is_last: bool) -> None:
        """Look once more; at the groups with the last look alone."""
        if self._bus is not None:
            with self._giving_up():
                if is_last:  # before the peers: whoever enters after the look at them would be a member that is gone
                    self._views = self._bus.groups()
                self._stats = self._bus.stats()
                self._looks.append({peer["slot"]: peer for peer in self._stats["peers"]})
                if is_last:
                    self._seen = seen_in(self._bus, self._looks[-1])

    def _notice_late(self) -> None:
        """Some may have died while we looked."""
        known = {peer["slot"] for peer in self._unnoticed}
        late = [peer for peer in self._looks[-1].values() if peer["state"] == UNNOTICED and peer["slot"] not in known]
        self._unnoticed += late
        if late and self._repairs and self._bus is not None:
            self._repair(self._bus)
            self.look(is_last=True)

    def end(self, stale_fifos: Sequence[str]) -> Report:
        """Say what was found."""
        if self._bus is None:
            return self.report
        self._notice_late()
        self._peers = self._looks[-1]
        self._processes = {slot: process_of(peer, self._file) for slot, peer in self._peers.items()}
        self._find_deaths()
        self._find_stalled()
        cycles = self._cycles()
        self._find_cycles(cycles)
        self._find_waits_for_room({slot for cycle in cycles for slot in cycle})
        self._find_other_waits()
        self._find_queues()
        self._find_halted()
        self._find_views()
        self._find_memory()
        self._find_rest(stale_fifos)
        order = (WRONG, REPAIRED, NOTE)
        self.report.findings.sort(key=lambda finding: order.index(finding.level))
        self.report.facts = self._facts(cycles)
        self._bus.close()
        return self.report

    def _find(self, level: str, kind: str, text: str, remedy: str = "", **more: Any) -> None:
        self.report.findings.append(Finding(level, kind, text, remedy, **more))

    def _looks_at(self, slot: int) -> list[dict[str, Any]]:
        """All looks at the peer that has a slot now."""
        joined_s = self._peers[slot]["joined_s"]
        return [look[slot] for look in self._looks if slot in look and look[slot]["joined_s"] == joined_s]

    def _waits(self, slot: int) -> tuple[str, int | None, float] | None:
        """Return what a peer has waited for in most looks, for whom, and for how long at least."""
        looks = [(peer["waits"], peer["waits_for_slot"], peer["waited_s"]) for peer in self._looks_at(slot)]
        for kind, whom in {(kind, whom) for kind, whom, _ in looks if kind is not None}:
            times_s = [waited_s for *what, waited_s in looks if what == [kind, whom]]
            if 2 * len(times_s) > len(looks):
                return kind, whom, max(times_s)
        return None

    def _is_moving(self, slot: int) -> bool:
        """It has received something while we looked."""
        return len({peer["received"] for peer in self._looks_at(slot)}) > 1

    def _room_edges(self) -> dict[int, tuple[int, float]]:
        """Return which peers have waited for room in whose queue, and for how long."""
        edges = {}
        for slot, peer in self._peers.items():
            waits = self._waits(slot) if peer["alive"] else None
            if waits and waits[0] == "room" and waits[1] in self._peers and waits[2] >= WAIT_S_MIN:
                edges[slot] = (waits[1], waits[2])
        return edges

    # -- finding --

    def _find_stalled(self) -> None:
        if self._helped:
            what = "1 message stood" if self._helped == 1 else f"{self._helped} messages stood"
            remedy = "what waits behind can be received; its sender, if it lives, sends it again by itself"
            self._find(REPAIRED, "stalled", f"{what} still, half sent", remedy)

    def _find_deaths(self) -> None:
        still = {slot for slot, peer in self._peers.items() if peer["state"] == UNNOTICED}
        for peer in self._unnoticed:
            text = f"{peer['name']!r} had died and nobody had noticed"
            if peer["slot"] not in still:
                self._find(REPAIRED, "death", text, "what it was doing has been put in order", peers=(peer["name"],))
                continue
            remedy = f"busq doctor {self._quoted} puts in order what it left"
            if self._repairs:
                remedy = "another process was putting in order what it left, and seems to be stopped: continue that one"
            self._find(WRONG, "death", text, remedy, peers=(peer["name"],))

    def _cycles(self) -> list[list[int]]:
        """Peers that wait for room in each other's queues, round and round, while none of them receives."""
        edges = self._room_edges()
        cycles: list[list[int]] = []
        done: set[int] = set()
        for start in edges:
            path: list[int] = []
            slot = start
            while slot in edges and slot not in done and slot not in path:
                path.append(slot)
                slot = edges[slot][0]
            if slot in path:
                cycle = path[path.index(slot) :]
                if not any(self._is_moving(member) for member in cycle):
                    cycles.append(cycle)
            done.update(path)
        return cycles

    def _find_cycles(self, cycles: list[list[int]]) -> None:
        edges = self._room_edges()
        for cycle in cycles:
            members = [self._peers[slot] for slot in cycle]
            seconds = min(edges[slot][1] for slot in cycle)
            ring = " -> ".join(repr(peer["name"]) for peer in [*members, members[0]])
            text = (
                f"deadlock: {ring} have waited {duration(seconds)} for room in each other's queues, and none receives"
            )
            if len(cycle) == 1:
                text = f"{members[0]['name']!r} has waited {duration(seconds)} for room in its own queue"
            processes = [self._processes[slot] for slot in cycle]
            pids = [process.pid for process in processes if process.state not in ("unknown", "gone")]
            remedy = "give send() a timeout and receive in between; to get out now, end one of them"
            remedy += f", as with kill {pids[0]}" if pids else ""
            for process in processes:
                remedy = self._continue(process) if process.is_halted else remedy
            self._find(
                WRONG, "cycle", text, remedy, peers=tuple(peer["name"] for peer in members), seconds=round(seconds, 3)
            )

    def _find_waits_for_room(self, in_cycles: set[int]) -> None:
        edges = self._room_edges()
        by_target: dict[int, list[int]] = {}
        for slot, (target, _) in edges.items():
            if slot not in in_cycles:
                by_target.setdefault(target, []).append(slot)
        for target, slots in by_target.items():
            slots.sort(key=lambda slot: -edges[slot][1])
            waiters = [self._peers[slot] for slot in slots]
            seconds = edges[slots[0]][1]
            text = f"{listed([repr(peer['name']) for peer in waiters])} {'has' if len(slots) == 1 else 'have'} waited "
            text += f"{'' if len(slots) == 1 else 'up to '}{duration(seconds)} for room in the queue of "
            cause, remedy, is_wrong = self._why_full(target, edges, in_cycles)
            peers = tuple(peer["name"] for peer in [*waiters, self._peers[target]])
            level = WRONG if is_wrong else NOTE
            self._find(level, "waiting for room", text + cause, remedy, peers=peers, seconds=round(seconds, 3))

    def _why_full(
        self, target: int, edges: dict[int, tuple[int, float]], in_cycles: set[int], passed: tuple[int, ...] = ()
    ) -> tuple[str, str, bool]:
        """Why nothing is taken out of a queue, what to do, and whether that is wrong."""
        peer, process = self._peers[target], self._processes[target]
        name = repr(peer["name"])
        if not peer["alive"]:
            return f"{name}, which is {self._gone(peer)}", self._revive(peer), True
        if process.is_halted:
            return f"{name}, whose process {process.pid} is {process.state}", self._continue(process), True
        if target in in_cycles:
            return f"{name}, which is part of a deadlock", "see there", True
        if target in edges and not self._is_moving(target) and target not in passed:
            cause, remedy, is_wrong = self._why_full(edges[target][0], edges, in_cycles, (*passed, target))
            return f"{name}, which itself waits for {cause}", remedy, is_wrong
        if self._is_moving(target):
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
        for slot, peer in self._peers.items():
            waits = self._waits(slot) if peer["alive"] else None
            if not waits:
                continue
            kind, whom, seconds = waits
            if kind == "memory" and seconds >= WAIT_S_MIN:
                self._find_wait_for_memory(peer, seconds)
            if kind == "blocked" and seconds >= BLOCKED_S_MIN:
                sender = self._peers[whom]["name"] if whom in self._peers else None
                text = f"{peer['name']!r} has been blocked for {duration(seconds)} by a message"
                text += f" of {sender!r} that is not final" if sender else " that is not final"
                peers = (peer["name"], *([sender] if sender else []))
                process = self._processes[slot]
                remedy = "readers finish or pass such messages by themselves within 0.1 s: please report this"
                remedy = self._continue(process) if process.is_halted else remedy
                self._find(WRONG, "blocked", text, remedy, peers=peers, seconds=round(seconds, 3))

    def _find_wait_for_memory(self, peer: dict[str, Any], seconds: float) -> None:
        used, total = self._stats["arena_used_bytes"], self._stats["arena_bytes"]
        longest = max(self._peers.values(), key=lambda other: other["depth"])
        text = f"{peer['name']!r} has waited {duration(seconds)} for memory: {size(used)} of {size(total)} are in use"
        remedy = "let messages be received and views be released, or create the bus with a larger arena"
        if longest["depth"]:
            process = self._processes[longest["slot"]]
            text += f", and most messages ({longest['depth']:,}) wait for {longest['name']!r}"
            if not longest["alive"]:
                text, remedy = f"{text}, which is {self._gone(longest)}", self._revive(longest)
            elif process.is_halted:
                text, remedy = f"{text}, whose process {process.pid} is {process.state}", self._continue(process)
        peers = (peer["name"],)
        self._find(WRONG, "waiting for memory", text, remedy, peers=peers, seconds=round(seconds, 3))

    @property
    def _has_fixed_group(self) -> bool:
        """Whether each slot is given once: only bus1 can give one to somebody else."""
        return str(self._stats["order"]) != "bus1"

    def _waited_for(self) -> set[str]:
        return {finding.peers[-1] for finding in self.report.findings if finding.kind == "waiting for room"}

    def _find_queues(self) -> None:
        capacity = self._stats["capacity"]
        waited_for = self._waited_for()
        waited_for |= {name for finding in self.report.findings if finding.kind == "cycle" for name in finding.peers}
        for slot, peer in self._peers.items():
            is_full = peer["depth"] >= capacity
            name, peers = repr(peer["name"]), (peer["name"],)
            if not peer["alive"] and peer["depth"] and peer["state"] != "closing":
                count = amount(peer["depth"], "message")
                text = f"{name} is {self._gone(peer)}, and its queue holds {count}"
                if peer["durable"]:
                    text += ", which is all it can hold: whoever sends to it waits" if is_full else ""
                    self._find(WRONG if is_full else NOTE, "durable", text, self._revive(peer), peers=peers)
                else:
                    remedy = "kept for a resume until the room is needed; busq gc drops them now"
                    if self._has_fixed_group:
                        remedy = f"nobody can resume under order {self._stats['order']}: busq gc drops them"
                    self._find(NOTE, "left messages", text, remedy, peers=peers)
            elif peer["alive"] and is_full and peer["name"] not in waited_for and not self._is_moving(slot):
                if self._processes[slot].is_halted:
                    continue  # told with its process
                text = f"the queue of {name} is full ({amount(peer['depth'], 'message')}) and it receives nothing"
                self._find(NOTE, "full", text, "let it receive: the next send to it waits", peers=peers)

    def _find_halted(self) -> None:
        """Stopped processes that nobody waits for yet."""
        waited_for = self._waited_for()
        for slot, peer in self._peers.items():
            process = self._processes[slot]
            if not peer["alive"] or not process.is_halted or peer["name"] in waited_for:
                continue
            count = amount(peer["depth"], "message")
            text = f"process {process.pid} of {peer['name']!r} is {process.state}"
            text += f", and {count} wait for it" if peer["depth"] else ""
            level = WRONG if peer["depth"] else NOTE
            self._find(level, process.state, text, self._continue(process), peers=(peer["name"],))

    def _find_views(self) -> None:
        """Views that name dead members, and members that have not got to the latest one."""
        by_name = {peer["name"]: slot for slot, peer in self._peers.items()}
        for group, view in self._views.items():
            slots = {name: by_name[name] for name in view.members if name in by_name}
            living = [name for name, slot in slots.items() if self._peers[slot]["alive"]]
            dead = [name for name in view.members if name not in living]
            if dead:
                self._find_dead_members(group, view, dead, living)
            behind = [name for name in living if self._seen.get(group, {}).get(slots[name], 0) < view.number]
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
        for slot, peer in self._peers.items():
            if peer["name"] in names and self._processes[slot].is_halted:
                yield self._processes[slot]

    def _find_behind(self, group: str, view: View, name: str, slot: int) -> None:
        seen = self._seen.get(group, {}).get(slot, 0)
        where = f"it is in view {seen}" if seen else "it has entered, and received no view so far"
        text = f"{name!r} has not come to view {view.number} of {f'@{group}'!r}: {where}"
        process = self._processes[slot]
        remedy = self._continue(process) if process.is_halted else "let it receive"
        if len(view.members) > 1:
            remedy += "; until then, who enters may wait for a state that it has to give"
        self._find(NOTE, "view", text, remedy, peers=(name,))

    def _find_memory(self) -> None:
        used = self._stats["arena_used_bytes"]
        needed = any(peer["alive"] or peer["durable"] or peer["depth"] for peer in self._peers.values())
        is_used = any(peer["state"] in ("closing", UNNOTICED) for peer in self._peers.values())
        if used and not needed and not is_used:
            text = f"{size(used)} of memory are in use though nobody lives and no message waits"
            remedy = f"busq gc {self._quoted}; if that does not help, please report it"
            self._find(WRONG, "leak", text, remedy)

    def _find_rest(self, stale_fifos: Sequence[str]) -> None:
        if stale_fifos:
            text = f"{amount(len(stale_fifos), 'FIFO')} of peers that are gone: {stale_fifos[0]}"
            self._find(WRONG, "fifo", text, f"busq gc {self._quoted} removes them")
        for peer in self._peers.values():
            if peer["state"] == "closing":
                text = f"{peer['name']!r} has closed, but still looks at messages that it took"
                self._find(NOTE, "closing", text, "release their views", peers=(peer["name"],))
        if self._stats["shut_down"]:
            remedy = f"busq rm {self._quoted} when its last messages are received"
            self._find(NOTE, "shut down", "the bus was shut down", remedy)
        kept = sum(peer["alive"] or peer["durable"] for peer in self._peers.values())
        if self._has_fixed_group and len(self._peers) >= self._stats["peer_slots"]:
            order = self._stats["order"]
            text = f"all {len(self._peers)} places of the group are given, and order {order} gives each once"
            self._find(NOTE, "slots", text, "nobody else can join: create another bus, with more peers")
        elif kept >= self._stats["peer_slots"]:
            text = f"all {kept} peer slots are taken by live or durable peers: nobody else can join"
            self._find(NOTE, "slots", text, "close or remove some, or create the bus with more peers")

    # -- telling --

    def _facts(self, cycles: list[list[int]]) -> dict[str, Any]:
        names = {slot: peer["name"] for slot, peer in self._peers.items()}
        peers = []
        for slot, peer in self._peers.items():
            waits = self._waits(slot) if peer["alive"] else None
            kind, whom, seconds = waits or (None, None, 0.0)
            facts = {**peer, "waits": kind, "waits_for_slot": whom, "waited_s": seconds}
            facts["waits_for"] = names.get(whom) if whom is not None else None
            peers.append({**facts, "process": asdict(self._processes[slot])})
        gone = sum(peer["memory_bytes"] for peer in peers if peer["state"] in leftovers.GONE)
        keys = ("order", "capacity", "peer_slots", "segment_bytes", "created_s", "creator_pid", "shut_down")
        used = self._stats["arena_used_bytes"]
        memory = {"bytes": self._stats["arena_bytes"], "used_bytes": used, "gone_bytes": gone}
        return {
            **{key: self._stats[key] for key in keys},
            "memory": memory,
            "peers": peers,
            "groups": {
                group: {"view": view.number, "members": list(view.members)} for group, view in self._views.items()
            },
            "cycles": [[names[slot] for slot in cycle] for cycle in cycles],
            "buried": self._buried,
            "helped": self._helped,
        }


def _unopenable(name: str, error: OSError | busq.BusqError) -> Finding:
    """Say in words what keeps a bus from being opened, and what to do."""
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


def examine(
    names: Sequence[str] = (), *, repair: bool = True, pause: Callable[[float], None] = time.sleep
) -> list[Report]:
    """Look at buses, all of the directory where none are named, and return a report for each.

    Where no bus is named and FIFOs of buses that are gone lie in the directory, the last report is about them and has
    no name.  With `repair`, whoever died unnoticed is buried; no message is dropped.

    Errors: ValueError for a name that no bus can have; PermissionError, OSError for the directory.
    Cost: about a third of a second.

    >>> import busq
    >>> with busq.Bus.create("doc-doctor", peers=2) as bus:
    ...     [report.ok for report in examine(["doc-doctor"])]
    [True]
    >>> busq.Bus.unlink("doc-doctor")
    """
    patients = [_Patient(name) for name in dict.fromkeys(names or bus_names())]
    for patient in patients:
        patient.open()
        patient.begin(repair)
    for turn in range(LOOKS if any(patient.report.opened for patient in patients) else 0):
        pause(LOOK_EVERY_S if turn else 0)
        for patient in patients:
            patient.look(is_last=turn == LOOKS - 1)
    stale = leftovers.stale_fifos()
    reports = [patient.end([fifo for fifo, owner in stale if owner == patient.report.name]) for patient in patients]
    homeless = [fifo for fifo, owner in stale if owner is None]
    if homeless and not names:
        text = f"{amount(len(homeless), 'FIFO')} of buses that are gone, which nobody has open: {homeless[0]}"
        reports.append(Report(None, findings=[Finding(WRONG, "fifo", text, "busq gc removes them")]))
    return reports
