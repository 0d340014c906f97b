"""The tables of docs/labels.md from the raw results of benchmarks/label_kinds.py.

They are written between the marks in the page; the text around them stays as it is.

    python -m benchmarks.label_kinds_report
"""

from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.label_kinds import BITS, CODERS, FIGURES, GRIDS, NAME, TREE_BITS, TREE_IMAGES, chosen
from benchmarks.results import load_lines

PAGE = Path(__file__).parent.parent / "docs" / "labels.md"
TITLES = {"ndcg10": "NDCG@10", "acg10": "ACG@10", "wmap": "weighted mAP", "map": "mAP"}
SETS = ("scene", "yeast", "corel5k")
POINTS = {"hp10": "hierarchical precision at 10", "mahp50": "mAHP at 50", "fine": "classes", "coarse": "groups"}


def cells_of(part, keys, figures):
    """Return key -> figure -> values over seeds, with the chosen settings; of cells run twice the last counts."""
    last, settings_of = {}, cache(chosen)
    for line in load_lines(NAME):
        other = "settings" in line and line["settings"] != settings_of(line["set"], line["method"])
        if line["part"] == part and not line["validation"] and not other:
            last[(*(line.get(key) for key in keys), line["seed"])] = line
    cells = defaultdict(lambda: defaultdict(list))
    for (*key, _), line in last.items():
        for figure in figures:
            cells[tuple(key)][figure].append(line[figure])
    return cells


def number(value):
    """A figure with three digits, without the zero before the point."""
    return f"{value:.3f}".lstrip("0") if value < 1 else f"{value:.2f}"


def sets_cells():
    return cells_of("sets", ("set", "method", "bits"), FIGURES)


def sets_tables():
    cells = sets_cells()
    for name in SETS:
        seeds = {m: {len(cells[name, m, t]["map"]) for t in BITS if (name, m, t) in cells} for m in CODERS}
        yield f"| {name} | " + " | ".join([f"{BITS[0]} bits", *map(str, BITS[1:])]) + " | seeds |"
        yield "|---" * (len(BITS) + 2) + "|"
        for method in CODERS:
            if not seeds[method]:
                continue
            found = [cells.get((name, method, t)) for t in BITS]
            row = [f"{number(np.mean(c['ndcg10']))} / {number(np.mean(c['wmap']))}" if c else "" for c in found]
            low, high = min(seeds[method]), max(seeds[method])
            yield f"| {method} | {' | '.join(row)} | {low if low == high else f'{low} to {high}'} |"
        raw = cells[name, "raw", 0]
        vectors = f"{number(raw['ndcg10'][0])} / {number(raw['wmap'][0])}"
        yield f"| raw vectors | {' | '.join([vectors] * len(BITS))} | |"
        yield ""
    yield from behind(cells)


def cells_behind(cells, left_out=()):
    """Return (set, bits) -> what another method leads C-BID in, and the number of all cells."""
    lost, total = defaultdict(list), 0
    for name in SETS:
        for t in BITS:
            if (name, "C-BID", t) not in cells:
                continue
            others = {m: f for (s, m, b), f in cells.items() if s == name and b in (t, 0)}
            others = {m: f for m, f in others.items() if m not in ("C-BID", *left_out)}
            for figure in FIGURES:
                best = max(others, key=lambda m: np.mean(others[m][figure]))
                distance = np.mean(cells[name, "C-BID", t][figure]) - np.mean(others[best][figure])
                total += 1
                if distance <= 0:
                    lost[name, t].append(f"{TITLES[figure]} {distance:.3f} ({best})".replace("-0.", "-."))
    return lost, total


def behind(cells):
    """The cells where another method leads C-BID."""
    lost, total = cells_behind(cells)
    count, other = (total - sum(map(len, v.values())) for v in (lost, cells_behind(cells, ["FastHash"])[0]))
    yield f"C-BID leads all others in {count} of {total} cells (set, length, one of four figures); without"
    yield f"FastHash, whose bits are sums of decision trees, in {other}. Behind:"
    yield ""
    yield "| set, bits | figure and distance |"
    yield "|---|---|"
    for (name, t), texts in lost.items():
        yield f"| {name}, {t} | {', '.join(texts)} |"
    yield ""
    yield from cost()
    yield "Settings; the tuned ones are the best in `GRIDS` of the script on the validation part:"
    yield ""
    yield f"| | {' | '.join(SETS)} |"
    yield "|---" * (len(SETS) + 1) + "|"
    tuned = {(line["set"], line["method"]) for line in load_lines(NAME) if line["part"] == "tune"}
    for method in [m for m in CODERS if len(GRIDS[m]) > 1 and any(key[1] == m for key in cells)]:
        texts = [settings_text(chosen(s, method)) + (", tuned" if (s, method) in tuned else "") for s in SETS]
        yield f"| {method} | {' | '.join(texts)} |"
    yield ""


def cost():
    """What encoding costs compared with FastHash."""
    lines = {(v["set"], v["method"]): v for v in load_lines(NAME) if v["part"] == "cost"}
    names = [s for s in SETS if (s, "C-BID") in lines and (s, "FastHash") in lines]
    if not names:
        return
    yield "Processor time to encode a test sample with 64 bits, in microseconds, and size of the saved coder, in MB:"
    yield ""
    yield f"| | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for method in ("C-BID", "FastHash"):
        found = [lines[s, method] for s in names]
        yield f"| {method} | " + " | ".join(f"{v['microseconds']:.0f} / {v['bytes'] / 1e6:.1f}" for v in found) + " |"
    yield ""


