"""Atoms: single numbers that many items share in a column of real numbers, such as zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.candidates.coordinates import is_real, sample_of, without_redundant
from pyro_crowdclust.interface.candidates.rounding import numbers_in
from pyro_crowdclust.transforms import WithAtoms

# A number is an atom if at least this share of the items has it ...
_MIN_SHARE = 0.1
# ... and this many times as many items as any other number, which may be shared by rounding.
_ABOVE_OTHERS = 4
# With more columns, mixtures are on principal directions, which have no atoms.
MAX_COLUMNS = 50


def atoms_of(data: CrowdData) -> Float[Tensor, " feature"]:
    """The atom of every real column, a number that far more items have than any other; or NaN.

    Atoms are searched in a few thousand items. Features on disk, or with more than ``MAX_COLUMNS``
    columns, are not searched. A column with only two numbers holds two kinds, and has no atom.

    Examples
    --------
    >>> spent = np.where(np.arange(20) % 2 == 0, 0.0, np.linspace(3, 90, 20))
    >>> atoms_of(CrowdData(np.column_stack([spent, np.linspace(0, 1, 20)])))
    tensor([0., nan], dtype=torch.float64)
    """
    real = is_real(data).numpy()
    atoms = np.full(len(real), np.nan)
    if len(real) <= MAX_COLUMNS and data.features_in_memory is not None:
        columns = sample_of(data).numpy()
        for place in np.flatnonzero(real):
            atoms[place] = _atom(columns[:, place])
    return torch.from_numpy(atoms)


def _atom(column: Float[np.ndarray, " item"]) -> float:
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    if len(values) < 3:
        return np.nan
    second, first = np.sort(counts)[-2:]
    is_atom = first >= _MIN_SHARE * counts.sum() and first >= _ABOVE_OTHERS * second
    return float(values[counts.argmax()]) if is_atom else np.nan


def beside_atoms(
    inner: Callable[[CrowdData], Identity], atoms: Float[Tensor, " feature"], data: CrowdData
) -> Identity:
    """Coordinates of the informative numbers besides the atoms, and of who is at an atom."""
    if bool(atoms.isnan().all()):
        return without_redundant(inner, data)
    columns = numbers_in(data).copy()
    rows = columns.reshape(data.num_items, -1)
    rows[rows == atoms.numpy()] = np.nan
    return WithAtoms(without_redundant(inner, data.with_parts(features=columns), data), atoms)
