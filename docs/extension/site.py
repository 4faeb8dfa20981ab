# SPDX-License-Identifier: Apache-2.0
"""After the pages are made: llms.txt, a list of them for language models, and a look at every link inside the site."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from docutils import nodes
from sphinx.util import logging

logger = logging.getLogger(__name__)

OPENING = """# busq

> Ordered messages between the processes of one machine: a multicast in shared memory, one order for all receivers, no
> broker and no lock.  Python on a C core, Linux only.

The links lead to the sources of the pages, in Markdown.  The pages under reference/generated are reStructuredText.
"""


class Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag is called, and where it leads."""
        for key, value in attrs:
            if key == "id" and value:
                self.anchors.add(value)
            elif key in ("href", "src") and value:
                self.links.append(value)


def broken_links(folder: Path) -> Iterator[str]:
    """Yield the links of a built site that lead to no file, or to no place in it."""
    pages = {path: Page(path.read_text()) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{path.relative_to(folder)}: {link} leads to no file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(folder)}: {link} leads to no place"


def _in_order(env: Any, name: str, met: set[str]) -> Iterator[str]:
    if name not in met:
        met.add(name)
        yield name
        for inner in env.toctree_includes.get(name, ()):
            yield from _in_order(env, inner, met)


def _first_sentence(env: Any, name: str) -> str:
    for paragraph in env.get_doctree(name).findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        end = text.find(". ")
        return text[: end + 1] if end >= 0 else text
    return ""


def llms_text(env: Any) -> str:
    """Return the list of all pages, in the order of the table of contents, with the first sentence of each."""
    lines = [OPENING]
    for name in _in_order(env, "index", set()):
        title = env.titles[name].astext()
        if "/" not in name or name.endswith("/index"):
            lines.append(f"\n## {title}\n")
        suffix = Path(env.doc2path(name)).suffix
        lines.append(f"- [{title}](_sources/{name}{suffix}.txt): {_first_sentence(env, name)}")
    return "\n".join(lines) + "\n"


def finish(app: Any, error: Exception | None) -> None:
    """Write llms.txt, and warn of every link that leads nowhere."""
    if error is not None or app.builder.name != "html":
        return
    Path(app.outdir, "llms.txt").write_text(llms_text(app.env))
    for text in broken_links(Path(app.outdir)):
        logger.warning("%s", text)
