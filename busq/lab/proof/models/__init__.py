# SPDX-License-Identifier: Apache-2.0
"""The models, a file each; `MODELS` has them by name, and `VIOLATIONS` what comes of their mutants."""

from __future__ import annotations

from collections.abc import Mapping

from busq.lab.proof.logic import System
from busq.lab.proof.models import (
    bridge,
    bridge_violations,
    burial,
    burial_violations,
    bus1,
    bus1_violations,
    causal,
    causal_violations,
    cykas,
    cykas_violations,
    fifo,
    fifo_ack,
    fifo_ack_violations,
    fifo_violations,
    groups,
    groups_violations,
    lamport,
    lamport_release,
    lamport_release_violations,
    lamport_violations,
    mfss,
    mfss_violations,
    multicast,
    multicast_violations,
    patience,
    patience_violations,
    records,
    records_violations,
    sequencer,
    sequencer_violations,
    share,
    share_violations,
    skeen,
    skeen_violations,
    sync,
    sync_violations,
    token,
    token_rest,
    token_rest_violations,
    token_violations,
)
from busq.lab.proof.states import Violation

__all__ = ["MODELS", "VIOLATIONS"]

MODELS: dict[str, System] = {
    system.name: system
    for system in (
        *(multicast.SYSTEM, patience.SYSTEM, share.SYSTEM, groups.SYSTEM, records.SYSTEM, burial.SYSTEM),
        bridge.SYSTEM,
        *(bus1.SYSTEM, fifo.SYSTEM, fifo_ack.SYSTEM),
        *(skeen.SYSTEM, cykas.SYSTEM, mfss.SYSTEM, sync.SYSTEM),
        *(token.SYSTEM, token_rest.SYSTEM, sequencer.SYSTEM, lamport.SYSTEM, lamport_release.SYSTEM, causal.SYSTEM),
    )
}
VIOLATIONS: dict[str, Mapping[str, Violation]] = {
    "multicast": multicast_violations.VIOLATIONS,
    "patience": patience_violations.VIOLATIONS,
    "share": share_violations.VIOLATIONS,
    "groups": groups_violations.VIOLATIONS,
    "records": records_violations.VIOLATIONS,
    "burial": burial_violations.VIOLATIONS,
    "bridge": bridge_violations.VIOLATIONS,
    "bus1": bus1_violations.VIOLATIONS,
    "fifo": fifo_violations.VIOLATIONS,
    "fifo-ack": fifo_ack_violations.VIOLATIONS,
    "skeen": skeen_violations.VIOLATIONS,
    "cykas": cykas_violations.VIOLATIONS,
    "mfss": mfss_violations.VIOLATIONS,
    "sync": sync_violations.VIOLATIONS,
    "token": token_violations.VIOLATIONS,
    "token-rest": token_rest_violations.VIOLATIONS,
    "sequencer": sequencer_violations.VIOLATIONS,
    "lamport": lamport_violations.VIOLATIONS,
    "lamport-release": lamport_release_violations.VIOLATIONS,
    "causal-matrix": causal_violations.VIOLATIONS,
}
