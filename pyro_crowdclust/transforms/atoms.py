"""Columns with an atom, a frequent value, as two coordinates: a number and an indicator."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.transforms.numbers import numbers_in_feature_units


@described
class WithAtoms(Identity):
    """``x = (f(o), b)``, ``b_j = 1[o_j = a_j]``: features with a frequent value a_j, the atom.

    Examples are amounts that are mostly zero and measurements below a limit. f transforms the other
    numbers; the coordinate is 0 at the atom. ``HurdleGaussianComponents`` model both. An atom has a
    probability mass, and ``log_volume`` is that of the other numbers only: ELBOs can be compared if
    the atoms are the same.

    Parameters
    ----------
    inner
        f: ``Standardized``, ``PowerTransformed`` or a ``Selected`` of those.
    atoms
        a; NaN for a feature without an atom.

    Examples
    --------
    >>> emission = WithAtoms(Identity(), torch.tensor([0.0, torch.nan]))
    >>> emission.latent(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    tensor([[0., 0., 1.],
            [3., 4., 0.]], dtype=torch.float64)
    """

    inner: Identity
    atoms: Tensor

    def __init__(self, inner: Identity, atoms: Float[Tensor, " feature"]) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("atoms", atoms.double())

    @property
    def with_atom(self) -> list[int]:
        """The features with an atom."""
        return (~self.atoms.isnan()).nonzero().flatten().tolist()

    def latent_size(self, num_features: int) -> int:
        return len(self.own_features(num_features))

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item dim"]:
        rows = super().latent(features)
        at_atom = rows == self.atoms
        own = self.inner.own_features(len(self.atoms))
        numbers = self.inner.latent(rows).masked_fill(at_atom[:, own], 0.0)
        missing = rows.isnan()[:, self.with_atom]
        indicators = at_atom[:, self.with_atom].double().masked_fill(missing, torch.nan)
        return torch.cat([numbers, indicators], 1)

    def features(self, latent: Float[Tensor, "item dim"]) -> Float[Tensor, "item feature"]:
        places = self.with_atom
        numbers, at_atom = latent.split([latent.shape[1] - len(places), len(places)], 1)
        features = self.inner.features(numbers).clone()  # f may return a view of its argument
        features[:, places] = torch.where(at_atom == 1, self.atoms[places], features[:, places])
        return features

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        units = self.inner.units(len(self.atoms))
        if units is None:
            return None
        zeros = torch.zeros(len(self.with_atom), dtype=torch.float64)
        return torch.cat([units[0], zeros]), torch.cat([units[1], zeros + 1])

    def own_features(self, num_features: int) -> list[int]:
        return self.inner.own_features(len(self.atoms)) + self.with_atom

    def coordinate_names(self, names: Sequence[Hashable]) -> list[Hashable]:
        shares = (f"{names[place]} = {float(self.atoms[place]):g}" for place in self.with_atom)
        return [*self.inner.coordinate_names(names), *shares]

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        numbers = range(self.inner.latent_size(len(self.atoms)))
        return numbers_in_feature_units(self.inner, numbers, location, columns)

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        rows = super().latent(features)
        return self.inner.log_volume(rows.masked_fill(rows == self.atoms, torch.nan))
