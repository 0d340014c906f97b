"""LangChain's own test suite for vector stores, run where the package langchain-tests is installed.

It brings plugins that change pytest for every test, so it is not among our dependencies: the long test below installs
it into an environment of its own.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

try:
    from langchain_tests.integration_tests import VectorStoreIntegrationTests
except ImportError:
    VectorStoreIntegrationTests = None

if VectorStoreIntegrationTests is not None:

    class TestStandard(VectorStoreIntegrationTests):
        @pytest.fixture
        def vectorstore(self):
            from cbid.coders import LSH
            from cbid.integrations import CodeVectorStore

            embedding = self.get_embeddings()
            width = len(embedding.embed_query("any"))
            coder = LSH(n_bits=64).fit(np.random.default_rng(0).normal(size=(50, width)))
            return CodeVectorStore(embedding, coder)


@pytest.mark.long
@pytest.mark.skipif(VectorStoreIntegrationTests is not None, reason="the suite runs here")
def test_the_standard_suite_passes_in_its_own_environment(tmp_path):
    pytest.importorskip("langchain_core")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}

    def run(*command):
        done = subprocess.run([str(part) for part in command], cwd=ROOT, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    here = sysconfig.get_paths()["purelib"]
    place = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    Path(place, "zz_parent.pth").write_text(f"{ROOT / 'src'}\n{here}\n")
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", "langchain-tests")
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-W", "default")
    file = Path(__file__).relative_to(ROOT)
    shown = run(python, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options, "-m", "not long", file)
    assert int(re.search(r"(\d+) passed", shown)[1]) >= 20, shown
