# SPDX-License-Identifier: Apache-2.0
"""Many cases, interleaved and repeated.

The whole list of cases is walked once per repeat, each time from another start: what drifts, drifts for all. Figures
are medians over the repeats; ratios are ratios of medians, with the smallest and largest ratio within one repeat.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import case_run, machine, required
from .peers import ADAPTERS
from .peers.base import Adapter
from .peers.ours import OrderAdapter
from .plan import ORDER_SIZES_BYTES, ORDER_WORKLOADS, REGIME_PEERS, WORKLOADS, Case, cases

Progress = Callable[[int, int, str], None]

OURS = "busq"
NATIVE = "bus1"  # the order with which all others are compared
HANGS_MAX = 2  # after so many a case is not tried again
FIGURES = (
    "rate_per_s",
    "deliveries_per_s",
    "bytes_per_s",
    "rtt_us_min",
    "rtt_us_p50",
    "rtt_us_p99",
    "rtt_us_p999",
    "ns_per_op",
    "ns_above_work",
    "own_ns",
    "cpu_us_per_delivery",
)


def available() -> dict[str, str | None]:
    """Every peer by name, with the reason why it can't be measured here, or None.

    >>> "mp.Queue" in available()
    True
    """
    return {name: adapter.missing() for name, adapter in ADAPTERS.items()}


def run(
    peers: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    repeats: int = 5,
    seconds: float = 0.5,
    progress: Progress | None = None,
    busy: int = 0,
    patience_s: float = case_run.GRACE_SECONDS,
) -> dict[str, Any]:
    """Measure and give back everything as one JSON-able object.

    peers: names, as `available()` lists them; None is all of them. workloads: names of `WORKLOADS`; None is all but
    those of many processes, with the regimes of work where two peers that are measured under them are compared.
    sizes: bytes, 64 to 1 MiB; None takes each workload's own. seconds: time of measuring per case and repeat.
    progress: called before each measurement with (number, of how many, label). busy: measure what waits awake once
    more, beside so many processes that do nothing but want the cores. patience_s: how long a case may take beyond
    `seconds`, of time in which its processes have a processor.
    A peer that is missing, refuses a case, fails or hangs is reported in its points and stops nothing.
    Raises ValueError for an unknown name, a size out of range, fewer than 1 repeat or a time that is not above 0.

    Costs about (seconds + 0.2) times the number of cases times repeats.

    >>> result = run(["mp.Pipe"], ["one_to_one"], [64], repeats=1, seconds=0.05)
    >>> result["points"][0]["lost"]
    0
    """
    chosen_peers = chosen("peer", peers, ADAPTERS)
    asked = usual(chosen_peers) if workloads is None else chosen("workload", workloads, WORKLOADS)
    listed = cases(chosen_peers, asked, sizes, busy)
    result = _run(listed, ADAPTERS, repeats, seconds, progress, patience_s)
    return result | {"ours": OURS, "ratios": ratios(result["points"]), "lines": required.judge(result["points"])}


def usual(peers: Sequence[str]) -> list[str]:
    """The workloads that are measured unless others are asked for."""
    are_compared = len(set(peers) & set(REGIME_PEERS)) > 1
    return [name for name, w in WORKLOADS.items() if not w.by_name and (w.work_us is None or are_compared)]


def run_orders(
    orders: Sequence[str],
    workloads: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    repeats: int = 5,
    seconds: float = 0.5,
    progress: Progress | None = None,
    patience_s: float = case_run.GRACE_SECONDS,
) -> dict[str, Any]:
    """Measure a bus under these orders, and under bus1, with which they are compared; the object is that of `run`.

    workloads: None is those of `ORDER_WORKLOADS`. sizes: None is 64 B. All else as for `run`.

    >>> result = run_orders(["bus1"], ["ping_pong"], repeats=1, seconds=0.05)
    >>> [(point["order"], point["status"]) for point in result["points"]]
    [('bus1', 'ok')]
    """
    adapters = {order: OrderAdapter(order) for order in dict.fromkeys([*orders, NATIVE])}
    asked = ORDER_WORKLOADS if workloads is None else chosen("workload", workloads, WORKLOADS)
    listed = cases(adapters, asked, ORDER_SIZES_BYTES if sizes is None else sizes)
    listed = [case for case in listed if adapters[case.peer].refuses(case) is None]
    if not listed:
        raise ValueError(f"workloads {', '.join(asked)}: orders are measured under {', '.join(ORDER_WORKLOADS)}")
    result = _run(listed, adapters, repeats, seconds, progress, patience_s)
    points = [point | {"order": point["peer"]} for point in result["points"]]
    return result | {"ours": NATIVE, "points": points, "ratios": ratios(points, NATIVE), "lines": []}


def _run(
    listed: list[Case],
    adapters: Mapping[str, Adapter],
    repeats: int,
    seconds: float,
    progress: Progress | None,
    patience_s: float,
) -> dict[str, Any]:
    """What was measured, and on what."""
    check_settings(repeats, seconds)
    peers = list(dict.fromkeys(case.peer for case in listed))
    described = machine.describe({peer: adapters[peer] for peer in peers})
    missing = {peer: adapters[peer].missing() for peer in peers}
    skipped = {case: _reason_to_skip(case, adapters[case.peer], missing[case.peer]) for case in listed}
    todo = [case for case in listed if skipped[case] is None]
    outcomes = _measure(todo, adapters, repeats, seconds, progress, patience_s)
    points = [_point(case, adapters[case.peer], skipped[case], outcomes.get(case, [])) for case in listed]
    return {
        "machine": described | {"load_after": machine.load()},
        "settings": {"repeats": repeats, "seconds": seconds},
        "points": points,
    }


def _reason_to_skip(case: Case, adapter: Adapter, missing: str | None) -> tuple[str, str] | None:
    """(status, reason) of a case that can't be measured: its peer is not there, or is not made for it."""
    if missing is not None:
        return "missing", missing
    refused = adapter.refuses(case)
    return None if refused is None else ("refused", refused)


