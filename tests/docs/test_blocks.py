# SPDX-License-Identifier: Apache-2.0
"""Every block of the documentation runs: a page is a session, whose blocks are run from the top to the bottom.

Blocks of Python share their names.  A block of commands has a prompt before each command, `> ` before the lines that it
goes on with, and perhaps what it prints, where `...` stands for anything.  What a `print` shows stands behind it as a
comment.  A command whose exit code is not 0 has a comment: `# exit code 1`.  All happens in an empty folder, on buses
of its own.  A block that takes too long, or needs what is not there, is marked in the line before it:

    <!-- block: not run, because it takes four minutes -->

Where all that it needs is a package, `because it needs torch`, it runs wherever that is installed.  Its commands are
read all the same: each has to exist, with its options.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from conftest import PATIENCE_S, ROOT

from busq.cli import commands

PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts)]
SHOWN = {"text", "toml", "yaml", "c", "json", "dockerfile"}  # what is there to be read, and not to be run
MARK = re.compile(r"<!-- block: not run, (?P<reason>\S.*?) -->")
PACKAGE = re.compile(r"because it needs (\w+)")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\s*$")
EXIT_CODE = re.compile(r"\s# exit code (\d+)$")
PRINTED = re.compile(r"^\s*print\(.*\)  # (.*)$")

SESSION = """
import json, linecache, sys, traceback
names = {"__name__": "__main__"}
while line := sys.stdin.readline():
    block = json.loads(line)
    text = "\\n" * block["line"] + block["text"]
    linecache.cache[block["page"]] = len(text), None, text.splitlines(True), block["page"]
    try:
        exec(compile(text, block["page"], "exec"), names)
        print("@@ went well", flush=True)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print("@@ failed", flush=True)
