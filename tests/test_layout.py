# SPDX-License-Identifier: Apache-2.0
"""The rooms: which may include, import and call which, held against the files; and what every file keeps to."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

# A file includes and calls its own room and the rooms before it.  Rooms that stand together know nothing of each other.
C_ROOMS = [
    {"base"},
    {"clock"},
    {"queue"},
    {"order"},
    {"trace", "observe"},
    {"sim", "check", "explore", "shm/memory"},
    {"shm/trace", "shm/wake"},
    {"shm/message"},
    {"shm/burial"},
    {"shm/send", "shm/receive"},
    {"shm/wait"},
    {"shm/group", "shm/node"},
    {"shm/letter"},
    {"shm/death"},
    {"shm"},
    {"busq.c", "record"},
    {"live"},
    {"python"},
]

# A wing imports itself, the wings named here, and the library, which stands at the root of the package.
WINGS: dict[str, set[str]] = {
    "lab": set(),
    "ops": set(),
    "bridge": set(),
    "trace": {"lab"},
    "audit": {"trace", "lab"},
    "trial": {"trace", "lab"},
    "cli": {"audit", "trial", "ops", "bridge", "trace", "lab"},
    "bench": {"audit", "trial", "ops", "bridge", "trace", "lab", "cli"},
}

TOP_LEVEL = {
    *(".ci", ".clang-format", ".editorconfig", ".gitignore", ".pre-commit-config.yaml"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"),
    *("bench", "busq", "csrc", "docs", "pyproject.toml", "tests"),
}

FUNCTION_LINES_MAX = 70


def rank(rooms: list[set[str]], room: str) -> int:
    ranks = [number for number, together in enumerate(rooms) if room in together]
    assert ranks, f"{room!r} has no place in the line of rooms: give it one, in design and test"
    return ranks[0]


@cache
def files() -> list[Path]:
    """What belongs to the project: tracked, or new and not ignored; no virtual environment, by whatever name."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        found = [ROOT / name for name in listed.split("\0") if name]
    else:
        found = [path for top in TOP_LEVEL for path in [ROOT / top, *(ROOT / top).rglob("*")]]
    foreign = {"__pycache__", ".hypothesis"} | {place.parent.name for place in ROOT.glob("*/pyvenv.cfg")}
    return sorted(path for path in found if path.is_file() and not foreign & set(path.relative_to(ROOT).parts))


def files_in(folder: str, *suffixes: str) -> list[Path]:
    return [path for path in files() if path.suffix in suffixes and path.relative_to(ROOT).parts[0] == folder]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ---- C ----


def c_room(name: str) -> str:
    """The room of a file, by its path below csrc: a folder, or in shm a folder of that."""
    parts = name.split("/")
    return "/".join(parts[: min(2 if parts[0] == "shm" else 1, max(1, len(parts) - 1))])


# Declarations of the public interface, and nothing else; the second includes the first.
C_PUBLIC = {"busq.h": ["<stddef.h>", "<stdint.h>"], "busq_lab.h": ['"busq.h"']}
C_SOURCES = [path for path in files_in("csrc", ".c", ".h") if path.name not in C_PUBLIC]

C_NOTHING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
C_DEFINITION = re.compile(
    r"^(?![^\n(]*\bstatic\b|BUSQ_ALWAYS_INLINE|typedef|extern|#)[A-Za-z_][\w\s*]*?\b(\w+)\s*\([^;{}]*\)\n\{",
    re.MULTILINE,
)
C_DECLARATION = re.compile(r"^(?!static|typedef|return|else|#)[A-Za-z_][\w\s*]*?\b\w+\s*\([^;{}]*\);$", re.MULTILINE)


@cache
def c_code() -> dict[str, str]:
    """The files by their paths below csrc, without comments and texts."""
    return {str(path.relative_to(ROOT / "csrc")): C_NOTHING.sub(" ", path.read_text()) for path in C_SOURCES}


