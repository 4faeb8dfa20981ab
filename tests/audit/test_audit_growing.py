# SPDX-License-Identifier: Apache-2.0
"""Logs that another program writes while they are judged."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from busq.audit.many import audit_source
from busq.audit.native import audit
from busq.trace import find, places, read

Grow = Callable[[Path, bytes], None]


@pytest.fixture
def grow(monkeypatch: pytest.MonkeyPatch) -> Grow:
    """Let a file grow by so much at each look at it, as under a program that is faster than the audit."""
    more: dict[str, bytes] = {}

    class Growing(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert size > 0, "an end that moves is never reached"
            data = super().read(size)
            with open(self.name, "ab") as file:
                file.write(more.get(str(self.name), b""))
            return data

    monkeypatch.setattr(places, "opened", lambda path: Growing(path))
    return lambda path, each: more.update({str(path): each})


def judged(folder: Path, grow: Grow, names: dict[str, bytes]) -> dict[str, str]:
    (source,) = find([folder]).sources
    for name, each in names.items():
        grow(folder / name, each)
    run = audit(read(source))
    assert [finding.kind for finding in run.findings] == ["growing"]
    return {name: check.verdict for name, check in run.checks.items() if check.claimed}


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_what_stood_there_at_first_is_judged(grow: Grow, ending: str, tmp_path: Path) -> None:
    lines = {
        "csv": b"node,event,id,to\nann,send,1,bob\nbob,deliver,1,\nann,se",
        "ndjson": b'{"node": "ann", "event": "send", "id": 1, "to": "bob"}\n'
        b'{"node": "bob", "event": "deliver", "id": 1}\n{"node": "ann", ',
    }
    (tmp_path / f"a.{ending}").write_bytes(lines[ending])
    found = judged(tmp_path, grow, {f"a.{ending}": b"nd,2,bob\n"})
    assert set(found.values()) == {"valid"}


def test_a_delivery_whose_send_was_written_meanwhile_is_not_invented(grow: Grow, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("node,event,id,to\nann,send,1,bob\n")
    (tmp_path / "b.csv").write_text("node,event,id,to\nbob,deliver,1,\nbob,deliver,2,\n")
    found = judged(tmp_path, grow, {"a.csv": b"ann,send,2,bob\n"})
    assert {name for name, verdict in found.items() if verdict != "valid"} == {"phantom"}
    assert found["phantom"] == "unknown"


def test_what_is_followed_is_judged_as_it_is(grow: Grow, tmp_path: Path) -> None:
    """There, what is missing has to be missing for a while."""
    (tmp_path / "a.csv").write_text("node,event,id,to\nann,send,1,bob\nann,send,2,bob\nbob,deliver,2,\n")
    (source,) = find([tmp_path]).sources
    grow(tmp_path / "a.csv", b"ann,send,3,bob\n")
    assert audit_source(source).checks["lost"].verdict == "unknown"
    assert audit_source(source, is_followed=True).checks["lost"].verdict == "invalid"
