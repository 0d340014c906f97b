"""Codes in Milvus: binary vectors and labels there, Hamming candidates from there, the weights here."""

from cbid.scale.milvus.address import TOKEN_VARIABLE, Address
from cbid.scale.milvus.connection import MilvusError
from cbid.scale.milvus.sending import Sent, index_to
from cbid.scale.milvus.store import MilvusStore

__all__ = ["TOKEN_VARIABLE", "Address", "MilvusError", "MilvusStore", "Sent", "index_to"]