@cache
def c_defined() -> dict[str, str]:
    """Where each function of the core is defined that other files can call."""
    sources = {file: code for file, code in c_code().items() if file.endswith(".c")}
    return {name: file for file, code in sources.items() for name in C_DEFINITION.findall(code)}


def c_included(file: str) -> set[str]:
    text = (ROOT / "csrc" / file).read_text()
    return set(re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE)) - set(C_PUBLIC)


@cache
def c_called(file: str) -> dict[str, str]:
    """The functions of other files that one names outside of declarations, with these files: busq_ ones, or called."""
    named = set(re.findall(r"\bbusq_\w+|\b\w+(?=\()", C_DECLARATION.sub("", c_code()[file])))
    return {name: c_defined()[name] for name in named & set(c_defined()) if c_defined()[name] != file}


def without_suffix(file: str) -> str:
    """The name that a .c and its .h share, for they are one file."""
    return file.rsplit(".", 1)[0]


def test_the_functions_of_the_core_are_found() -> None:
    assert c_defined()["busq_heap_push"] == "queue/heap.c"
    declared = set(re.findall(r"\b(busq_\w+)\s*\(", C_NOTHING.sub(" ", (ROOT / "csrc" / "busq.h").read_text())))
    assert declared <= set(c_defined())
    assert c_defined()["filter_take"] == "python/filter.c"
    assert c_called("python/receive.c")["filter_take"] == "python/filter.c"
    assert "filter_take" not in c_called("python/port.h"), "it is declared there, and not called"


def test_a_function_of_the_core_is_no_macro_either() -> None:
    macros = {name for code in c_code().values() for name in re.findall(r"#\s*define (busq_\w+)", code)}
    assert not macros & set(c_defined())


def test_c_files_include_from_csrc() -> None:
    assert [(file, to) for file in c_code() for to in c_included(file) if not (ROOT / "csrc" / to).is_file()] == []


def test_c_files_include_and_call_their_own_room_and_those_before() -> None:
    found = []
    for file in c_code():
        mine = c_room(file)
        needs = dict.fromkeys(c_included(file), "includes")
        needs |= {target: f"calls {name} of" for name, target in c_called(file).items()}
        for target, verb in needs.items():
            if c_room(target) != mine and rank(C_ROOMS, c_room(target)) >= rank(C_ROOMS, mine):
                found.append(f"{file} {verb} {target}")
    assert found == []


def test_no_circle_of_c_files_by_includes() -> None:
    needs: dict[str, set[str]] = {}
    for file in c_code():
        mine = without_suffix(file)
        needs[mine] = needs.get(mine, set()) | ({without_suffix(target) for target in c_included(file)} - {mine})
    assert circles(needs) == []


def test_no_circle_of_c_files_by_calls() -> None:
    needs: dict[str, set[str]] = {}
    for file in c_code():
        mine = without_suffix(file)
        needs[mine] = needs.get(mine, set()) | ({without_suffix(target) for target in c_called(file).values()} - {mine})
    assert circles(needs) == []


