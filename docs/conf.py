"""Sphinx settings of the manual: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from archmodel import __version__  # noqa: E402

project = "archmodel"
author = "The archmodel developers"
copyright = author  # noqa: A001
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "equations", "reference", "links"]
exclude_patterns = ["_build"]
default_role = "code"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["ref.python"]  # a field name that several classes have
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"archmodel {version}"
html_show_sphinx = False
html_copy_source = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
autodoc_type_aliases = {name: name for name in ("Array", "Num", "IntArray", "Dtype", "Tier", "Group", "Scope")}
autodoc_preserve_defaults = True
highlight_language = "text"
