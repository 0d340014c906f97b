"""Classification on codes and on patches."""

from cbid.classify.knn import CodeKNeighborsClassifier
from cbid.classify.nbnn import NBNNClassifier

__all__ = ["CodeKNeighborsClassifier", "NBNNClassifier"]
