"""The comparison with an earlier version, with small packages in place of both versions."""

import pytest

from benchmarks import before_after

SIZE = {**before_after.QUICK, "codes": 40, "queries": 4, "linear": 20, "rbf": 20, "encoded": 20}
PACKAGE = """
class CBID:
    def __init__(self, n_bits, n_jobs, kernel{likeness}):
        assert kernel in {kernels}

    def fit(self, X, y):
        return self

    def encode(self, X):
        return sum(i for i in range({work}))


class CodeIndex:
    def __init__(self, n_bits, weights, n_threads):
        pass

    def add(self, codes):
        assert codes.shape[0] == 40

    def search(self, queries, k):
        return queries
"""


def make(folder, **values):
    (folder / "cbid").mkdir(parents=True)
    (folder / "cbid" / "__init__.py").write_text(PACKAGE.format(**values))
    return folder


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    sources = {
        "earlier": make(folder / "earlier", likeness="", kernels=(None, "rbf"), work=3_000_000),
        "present": make(folder / "present", likeness=", likeness", kernels=("linear", "rbf"), work=300_000),
    }
    started = {side: before_after.Version(source, SIZE) for side, source in sources.items()}
    yield started
    for version in started.values():
        version.end()


def test_the_ratio_is_above_1_if_the_present_version_is_faster(versions):
    """The earlier version does ten times the work of the present one."""
    found = before_after.compare(versions, "encode, rbf", repeats=3)
    assert found["earlier / present"]["processor"] > 3
    assert all(len(times) == 3 for clock in found["seconds"].values() for times in clock.values())


def test_both_versions_run_every_case(versions):
    cases = [case for part in before_after.all_cases().values() for case in part]
    assert len(cases) == 13
    for case in cases:
        assert before_after.compare(versions, case, repeats=1)["seconds"]["wall"]["present"][0] > 0


def test_another_source_than_the_given_one_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="is imported from"):
        before_after.Version(tmp_path, SIZE)


def test_a_version_that_fails_is_an_error(tmp_path, capfd):
    version = before_after.Version(make(tmp_path, likeness="", kernels=(), work=1), SIZE)
    with pytest.raises(RuntimeError, match="'learn, linear'"):
        version.prepare("learn, linear")
    assert "AssertionError" in capfd.readouterr().err
