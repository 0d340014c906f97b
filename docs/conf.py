"""Sphinx: ``make docs`` builds the site into build/docs, with warnings as errors."""

import re

from numpy.typing import ArrayLike
from sphinx.addnodes import pending_xref
from sphinx.util.typing import stringify_annotation

import cbid

project = "cbid"
author = "The cbid developers"
version = release = cbid.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["pictures/*.py"]
html_theme = "furo"
html_title = "cbid"
myst_heading_anchors = 3
nitpicky = False

# Signatures show types and defaults; docstrings say shapes and meaning.
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 90
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True


def as_plain_text(app, what, name, obj, options, lines):
    """Escape trailing underscores and bars: docstrings are plain text, not markup."""
    for i, line in enumerate(lines):
        parts = line.split("``")
        parts[::2] = [re.sub(r"(?<=\w)_(?!\w)|[|*`]", r"\\\g<0>", part) for part in parts[::2]]
        lines[i] = "``".join(parts)


ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")


def with_short_types(app, what, name, obj, options, signature, returns):
    """Write ``ArrayLike`` and ``NDArray[...]`` instead of their definitions."""
    return tuple(
        text
        and re.sub(
            r"~?(?:numpy\.)?ndarray\[.*?, ~?(?:numpy\.)?dtype\[(.*?)\]\]",
            r"NDArray[\1]",
            text.replace(ARRAY_LIKE, "ArrayLike"),
        )
        for text in (signature, returns)
    )


def without_links_of_words(app, doctree):
    """Types in docstrings are words, such as "array of shape (n, d)": ``shape`` is no link to some attribute."""
    for node in list(doctree.findall(pending_xref)):
        if node.get("refdomain") == "py" and re.fullmatch(r"[a-z_]+", node["reftarget"]):
            node.replace_self(node.children)


SKLEARN = {"get_params", "set_params", "get_metadata_routing", "set_output", "fit_transform"}


def without_requests(app, what, name, obj, skip, options):
    """Skip methods that scikit-learn generates, such as ``set_fit_request``."""
    return True if name in SKLEARN or (name.startswith("set_") and name.endswith("_request")) else None


def setup(app):
    app.connect("autodoc-process-docstring", as_plain_text, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", with_short_types)
    app.connect("doctree-read", without_links_of_words)
    app.connect("autodoc-skip-member", without_requests)
