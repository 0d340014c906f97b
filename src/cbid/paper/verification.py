"""What codes add to a detector if C of the SVM on codes and its weight are chosen on other photographs.

The photographs are halved in the order of their names, so neighbouring shots of one scene stay together. Every C and
weight is measured on both halves and stored; ``clean_gains`` takes the best of one half and reads its gain off the
other, both ways. All coders have the same grid, and so has the control: a second SVM on the HOG vectors themselves.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbid.detection import evaluate
from cbid.detection.scan import Windows
from cbid.detection.verifier import fit_svm
from cbid.evaluation import paired_test
from cbid.paper.base import Judgement, Results, Row, on_every, p_text
from cbid.paper.sets import CATALOGUE

BASELINE, CONTROL, OURS = "HOG + SVM", "HOG itself", "C-BID"
PUBLISHED_GAINS = {"inria_person": 5.28, "tud_brussels": 11.87}  # points
PROTOCOL = {"aspect": 0.41, "min_height": 50.0}
PENALTIES, QUICK_PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), (0.03, 0.3)
WEIGHTS = (0.25, 0.5, 0.75, 1.0)

Rates = dict[str, dict[str, list[float]]]  # by C and weight: the log-average detection rate on each half


def rates_alone(found: Sequence[Windows], truth: Sequence[Any]) -> Rates:
    """Return the rates of the detector without verification."""
    return {"0": {"0": _rates(found, [w.scores for w in found], truth)}}


def rates_by_setting(
    values: Any, X: Any, y: Any, found: Sequence[Windows], truth: Sequence[Any], seed: int, penalties: Sequence[float]
) -> Rates:
    """Return the rates for every C and weight. ``values`` turns HOG vectors into what the SVM sees."""
    cuts = np.cumsum([len(windows.scores) for windows in found])[:-1]
    train, asked = values(X), values(np.concatenate([windows.features for windows in found]))
    rates: Rates = {}
    for C in penalties:
        coef, intercept = fit_svm(train, y, C=C, random_state=seed)
        new = np.split(asked @ coef + intercept, cuts)
        rates[f"{C:g}"] = {
            f"{weight:g}": _rates(found, [weight * s + (1 - weight) * w.scores for s, w in zip(new, found)], truth)
            for weight in WEIGHTS
        }
    return rates


def _rates(found: Sequence[Windows], scores: Sequence[Any], truth: Sequence[Any]) -> list[float]:
    detections = [windows.detections(new) for windows, new in zip(found, scores)]
    middle = len(found) // 2
    rates = []
    for half in (slice(0, middle), slice(middle, None)):
        curve = evaluate(detections[half], list(truth[half]), **PROTOCOL)
        rates.append(float(curve.log_average_detection_rate()))
    return rates


def chosen_settings(row: Row, base: Row) -> list[tuple[tuple[str, str], float]]:
    """Return ((C, weight) that is best on one half, its gain on the other in points), both ways."""
    alone = base["halves"]["0"]["0"]
    grid = {(C, weight): both for C, by_weight in row["halves"].items() for weight, both in by_weight.items()}
    found = []
    for own, other in ((0, 1), (1, 0)):
        best = max(grid, key=lambda setting: grid[setting][own])
        found.append((best, 100 * (grid[best][other] - alone[other])))
    return found


def clean_gains(part: Results, method: str, bits: int | None) -> NDArray[np.float64]:
    """Return the gain of a method for each seed, in points: the mean of both ways of choosing and measuring."""
    base = {row["repeat"]: row for row in part.where(method=BASELINE) if "halves" in row.result}
    gains = {
        row["repeat"]: float(np.mean([gain for _, gain in chosen_settings(row, base[row["repeat"]])]))
        for row in part.where(method=method, bits=bits)
        if "halves" in row.result and row["repeat"] in base
    }
    return np.array([gains[seed] for seed in sorted(gains)])


def clean_table(part: Results) -> tuple[str, list[str], list[list[str]]]:
    """Return title, head and rows of the table of gains with C and weight chosen on the other half."""
    found = []
    base = {row["repeat"]: row for row in part.where(method=BASELINE)}
    for method, bits, of in part.by("method", "bits"):
        gains = clean_gains(part, method, bits)
        if method == BASELINE or not len(gains):
            continue
        rows = [row for row in of if "halves" in row.result]
        settings = Counter(chosen for row in rows for chosen, _ in chosen_settings(row, base[row["repeat"]]))
        (C, weight), _ = settings.most_common(1)[0]
        name = method if bits is None else f"{method}, {bits:,} bits"
        found.append((gains.mean(), [name, points_of(gains), f"C {C}, weight {weight}"]))
    found.sort(key=lambda row: -row[0])
    title = "C and weight chosen on one half of the photographs and measured on the other"
    return title, ["verified by", "gain, points (each seed)", "chosen most often"], [row for _, row in found]


def points_of(gains: NDArray[np.float64]) -> str:
    """Return the mean of gains and the gain of each seed."""
    return f"{gains.mean():+.1f} ({', '.join(f'{g:+.1f}' for g in gains)})"


def _longest_gains(results: Results) -> Iterator[tuple[str, int, NDArray[np.float64], NDArray[np.float64]]]:
    """Yield each set with its longest code, and the clean gains of C-BID and of the control."""
    for name, part in results.by("set"):
        longest = max(part.where(method=OURS).lengths(), default=0)
        gains, control = clean_gains(part, OURS, longest), clean_gains(part, CONTROL, None)
        if len(gains):
            yield name, longest, gains, control


def _beyond(gains: NDArray[np.float64], base: NDArray[np.float64], text: str) -> Judgement:
    """Judge whether gains are larger than others of the same seeds."""
    p = paired_test(gains, base).p
    shown = "one seed, no test" if np.isnan(p) else p_text(p)
    return Judgement(bool(gains.mean() > base.mean()), f"{text} ({shown}).", p)


@on_every
def verification_helps(results: Results) -> Iterator[Judgement]:
    """Judge whether the gain of C-BID is above zero; report the control's gain too."""
    for name, bits, gains, control in _longest_gains(results):
        beside = f"; the control, a second SVM on HOG, {points_of(control)}" if len(control) else ""
        text = f"{CATALOGUE[name].title}, {bits:,} bits: {points_of(gains)} points{beside}"
        yield _beyond(gains, np.zeros(len(gains)), text)


@on_every
def codes_help(results: Results) -> Iterator[Judgement]:
    """Judge whether C-BID gains more than the control."""
    for name, bits, gains, control in _longest_gains(results):
        if len(control) == len(gains):
            text = f"{CATALOGUE[name].title}, {bits:,} bits: {points_of(gains)} against {points_of(control)} points"
            yield _beyond(gains, control, text)


@on_every
def gain_as_published(results: Results) -> Iterator[Judgement]:
    """Judge whether the gain is at least the published one."""
    for name, bits, gains, _ in _longest_gains(results):
        published = PUBLISHED_GAINS[name]
        text = f"{CATALOGUE[name].title}, {bits:,} bits: {points_of(gains)} points, published +{published:g}"
        yield _beyond(gains, np.full(len(gains), published), text)
