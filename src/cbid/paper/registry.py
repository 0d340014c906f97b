"""The experiments by name, in the order of the report."""

from importlib import import_module

from cbid.checks import check_choice
from cbid.paper.base import Experiment

__all__ = ["EXPERIMENTS", "get_experiment", "load_experiment"]

# A name of the command line, and the module whose EXPERIMENT it is: one line for each.
EXPERIMENTS: dict[str, str] = {
    "spiral": "cbid.paper.spiral",
    "similarity": "cbid.paper.similarity",
    "faces": "cbid.paper.faces",
    "pedestrians": "cbid.paper.pedestrians",
    "descriptors": "cbid.paper.descriptors",
    "knn": "cbid.paper.knn_bits",
    "svm": "cbid.paper.svm_bits",
    "patches": "cbid.paper.patches",
    "detection": "cbid.paper.detection",
    "galleries": "cbid.paper.galleries",
    "learning": "cbid.paper.learning_curves",
}


def get_experiment(name: str) -> Experiment:
    """The experiment of that name; its module is imported now."""
    check_choice("name", name, tuple(EXPERIMENTS))
    return load_experiment(EXPERIMENTS[name])


def load_experiment(module: str) -> Experiment:
    """The experiment of a module."""
    experiment: Experiment = import_module(module).EXPERIMENT
    return experiment
