"""Stores outside the process: codes in Milvus, searched there by Hamming distance and re-ranked here by weights."""

from cbid.search.stores.milvus import MilvusStore
from cbid.search.stores.milvus_connection import TOKEN_VARIABLE, MilvusAddress, MilvusError
from cbid.search.stores.sending import Sent, index_to

__all__ = ["TOKEN_VARIABLE", "MilvusAddress", "MilvusError", "MilvusStore", "Sent", "index_to"]
