"""The experiments by name, in the order of the report."""

from importlib import import_module

from cbid.checks import check_choice
from cbid.experiments.base import Experiment

__all__ = ["EXPERIMENTS", "get_experiment", "load_experiment"]

# A name of the command line, and the module whose EXPERIMENT it is: one line for each.
EXPERIMENTS: dict[str, str] = {
    "spiral": "cbid.experiments.spiral",
    "similarity": "cbid.experiments.similarity",
    "faces": "cbid.experiments.faces",
    "pedestrians": "cbid.experiments.pedestrians",
    "descriptors": "cbid.experiments.descriptors",
    "knn": "cbid.experiments.knn_bits",
    "svm": "cbid.experiments.svm_bits",
    "patches": "cbid.experiments.patches",
    "detection": "cbid.experiments.detection",
    "galleries": "cbid.experiments.galleries",
    "learning": "cbid.experiments.learning_curves",
}


def get_experiment(name: str) -> Experiment:
    """The experiment of that name; its module is imported now."""
    check_choice("name", name, tuple(EXPERIMENTS))
    return load_experiment(EXPERIMENTS[name])


def load_experiment(module: str) -> Experiment:
    """The experiment of a module."""
    experiment: Experiment = import_module(module).EXPERIMENT
    return experiment
