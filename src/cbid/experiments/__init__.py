"""The paper's tables and figures: one file for each, run by ``cbid reproduce``."""

from cbid.experiments.base import Cell, Claim, Context, Experiment, Judgement, Results, Row
from cbid.experiments.registry import EXPERIMENTS, get_experiment
from cbid.experiments.reproduce import Outcome, reproduce

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Claim",
    "Context",
    "Experiment",
    "Judgement",
    "Outcome",
    "Results",
    "Row",
    "get_experiment",
    "reproduce",
]