def check_settings(repeats: int, seconds: float) -> None:
    """Raise ValueError where nothing could be measured."""
    if repeats < 1 or not 0 < seconds <= 3600:
        raise ValueError(f"repeats {repeats}, seconds {seconds}: expected at least 1, and more than 0 up to 3600")


def chosen(what: str, names: Sequence[str] | None, known: Mapping[str, Any]) -> list[str]:
    """The names that are asked for, each once; all of the known ones for None.  Raises ValueError for another one."""
    asked = list(known) if names is None else list(dict.fromkeys(names))
    for name in asked:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; there are {', '.join(known)}")
    return asked


def _measure(
    todo: list[Case],
    adapters: Mapping[str, Adapter],
    repeats: int,
    seconds: float,
    progress: Progress | None,
    patience_s: float,
) -> dict[Case, list[tuple[int, case_run.Outcome]]]:
    """(repeat, outcome) of every measurement, by case."""
    outcomes: dict[Case, list[tuple[int, case_run.Outcome]]] = {case: [] for case in todo}
    number = 0
    for repeat in range(repeats):
        start = repeat * len(todo) // repeats
        for case in todo[start:] + todo[:start]:
            number += 1
            if progress is not None:
                progress(number, repeats * len(todo), case.label)
            if sum(outcome["status"] == "hung" for _, outcome in outcomes[case]) < HANGS_MAX:
                with case_run.crowd(case.busy):
                    outcomes[case].append((repeat, case_run.measure(case, adapters[case.peer], seconds, patience_s)))
    return outcomes


def _point(
    case: Case, adapter: Adapter, skipped: tuple[str, str] | None, outcomes: list[tuple[int, case_run.Outcome]]
) -> dict[str, Any]:
    """One object of named parameters, medians and raw repeats."""
    point: dict[str, Any] = {
        "workload": case.workload.name,
        "peer": case.peer,
        "size_bytes": case.size_bytes,
        "calls": case.calls,
        "busy": case.busy,
        "processes": case.workload.processes,
        "ordered": adapter.ordered,
    }
    if case.workload.kind == "depth":
        point |= {"waiting": case.waiting, "stale": case.stale}
    if skipped is not None:
        return point | {"status": skipped[0], "reason": skipped[1]}
    good = [(repeat, outcome) for repeat, outcome in outcomes if outcome["status"] == "ok"]
    failures = [outcome["reason"] for _, outcome in outcomes if outcome["status"] != "ok"]
    point |= {"status": "ok" if good else "failed", "repeats": [repeat for repeat, _ in good]}
    if failures:
        point |= {"failures": len(failures), "reason": failures[0]}
    for figure in FIGURES:
        values = [outcome[figure] for _, outcome in good if figure in outcome]
        if values:
            point |= {figure: statistics.median(values), f"{figure}_repeats": values}
    if values := point.get(f"{case.workload.metric}_repeats"):
        point["spread"] = max(values) / min(values)
    if any("lost" in outcome for _, outcome in good):
        point["lost"] = sum(outcome["lost"] for _, outcome in good)
    if any("same_order" in outcome for _, outcome in good):
        point["same_order"] = sum(outcome["same_order"] for _, outcome in good)
    return point


def ratios(points: Sequence[dict[str, Any]], ours_name: str = OURS) -> list[dict[str, Any]]:
    """busq (or the order that has this name) against every other peer at the same parameters; above 1, it is ahead.

    Rates are ours over theirs, times theirs over ours. A peer that receives in place is compared with busq doing so.
    """
    ratios_: list[dict[str, Any]] = []
    good = [point for point in points if point["status"] == "ok"]
    for point in good:
        metric = WORKLOADS[point["workload"]].metric
        name = f"{ours_name}-view" if point["peer"].endswith("-view") else ours_name
        ours = required.find(good, name, point["workload"], point["size_bytes"], point["calls"], point["busy"])
        if point["workload"] == "depth" or point["peer"].startswith(ours_name) or ours is None:
            continue
        ours_by_repeat = dict(zip(ours["repeats"], ours[f"{metric}_repeats"], strict=True))
        theirs_by_repeat = dict(zip(point["repeats"], point[f"{metric}_repeats"], strict=True))

        def ahead(mine: float, other: float, metric: str = metric) -> float:
            return other / mine if metric in required.TIMES else mine / other

        both = ours_by_repeat.keys() & theirs_by_repeat.keys()
        within = [ahead(ours_by_repeat[repeat], theirs_by_repeat[repeat]) for repeat in both]
        ratios_.append(
            {
                "workload": point["workload"],
                "size_bytes": point["size_bytes"],
                "calls": point["calls"],
                "busy": point["busy"],
                "peer": point["peer"],
                "metric": metric,
                "ratio": ahead(ours[metric], point[metric]),
                "ratio_min": min(within, default=None),
                "ratio_max": max(within, default=None),
            }
        )
    return ratios_
