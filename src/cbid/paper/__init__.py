"""The paper's tables and figures, one experiment for each; ``cbid reproduce`` runs them.

Importing this package imports no experiment and none of their dependencies. The order of reading:

- ``base``: what an experiment declares. ``raw``: how its results are stored. ``runner``: runs experiments and writes
  the report. ``report``: pages of tables and plots. ``summary``: verdicts, and the report as a whole. ``chapters``:
  what is not in the paper.
- ``sets``: the named data sets with their protocols. ``coding``: vectors of a set, and coders by name. ``over_bits``:
  accuracy over the length of codes.
- One module for each kind of experiment; ``EXPERIMENTS`` lists them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbid.paper.base import Cell, Claim, Context, Experiment, Judgement, Results, Row
    from cbid.paper.runner import Outcome, reproduce

__all__ = [
    "EXPERIMENTS",
    "LONG_EXPERIMENTS",
    "Cell",
    "Claim",
    "Context",
    "Experiment",
    "Judgement",
    "Outcome",
    "Results",
    "Row",
    "get_experiment",
    "load_experiment",
    "reproduce",
]

# The experiments by name, in the order of the report: "module:attribute".
EXPERIMENTS: dict[str, str] = {
    "spiral": "cbid.paper.spiral:EXPERIMENT",
    "similarity": "cbid.paper.similarity:EXPERIMENT",
    "faces": "cbid.paper.windows:FACES",
    "pedestrians": "cbid.paper.windows:PEDESTRIANS",
    "descriptors": "cbid.paper.descriptors:EXPERIMENT",
    "knn": "cbid.paper.classifiers:KNN",
    "svm": "cbid.paper.classifiers:SVM",
    "patches": "cbid.paper.patches:EXPERIMENT",
    "detection": "cbid.paper.detection:EXPERIMENT",
    "galleries": "cbid.paper.galleries:EXPERIMENT",
    "retrieval": "cbid.paper.galleries:RETRIEVAL",
    "learning": "cbid.paper.learning_curves:EXPERIMENT",
    "unseen": "cbid.paper.unseen:EXPERIMENT",
}

# Experiments of many hours, which run only if they are named.
LONG_EXPERIMENTS: dict[str, str] = {"patches_full": "cbid.paper.patches:FULL"}

_MODULES = {
    **dict.fromkeys(("Cell", "Claim", "Context", "Experiment", "Judgement", "Results", "Row"), "cbid.paper.base"),
    **dict.fromkeys(("Outcome", "reproduce"), "cbid.paper.runner"),
}


def get_experiment(name: str) -> "Experiment":
    """Return an experiment by name; its module is imported now."""
    from cbid.checks import check_choice

    known = EXPERIMENTS | LONG_EXPERIMENTS
    check_choice("name", name, tuple(known))
    return load_experiment(known[name])


def load_experiment(location: str) -> "Experiment":
    """Return the experiment at "module:attribute"."""
    module, _, attribute = location.partition(":")
    experiment: Experiment = getattr(import_module(module), attribute)
    return experiment


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'cbid.paper' has no attribute {name!r}")
