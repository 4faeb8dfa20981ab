# SPDX-License-Identifier: Apache-2.0
"""How the documentation is built: sphinx-build -W --keep-going -n docs build/docs

Pages are Markdown.  Whatever the code knows already is not written down a second time: the pages in reference/generated
and the pictures in pictures/generated are made from it before Sphinx reads anything (see extension/__init__.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The installed package is what is documented: the source tree beside us holds no compiled core.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE.parent]
sys.path.insert(0, str(HERE))

import busq  # noqa: E402

project = "busq"
author = "The busq authors"
project_copyright = "the busq authors"
version = release = busq.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "extension"]
exclude_patterns = ["build", "_build"]
nitpicky = True
default_role = None
smartquotes = False  # options begin with two hyphens
highlight_language = "text"

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
# Types of Python, Arrow and Spark are named in signatures and described elsewhere.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!busq\.).*"),
    (r"c:identifier", r"u?int\d+_t|size_t"),
]

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"busq {release}"
html_static_path = ["static"]
html_css_files = ["busq.css"]
html_copy_source = True
html_show_sphinx = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#1d5f86", "color-brand-content": "#1d5f86"},
    "dark_css_variables": {"color-brand-primary": "#7cc0e8", "color-brand-content": "#7cc0e8"},
}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

linkcheck_timeout = 10
linkcheck_retries = 1
