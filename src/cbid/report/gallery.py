"""Example searches of a report: queries and their nearest images."""

from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cbid.report.html import embedded_image

if TYPE_CHECKING:
    from cbid.project import ImageRecord, Project

__all__ = ["Example", "choose_examples", "gallery_html"]

_MAX_IMAGES, _MAX_QUERIES = 5_000, 500  # images to sample, and held-out images among them to search with
_N_NEAREST = 10


class Example(NamedTuple):
    """One query, its nearest images and their distances."""

    query: "ImageRecord"
    matches: list["ImageRecord"]
    distances: list[float]

    @property
    def n_wrong(self) -> int:
        """Number of matches with another label than the query."""
        return sum(match.label != self.query.label for match in self.matches)


def choose_examples(project: "Project", count: int = 12) -> list[Example]:
    """Return searches with held-out images (or any images, if none was held out), without the query itself.

    Up to half of them are those with the most wrong matches and come last. The others are a random sample.
    """
    rng = np.random.default_rng(0)
    ids = project.ids
    if len(ids) > _MAX_IMAGES:
        ids = np.sort(rng.choice(ids, _MAX_IMAGES, replace=False))
    records = project.records_of(ids)
    queries = [record for record in records if record.part == "held-out"] or records
    queries = [queries[i] for i in np.sort(rng.permutation(len(queries))[:_MAX_QUERIES])]
    examples = _search(project, queries)
    wrong = sorted((e for e in examples if e.n_wrong), key=lambda e: (-e.n_wrong, e.query.id))[: count // 2]
    rest = [example for example in examples if example not in wrong]
    sample = [rest[i] for i in np.sort(rng.permutation(len(rest))[: count - len(wrong)])]
    return [*sample, *wrong]


def _search(project: "Project", queries: list["ImageRecord"]) -> list[Example]:
    query_ids = np.array([query.id for query in queries], dtype=np.int64)
    vectors = np.array([project.vector(query.id) for query in queries]).reshape(len(queries), project.n_features)
    found = project.search(project.index.reconstruct(query_ids), _N_NEAREST + 1, vectors=vectors)
    records = {record.id: record for record in project.records_of(np.unique(found.ids[found.ids >= 0]))}
    examples = []
    for query, ids, distances in zip(queries, found.ids, found.distances):
        near = [(int(id), float(d)) for id, d in zip(ids, distances) if id >= 0 and id != query.id][:_N_NEAREST]
        examples.append(Example(query, [records[id] for id, _ in near], [d for _, d in near]))
    return examples


def gallery_html(project: "Project", examples: list[Example]) -> str:
    """Return one row per query with its nearest images; those of another class have a red frame."""
    rows = []
    for query, matches, distances in examples:
        near = "".join(
            _figure(project, match, f"{distance:.2f}", "wrong" if match.label != query.label else "")
            for match, distance in zip(matches, distances)
        )
        rows.append(
            f'<div class="row">{_figure(project, query, "query", "query")}<div class="near">{near}</div></div>'
        )
    return "\n".join(rows)


def _figure(project: "Project", record: "ImageRecord", caption: str, kind: str) -> str:
    if project.has_thumbnails:
        picture = embedded_image(project.thumbnail(record.id), record.name, format="jpeg")
    else:
        picture = f'<span class="name">{escape(record.name)}</span>'
    mark = '<span class="mark" title="another class">✗</span> ' if kind == "wrong" else ""
    label = escape(record.label or "no label")
    return f'<figure class="{kind}">{picture}<figcaption>{mark}{label}<br>{escape(caption)}</figcaption></figure>'
