# SPDX-License-Identifier: Apache-2.0
"""The lines that busq has to reach, and whether a run reached them.

A line compares two figures of the same run. Rates are compared busq over peer, and must be at least the required ratio;
times are compared busq over peer, and must be at most that. A line without a peer bounds a time itself, from above.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .plan import BATCH, BUSY, REGIMES, WORKLOADS, size_text

Point = dict[str, Any]
TIMES = ("rtt_us_p50", "ns_per_op", "ns_above_work")
BOUNDS = {"at least": operator.ge, "at most": operator.le, "below": operator.lt}


@dataclass(frozen=True)
class Line:
    """One requirement: `ours` under `workload`, against `peer`.

    `calls` is the number of messages per call. The two sides differ in workload or calls where that is the question.
    """

    workload: str
    required: float
    peer: str | None
    size_bytes: int = 64
    calls: int = 1
    peer_calls: int = 1
    peer_workload: str | None = None
    ours: str = "busq"
    busy: int = 0

    @property
    def metric(self) -> str:
        """The figure of ours that is compared."""
        return WORKLOADS[self.workload].metric

    @property
    def peer_metric(self) -> str:
        """The figure of the peer's that it is compared with."""
        return WORKLOADS[self.peer_workload or self.workload].metric

    @property
    def text(self) -> str:
        """The line in words."""
        what = f"{self.ours} {self.workload} {size_text(self.size_bytes)}"
        if self.calls > 1:
            what += f", {self.calls} per call"
        if self.busy:
            what += f", beside {self.busy} busy"
        if self.peer is None:
            return what
        how = " ".join(
            [self.peer]
            + ([self.peer_workload] if self.peer_workload else [])
            + ([f"{self.peer_calls} per call"] if self.peer_calls != self.calls else [])
        )
        return f"{what} against {how}"


LINES = (
    Line("one_to_one", 12.0, "mp.Queue"),
    Line("one_to_one", 1.2, "zmq-push"),
    Line("one_to_one", 5.0, "iceoryx2"),
    Line("one_to_one", 2.0, "hyperq"),
    Line("one_to_one", 1.2, "hyperq", busy=BUSY),
    *(Line(regime.name, 0.5, "hyperq") for regime in REGIMES),
    Line("all_to_all", 2.0, "hyperq"),
    Line("all_to_all", 1.2, "hyperq", busy=BUSY),
    Line("all_to_all", 3.5, "zmq-push"),
    Line("all_to_all", 3.5, "zmq-pub"),
    Line("all_to_all", 3.5, "iceoryx2"),
    Line("fan_in", 1.2, "hyperq"),
    Line("fan_out", 1.0, "zmq-pub"),
    Line("fan_out", 0.7, "hyperq"),
    Line("ping_pong", 1.2, None),
    Line("ping_pong", 1.5, "c-ring"),
    Line("ping_pong", 1.5, "c-ring", busy=BUSY),
    Line("ping_pong_asleep", 1.15, "c-floor"),
    Line("one_to_one", 2.0, "hyperq", calls=BATCH),
    Line("one_to_one", 6.0, "faster-fifo-raw", calls=BATCH, peer_calls=BATCH),
    Line("one_to_one", 1.2, "iceoryx2", size_bytes=65536),
    Line("one_to_one", 1.1, "iceoryx2", size_bytes=1 << 20),
    Line("one_to_one", 0.8, "c-floor", ours="busq-c"),
    Line("all_to_all", 0.9, "c-floor", ours="busq-c", peer_workload="one_to_one"),
)

# An operation at 10^6 waiting messages may cost log(10^6) / log(10) times what it costs at 10.
GROWTH_MAX = 6.0
GROWTH_FROM, GROWTH_TO = 10, 1_000_000


def judge(points: Iterable[Point]) -> list[dict[str, Any]]:
    """Every line: what was measured, what is required, whether it is met; "met" is None where a figure is missing."""
    listed = [point for point in points if point["status"] == "ok"]
    return [_judge_line(line, listed) for line in LINES] + _judge_growth(listed)


def passed(result: dict[str, Any]) -> bool:
    """Whether busq did what it claims, without a loss or a failure, and reached every line that was measured."""
    ours = [point for point in result["points"] if point["peer"].startswith("busq") or "order" in point]
    faults = [point for point in ours if point.get("failures") or point.get("lost") or not in_order(point)]
    return not faults and all(line["met"] is not False for line in result["lines"])


def in_order(point: dict[str, Any]) -> bool:
    """Whether a peer that claims one order for all receivers kept it in every repeat."""
    return not point["ordered"] or "same_order" not in point or point["same_order"] == len(point["repeats"])


def _judge_line(line: Line, points: list[Point]) -> dict[str, Any]:
    ours = find(points, line.ours, line.workload, line.size_bytes, line.calls, line.busy)
    verdict: dict[str, Any] = {
        "line": line.text,
        "workload": line.workload,
        "size_bytes": line.size_bytes,
        "calls": line.calls,
        "busy": line.busy,
        "ours": line.ours,
        "peer": line.peer,
        "metric": line.metric,
        "bound": "below" if line.peer is None else "at most" if line.metric in TIMES else "at least",
        "required": line.required,
        "measured": None,
        "met": None,
    }
    if line.peer is None:
        measured = None if ours is None else float(ours[line.metric])
    else:
        peer_workload = line.peer_workload or line.workload
        theirs = find(points, line.peer, peer_workload, line.size_bytes, line.peer_calls, line.busy)
        measured = None if ours is None or theirs is None else ours[line.metric] / theirs[line.peer_metric]
    if measured is not None:
        verdict |= {"measured": measured, "met": BOUNDS[verdict["bound"]](measured, line.required)}
    return verdict


def _judge_growth(points: list[Point]) -> list[dict[str, Any]]:
    costs = {(p["peer"], p["stale"], p["waiting"]): p["ns_per_op"] for p in points if p["workload"] == "depth"}
    verdicts = []
    for stale in (False, True):
        few, many = (costs.get(("busq-c", stale, waiting)) for waiting in (GROWTH_FROM, GROWTH_TO))
        measured = None if few is None or many is None else many / few
        lost = ", proposals lost" if stale else ""
        verdicts.append(
            {
                "line": f"busq-c depth, {GROWTH_TO:,} waiting against {GROWTH_FROM}{lost}",
                "workload": "depth",
                "size_bytes": 64,
                "calls": 1,
                "busy": 0,
                "ours": "busq-c",
                "peer": "busq-c",
                "stale": stale,
                "metric": "ns_per_op",
                "bound": "at most",
                "required": GROWTH_MAX,
                "measured": measured,
                "met": None if measured is None else measured <= GROWTH_MAX,
            }
        )
    return verdicts


def find(points: Iterable[Point], peer: str, workload: str, size_bytes: int, calls: int, busy: int = 0) -> Point | None:
    """The point of these parameters, if it was measured."""
    wanted = (peer, workload, size_bytes, calls, busy)
    names = ("peer", "workload", "size_bytes", "calls", "busy")
    return next((p for p in points if tuple(p[name] for name in names) == wanted), None)
