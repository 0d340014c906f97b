"""Classification on codes."""

from cbid.classify.knn import CodeKNeighborsClassifier

__all__ = ["CodeKNeighborsClassifier"]
