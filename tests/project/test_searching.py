"""Answers of a project, against plain numpy and scikit-learn."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from cbid.codes import hamming, prefix, weighted_hamming
from tests.project.made import N_BITS, TINY, picture


@pytest.fixture(scope="module")
def queries():
    return TINY.transform([picture(colour, 77 + i) for i, colour in enumerate(("red", "blue", "green", "red"))])


def brute_force(project, codes, n_bits, how):
    """Ids by (distance, id), and distances, of all images."""
    stored = np.stack([project.code(int(id)) for id in project.ids])
    a, b = prefix(codes, n_bits), prefix(stored, n_bits)
    if how == "plain":
        distances = hamming(a, b).astype(np.float32)
    else:
        distances = weighted_hamming(a, b, project.coder.truncate(n_bits).weights_)
    order = np.argsort(distances, axis=1, kind="stable")
    return project.ids[order], np.take_along_axis(distances, order, axis=1)


@pytest.mark.parametrize("how", ["weighted", "plain"])
@pytest.mark.parametrize("n_bits", [8, 13, 16, None])
def test_prefixes_are_searched_with_their_own_weights(project, queries, n_bits, how):
    found = project.search(queries, 7, n_bits=n_bits, how=how)
    ids, distances = brute_force(project, project.encode(queries), n_bits or N_BITS, how)
    np.testing.assert_array_equal(found.ids, ids[:, :7])
    np.testing.assert_allclose(found.distances, distances[:, :7], rtol=1e-6)
    assert found.labels.tolist() == [[project.record(int(i)).label for i in row] for row in found.ids]
    assert found.n_bytes == -(-(n_bits or N_BITS) // 8)
    assert found.seconds > 0


def test_codes_and_vectors_find_the_same(project, queries):
    of_vectors, of_codes = project.search(queries, 5), project.search(project.encode(queries), 5)
    np.testing.assert_array_equal(of_vectors.ids, of_codes.ids)
    np.testing.assert_array_equal(project.search(queries[0], 5).ids, of_codes.ids[:1])


def test_raw_search_is_euclidean(project, queries):
    found = project.search(queries, 6, how="raw")
    stored = np.stack([project.vector(int(id)) for id in project.ids]).astype(np.float64)
    distances = np.linalg.norm(queries[:, None].astype(np.float64) - stored[None], axis=2)
    order = np.argsort(distances, axis=1, kind="stable")[:, :6]
    np.testing.assert_array_equal(found.ids, project.ids[order])
    np.testing.assert_allclose(found.distances, np.take_along_axis(distances, order, axis=1), rtol=1e-6)
    assert found.n_bytes == 4 * 75
    assert found.labels[0, 0] == project.record(int(found.ids[0, 0])).label


@pytest.mark.parametrize("how", ["weighted", "plain", "raw"])
def test_leaving_images_out(project, how):
    everything = project.search(project.vector(5), 36, how=how)
    assert sorted(everything.ids[0]) == list(range(36))
    found = project.search(project.vector(5), 36, how=how, exclude=[5, int(everything.ids[0, 3])])
    rest = [i for i in everything.ids[0] if i not in (5, everything.ids[0, 3])]
    assert found.ids[0].tolist() == [*rest, -1, -1]
    assert found.distances[0, -1] == np.inf
    assert found.labels[0, -1] == ""


@pytest.mark.parametrize("how", ["weighted", "raw"])
def test_one_class_alone(project, queries, how):
    found = project.search(queries, 15, how=how, label="green")
    assert set(found.labels[:, :12].ravel()) == {"green"}
    assert (found.ids[:, 12:] == -1).all()
    assert (project.search(queries, 3, how=how, label="yellow").ids == -1).all()


def test_classes_are_those_of_a_vote(project, queries):
    labels, votes = project.classify(queries, k=5)
    stored = np.stack([project.code(int(id)) for id in project.ids])
    names = [project.record(int(id)).label for id in project.ids]
    distances = weighted_hamming(project.encode(queries), stored, project.coder.weights_)
    model = KNeighborsClassifier(5, metric="precomputed").fit(np.zeros((36, 36)), names)
    order = np.argsort(distances, axis=1, kind="stable")[:, :5]
    expected = [[sum(names[i] == c for i in row) for c in model.classes_] for row in order]
    np.testing.assert_allclose(votes, expected, atol=1e-6)
    assert labels.tolist() == ["red", "blue", "green", "red"]
    assert project.classify(project.code(3), k=1).labels[0] == project.record(3).label
    assert project.classify(project.code(3), exclude=range(36)).labels.tolist() == [""]
    assert project.classify(project.code(3), k=500).votes.sum() == pytest.approx(36)


def test_explanations_add_up_to_the_distance(project, queries):
    codes = project.encode(queries)
    for n_bits in (8, 24):
        agree, weight = project.explain(codes[0], codes[1], n_bits)
        assert agree.shape == weight.shape == (n_bits,)
        ids, distances = brute_force(project, codes[:1], n_bits, "weighted")
        for id in (0, 20):
            explained = project.explain(codes[0], project.code(id), n_bits)
            assert explained.weight[~explained.agree].sum() == pytest.approx(distances[0][ids[0] == id][0], rel=1e-6)


def test_the_two_sides_of_a_bit(project):
    values = project.coder.project(np.stack([project.vector(int(id)) for id in project.ids]))
    for s in (0, 7, 23):
        sides = project.bit(s, count=4)
        order = np.argsort(values[:, s])
        expected = [i for i in order if values[i, s] < 0][:4], [i for i in order[::-1] if values[i, s] >= 0][:4]
        assert (sides.negative.tolist(), sides.positive.tolist()) == expected
    with pytest.raises(ValueError, match=r"s=24.* 23"):
        project.bit(24)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"how": "fuzzy"}, "how='fuzzy'"),
        ({"k": 0}, "k=0"),
        ({"n_bits": 25}, "n_bits=25.* 24"),
        ({"how": "raw", "n_bits": 8}, "n_bits=8"),
    ],
)
def test_wrong_questions(project, ask, message):
    with pytest.raises(ValueError, match=message):
        project.search(project.vector(0), **ask)


def test_wrong_queries(project):
    with pytest.raises(ValueError, match="how='raw'"):
        project.search(project.code(0), how="raw")
    with pytest.raises(ValueError, match=r"\(1, 74\).* 75 values"):
        project.search(np.zeros(74, np.float32))
    with pytest.raises(ValueError, match="not finite"):
        project.encode(np.full(75, np.nan))
    with pytest.raises(ValueError, match="2 bytes wide"):
        project.search(np.zeros(2, np.uint8))


def test_another_evaluation_is_that_of_scikit_learn(project):
    images = [picture(colour, 500 + i) for i in range(5) for colour in ("red", "green", "blue")]
    labels = ["red", "green", "blue"] * 5
    vectors = TINY.transform(images)
    result = project.evaluate(vectors, labels)
    stored = np.stack([project.vector(int(id)) for id in project.ids])
    names = [project.record(int(id)).label for id in project.ids]
    raw = KNeighborsClassifier(5, algorithm="brute").fit(stored, names)
    assert result["raw"]["accuracy"] == pytest.approx(raw.score(vectors, labels))
    assert (result["n_queries"], result["n_stored"], result["raw"]["bytes"]) == (15, 36, 300)
    # scikit-learn leaves open which of several at one distance count, so the vote on codes is taken by hand.
    classes, numbers = np.unique(names, return_inverse=True)
    asked, kept = (project.coder.transform(part).astype(int) for part in (vectors, stored))
    nearest = np.argsort(-asked @ kept.T, axis=1, kind="stable")[:, :5]
    votes = np.array([np.bincount(numbers[row], minlength=3).argmax() for row in nearest])
    assert result["codes"][-1]["plain"]["accuracy"] == pytest.approx(np.mean(classes[votes] == labels))
    matrix = np.array(result["confusion"]["matrix"])
    assert matrix.sum(axis=1).tolist() == [5, 5, 5]
    assert np.trace(matrix) / 15 == pytest.approx(result["codes"][-1]["weighted"]["accuracy"])
