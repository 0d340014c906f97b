"""The LangChain store: what it returns, files, and in `test_langchain_standard.py` LangChain's own tests."""

import json
import os

import numpy as np
import pytest

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from cbid import CBID
from cbid.coders import ITQ, LSH
from cbid.integrations import CodeVectorStore

D = 16
TEXTS = [f"{kind} {i}" for i in range(20) for kind in ("cat", "dog", "bird")]
LABELS = [text.split()[0] for text in TEXTS]


class Kinds(Embeddings):
    """Texts of one kind lie around one direction; each text has a place of its own."""

    def embed_query(self, text):
        kind, number = text.split()
        vector = np.random.default_rng(int(number)).normal(size=D) * 0.3
        vector[["cat", "dog", "bird"].index(kind)] += 2
        return vector.tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def make(**kwargs):
    metadatas = [{"kind": label} for label in LABELS]
    kwargs = {"coder": LSH(n_bits=64), "ids": TEXTS, **kwargs}
    return CodeVectorStore.from_texts(TEXTS, Kinds(), metadatas, **kwargs)


@pytest.fixture(scope="module")
def store():
    return make()


def exact(query, k):
    X = np.array(Kinds().embed_documents(TEXTS))
    q = np.array(Kinds().embed_query(query))
    cosines = X @ q / np.linalg.norm(X, axis=1) / np.linalg.norm(q)
    return [TEXTS[i] for i in np.argsort(-cosines)[:k]], -np.sort(-cosines)[:k]


def test_scores_are_cosines(store):
    """There are fewer documents than candidates, so the result is exact but for half precision."""
    found = store.similarity_search_with_score("dog 99", k=5)
    texts, cosines = exact("dog 99", 5)
    assert [document.page_content for document, _ in found] == texts
    np.testing.assert_allclose([score for _, score in found], cosines, atol=2e-3)
    assert store.similarity_search("dog 99", k=5) == [document for document, _ in found]
    vector = Kinds().embed_query("dog 99")
    assert store.similarity_search_by_vector(vector, k=5) == store.similarity_search("dog 99", k=5)
    relevant = store.similarity_search_with_relevance_scores("dog 99", k=5)
    np.testing.assert_allclose([score for _, score in relevant], (1 + cosines) / 2, atol=2e-3)
    assert len(store.similarity_search("dog 99", k=1000)) == len(store) == 60
    assert found[0][0].metadata == {"kind": "dog"}


def test_filters(store):
    found = store.similarity_search("dog 99", k=5, filter=lambda document: document.metadata["kind"] == "cat")
    assert {document.metadata["kind"] for document in found} == {"cat"}
    assert store.similarity_search("dog 99", filter=lambda document: False) == []


def test_marginal_relevance_prefers_variety(store):
    near = store.max_marginal_relevance_search("dog 99", k=3, fetch_k=60, lambda_mult=1.0)
    assert near == store.similarity_search("dog 99", k=3)
    varied = store.max_marginal_relevance_search("dog 99", k=3, fetch_k=60, lambda_mult=0.0)
    assert len({document.metadata["kind"] for document in varied}) == 3
    assert CodeVectorStore(Kinds(), store.coder).max_marginal_relevance_search("dog 1") == []


def test_coders(store, monkeypatch):
    assert store.coder.n_bits_ == 64
    learned = make(coder=CBID(n_bits=8), labels=LABELS)
    assert learned.coder.n_bits_ == 8
    assert [d.metadata["kind"] for d in learned.similarity_search("bird 99", k=3)] == ["bird"] * 3
    assert make(coder=store.coder).coder is store.coder  # fitted already
    monkeypatch.setattr("cbid.integrations.langchain.CBID", LSH)  # learning 256 bits takes seconds
    assert CodeVectorStore.from_texts(TEXTS, Kinds()).coder.n_bits_ == 256
    assert store.embeddings is store.embedding


