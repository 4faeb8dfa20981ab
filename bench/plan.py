# SPDX-License-Identifier: Apache-2.0
"""What is measured: senders and receivers, sizes, depths, how often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

SIZE_BYTES_MIN = 64
SIZE_BYTES_MAX = 1 << 20
BATCH = 100
BUSY = 4  # processes that do nothing but want the cores
SIZES_BYTES = (64, 1024, 65536, 1 << 20)

# Up to this size the whole content of each message is compared; above it the length and the first byte.
COMPARED_BYTES_MAX = 4096

WAITING = (10, 1_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Workload:
    """Senders and receivers, and the question that they answer.

    `targets[i]` are the processes to which process i sends. `kind` names the loops: "stream" (send for a while, count
    on the other side), "ping" (one message goes to and fro), "windows" (all send a few, then receive them), "depth".
    """

    name: str
    question: str
    kind: str
    targets: tuple[tuple[int, ...], ...]
    sizes_bytes: tuple[int, ...] = (64,)  # of the default plan
    metric: str = "rate_per_s"
    batch: bool = False  # the default plan measures it in batches too
    asleep: bool = False  # each process on its own core, and no process spins
    by_name: bool = False  # measured only where it is asked for: many processes, which take long to start
    work_us: tuple[float, float] | None = None  # of a regime: for each message at the sender, at the receiver
    burst: int = 1  # so many messages are sent in a row, and the sender's work for all of them follows

    @property
    def processes(self) -> int:
        """How many processes take part."""
        return len(self.targets)

    @property
    def receivers(self) -> tuple[int, ...]:
        """The processes that are sent to, ascending."""
        return tuple(sorted({target for targets in self.targets for target in targets}))

    def senders_to(self, receiver: int) -> tuple[int, ...]:
        """The processes that send to `receiver`, ascending."""
        return tuple(i for i, targets in enumerate(self.targets) if receiver in targets)


_ALL = (
    Workload(
        name="one_to_one",
        question="How many messages per second go from one process to another?",
        kind="stream",
        targets=((1,), ()),
        sizes_bytes=SIZES_BYTES,
        batch=True,
    ),
    Workload(
        name="ping_pong",
        question="How long does a message take to and fro while both sides are awake?",
        kind="ping",
        targets=((1,), (0,)),
        metric="rtt_us_p50",
    ),
    Workload(
        name="ping_pong_asleep",
        question="How long does it take where each side sleeps on a core of its own?",
        kind="ping",
        targets=((1,), (0,)),
        metric="rtt_us_p50",
        asleep=True,
    ),
    Workload(
        name="fan_out",
        question="How many messages per second go from one process to each of four?",
        kind="stream",
        targets=((1, 2, 3, 4), (), (), (), ()),
        batch=True,
    ),
    Workload(
        name="fan_in",
        question="How many messages per second go from four processes to one?",
        kind="stream",
        targets=((), (0,), (0,), (0,), (0,)),
        batch=True,
    ),
    Workload(
        name="all_to_all",
        question="How many deliveries per second while each of four processes sends to all four?",
        kind="windows",
        targets=((0, 1, 2, 3),) * 4,
        metric="deliveries_per_s",
    ),
    Workload(
        name="fan_out_16",
        question="How many messages per second go from one process to each of sixteen?",
        kind="stream",
        targets=(tuple(range(1, 17)), *((),) * 16),
        by_name=True,
    ),
    Workload(
        name="fan_out_60",
        question="How many messages per second go from one process to each of sixty?",
        kind="stream",
        targets=(tuple(range(1, 61)), *((),) * 60),
        by_name=True,
    ),
    Workload(
        name="all_to_all_60",
        question="How many deliveries per second while each of sixty processes sends to all sixty?",
        kind="windows",
        targets=(tuple(range(60)),) * 60,
        metric="deliveries_per_s",
        by_name=True,
    ),
    Workload(
        name="depth",
        question="What does an operation cost while many messages wait?",
        kind="depth",
        targets=((0, 1), ()),
        metric="ns_per_op",
    ),
)

# One to one, where either side has other work for each message: which of them bounds the stream, and what a message
# costs above that work.
WORK_US = (0.3, 1.0, 3.0)
BURST = 64


def _regime(kind: str, us: float, sender_us: float, receiver_us: float, burst: int = 1) -> Workload:
    return Workload(
        name=f"{kind}_{round(us * 1000)}ns",
        question="What does a message cost above the work that either side has for it?",
        kind="stream",
        targets=((1,), ()),
        metric="ns_above_work",
        work_us=(sender_us, receiver_us),
        burst=burst,
    )


REGIMES = (
    *(_regime("balanced", us, us, us) for us in (0.0, *WORK_US)),
    *(_regime("sender_works", us, us, 0.0) for us in WORK_US),
    *(_regime("receiver_works", us, 0.0, us) for us in WORK_US),
    *(_regime("bursts", us, us, 0.0, BURST) for us in WORK_US),
)
REGIME_PEERS = ("busq", "hyperq", "c-ring", "iceoryx2", "faster-fifo-raw")

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in (*_ALL, *REGIMES)}

# What orders are compared by, unless something else is asked for.
ORDER_WORKLOADS = ("one_to_one", "ping_pong", "fan_out", "fan_in", "all_to_all")
ORDER_SIZES_BYTES = (64,)


@dataclass(frozen=True)
class Case:
    """One thing to measure, once: a peer under a workload."""

    workload: Workload = field(repr=False)
    peer: str
    size_bytes: int
    calls: int = 1  # messages per call: 1, or BATCH
    waiting: int = 0  # depth only: messages in each queue
    stale: bool = False  # depth only: every proposal is lost
    busy: int = 0  # processes beside it that do nothing but want the cores

    @property
    def label(self) -> str:
        """A short name for progress lines."""
        parts = [self.peer, self.workload.name, size_text(self.size_bytes)]
        if self.calls > 1:
            parts.append(f"{self.calls} per call")
        if self.workload.kind == "depth":
            parts.append(f"{self.waiting} waiting" + (", stale" if self.stale else ""))
        if self.busy:
            parts.append(f"beside {self.busy} busy")
        return " ".join(parts)

    @property
    def depth(self) -> int:
        """How many messages a queue holds: the same for every peer that counts messages."""
        return max(8, min(8192, self._queue_bytes_wanted // (self.size_bytes + 64)))

    @property
    def queue_bytes(self) -> int:
        """How many bytes a queue holds: the same for every peer that counts bytes."""
        return max(self._queue_bytes_wanted, self.depth * (self.size_bytes + 64))

    @property
    def _queue_bytes_wanted(self) -> int:
        """Sizes at which every peer does well: larger queues leave the cache, smaller ones make senders wait."""
        return 1 << 20 if self.size_bytes <= 4096 else 4 << 20

    @property
    def window(self) -> int:
        """How many multicasts a process sends before it receives. Two windows of all senders fit any queue."""
        return 16 if self.size_bytes <= 4096 else 4 if self.size_bytes <= 65536 else 1

    @property
    def chunk(self) -> int:
        """How many messages a sender sends between two looks at the time."""
        return 256 if self.size_bytes <= 4096 else 16 if self.size_bytes <= 65536 else 2


def size_text(size_bytes: int) -> str:
    """`size_bytes` for people.

    >>> size_text(64), size_text(65536), size_text(1 << 20)
    ('64 B', '64 KiB', '1 MiB')
    """
    if size_bytes >= 1 << 20 and size_bytes % (1 << 20) == 0:
        return f"{size_bytes >> 20} MiB"
    if size_bytes >= 1 << 10 and size_bytes % (1 << 10) == 0:
        return f"{size_bytes >> 10} KiB"
    return f"{size_bytes} B"


def cases(
    peers: Iterable[str], workloads: Iterable[str], sizes_bytes: Iterable[int] | None = None, busy: int = 0
) -> list[Case]:
    """Every combination that is asked for, with the peers of one question next to each other.

    `sizes_bytes` of None takes each workload's own; with `busy` processes beside, whatever waits awake is listed twice.
    Cases that a peer cannot do are still listed: the runner reports why.
    """
    chosen = None if sizes_bytes is None else tuple(sizes_bytes)
    for size_bytes in chosen or ():
        if not SIZE_BYTES_MIN <= size_bytes <= SIZE_BYTES_MAX:
            raise ValueError(f"size {size_bytes} B: expected {SIZE_BYTES_MIN} to {SIZE_BYTES_MAX}")
    listed = tuple(peers)
    return [case for name in workloads for case in _cases_of(WORKLOADS[name], listed, chosen, busy)]


def _cases_of(
    workload: Workload, peers: tuple[str, ...], sizes_bytes: tuple[int, ...] | None, busy: int
) -> Iterator[Case]:
    if workload.kind == "depth":
        for waiting in WAITING:
            for stale in (False, True):
                for peer in peers:
                    yield Case(workload, peer, workload.sizes_bytes[0], waiting=waiting, stale=stale)
        return
    if workload.work_us is not None:
        peers = tuple(peer for peer in peers if peer in REGIME_PEERS)
    for size_bytes in workload.sizes_bytes if sizes_bytes is None else sizes_bytes:
        for beside in (0, busy) if busy and not workload.asleep else (0,):
            for peer in peers:
                yield Case(workload, peer, size_bytes, busy=beside)
            if workload.batch and size_bytes <= COMPARED_BYTES_MAX:
                for peer in peers:
                    yield Case(workload, peer, size_bytes, calls=BATCH, busy=beside)