def settings_text(settings):
    return "`" + ", ".join(f"{name}={value!r}" for name, value in settings.items()) + "`"


def tree_table():
    """Both kinds of codes on the seeds that both were run with, a table for each number of training images."""
    for images in TREE_IMAGES:
        yield from tree_table_of(images)


def tree_table_of(images):
    lines = {
        (v["method"], v["bits"], v["seed"]): v
        for v in load_lines(NAME)
        if v["part"] == "tree" and not v["validation"] and v["images"] == images
    }
    short = TREE_BITS[0]
    columns = {("tree", t): f"{t} bits" for t in TREE_BITS[1:]}
    columns |= {(f"prefix of {t}", short): f"first {short} of {t}" for t in TREE_BITS[1:]}
    seeds = {key: [s for m, t, s in lines if (m, t) == key and ("flat", t, s) in lines] for key in columns}
    columns = {key: title for key, title in columns.items() if seeds[key]}
    yield f"| {images} training images a class | {' | '.join(columns.values())} |"
    yield "|---" * (len(columns) + 1) + "|"
    for figure, title in POINTS.items():
        means = [
            [np.mean([lines[m, t, s][figure] for s in seeds[key]]) for m in (key[0], "flat")]
            for key in columns
            for t in key[1:]
        ]
        yield f"| {title}, with the tree | {' | '.join(number(a) for a, _ in means)} |"
        yield f"| {title}, without | {' | '.join(number(b) for _, b in means)} |"
        yield f"| difference in points | {' | '.join(f'{100 * (a - b):+.1f}' for a, b in means)} |"
    yield f"| seeds | {' | '.join(str(len(seeds[key])) for key in columns)} |"
    yield ""
    yield from room_of_groups(lines)
    svm = [v for (m, *_), v in lines.items() if m == "svm"]
    if not svm:
        return
    limits = ", ".join(f"{POINTS[f]} {number(np.mean([v[f] for v in svm]))}" for f in POINTS if f in svm[0])
    yield "For comparison, SVMs (RBF, C = 10) on the vectors, one for classes and one for groups, as if all ten"
    yield f"neighbours were of the class that the first one names: {limits}."
    yield ""
    raw = [v for (m, *_), v in lines.items() if m == "raw"]
    if raw:
        yield f"The raw vectors: {', '.join(f'{POINTS[f]} {number(np.mean([v[f] for v in raw]))}' for f in POINTS)}."
        yield ""
    yield from room(lines, svm)


def room_of_groups(lines):
    """How far the groups of the first bits can rise above those of a code without a tree."""
    by_method = defaultdict(list)
    for (method, bits, _), line in lines.items():
        by_method[method, bits].append(line["coarse"])
    flat = by_method.get(("flat", TREE_BITS[0]))
    if not flat:
        return
    best = max(map(np.mean, by_method.values()))
    yield f"The best accuracy of groups of all that was measured, at any length, is {number(best)},"
    yield f"{100 * (best - np.mean(flat)):.1f} points above the first {TREE_BITS[0]} bits without a tree."
    yield ""


def room(lines, svm):
    """How far hierarchical precision at 10 can rise, if ten images of one class are the neighbours."""
    t = TREE_BITS[-1]
    codes = {m: [v for (name, b, _), v in lines.items() if (name, b) == (m, t)] for m in ("flat", "tree")}
    if not all(codes.values()):
        return
    best = {f: max(np.mean([v[f] for v in kind]) for kind in (svm, *codes.values())) for f in ("fine", "coarse")}
    flat = np.mean([v["hp10"] for v in codes["flat"]])
    most = (best["fine"] + best["coarse"]) / 2
    yield "If all ten neighbours are of one class, hierarchical precision at 10 is the mean of the two accuracies,"
    yield "as the right class counts 1 and another one of the right group one half. The best accuracies above are"
    yield f"{number(best['fine'])} for classes and {number(best['coarse'])} for groups, so {number(most)},"
    yield f"{100 * (most - flat):.1f} points above the {t} bits without a tree."
    yield ""


def pairs_table():
    tried = defaultdict(list)
    for line in load_lines(NAME):
        if line["part"] == "pairs":
            tried[line["validation"], line["method"], line["side"]].append(line["knn"])
    yield "| | validation | test |"
    yield "|---|---|---|"
    for method, side in sorted({key[1:] for key in tried}, key=lambda key: key[1] or 0):
        row = []
        for validation in (True, False):
            values = tried.get((validation, method, side))
            row.append(f"{number(np.mean(values))} ({len(values)} seeds)" if values else "")
        words = "`fit` on the labels" if side is None else f"`fit_pairs`, sides of {side} dissimilar samples"
        yield f"| {words} | {' | '.join(row)} |"
    yield ""


TABLES = {"sets": sets_tables, "tree": tree_table, "pairs": pairs_table}


def document():
    """Return docs/labels.md with its tables."""
    page = PAGE.read_text()
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: made by benchmarks.label_kinds_report -->\n", f"<!-- end of {name} -->\n"
        before, rest = page.split(begin)
        page = before + begin + "\n" + "\n".join(table()) + "\n" + end + rest.split(end)[1]
    return page


def main():
    PAGE.write_text(document())
    print(f"written: docs/{PAGE.name}")


if __name__ == "__main__":
    main()
