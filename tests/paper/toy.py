"""An experiment that costs nothing: a coin with a bias, thrown by the seed."""

import os
import signal
import time

import numpy as np

from cbid.paper import Claim, Experiment, Judgement
from cbid.paper.report import mean_and_deviation, new_figure
from cbid.paper.sets import DataAbsent

METHODS = {"fair": 0.5, "loaded": 0.9}


def cells(present, quick):
    return [{"method": method, "repeat": repeat} for repeat in range(2 if quick else 4) for method in METHODS]


def run(cells, context):
    for settings in cells:
        if os.environ.get("TOY_FAILS") == settings["method"]:
            raise ZeroDivisionError("the coin <rolled> away")
        if os.environ.get("TOY_LACKS") == settings["method"]:
            raise DataAbsent("the coin is at the mint")
        if os.environ.get("TOY_KILLED") == f"{settings['method']} {settings['repeat']}":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            time.sleep(float(os.environ.get("TOY_SECONDS", 0)))
        except KeyboardInterrupt:
            if "TOY_CONTINUES" not in os.environ:
                raise
        rng = np.random.default_rng([settings["repeat"], len(settings["method"])])
        heads = (rng.random(20) < METHODS[settings["method"]]).astype(int)
        yield settings, {"truth": [1] * 20, "predicted": heads}


def show(results, page):
    figure, (axes,) = new_figure()
    for method in results.distinct("method"):
        axes.plot(results.measured("accuracy", method=method), label=method)
    page.plot(figure, "", "Heads <by> repeat.")
    rows = [[m, mean_and_deviation(results.measured("accuracy", method=m))] for m in results.distinct("method")]
    page.table("Heads, %", ["coin", "heads"], rows)
    page.note("5 < 6 & more")


def loaded_wins(results):
    fair, loaded = (results.measured("accuracy", method=m).mean() for m in METHODS)
    return Judgement(bool(loaded > fair), f"{loaded:.2f} against {fair:.2f}")


EXPERIMENT = Experiment(
    name="toy",
    title="Two coins",
    shows="A figure of nothing.",
    sets=(),
    protocol="Thrown 20 times.",
    methods={"fair": "as it is", "loaded": "by a friend"},
    metrics=("accuracy",),
    cells=cells,
    run=run,
    show=show,
    together=("method",),
    claims=(
        Claim("The loaded coin wins", "nowhere", loaded_wins),
        Claim(
            "The fair coin wins", "nowhere", lambda results: Judgement(not loaded_wins(results).holds, "see above")
        ),
        Claim("Coins <dream>", "nowhere", lambda results: None),
    ),
)
