"""Numbers that sum a figure up, and how closely every machine must reproduce them.

Each number says how many of its digits are reproducible, and why; those digits are what the book
prints and what the reference files hold.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._tables import number


@dataclass(frozen=True)
class Measured:
    """A summary number, reproducible to so many significant digits on every machine.

    Attributes
    ----------
    value : float, int or bool
    meaning : str
        What it is, for the table beside the figure.
    digits : int
        Significant digits that are printed, stored and compared. Whole numbers and truth values
        are compared exactly.
    why : str
        What limits the digits.
    """

    value: Any
    meaning: str
    digits: int = 4
    why: str = "solver tolerance 1e-9 leaves more digits than these"

    def __post_init__(self):
        if isinstance(self.value, np.generic):
            object.__setattr__(self, "value", self.value.item())
        if not np.isfinite(self.value):
            raise ValueError(f"value: expected a finite number for {self.meaning!r}, "
                             f"got {self.value}")

    @property
    def text(self):
        """The number as printed."""
        return _digits(self.value, self.digits)

    @property
    def stored(self):
        """The number as stored among the references."""
        exact = isinstance(self.value, (bool, int))
        return self.value if exact else float(f"{self.value:.{self.digits - 1}e}")

    @property
    def asked(self):
        """How closely this run must agree with the reference, in words."""
        return "exactly" if isinstance(self.value, (bool, int)) else f"{self.digits} digits"

    def agrees(self, reference):
        """Whether this run's number and a stored one agree.

        A stored number is off by up to half a unit in its last digit; a twentieth of a unit more
        allows for rounding of another machine near a tie, and no digit can be changed unnoticed.
        """
        if isinstance(self.value, (bool, int)) or isinstance(reference, bool):
            return type(reference) is type(self.value) and self.value == reference
        if self.value == 0 or reference == 0:
            return self.value == reference
        unit = 10.0 ** (np.floor(np.log10(abs(reference))) - self.digits + 1)
        return bool(abs(self.value - reference) <= 0.55 * unit)


@dataclass(frozen=True)
class Bounded(Measured):
    """A number that is only rounding or solver error: what counts is that it stays below `limit`."""

    limit: float = 0.0

    @property
    def text(self):
        return f"at most {self.limit:.0e}" if self.value <= self.limit else f"{self.value:.1e}"

    @property
    def stored(self):
        return {"at most": self.limit}

    @property
    def asked(self):
        return "the bound"

    def agrees(self, reference):
        """Whether the stored bound is the one in force and this run stays below it."""
        return reference == self.stored and self.value <= self.limit


def bounded(value, limit, meaning, why):
    """A number that must stay at or below `limit`."""
    return Bounded(float(value), meaning, 1, why, float(f"{limit:.1e}"))


def _digits(value, digits):
    """The number with exactly so many significant digits, trailing zeros kept."""
    if isinstance(value, (bool, int)) or value == 0:
        return number(value)
    return f"{value:#.{digits}g}".rstrip(".")


def reference_text(stored, item):
    """A stored reference as printed beside the number it is for."""
    if stored is None:
        return "none stored"
    if isinstance(stored, dict):
        return f"at most {stored['at most']:.0e}"
    return _digits(stored, item.digits)
