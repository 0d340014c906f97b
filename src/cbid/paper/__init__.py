"""The paper's tables and figures: one file for each, run by ``cbid reproduce``."""

from cbid.paper.base import Cell, Claim, Context, Experiment, Judgement, Results, Row
from cbid.paper.registry import EXPERIMENTS, get_experiment
from cbid.paper.reproduce import Outcome, reproduce

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
