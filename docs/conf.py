"""Sphinx: ``make docs`` builds the site into build/docs, with warnings as errors."""

import re

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

# Signatures show names and defaults; types are in the docstrings, in the words of the field.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True


def as_plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: a trailing underscore or a bar in them is no markup."""
    for i, line in enumerate(lines):
        parts = line.split("``")
        parts[::2] = [re.sub(r"(?<=\w)_(?!\w)|[|*`]", r"\\\g<0>", part) for part in parts[::2]]
        lines[i] = "``".join(parts)


SKLEARN = {"get_params", "set_params", "get_metadata_routing", "set_output", "fit_transform"}


def without_requests(app, what, name, obj, skip, options):
    """scikit-learn's ``set_fit_request`` and its like say nothing of ours."""
    return True if name in SKLEARN or (name.startswith("set_") and name.endswith("_request")) else None


def setup(app):
    app.connect("autodoc-process-docstring", as_plain_text, priority=100)  # before napoleon
    app.connect("autodoc-skip-member", without_requests)