@pytest.mark.parametrize("name", C_PUBLIC)
def test_a_public_header_stands_alone(name: str) -> None:
    text = (ROOT / "csrc" / name).read_text()
    assert re.findall(r"#\s*include\s+(\S+)", text) == C_PUBLIC[name]
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("needs a C compiler")
    for language, standard in (("c", "c11"), ("c++", "c++17")):
        if language == "c++" and not shutil.which("g++"):
            continue
        command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", language, "-"]
        subprocess.run(command, input=f'#include "{ROOT}/csrc/{name}"\n', text=True, check=True)


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and number of lines between the braces; functions have their braces on lines of their own."""
    lines = text.splitlines()
    begin = 0
    for number, line in enumerate(lines):
        if line == "{":
            begin = number
        elif line == "}" and begin:
            signature = " ".join(lines[max(0, begin - 4) : begin])
            yield (re.findall(r"(\w+)\s*\(", signature) or ["?"])[-1], number - begin - 1
            begin = 0


C_FILES = [path for path in files() if path.suffix in (".c", ".h")]


def test_functions_are_found() -> None:
    found = dict(c_functions("static int\nlong_one(int a)\n{\n  a++;\n  return a;\n}\n\nvoid b(void)\n{\n}\n"))
    assert found == {"long_one": 2, "b": 0}
    assert sum(1 for path in C_FILES for _ in c_functions(path.read_text())) > 200


def test_c_functions_are_short() -> None:
    functions = [(name_of(path), *function) for path in C_FILES for function in c_functions(path.read_text())]
    assert [function for function in functions if function[2] > FUNCTION_LINES_MAX] == []


# ---- Python ----


PYTHON_SOURCES = files_in("busq", ".py") + files_in("bench", ".py")


def module_of(path: Path) -> str:
    """Its dotted name; bench is installed as busq.bench."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = ("busq", *parts) if parts[0] == "bench" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in PYTHON_SOURCES}


def wing_of(module: str) -> str:
    """The wing that a module stands in, or "" for the library."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in WINGS else ""


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of busq that a module imports: at its beginning, inside a function, or for types alone.

    What the package itself imports for types is the list of its public names, for type checkers, and does not count.
    """
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    named: set[str] = set()
    for node in statements(ast.parse(path.read_text()), with_types=module != "busq"):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            stem = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                inner = f"{stem}.{alias.name}"
                named.add(inner if inner in MODULES else stem)
    return frozenset(name for name in named if name.split(".")[0] == "busq")


