"""Queries of a report and what was found for them."""

import base64
import html
from typing import NamedTuple

import numpy as np

from cbid.project import Project
from cbid.project.parts import HELD_OUT
from cbid.project.table import ImageRecord

__all__ = ["Shown", "gallery", "gallery_html"]

_SAMPLE, _LOOKED_AT = 5_000, 500  # images, and held-out ones among them, that queries are chosen from
NEAREST = 10


class Shown(NamedTuple):
    """One query, the images nearest to it, and their distances."""

    query: ImageRecord
    matches: list[ImageRecord]
    distances: list[float]

    @property
    def errors(self) -> int:
        return sum(match.label != self.query.label for match in self.matches)


def gallery(project: Project, count: int = 12) -> list[Shown]:
    """Held-out images (any, if none was held out) with the ten images nearest to each, itself left out.

    Up to half of them are those with most wrong answers, the others are drawn at random: what goes wrong is shown.
    """
    rng = np.random.default_rng(0)
    ids = project.ids
    if len(ids) > _SAMPLE:
        ids = np.sort(rng.choice(ids, _SAMPLE, replace=False))
    records = [project.record(int(id)) for id in ids]
    asking = [record for record in records if record.part == HELD_OUT] or records
    asking = [asking[i] for i in np.sort(rng.permutation(len(asking))[:_LOOKED_AT])]
    shown = _nearest(project, asking)
    wrong = sorted((s for s in shown if s.errors), key=lambda s: (-s.errors, s.query.id))[: count // 2]
    rest = [s for s in shown if s not in wrong]
    drawn = [rest[i] for i in np.sort(rng.permutation(len(rest))[: count - len(wrong)])]
    return [*drawn, *wrong]


def _nearest(project: Project, queries: list[ImageRecord]) -> list[Shown]:
    """What is found for each of these images of the project, in one search."""
    own = np.array([query.id for query in queries], dtype=np.int64)
    found = project.search(project.index.reconstruct(own), NEAREST + 1)
    wanted = np.unique(found.ids[found.ids >= 0]).tolist()
    records = {id: project.record(id) for id in wanted}
    shown = []
    for query, ids, distances in zip(queries, found.ids, found.distances):
        near = [(int(id), float(d)) for id, d in zip(ids, distances) if id >= 0 and id != query.id][:NEAREST]
        shown.append(Shown(query, [records[id] for id, _ in near], [d for _, d in near]))
    return shown


def gallery_html(project: Project, shown: list[Shown]) -> str:
    """The queries one below the other, each with its nearest; those of another class are framed in red."""
    blocks = []
    for entry in shown:
        near = "".join(
            _figure(project, match, f"{distance:.2f}", "wrong" if match.label != entry.query.label else "")
            for match, distance in zip(entry.matches, entry.distances)
        )
        blocks.append(
            f'<div class="row">{_figure(project, entry.query, "query", "query")}<div class="near">{near}</div></div>'
        )
    return "\n".join(blocks)


def _figure(project: Project, record: ImageRecord, below: str, kind: str) -> str:
    label = html.escape(record.label or "no label")
    name = html.escape(record.name)
    if project.has_thumbnails:
        data = base64.b64encode(project.thumbnail(record.id)).decode()
        picture = f'<img src="data:image/jpeg;base64,{data}" alt="{name}" title="{name}">'
    else:
        picture = f'<span class="name">{name}</span>'
    mark = '<span class="mark" title="another class">✗</span> ' if kind == "wrong" else ""
    return f'<figure class="{kind}">{picture}<figcaption>{mark}{label}<br>{html.escape(below)}</figcaption></figure>'
