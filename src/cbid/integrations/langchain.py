"""A LangChain vector store: texts in, documents out, searched by codes with a second look at the embeddings."""

import json
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cbid.coders import CBID, Coder
from cbid.extras import missing_extra
from cbid.storage.atomic import check_regular, whole_directory
from cbid.vector_index import FittedCoder, VectorIndex

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError as error:
    raise missing_extra("CodeVectorStore", "langchain") from error

Filter = Callable[[Document], bool]


class CodeVectorStore(VectorStore):
    """Documents, the codes of their embeddings, and the embeddings in half precision.

    A search scans the codes and ranks the best candidates again by cosine similarity, which is the score. Documents
    stay in memory; after `load`, embeddings are mapped from the files.

    Parameters
    ----------
    embedding : Embeddings
        Turns texts into vectors.
    coder : fitted coder
        Fitted on such vectors of unit length, to which embeddings are scaled: see `from_texts`, or
        `EmbeddingQuantizer`.
    keep : {"float16", "int8"}, default="float16"
        How embeddings are kept.
    """

    def __init__(self, embedding: Embeddings, coder: FittedCoder, *, keep: str = "float16") -> None:
        if keep is None:
            raise ValueError("keep=None: expected 'float16' or 'int8', because scores are cosines of the embeddings")
        self.embedding = embedding
        self._index = VectorIndex(coder, keep, "cosine")
        self._documents: dict[str, Document] = {}
        self._number: dict[str, int] = {}  # of a document in the index; a replaced document gets a new one
        self._name: dict[int, str] = {}
        self._mutex = threading.RLock()

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self.embedding

    @property
    def coder(self) -> Any:
        """The coder."""
        return self._index.coder

    def __len__(self) -> int:
        return len(self._documents)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        coder: Coder | None = None,
        labels: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store of texts, with a coder learned from them.

        Parameters
        ----------
        texts, embedding, metadatas, ids
            As in every store of LangChain.
        coder : Coder, default=None
            Fitted here on the embeddings unless it is fitted already; by default ``CBID(n_bits=256)``.
        labels : sequence of labels, default=None
            Classes of the texts. Without them, near texts get near codes.
        **kwargs
            For the constructor.
        """
        texts = list(texts)
        vectors = _vectors(embedding.embed_documents(texts))
        coder = CBID(n_bits=256) if coder is None else coder
        if not hasattr(coder, "n_bits_"):
            coder.fit(vectors, labels)
        store = cls(embedding, coder, **kwargs)
        given = [{}] * len(texts) if metadatas is None else metadatas
        if len(given) != len(texts):
            raise ValueError(f"metadatas has {len(given)} entries: expected {len(texts)}, one for each text")
        store._add([Document(page_content=text, metadata=m) for text, m in zip(texts, given)], vectors, ids)
        return store

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        """Add documents and return their ids; a document with a known id replaces the old one."""
        documents = list(documents)
        vectors = self.embedding.embed_documents([document.page_content for document in documents])
        return self._add(documents, _vectors(vectors), ids)

    def _add(
        self, documents: list[Document], vectors: NDArray[np.float32], ids: Sequence[str | None] | None
    ) -> list[str]:
        names = [document.id for document in documents] if ids is None else list(ids)
        if len(names) != len(documents):
            raise ValueError(f"ids has {len(names)} entries: expected {len(documents)}, one for each document")
        chosen = [str(uuid.uuid4()) if name is None else str(name) for name in names]
        last = {name: row for row, name in enumerate(chosen)}  # of equal ids the last counts
        if not last:
            return []
        with self._mutex:
            numbers = self._index.add(vectors[list(last.values())]).tolist()
            self.delete([name for name in last if name in self._number])
            for (name, row), number in zip(last.items(), numbers):
                document = documents[row]
                self._documents[name] = Document(
                    id=name, page_content=document.page_content, metadata=dict(document.metadata)
                )
                self._number[name], self._name[number] = number, name
        return chosen

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents by their ids, or all with None; unknown ids are ignored."""
        with self._mutex:
            known = [name for name in dict.fromkeys(self._number if ids is None else ids) if name in self._number]
            if known:
                self._index.remove([self._number[name] for name in known])
            for name in known:
                del self._documents[name], self._name[self._number.pop(name)]
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of known ids."""
        return [_copy(self._documents[name]) for name in ids if name in self._documents]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents nearest to a text; ``filter`` is a function of a document."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter=filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return documents with the cosine of their embedding and that of the query, highest first."""
        found, _ = self._search(self.embedding.embed_query(query), k, filter)
        return found

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents nearest to an embedding."""
        return [document for document, _ in self._search(embedding, k, filter)[0]]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return documents that are near to the query and differ from each other."""
        vector = self.embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents near to an embedding that differ from each other."""
        with self._mutex:
            found, numbers = self._search(embedding, fetch_k, filter)
            vectors = list(self._index.vectors(numbers)) if numbers else []
        chosen = maximal_marginal_relevance(np.asarray(embedding, np.float32), vectors, lambda_mult, k)
        return [found[place][0] for place in chosen]

    def _search(
        self, vector: Iterable[float], k: int, filter: Filter | None
    ) -> tuple[list[tuple[Document, float]], list[int]]:
        with self._mutex:
            among = None
            if filter is not None:
                among = [self._number[name] for name, document in self._documents.items() if filter(document)]
            if not self._documents or among == []:
                return [], []
            matches = self._index.search(_vectors([list(vector)]), min(k, len(self)), among=among)
            pairs = [(n, d) for n, d in zip(matches.ids[0].tolist(), matches.distances[0].tolist()) if n >= 0]
            found = [(_copy(self._documents[self._name[n]]), 1 - d) for n, d in pairs]
            return found, [n for n, _ in pairs]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(max((1 + cosine) / 2, 0.0), 1.0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a new directory with the index and the documents; metadata must be JSON. It is whole or absent."""
        with self._mutex, whole_directory(path) as temporary:
            copy = VectorIndex(self.coder, self._index.keep, "cosine")
            numbers = sorted(self._name)
            if numbers:
                copy.add(self._index.vectors(numbers), numbers)
            copy.save(temporary / "index")
            copy.close()
            with (temporary / "documents.jsonl").open("w", encoding="utf-8") as file:
                for number in numbers:
                    document = self._documents[self._name[number]]
                    entry = {"id": document.id, "text": document.page_content, "metadata": document.metadata}
                    file.write(json.dumps({"number": number, **entry}) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str], embedding: Embeddings) -> Self:
        """Open what `save` wrote; the embedding model must be the same. Changes stay in memory until a new `save`."""
        index = VectorIndex.open(Path(path) / "index")
        store = cls.__new__(cls)
        store.embedding, store._index, store._mutex = embedding, index, threading.RLock()
        store._documents, store._number, store._name = {}, {}, {}
        try:
            check_regular(Path(path) / "documents.jsonl")
            with (Path(path) / "documents.jsonl").open(encoding="utf-8") as file:
                for line in file:
                    entry = json.loads(line)
                    name, number = entry["id"], entry["number"]
                    store._documents[name] = Document(id=name, page_content=entry["text"], metadata=entry["metadata"])
                    store._number[name], store._name[number] = number, name
            if sorted(store._name) != index.ids.tolist() or len(store) != len(index):
                raise ValueError(f"{len(store)} documents for {len(index)} codes")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            index.close()
            raise ValueError(f"{os.fspath(path)} is damaged: {error}") from error
        return store


def _vectors(embeddings: list[list[float]]) -> NDArray[np.float32]:
    """Return embeddings as an array, scaled to unit length."""
    X = np.asarray(embeddings, dtype=np.float32)
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    return (X / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _copy(document: Document) -> Document:
    """Return a copy, so that changes of a result do not reach the store."""
    return Document(id=document.id, page_content=document.page_content, metadata=dict(document.metadata))
