"""What the experiments on windows of two classes, faces and pedestrians, share."""

from collections.abc import Mapping, Sequence

from cbid.paper.base import Judgement, Results, Settings
from cbid.paper.over_bits import ORIGINAL, Draw, cells_of, compare, show_over_bits
from cbid.paper.page import Page, percent

__all__ = ["METHODS", "METRIC", "beats", "cells_of_windows", "show"]

METHODS = ("C-BID", "C-BID, 5 nearest", "C-BID, RBF")
DECIDES = "C-BID, RBF"
METRIC = "mean_class_accuracy"  # there are more other windows than faces
LENGTHS, QUICK_LENGTHS = (8, 16, 32, 64, 128, 256), (8, 32)


def cells_of_windows(
    full: Mapping[str, Sequence[Draw]], short: Mapping[str, Sequence[Draw]], present: Sequence[str], quick: bool
) -> list[Settings]:
    return cells_of(short if quick else full, present, METHODS, QUICK_LENGTHS if quick else LENGTHS)


def show(results: Results, page: Page) -> None:
    show_over_bits(results, page, METRIC)


def beats(results: Results, *, feature: str) -> Judgement | None:
    """C-BID over a feature at its longest, against that feature and against pixels.

    The kernel form decides, which is the one for hand-made features (README); held-out windows decide where a set has
    two test parts, since the paper tests on windows of one source.
    """
    told, holds = [], []
    for part in ("validation", "test"):
        judged = _beats(results.where(part=part), feature)
        if judged is not None:
            told.append(("Held out: " if part == "validation" else "Test part: ") + judged.figures)
            holds.append(judged.holds)
    return Judgement(holds[0], " ".join(told)) if told else None


def _beats(results: Results, feature: str) -> Judgement | None:
    lengths = [bits for bits in results.distinct("bits") if bits is not None]
    if not lengths:
        return None
    longest = max(lengths)
    found = {m: results.measured(METRIC, features=feature, method=m, bits=longest) for m in METHODS}
    theirs = {f: results.measured(METRIC, features=f, method=ORIGINAL) for f in ("raw pixels", feature)}
    ours = found[DECIDES]
    if not len(ours) or not all(len(values) for values in theirs.values()):
        return None
    told = "; ".join(f"{f} {compare(ours, values)}" for f, values in theirs.items())
    others = ", ".join(f"{m} {percent(v.mean())} %" for m, v in found.items() if m != DECIDES and len(v))
    figures = f"{DECIDES} of {feature}, {longest} bits, against {told}"
    figures += f" ({others})." if others else "."
    return Judgement(all(bool(ours.mean() > values.mean()) for values in theirs.values()), figures)
