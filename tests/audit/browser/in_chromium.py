# SPDX-License-Identifier: Apache-2.0
"""The browser of these tests: Chromium, headless, driven by Playwright; without either they are left out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    reason = "the browser is driven by playwright: pip install playwright"
    with pytest.importorskip("playwright.sync_api", reason=reason).sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
