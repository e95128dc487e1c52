"""Columns of real numbers in which one number is repeated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.candidates.coordinates import is_real, sample_of, telling
from pyro_crowdclust.interface.candidates.rounding import numbers_in
from pyro_crowdclust.transforms import WithAtoms

# A number is an atom if at least so many items have it ...
_MIN_SHARE = 0.1
# ... and so many times as many as have any other number, where rounding makes many alike.
_ABOVE_OTHERS = 4
# Of more columns a mixture is on directions, in which there are no atoms.
MAX_COLUMNS = 50


def atoms_of(data: CrowdData) -> Float[Tensor, " feature"]:
    """The number of every real column that many items have and few have a number near to; or NaN.

    They are looked for among some thousand items. Features on disk, and more than ``MAX_COLUMNS``,
    are taken as they are. A column of two numbers is one of kinds, and has no atom.

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
    """Coordinates of the numbers beside the atoms that tell something, and who is at an atom."""
    if bool(atoms.isnan().all()):
        return telling(inner, data)
    columns = numbers_in(data).copy()
    rows = columns.reshape(data.num_items, -1)
    rows[rows == atoms.numpy()] = np.nan
    return WithAtoms(telling(inner, data.with_parts(features=columns), data), atoms)