def statements(tree: ast.AST, with_types: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if with_types or not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            yield node
            yield from statements(node, with_types)


def test_python_modules_import_the_library_and_the_wings_before_theirs() -> None:
    found = []
    for module in MODULES.keys() - FACADES:
        mine = "cli" if module == "busq.__main__" else wing_of(module)
        for target in imports(module) - {module}:
            known = target in MODULES or target.startswith("busq._native")
            assert known, f"{target}: modules of busq go by their places"
            if wing_of(target) not in {"", mine} | WINGS.get(mine, set()):
                found.append(f"{module} imports {target}")
    assert found == []


# Public names of what stands in a wing: plain modules that hand on, and that nothing inside busq imports.
FACADES = {
    module
    for module, path in MODULES.items()
    if re.search(r"the public name of `busq\.[\w.]+`", path.read_text()[:400])
}


def test_modules_of_busq_import_each_other_by_their_places() -> None:
    assert {"busq.sim", "busq.check", "busq.spark"} < FACADES
    inside = {module for module in MODULES if module not in FACADES and not module.startswith("busq.bench")}
    named = {module: imports(module) & FACADES for module in inside}
    assert not {module: names for module, names in named.items() if names}


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Groups that lead to each other, by Tarjan's algorithm."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(one: str) -> None:
        numbers[one] = lowest[one] = len(numbers)
        stack.append(one)
        for other in arrows.get(one, ()):
            if other not in numbers:
                visit(other)
                lowest[one] = min(lowest[one], lowest[other])
            elif other in stack:
                lowest[one] = min(lowest[one], numbers[other])
        if lowest[one] == numbers[one]:
            at = stack.index(one)
            groups.append(sorted(stack[at:]))
            del stack[at:]

    for one in arrows:
        if one not in numbers:
            visit(one)
    return [group for group in groups if len(group) > 1]


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_circle_of_python_files() -> None:
    assert circles({module: set(imports(module)) & set(MODULES) for module in MODULES}) == []


# Ways to reach around a class that readers and type checkers can't follow.
TRICKS = re.compile(r"^[^=\n]*\.(?:__class__|__qualname__)\b[^=\n(]*=(?!=)|sys\.meta_path", re.MULTILINE)


def test_no_object_changes_its_class_and_no_function_its_name() -> None:
    assert {name_of(path) for path in PYTHON_SOURCES if TRICKS.search(path.read_text())} == set()


# How often a module of busq uses a private attribute of an object, class or module that is not its own.
PRIVATE_MAX = 116


def private_uses(path: Path) -> int:
    return sum(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
        and not (isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in {"super", "type"})
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_modules_seldom_use_what_is_private_to_others() -> None:
    assert sum(map(private_uses, files_in("busq", ".py"))) <= PRIVATE_MAX


def test_the_native_package_holds_ffi_and_lib_and_nothing_else() -> None:
    import busq._native

    assert busq._native.__all__ == ["ffi", "lib"]
    assert busq._native.ffi, "loaded when it is asked for, and lib with it"
    public = {name for name in vars(busq._native) if not name.startswith("_")}
    assert public - {"annotations", "Any"} <= {"ffi", "lib"}  # which are loaded when they are asked for


def test_one_package_is_installed() -> None:
    installed = importlib.metadata.files("busq")
    assert installed
    tops = {file.parts[0] for file in installed if ".." not in file.parts}
    editable = {top for top in tops if top.startswith("_editable_skbc_busq.")}  # what leads to the sources
    tops -= editable | ({"__pycache__"} if editable else set())
    assert {top for top in tops if not top.endswith(".dist-info")} == {"busq"}


# ---- every file ----

# A file is held in the head as a whole, so few are long.
LONG_LINES, LONG_MAX = 500, 30
VERY_LONG_LINES = 900


def test_few_files_are_long() -> None:
    paths = [path for top in ("busq", "csrc", "bench") for path in files_in(top, ".py", ".c", ".h", ".js")]
    lines = {name_of(path): len(path.read_text().splitlines()) for path in paths}
    assert sum(count > LONG_LINES for count in lines.values()) <= LONG_MAX
    assert not {name for name, count in lines.items() if count > VERY_LONG_LINES}


def test_modules_of_tests_have_names_of_their_own() -> None:
    """Beside each other on the path, two of one name are one module: the second is not collected."""
    outside_of_packages = [
        path.name for path in (ROOT / "tests").rglob("*.py") if not (path.parent / "__init__.py").exists()
    ]
    assert {name for name in outside_of_packages if outside_of_packages.count(name) > 1} <= {"conftest.py"}


def test_top_level_names_are_the_known_ones() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in files()} <= TOP_LEVEL


SOURCES = [
    path
    for path in files()
    if path.suffix in {".c", ".h", ".py", ".pyi", ".sh"} or path.name in {"CMakeLists.txt", "run", "deep", "task"}
]


def names_the_license(path: Path) -> bool:
    lines = path.read_text().splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    return not lines or "SPDX-License-Identifier: Apache-2.0" in lines[0]


def test_the_first_comment_names_the_license() -> None:
    assert [name_of(path) for path in SOURCES if not names_the_license(path)] == []


def texts() -> Iterator[tuple[Path, str]]:
    for path in files():
        try:
            yield path, path.read_text()
        except UnicodeDecodeError:
            continue  # pictures and data


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    machine = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt)/\w+")
    found = {name_of(path): machine.findall(text) for path, text in texts() if machine.search(text)}
    assert not found


def test_no_file_has_loose_ends() -> None:
    """Unfinished work has no place in the tree: it is done, or it is an issue."""
    words = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    found = {name_of(path): words.findall(text) for path, text in texts() if words.search(text)}
    assert not found


PLACE = re.compile(r"`((?:busq|csrc|tests|bench)/[\w./-]*)`")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md"])
def test_the_places_that_a_page_names_are_there(page: str) -> None:
    """But for what stands for a name that is still to be given."""
    named = [name for name in PLACE.findall((ROOT / page).read_text()) if "NAME" not in name]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
