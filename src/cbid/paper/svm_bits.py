"""SVM accuracy over the length of codes, against other codes and against pooled local descriptors."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from cbid.paper.base import Cell, Claim, Context, Experiment, Judgement, Results, Settings
from cbid.paper.coding import CODERS, support_vectors
from cbid.paper.over_bits import (
    FULL,
    METRIC,
    ORIGINAL,
    QUICK,
    TOGETHER,
    cells_of,
    compare,
    run_cells,
    show_over_bits,
)
from cbid.paper.page import Page, percent
from cbid.paper.sets import CATALOGUE
from cbid.paper.vectors import mapped_bags, split_of

CODED = ("C-BID", "C-BID, RBF", "anchor graphs", "PiCoDes", "MC-bit")
POOLED = {
    "bag of words, HIK SVM": "dense SIFT, words in a spatial pyramid, intersection kernel (Wu and Rehg 2011)",
    "sparse coding": "dense SIFT, max-pooled sparse codes, linear SVM (Yang et al. 2009)",
    "LLC": "dense SIFT, max-pooled local codes, linear SVM (Wang et al. 2010)",
}
LENGTHS, QUICK_LENGTHS = (32, 64, 128, 256, 512), (16, 64)


def cells(present: Sequence[str], quick: bool) -> list[Settings]:
    """Codes at every length; pooled descriptors of photographs, which take long, on three repeats (in a quick run on
    one, and not on Scene-15, whose draw is the largest)."""
    draws = QUICK if quick else FULL
    coded = cells_of(draws, present, CODED, QUICK_LENGTHS if quick else LENGTHS)
    # One length only: it stands at the first.
    coded = [c for c in coded if c["method"] != "MC-bit" or c["bits"] == (QUICK_LENGTHS if quick else LENGTHS)[0]]
    pooled = []
    for name in present:
        if name == "digits" or (quick and name == "scene15"):
            continue
        for draw in draws[name]:
            for repeat in range(1 if quick else min(3, draw.repeats)):
                fixed = {"set": name, **draw.settings(), "repeat": repeat, "bits": None}
                pooled += [fixed | {"method": m, "words": 32 if quick else 400} for m in POOLED]
    return coded + pooled


def run(cells: list[Settings], context: Context) -> Iterator[Cell]:
    if cells[0]["method"] not in POOLED:
        yield from run_cells(cells, context, support_vectors)
        return
    for settings in cells:
        yield settings, pooled(settings, context)


def pooled(settings: Settings, context: Context) -> dict[str, Any]:
    """Predictions of a classifier over pooled dense SIFT of the photographs themselves."""
    from cbid.descriptors import DenseSIFT

    data = context.open(settings["set"])
    train, test = split_of(data, settings)
    sift = DenseSIFT(step=8, sides=(16,), longest=None, magnification=None, window=None)
    assert data.labels is not None
    model = _pooled_model(settings["method"], settings["words"], settings["repeat"])
    model.fit(mapped_bags(data, train, sift, context), data.labels[train])
    predicted = model.predict(mapped_bags(data, test, sift, context))
    return {"truth": data.labels[test].tolist(), "predicted": predicted, "bytes": 4 * 21 * settings["words"]}


def _pooled_model(method: str, n_words: int, seed: int) -> Any:
    from cbid.pooling import LLC, BagOfWords, HIKClassifier, ScSPM

    if method.startswith("bag"):
        return make_pipeline(BagOfWords(n_words=n_words, random_state=seed), HIKClassifier())
    pooling: Any = ScSPM if method == "sparse coding" else LLC
    return make_pipeline(pooling(n_words=n_words, random_state=seed), LinearSVC(C=1.0, random_state=seed))


def show(results: Results, page: Page) -> None:
    show_over_bits(results, page, METRIC, lines=tuple(POOLED))


def each_set(results: Results) -> Iterator[tuple[str, Results, int]]:
    """Photographs only, each with its greatest length."""
    for name in results.distinct("set"):
        part = results.where(set=name)
        if name != "digits" and any(b is not None for b in part.distinct("bits")):
            yield name, part, max(b for b in part.distinct("bits") if b is not None)


def beats_original(results: Results) -> Judgement | None:
    told, holds = [], []
    for name, part, longest in each_set(results):
        ours, theirs = (
            part.measured(METRIC, method="C-BID", bits=longest),
            part.measured(METRIC, method=ORIGINAL),
        )
        if len(ours) and len(theirs):
            told.append(f"{CATALOGUE[name].title}, {longest} bits: {compare(ours, theirs)}.")
            holds.append(bool(ours.mean() > theirs.mean()))
    return Judgement(all(holds), " ".join(told)) if holds else None


def comparable(results: Results) -> Judgement | None:
    """Within two percent of the best pooled method or better, in a tenth of its bytes."""
    told, holds = [], []
    for name, part, longest in each_set(results):
        ours = part.where(method="C-BID", bits=longest)
        means = {m: part.measured(METRIC, method=m).mean() for m in POOLED if len(part.where(method=m))}
        if not len(ours.measured(METRIC)) or not means:
            continue
        best = max(means, key=lambda m: means[m])
        sizes = ours.rows[0].result.get("bytes", np.inf), part.where(method=best).rows[0]["bytes"]
        mine = float(ours.measured(METRIC).mean())
        told.append(
            f"{CATALOGUE[name].title}: {percent(mine)} % in {sizes[0]} bytes, {best} {percent(means[best])} % in "
            f"{sizes[1]:,}."
        )
        holds.append(bool(mine >= means[best] - 0.02 and 10 * sizes[0] <= sizes[1]))
    return Judgement(all(holds), " ".join(told)) if holds else None


def anchors_fall_behind(results: Results) -> Judgement | None:
    told, holds = [], []
    for name, part, longest in each_set(results):
        ours, theirs = (part.measured(METRIC, method=m, bits=longest) for m in ("C-BID", "anchor graphs"))
        if len(ours) and len(theirs):
            told.append(f"{CATALOGUE[name].title}, {longest} bits: {compare(theirs, ours)}.")
            holds.append(bool(theirs.mean() < ours.mean()))
    return Judgement(all(holds), " ".join(told)) if holds else None


EXPERIMENT = Experiment(
    name="svm",
    title="SVM accuracy over bits",
    shows="The paper’s figure of SVM accuracy against other codes and against pooled local descriptors.",
    sets=tuple(FULL),
    protocol="Splits and vectors as for k-NN. Linear SVMs, one against the rest, C = 1, on bits divided by the root "
    "of their number. Pooled descriptors are of the photographs: SIFT of 16 x 16 patches every 8 pixels, 400 "
    "words, three levels of a pyramid, on three of the five repeats.",
    methods={name: CODERS[name].text for name in CODED} | {ORIGINAL: "linear SVM"} | POOLED,
    metrics=(METRIC,),
    cells=cells,
    run=run,
    show=show,
    together=TOGETHER,
    claims=(
        Claim("C-BID with a linear SVM beats the features it was learned from", "section on SVM", beats_original),
        Claim(
            "C-BID is comparable to the state of the art in an order of magnitude less storage",
            "figure of SVM accuracy",
            comparable,
        ),
        Claim("Anchor-graph hashing with an SVM falls behind as bits grow", "section on SVM", anchors_fall_behind),
    ),
    cost=(12.0, 1.5),
)
