"""Optional contracts of models, and functions for models and guides of any kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from pyro.distributions import TorchDistribution
from pyro.poutine.messenger import Messenger
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.draws import NamedDraws, SiteDraws
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.minibatches.batch import Batch

# ``Model`` and ``Guide``: any Pyro function of a batch, or a module with such a ``forward``.
Model = Callable[[Batch], Any]
Guide = Callable[[Batch], Any]


@runtime_checkable
class SupportsCheck(Protocol):
    """A model or guide that checks its data."""

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit; ``fit`` calls this before training."""


def unwrapped(part: Any) -> Any:
    """A model or guide without Pyro's handlers around it.

    Examples
    --------
    >>> from pyro import poutine
    >>> network = nn.Linear(1, 1)
    >>> unwrapped(poutine.scale(poutine.block(network), 0.5)) is network
    True
    """
    # Pyro makes a partial with the handler and the handled function as its two arguments.
    while isinstance(part, partial) and isinstance(next(iter(part.args), None), Messenger):
        part = part.args[1]
    return part


def module_of(part: Any) -> nn.Module | None:
    """The module of a model or guide, without handlers; None if it is a function."""
    inner = unwrapped(part)
    return inner if isinstance(inner, nn.Module) else None


def name_of(part: Any) -> str:
    """The name of a model or guide: that of the function, or of the class of a module.

    Examples
    --------
    >>> from pyro.infer import config_enumerate
    >>> @config_enumerate
    ... def mixture(batch): ...
    >>> name_of(mixture), name_of(partial(mixture, scale=2.0)), name_of(nn.Linear(1, 1))
    ('mixture', 'mixture', 'Linear')
    """
    inner = unwrapped(part)
    while isinstance(inner, partial):
        inner = unwrapped(inner.func)
    return inner.__name__ if inspect.isroutine(inner) else type(inner).__name__


Part = TypeVar("Part")


def part_of(whole: Any, name: str, kind: type[Part]) -> Part | None:
    """The child of a module with this name, if it is of this kind; otherwise None.

    By convention a model calls its parts ``annotators``, ``components``, ``emission`` and
    ``supervision``, a guide ``model`` and ``recognition``.
    """
    module = module_of(whole)
    found = None if module is None else dict(module.named_children()).get(name)
    return found if isinstance(found, kind) else None


def posteriors_of(guide: Any) -> Mapping[str, ConjugatePosterior] | None:
    """The conjugate posteriors of a guide's global sites, by name; None if it has none.

    By convention they are a ``ModuleDict`` called ``posteriors``.
    """
    return getattr(unwrapped(guide), "posteriors", None)


@runtime_checkable
class SupportsPriors(Protocol):
    """A model with conjugate priors, which also have names of the axes of draws (``dims``)."""

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """The global sites, by name."""


@runtime_checkable
class SupportsGaps(Protocol):
    """A model that can deal with missing features, which are NaN in ``batch.features``."""

    @property
    def takes_gaps(self) -> bool:
        """Whether it can; ``fit`` refuses data with gaps for all other models."""


@runtime_checkable
class SupportsLikeness(Protocol):
    """A model that uses ``batch.likeness``, numbers that measure how similar items of pairs are."""

    @property
    def takes_likeness(self) -> bool:
        """Whether it does; ``fit`` refuses data with likeness for all other models."""


@runtime_checkable
class SupportsDescribe(Protocol):
    """A model whose sites have other variables in diagnostics than their parameters theta."""

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Variables by name, for every site that has them; ``draws`` holds all global sites."""


@runtime_checkable
class SupportsDrawnFeatures(Protocol):
    """A model that simulates features if the batch has none."""

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item ..."]:
        """Features, from the values of all sites of a run."""


@runtime_checkable
class SupportsDiscreteValues(Protocol):
    """A model whose discrete site has other values than clusters."""

    def discrete_values(
        self, z: Int[Tensor, " item"], sites: Mapping[str, Tensor], batch: Batch
    ) -> dict[str, Tensor]:
        """Values of the discrete site, drawn given clusters and global sites."""


@runtime_checkable
class SupportsFeaturesOf(Protocol):
    """A model that maps latents of clusters to distributions of features."""

    def features_of(
        self, latent: Float[Tensor, "*batch dim"], clusters: Int[Tensor, "*cluster"]
    ) -> TorchDistribution:
        """p(o | x, z) of the flattened rows; ``clusters`` broadcast with the rows."""
