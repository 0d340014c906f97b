"""What the experiments on windows of two classes, faces and pedestrians, share."""

from collections.abc import Mapping, Sequence

from cbid.experiments.base import Judgement, Results, Settings
from cbid.experiments.over_bits import ORIGINAL, Draw, cells_of, compare, show_over_bits
from cbid.experiments.page import Page

__all__ = ["METHODS", "METRIC", "beats", "cells_of_windows", "show"]

METHODS = ("C-BID", "C-BID, 5 nearest", "C-BID, RBF")
METRIC = "mean_class_accuracy"  # there are more other windows than faces
LENGTHS, QUICK_LENGTHS = (8, 16, 32, 64, 128, 256), (8, 32)


def cells_of_windows(
    full: Mapping[str, Sequence[Draw]], short: Mapping[str, Sequence[Draw]], present: Sequence[str], quick: bool
) -> list[Settings]:
    return cells_of(dict(short if quick else full), present, METHODS, QUICK_LENGTHS if quick else LENGTHS)


def show(results: Results, page: Page) -> None:
    show_over_bits(results, page, METRIC)


def beats(results: Results, *, feature: str) -> Judgement | None:
    """C-BID over a feature, in its best form at its longest, against that feature and against pixels."""
    ours = results.where(features=feature)
    lengths = [bits for bits in results.distinct("bits") if bits is not None]
    found = {m: ours.measured(METRIC, method=m, bits=lengths[-1]) for m in METHODS} if lengths else {}
    found = {m: values for m, values in found.items() if len(values)}
    theirs = {f: results.measured(METRIC, features=f, method=ORIGINAL) for f in ("raw pixels", feature)}
    if not found or not all(len(values) for values in theirs.values()):
        return None
    best = max(found, key=lambda m: found[m].mean())
    told = "; ".join(f"{f}: {compare(found[best], values)}" for f, values in theirs.items())
    holds = all(found[best].mean() > values.mean() for values in theirs.values())
    return Judgement(bool(holds), f"{best} of {feature}, {lengths[-1]} bits. {told}.")
