"""Codes in Milvus: binary vectors and labels there, Hamming candidates from there, the weights here."""

from cbid.search.milvus.address import TOKEN_VARIABLE, Address
from cbid.search.milvus.connection import MilvusError
from cbid.search.milvus.sending import Sent, index_to
from cbid.search.milvus.store import MilvusStore

__all__ = ["TOKEN_VARIABLE", "Address", "MilvusError", "MilvusStore", "Sent", "index_to"]