"""


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of the fence, from 1
    language: str
    text: str
    excuse: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    text: str
    expected: str
    exit_code: int


def blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        fence = FENCE.match(lines[number])
        if fence is None:
            number += 1
            continue
        before = next((line for line in reversed(lines[:number]) if line.strip()), "")
        mark = MARK.fullmatch(before.strip())
        end = next(place for place in range(number + 1, len(lines)) if lines[place].strip() == "```")
        text = "\n".join(line.removeprefix(fence["indent"]) for line in lines[number + 1 : end])
        yield Block(str(page.relative_to(ROOT)), number + 1, fence["language"], text, mark["reason"] if mark else "")
        number = end + 1


def commands_of(block: Block) -> Iterator[Command]:
    """The commands behind the prompts of a block, and what is shown below each."""
    text, expected = "", []
    for line in [*block.text.splitlines(), "$ "]:
        if line.startswith("$ "):
            if text:
                code = EXIT_CODE.search(text)
                yield Command(text, "\n".join(expected).strip("\n"), int(code[1]) if code else 0)
            text, expected = line[2:], []
        elif line.startswith("> ") and not expected:
            text += "\n" + line[2:]
        else:
            assert text, f"{block}: a block of commands begins with a prompt, '$ '"
            expected.append(line)


def matches(printed: str, expected: str) -> bool:
    pattern = "[[]".join(part for part in expected.split("[")).replace("?", "[?]").replace("*", "[*]")
    return fnmatch.fnmatchcase(_plain(printed), _plain(pattern.replace("...", "*")))


def _plain(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


class Session:
    """What a page is run in: a folder, a directory of buses, and a Python that keeps its names."""

    def __init__(self, folder: Path, buses: str) -> None:
        self._folder = folder
        python = str(Path(sys.executable).parent)
        self._environment = {
            **os.environ,
            "BUSQ_DIR": buses,
            "PATH": f"{python}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "100",
        }
        self._python: subprocess.Popen[str] | None = None

    def run(self, block: Block) -> None:
        if block.language == "python":
            self._run_python(block)
        else:
            self._run_commands(block)

    def _run_python(self, block: Block) -> None:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, "-c", SESSION],
                cwd=self._folder,
                env=self._environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        told = {"page": block.page, "line": block.line, "text": block.text}
        print(json.dumps(told), file=self._python.stdin, flush=True)
        printed: list[str] = []
        while not (printed and printed[-1].startswith("@@ ")):
            line = self._python.stdout.readline()
            assert line, f"{block}: Python ended:\n{''.join(printed)}"
            printed.append(line)
        assert printed.pop() == "@@ went well\n", f"{block}:\n{''.join(printed)}"
        left = iter(printed)
        for expected in (found[1] for found in map(PRINTED.match, block.text.splitlines()) if found):
            assert any(matches(line, expected) for line in left), f"{block}: {expected!r} is not in {printed}"

    def _run_commands(self, block: Block) -> None:
        told = list(commands_of(block))
        # A script of all of them, so that what one sends to the background runs beside the next.
        script = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n"
        script += "".join(f"{command.text}\nprintf '\\n@@ %d\\n' $?\n" for command in told)
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        parts = re.split(r"\n?@@ (\d+)\n", ran.stdout)
        assert len(parts) == 2 * len(told) + 1, f"{block}: the script ended early:\n{ran.stdout}"
        for command, printed, code in zip(told, parts[::2], parts[1::2], strict=False):
            assert int(code) == command.exit_code, f"{block}: {command.text}: exit code {code}:\n{printed}"
            if command.expected:
                assert matches(printed, command.expected), f"{block}: {command.text} printed:\n{printed}"

    def close(self) -> None:
        if self._python is not None:
            self._python.communicate(timeout=PATIENCE_S)


@pytest.fixture
def session(tmp_path: Path, bus_directory: Path) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(dir=bus_directory) as buses:
        session = Session(tmp_path, buses)
        yield session
        session.close()


def is_to_run(block: Block) -> bool:
    package = PACKAGE.fullmatch(block.excuse)
    is_excused = block.excuse and not (package and importlib.util.find_spec(package[1]))
    return block.language in ("python", "console") and not is_excused


def has_blocks_to_run(page: Path) -> bool:
    return any(map(is_to_run, blocks(page)))


# .ci/run has these with the rest of the documentation.
@pytest.mark.slow
@pytest.mark.parametrize("page", list(filter(has_blocks_to_run, PAGES)), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_in_order(page: Path, session: Session) -> None:
    for block in filter(is_to_run, blocks(page)):
        session.run(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_goes_unread(page: Path) -> None:
    """What is not run is there to be read, or names the reason why it is not run."""
    for block in blocks(page):
        assert block.language, f"{block}: a block names its language"
        known = block.language in SHOWN | {"python", "console"} or block.language.startswith("{")
        assert known, f"{block}: {block.language} is not run: write console or python, or one of {sorted(SHOWN)}"
        if block.language in SHOWN:
            assert not re.search(r"^(\$ |busq )", block.text, re.MULTILINE), f"{block}: commands are written as console"
        if block.language == "python" and block.excuse:
            compile(block.text, str(block), "exec")


EXAMPLES = (
    "asyncio-service",
    "job-queue",
    "camera-frames",
    "numpy-pipeline",
    "replace-multiprocessing-queue",
    "fan-out",
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_a_page_all_of_which_runs_and_is_short(name: str) -> None:
    shown = list(blocks(ROOT / "docs" / "howto" / f"{name}.md"))
    assert not [str(block) for block in shown if block.excuse]
    lines = [line for block in shown if block.language in ("python", "console") for line in block.text.splitlines()]
    assert 10 < len(list(filter(str.strip, lines))) <= 80


def calls(page: Path) -> Iterator[tuple[Block, list[str]]]:
    """Every call of busq in the commands of a page, as a list of arguments."""
    for block in blocks(page):
        for command in commands_of(block) if block.language == "console" else ():
            line = command.text.partition("\n")[0].partition(" <<")[0]
            words = shlex.split(line, comments=True)
            while "busq" in words:
                words = words[words.index("busq") + 1 :]
                ends = [place for place, word in enumerate(words) if word[0] in "&|;<>" or word.endswith(";")]
                yield block, words[: min(ends, default=len(words))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    for block, words in calls(page):
        context = click.Context(commands, info_name="busq")
        command: click.Command = commands
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name, found, words = command.resolve_command(context, words)
            assert found is not None
            assert name is not None
            command, context = found, click.Context(found, info_name=name, parent=context)
        try:
            command.make_parser(context).parse_args(list(words))
        except click.exceptions.Exit:
            pass
        except click.UsageError as error:
            pytest.fail(f"{block}: busq {' '.join(words)}: {error.format_message()}")


NAMED = re.compile(r"(?<![\w./:-])(?:csrc|busq|tests|bench|\.ci)/[\w*./-]*\w")  # COMMIT:bench/... is of another commit
BENCHMARK = re.compile(r"\bbusq\.bench\.([a-z_]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_project_that_a_page_names_is_there(page: Path) -> None:
    named = {path for path in NAMED.findall(page.read_text()) if "/my-" not in path}  # yours, which are to be made
    named |= {f"bench/{name}" for name in BENCHMARK.findall(page.read_text())}
    missing = sorted(path for path in named if not any(ROOT.glob(path)) and not any(ROOT.glob(f"{path}.*")))
    assert not missing, f"{page.name} names {missing}, which are not in the project"
