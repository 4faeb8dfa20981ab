# SPDX-License-Identifier: Apache-2.0
"""What the documentation takes from the code: all of it, under its public name, and as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import busq

pytest.importorskip("sphinx", reason="needs Sphinx: pip install '.[docs]'")
sys.path.insert(0, str(ROOT / "docs"))

from extension import docstrings, header, modules, notebooks, pages, shapes, site, tables


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of sources, beside the header, to generate pages in."""
    (tmp_path / "csrc").symlink_to(ROOT / "csrc")
    return tmp_path / "docs"


def generated(source: Path, name: str) -> str:
    return (source / pages.GENERATED / name).read_text()


def test_every_function_of_the_headers_is_on_their_page(source: Path) -> None:
    header.generate(source)
    text = "\n".join((ROOT / "csrc" / name).read_text() for name in header.HEADERS)
    declared = {name for name in re.findall(r"^[\w\s*]*?\b(busq_\w+)\(", text, re.MULTILINE) if name != "busq_h"}
    shown = set(re.findall(r"c:function:: .*?\b(busq_\w+)\(", generated(source, "c.rst")))
    assert shown == declared


def test_a_comment_belongs_to_the_declaration_that_it_stands_at() -> None:
    text = """
    typedef enum {
      OK = 0,   /* all is well */
      FULL = 1
    } result;
    /* Makes one. */
    int make(int a, int b);
    void end(void); /* for ever */
    """
    found = header.items(text)
    assert [(item.code, item.comments) for item in found] == [
        ("typedef enum result", []),
        ("int make(int a, int b)", ["Makes one."]),
        ("void end(void)", ["for ever"]),
    ]
    assert [(item.code, item.comments) for item in found[0].members] == [("OK = 0", ["all is well"]), ("FULL = 1", [])]


def test_every_public_name_of_a_module_is_on_its_page(source: Path) -> None:
    modules.generate(source)
    text = generated(source, "busq.rst")
    assert all(f":: busq.{name}\n" in text for name in busq.__all__ if not name.startswith("_"))


def test_a_name_leads_to_its_public_place_wherever_it_is_defined() -> None:
    assert modules.public_name("Bus.create", "busq.Peer.send") == "busq.Bus.create"
    assert modules.public_name("Config", "busq.sim.run") == "busq.sim.Config"
    assert modules.public_name("nothing", "busq") is None


def test_docstrings_become_restructured_text() -> None:
    lines = ["Do `x` to *all* of a_.", "", "Parameters: `a`, one; `b`, two.", "Errors: Full.", "", ">>> 1", "1"]
    docstrings.process(None, "function", "busq.Bus", None, None, lines)
    assert lines == [
        "Do ``x`` to \\*all\\* of a\\_.",
        "",
        "**Parameters:**",
        "",
        "- ``a``, one",
        "- ``b``, two",
        "",
        "**Errors:** Full.",
        "",
        ">>> 1",
        "1",
        "",
    ]


def test_columns_kinds_and_orders_are_those_of_the_code(source: Path) -> None:
    tables.generate(source)
    trace, orders = generated(source, "trace.rst"), generated(source, "orders.rst")
    assert all(f"``{name}``" in trace for name in busq.trace.SCHEMA.names)
    assert all(f"``{kind.name}``" in trace for kind in busq.trace.Kind)
    assert all(f"``{name}``" in orders for name in busq.orders.ORDERS)


def test_keys_are_told_with_their_types() -> None:
    value = {"ok": True, "runs": [{"s": 1.5}, {"n": 1}], "verdicts": {"lost": {"count": 0}, "fifo": {"count": 1}}}
    assert list(shapes.keys(value)) == [
        ("ok", "true or false"),
        ("runs[]", "list"),
        ("runs[].s", "number"),
        ("runs[].n", "integer"),
        ("verdicts.NAME.count", "integer"),
    ]


def test_a_notebook_becomes_a_page_with_what_it_printed_and_drew(tmp_path: Path) -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": ["2\n"]}
    drawn = {"output_type": "display_data", "data": {"image/png": "QUJD"}}
    alt = {"alt": "A bar of height 2"}
    cells = [
        {"cell_type": "markdown", "id": "head", "source": ["# A title\n", "\n", "It adds."]},
        {"cell_type": "code", "id": "sum", "source": "print(1 + 1)", "metadata": alt, "outputs": [printed, drawn]},
    ]
    text = "\n".join(notebooks.markdown({"cells": cells}, "howto/adding"))
    assert text.split("\n\n") == [
        "# A title",
        "It adds.",
        "{download}`Download the notebook </howto/adding.ipynb>`.",
        "```python\nprint(1 + 1)\n```",
        "```text\n2\n```",
        "![A bar of height 2](/pictures/generated/howto-adding-sum.png)\n",
    ]
    notebooks.draw({"cells": cells}, tmp_path, "howto/adding")
    assert (tmp_path / "pictures" / "generated" / "howto-adding-sum.png").read_bytes() == b"ABC"


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">1</a><a href="b.html#there">2</a><a href="c.html">3</a>')
    (tmp_path / "b.html").write_text('<p id="here"></p><a href="https://example.org/nothing">4</a>')
    assert list(site.broken_links(tmp_path)) == [
        "a.html: b.html#there leads to no place",
        "a.html: c.html leads to no file",
    ]
