"""Coders whose first bits are a code of their own."""

from typing import Any, ClassVar, Self

from sklearn.utils.validation import check_is_fitted

from cbid.checks import check_integer

__all__ = ["PrefixMixin"]


class PrefixMixin:
    """Stands left of ``Coder`` among the bases of a coder whose bits do not depend on those after them."""

    _BY_BIT: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")  # arrays with one row for each bit
    n_bits_: int

    def truncate(self, n_bits: int) -> Self:
        """A coder of the first ``n_bits`` bits."""
        check_is_fitted(self)
        check_integer("n_bits", n_bits, 1, self.n_bits_)
        cut: dict[str, Any] = self._first_bits(n_bits)
        return self._cut(n_bits, cut)  # type: ignore[attr-defined]

    def _first_bits(self, n_bits: int) -> dict[str, Any]:
        return {name: getattr(self, name)[:n_bits] for name in self._BY_BIT}
