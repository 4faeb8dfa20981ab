# SPDX-License-Identifier: Apache-2.0
"""Everything again where the accelerator is missing: the way through cffi alone gives the same answers."""

from __future__ import annotations

import pytest
from conftest import TESTS, fresh_python

from busq._port import core as _core

LONG = (
    "objects",
    "reserve",
    "threads",
    "bad_input",
    "processes",
    "ownership",
    "aio",
    "fileno",
    "requests",
    "groups",
    "states",
)
RUN = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]]))"


@pytest.mark.skipif(_core._fast is None, reason="this run is already without the accelerator")
@pytest.mark.parametrize(
    "topic",
    [
        "api",
        "messages",
        *(pytest.param(topic, marks=pytest.mark.long) for topic in LONG),
    ],
)
def test_without_the_accelerator(topic: str) -> None:
    done = fresh_python(RUN, str(TESTS / "core" / f"test_{topic}.py"), BUSQ_NO_ACCELERATOR="1")
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout


def test_the_accelerator_is_left_out_when_told_so() -> None:
    done = fresh_python("from busq import _core; print(_core._fast)", BUSQ_NO_ACCELERATOR="1")
    assert done.stdout == "None\n"
