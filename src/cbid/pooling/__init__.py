"""Bags of local descriptors to one vector each."""

__all__: list[str] = []
