# SPDX-License-Identifier: Apache-2.0
"""Plain English in comments, docstrings and pages: five rules, each with its reason.

`python tests/test_prose.py [PATH ...]` prints what breaks them, a line each: `file:line: rule: text`.  Code in
backticks, quoted text and examples are exempt.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
AREAS = ["csrc", "busq", "bench", "tests", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]


class Text(NamedTuple):
    """One comment, docstring or page."""

    line: int
    kind: str  # "comment", "docstring", "page", or "function": a comment directly above a C function
    text: str


class Hit(NamedTuple):
    """A place that breaks a rule."""

    line: int
    rule: str
    text: str


# ---- the rules ----

# A process is "it": with "he", the reader looks for a person.
PRONOUN = "pronoun"
# A rule names what it is about (the sender, a waiter, each member): otherwise it can't be checked.
SUBJECT = "subject"
# Code returns, raises, logs, prints, reports or means something: people tell, and documents say.
VERB = "verb"
# A comment above a function begins with what the function does, not with a reference to its neighbour.
OPENING = "opening"
# A docstring states what is returned: a question leaves open which answer means what.
QUESTION = "question"

PEOPLE = re.compile(r"\b(?:people|persons?|users?|authors?|engineers?|students?|operators?)\W*$", re.IGNORECASE)
DOCUMENTS = re.compile(
    r"\b(?:papers?|section|chapter|book|page|manual|standard|POSIX|documentation|text|comment|header|title|theorem)\W*$",
    re.IGNORECASE,
)

PRONOUNS = re.compile(r"\b(?:he|his|him|himself|she|hers?|herself)\b", re.IGNORECASE)
SUBJECTS = re.compile(
    r"\b(?:who|whom|whoever|whomever|(?:some|no|every|any)body|(?:some|every|any)one|no one)\b(?! of\b|-)",
    re.IGNORECASE,
)
VERBS = re.compile(r"\b(?:tells?|told|telling|says?|said|saying)\b(?!\()", re.IGNORECASE)
OPENINGS = re.compile(r"(?:The same|Of|As for|Ones? that|What|Who|Whoever|Whose)\b")


def hits_in(text: Text) -> Iterator[Hit]:
    """What one text breaks."""
    for number, line in enumerate(without_code(text).splitlines(), text.line):
        for found in PRONOUNS.finditer(line):
            yield Hit(number, PRONOUN, around(line, found))
        for found in SUBJECTS.finditer(line):
            if found[0].lower() not in {"who", "whom"} or not PEOPLE.search(line[: found.start()]):
                yield Hit(number, SUBJECT, around(line, found))
        for found in VERBS.finditer(line) if text.kind != "page" else ():
            if not DOCUMENTS.search(line[: found.start()]) and line[found.start() - 2 : found.end() + 1] != ", say,":
                yield Hit(number, VERB, around(line, found))
    if text.kind == "function" and OPENINGS.match(text.text):
        yield Hit(text.line, OPENING, text.text.splitlines()[0])
    if text.kind == "docstring" and text.text.rstrip().endswith("?"):
        yield Hit(text.line, QUESTION, text.text.rstrip().splitlines()[-1])


def without_code(text: Text) -> str:
    """The text with as many lines, without what it quotes: code, examples, words in quotation marks."""
    plain = re.sub(r"^\s*(?:>>>|\.\.\.) .*$", "", text.text, flags=re.MULTILINE)
    return re.sub(r"``.*?``|`[^`]*`|\"(?:[^\"\n]|\n(?!\s*\n))*\"", blank, plain, flags=re.DOTALL)


def blank(found: re.Match[str]) -> str:
    return "_" + "\n" * found[0].count("\n")


def around(line: str, found: re.Match[str]) -> str:
    return line[max(0, found.start() - 40) : found.end() + 40].strip()


# ---- comments and docstrings ----


def texts_of(path: Path) -> Iterator[Text]:
    source = path.read_text()
    if path.suffix == ".md":
        yield Text(1, "page", re.sub(r"^(```+).*?^\1", blank, source, flags=re.DOTALL | re.MULTILINE))
    else:
        yield from c_texts(source) if path.suffix in {".c", ".h"} else python_texts(source)


C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/', re.DOTALL)
C_FUNCTION = re.compile(r"\n(?![ \t#}/]|typedef|struct \w+\s*\{|enum|union)[^;{}=]*?\w\([^;{}]*[;{]")


def c_texts(source: str) -> Iterator[Text]:
    for found in C_TOKEN.finditer(source):
        if found[0][0] == "/":
            is_alone = found.start() == 0 or source[found.start() - 1] == "\n"
            is_above = is_alone and C_FUNCTION.match(source, found.end())
            text = re.sub(r"^[ \t]*(?://+|/\*+|\*(?!/))[ \t]?|\*/$", "", found[0], flags=re.MULTILINE)
            yield Text(source.count("\n", 0, found.start()) + 1, "function" if is_above else "comment", text)


PYTHON_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|'
    + r"'''(?:\\.|[^\\])*?'''|"
    + r'"(?:\\.|[^"\\\n])*"|'
    + r"'(?:\\.|[^'\\\n])*'|"
    + r"#[^\n]*",
    re.DOTALL,
)


def python_texts(source: str) -> Iterator[Text]:
    for found in PYTHON_TOKEN.finditer(source):  # five times as fast as tokenize
        if found[0][0] == "#":
            yield Text(source.count("\n", 0, found.start()) + 1, "comment", found[0])
    for node in definitions_in(ast.parse(source)):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield Text(node.body[0].lineno, "docstring", text)


Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def definitions_in(node: ast.AST) -> Iterator[Definition]:
    """What may have a docstring, found among the statements alone: a tree has ten times as many expressions."""
    if isinstance(node, Definition):
        yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, block, ())
        for statement in inner if isinstance(inner, list) else ():
            yield from definitions_in(statement)


def hits_of(path: Path) -> list[Hit]:
    return sorted(hit for text in texts_of(path) for hit in hits_in(text))


def sources(*places: Path) -> Iterator[Path]:
    for place in places:
        found = [place] if place.is_file() else sorted(place.rglob("*"))
        yield from (
            path for path in found if path.suffix in {".c", ".h", ".py", ".md"} and path != Path(__file__).resolve()
        )


# ---- the tests ----


@cache
def dirty() -> dict[str, list[Hit]]:
    found = {str(path.relative_to(ROOT)): hits_of(path) for path in sources(*(ROOT / area for area in AREAS))}
    return {name: hits for name, hits in found.items() if hits}


def test_comments_and_docstrings_keep_to_the_rules() -> None:
    found = [f"{name}:{hit.line}: {hit.rule}: {hit.text}" for name, hits in dirty().items() for hit in hits]
    assert not found, "\n".join(found)


def test_the_project_has_at_most_15_words_of_its_own() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    own = glossary.split("```{glossary}\n")[1].split("```")[0]
    assert len(re.findall(r"^\S", own, re.MULTILINE)) <= 15


def rules(source: str) -> list[str]:
    texts = c_texts(source) if source.startswith("/") else python_texts(source)
    return [hit.rule for text in texts for hit in hits_in(text)]


def test_the_rules_find_what_they_are_for() -> None:
    assert rules("# The sender waits until he is woken.") == [PRONOUN]
    assert rules("# Whoever leaves wakes the next one; nobody waits.") == [SUBJECT, SUBJECT]
    assert rules("# Users who ask, and who is asked.") == [SUBJECT]
    assert rules("# The peer is told; the paper says why; `says` is code; for example, say, this.") == [VERB]
    assert rules('"""Note an answer.\n\nHas everything arrived?"""') == [QUESTION]
    assert rules("/* The same of a node. */\nint\nf(int a)\n{") == [OPENING]
    assert rules("/* The same of a node. */\nstatic int a = 3;\n") == []


def main() -> int:
    """Print what breaks a rule; 1 if anything does."""
    places = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT / area for area in AREAS]
    count = 0
    for path in sources(*places):
        for hit in hits_of(path):
            name = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
            print(f"{name}:{hit.line}: {hit.rule}: {hit.text}")
            count += 1
    print(f"{count} places", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
