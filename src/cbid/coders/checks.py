"""Parameter checks, under the name that coders know them by; their home needs no learner to be imported."""

from cbid.checks import check_choice, check_integer, check_real

__all__ = ["check_choice", "check_integer", "check_real"]
