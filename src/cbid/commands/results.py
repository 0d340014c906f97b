"""What was measured, as a table of text."""

from typing import Any

from cbid.commands.options import table

__all__ = ["accuracy_table"]


def accuracy_table(evaluation: dict[str, Any]) -> str:
    """One line for the raw vectors, and one for codes of each length."""
    n = evaluation["n_queries"]
    if not n:
        return "no images were held out: nothing was measured"
    labelled = evaluation["raw"]["accuracy"] is not None
    if labelled:
        head = ["", "bytes", "accuracy", "plain", "mAP"]
        raw = evaluation["raw"]
        rows = [["raw vectors", raw["bytes"], _percent(raw["accuracy"]), "", _three(raw["map"])]]
        for entry in evaluation["codes"]:
            weighted, plain = entry["weighted"], entry["plain"]
            rows.append(
                [
                    f"{entry['n_bits']} bits",
                    entry["bytes"],
                    _percent(weighted["accuracy"]),
                    _percent(plain["accuracy"]),
                    _three(weighted["map"]),
                ]
            )
        told = (
            f"{n:,} images against {evaluation['n_stored']:,}: accuracy of the vote of the {evaluation['k']} nearest "
            "(plain: without weights)"
        )
    else:
        head = ["", "bytes", "same ten nearest"]
        rows = [["raw vectors", evaluation["raw"]["bytes"], _percent(1.0)]]
        rows += [[f"{e['n_bits']} bits", e["bytes"], _percent(e["weighted"]["overlap"])] for e in evaluation["codes"]]
        told = f"{n:,} images against {evaluation['n_stored']:,}: share of the ten nearest that codes find"
    return f"{told}\n\n{table(head, rows, right=head[1:])}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
