"""What a notebook shows: matches with thumbnails, coders with what their fit has chosen."""

import numpy as np

from cbid import CBID, CodeIndex
from cbid.coders import ITQ
from tests.project.made import picture


def test_matches_of_an_index():
    index = CodeIndex(n_bits=8)
    index.add(np.arange(4, dtype=np.uint8)[:, None], labels=["<b>", "x", "y", "z"])
    shown = index.search(np.zeros((12, 1), np.uint8), k=2)._repr_html_()
    assert shown.count("<tr>") == 10
    assert "2 more queries" in shown
    assert "<td>0<br>&lt;b&gt;<br>0.000</td>" in shown
    assert "<b>" not in shown


def test_matches_of_a_project_have_thumbnails(project):
    query = project.describe_image(picture("red", 99))
    found = project.search(query, 3)
    shown = found._repr_html_()
    assert shown.count("data:image/jpeg;base64,") == 3
    assert "red<br>" in shown
    assert "of 24 bits" in shown
    raw = project.search(query, 3, how="raw")._repr_html_()
    assert "bits" not in raw


def test_matches_without_thumbnails(tmp_path):
    from cbid.project import Project

    rng = np.random.default_rng(0)
    np.savez(tmp_path / "v.npz", X=rng.normal(size=(20, 6)).astype(np.float32), y=np.arange(20) % 2)
    with Project.fit(tmp_path / "p.cbid", tmp_path / "v.npz", n_bits=8) as made:
        shown = made.search(made.vector(0), 3)._repr_html_()
    assert "<img" not in shown
    assert shown.count("<td>") == 3


def test_coders():
    X = np.random.default_rng(0).normal(size=(40, 5))
    assert "n_bits_" not in CBID()._repr_html_()
    fitted = CBID(n_bits=8).fit(X, np.arange(40) % 2)
    shown = fitted._repr_mimebundle_()
    assert f"<tr><th>kernel_</th><td>{fitted.kernel_}</td></tr>" in shown["text/html"]
    assert "CBID" in shown["text/plain"]
    assert "<th>n_bits_</th><td>4</td>" in ITQ(n_bits=4).fit(X)._repr_html_()