def test_replacing_and_deleting():
    store = make(coder=ITQ(n_bits=8))
    store.add_texts(["cat 77", "cat 78", "cat 79"], ids=["dog 0", "new", "new"])
    assert len(store) == 61
    assert store.get_by_ids(["dog 0", "new", "missing"]) == [
        Document(id="dog 0", page_content="cat 77"),
        Document(id="new", page_content="cat 79"),
    ]
    assert store.similarity_search("cat 79", k=1)[0].id == "new"
    store.similarity_search("cat 79", k=1)[0].metadata["kind"] = "changed"
    assert store.get_by_ids(["new"])[0].metadata == {}
    assert store.delete(["new", "new", "missing"])
    assert len(store) == 60
    assert store.add_documents([]) == []
    assert store.delete()
    assert len(store) == 0
    assert store.similarity_search("cat 1") == []
    assert len(store.add_texts(["dog 1", "dog 2"])) == 2


def test_files(store, tmp_path):
    store.save(tmp_path / "store")
    opened = CodeVectorStore.load(tmp_path / "store", Kinds())
    expected = store.similarity_search_with_score("dog 99", k=7)
    found = opened.similarity_search_with_score("dog 99", k=7)
    assert [document for document, _ in found] == [document for document, _ in expected]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], atol=1e-3)
    opened.add_texts(["cat 90"], ids=["cat 90"])
    opened.delete(["cat 1"])
    with pytest.raises(FileExistsError):
        opened.save(tmp_path / "store")
    opened.save(tmp_path / "second")
    again = CodeVectorStore.load(tmp_path / "second", Kinds())
    assert len(again) == 60
    assert again.similarity_search("cat 90", k=1)[0].id == "cat 90"
    opened.add_texts(["cat 91"], metadatas=[{"of": object()}])
    with pytest.raises(TypeError, match="JSON"):
        opened.save(tmp_path / "third")
    assert sorted(os.listdir(tmp_path)) == ["second", "store"]
    lines = (tmp_path / "second" / "documents.jsonl").read_text().splitlines()
    assert json.loads(lines[0]).keys() == {"number", "id", "text", "metadata"}
    (tmp_path / "second" / "documents.jsonl").write_text("\n".join(lines[1:]))
    with pytest.raises(ValueError, match="59 documents for 60 codes"):
        CodeVectorStore.load(tmp_path / "second", Kinds())
    for line in ("[]", "{}", "[" * 100_000, '{"id": [], "number": 0, "text": "", "metadata": {}}'):
        (tmp_path / "second" / "documents.jsonl").write_text("\n".join([line, *lines[1:]]))
        with pytest.raises(ValueError, match="second is damaged"):
            CodeVectorStore.load(tmp_path / "second", Kinds())


def test_an_empty_store_can_be_saved(store, tmp_path):
    CodeVectorStore(Kinds(), store.coder).save(tmp_path / "empty")
    assert len(CodeVectorStore.load(tmp_path / "empty", Kinds())) == 0


def test_bad_input(store):
    with pytest.raises(ValueError, match="keep=None"):
        CodeVectorStore(Kinds(), store.coder, keep=None)
    with pytest.raises(ValueError, match="metadatas has 1 entries: expected 60"):
        CodeVectorStore.from_texts(TEXTS, Kinds(), [{}], coder=store.coder)
    with pytest.raises(ValueError, match="ids has 1 entries: expected 60"):
        CodeVectorStore.from_texts(TEXTS, Kinds(), ids=["a"], coder=store.coder)
    with pytest.raises(ValueError, match="expected a fitted coder"):
        CodeVectorStore(Kinds(), LSH())


def test_a_pipe_in_the_place_of_the_documents_does_not_block(store, tmp_path):
    store.save(tmp_path / "store")
    (tmp_path / "store" / "documents.jsonl").unlink()
    os.mkfifo(tmp_path / "store" / "documents.jsonl")
    with pytest.raises(OSError, match="documents"):
        CodeVectorStore.load(tmp_path / "store", Kinds())
