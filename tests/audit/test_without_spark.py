# SPDX-License-Identifier: Apache-2.0
"""Where Spark is not installed: a line names what to do, and all the rest does not notice."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import fresh_python

IMPORT = """
import sys
{hide}
try:
    import busq.spark
except ImportError as error:
    print(type(error).__name__, error, sep=": ")
"""


def test_without_pyspark_importing_says_what_to_install() -> None:
    done = fresh_python(IMPORT.format(hide="sys.modules['pyspark'] = None"))
    assert re.fullmatch(r"Unavailable: busq\.spark needs pyspark(, \w+)*: pip install 'busq\[spark\]'\n", done.stdout)
    assert done.stderr == ""


def test_under_an_older_python_importing_says_that_it_is_too_old() -> None:
    done = fresh_python(IMPORT.format(hide="sys.version_info = (3, 10, 14)"))
    assert done.stdout == (
        "Unavailable: busq.spark needs Python 3.11 or newer, and this is 3.10: "
        "the rest of busq works without it, the audit in C included\n"
    )


def test_the_command_line_gives_the_same_line_and_no_traceback(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["pyspark"] = None
from busq.cli import main
sys.argv = ["busq", "audit", "--follow", {str(tmp_path)!r}]  # where busq may record
main()
"""
    done = fresh_python(code)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"busq: busq\.spark needs pyspark(, \w+)*: pip install 'busq\[spark\]'\n", done.stderr)


def test_importing_busq_and_its_help_loads_neither_spark_nor_arrow() -> None:
    code = """
import sys
import busq
from busq.cli import commands
commands.main(["--help"], standalone_mode=False)
print([name for name in ("pyspark", "pyarrow", "pandas", "numpy", "busq.spark") if name in sys.modules])
"""
    done = fresh_python(code)
    assert done.stdout.splitlines()[-1] == "[]"
