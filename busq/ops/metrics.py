# SPDX-License-Identifier: Apache-2.0
"""The counters of buses as OpenMetrics text, which Prometheus and others read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["exposition"]

# A key of `Bus.stats`, its metric without the prefix, its type, and what it is.
_OF_BUSES = (
    ("created_s", "created_timestamp_seconds", "gauge", "When the bus was created, in seconds since 1970."),
    ("peer_slots", "peer_slots", "gauge", "How many peers there is room for."),
    ("capacity", "queue_capacity_messages", "gauge", "How many messages a queue holds before senders wait."),
    ("arena_bytes", "arena_bytes", "gauge", "Memory for messages in flight."),
    ("arena_used_bytes", "arena_used_bytes", "gauge", "Memory of messages in flight."),
    ("segment_bytes", "segment_bytes", "gauge", "Shared memory in all."),
    ("shut_down", "shut_down", "gauge", "1 once the bus was shut down."),
)
_OF_PEERS = (
    ("alive", "alive", "gauge", "1 while the peer lives, as the kernel knows it."),
    ("depth", "queue_messages", "gauge", "Messages in its queue."),
    ("memory_bytes", "memory_bytes", "gauge", "Memory of messages that it has sent and that are in flight."),
    ("waited_s", "waited_seconds", "gauge", "For how long it has been waiting."),
    ("sent", "sent_messages", "counter", "Messages that it has sent."),
    ("received", "received_messages", "counter", "Messages that it has received."),
    ("late", "late_messages", "counter", "Messages that it has sent and whose first place in the order was taken."),
    ("helped", "helped_messages", "counter", "Messages of others that it has completed, or put off."),
)


def exposition(buses: Mapping[str, dict[str, Any] | None]) -> str:
    """Return the text for buses by name: their facts, as `Bus.stats` returns them, or None where one can't be opened.

    A sample has the name and the slot of its peer, since a peer that asks has a second slot.
    """
    lines = [*_head("busq_bus_up", "gauge", "1 if the bus can be opened.")]
    lines += [_sample("busq_bus_up", {"bus": name}, facts is not None) for name, facts in buses.items()]
    there = {name: facts for name, facts in buses.items() if facts is not None}
    for key, metric, kind, text in _OF_BUSES:
        lines += _head(f"busq_bus_{metric}", kind, text)
        lines += [_sample(f"busq_bus_{metric}", {"bus": name}, facts[key]) for name, facts in there.items()]
    for key, metric, kind, text in _OF_PEERS:
        lines += _head(f"busq_peer_{metric}", kind, text)
        suffix = "_total" if kind == "counter" else ""
        for labels, peer in _peers(there):
            lines.append(_sample(f"busq_peer_{metric}{suffix}", labels, peer[key]))
    return "\n".join([*lines, "# EOF", ""])


def _peers(buses: Mapping[str, dict[str, Any]]) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    for name, facts in buses.items():
        for peer in facts["peers"]:
            yield {"bus": name, "peer": peer["name"], "slot": str(peer["slot"])}, peer


def _head(metric: str, kind: str, text: str) -> list[str]:
    return [f"# TYPE {metric} {kind}", f"# HELP {metric} {text}"]


def _sample(metric: str, labels: Mapping[str, str], value: float) -> str:
    inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{metric}{{{inner}}} {float(value) if isinstance(value, float) else int(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
