"""What a model may be asked for, and what models and guides have in common."""

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
    """A model or guide that knows which data fit it."""

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit; ``fit`` asks before it trains."""


def unwrapped(part: Any) -> Any:
    """A model or guide without the handlers of Pyro that are around it.

    Examples
    --------
    >>> from pyro import poutine
    >>> network = nn.Linear(1, 1)
    >>> unwrapped(poutine.scale(poutine.block(network), 0.5)) is network
    True
    """
    # Pyro binds a handler and what it is around as the two arguments of one call.
    while isinstance(part, partial) and isinstance(next(iter(part.args), None), Messenger):
        part = part.args[1]
    return part


def module_of(part: Any) -> nn.Module | None:
    """The module that a model or guide is, perhaps with handlers around it; None of a function."""
    inner = unwrapped(part)
    return inner if isinstance(inner, nn.Module) else None


def name_of(part: Any) -> str:
    """What a model or guide is called: a function's own name, a module's class.

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
    """What a module calls by this name, if it has it and it is of this kind; handlers aside.

    By convention a model calls its parts ``annotators``, ``components``, ``emission`` and
    ``supervision``, a guide ``model`` and ``recognition``.
    """
    module = module_of(whole)
    found = None if module is None else dict(module.named_children()).get(name)
    return found if isinstance(found, kind) else None


def posteriors_of(guide: Any) -> Mapping[str, ConjugatePosterior] | None:
    """The conjugate posteriors of a guide's global sites, by name; None of a guide without them.

    By convention a guide calls them ``posteriors``, a ``ModuleDict``.
    """
    return getattr(unwrapped(guide), "posteriors", None)


@runtime_checkable
class SupportsPriors(Protocol):
    """A model with conjugate priors: they name the axes of its sites' draws (``dims``)."""

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """The global sites, by name."""


@runtime_checkable
class SupportsGaps(Protocol):
    """A model that knows what to do about missing features, which are NaN in ``batch.features``."""

    @property
    def takes_gaps(self) -> bool:
        """Whether it does; ``fit`` refuses data with gaps for any other model."""


@runtime_checkable
class SupportsLikeness(Protocol):
    """A model that hears how alike the items of pairs are, ``batch.likeness``."""

    @property
    def takes_likeness(self) -> bool:
        """Whether it does; ``fit`` refuses data with likeness for any other model."""


@runtime_checkable
class SupportsDescribe(Protocol):
    """A model whose sites deserve other variables in diagnostics than their own theta."""

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Variables by name, for every site that has them; ``draws`` holds all global sites."""


@runtime_checkable
class SupportsDrawnFeatures(Protocol):
    """A model that simulates features when it is given none."""

    def drawn_features(self, values: Mapping[str, Tensor]) -> Float[Tensor, "item ..."]:
        """Features, from the values of all sites of a run."""


@runtime_checkable
class SupportsDiscreteValues(Protocol):
    """A model whose discrete site has other values than the clusters."""

    def discrete_values(
        self, z: Int[Tensor, " item"], sites: Mapping[str, Tensor], batch: Batch
    ) -> dict[str, Tensor]:
        """Values of the discrete site, drawn given clusters and global sites."""


@runtime_checkable
class SupportsFeaturesOf(Protocol):
    """A model that knows what latents of a cluster look like."""

    def features_of(
        self, latent: Float[Tensor, "*batch dim"], clusters: Int[Tensor, "*cluster"]
    ) -> TorchDistribution:
        """p(o | x, z) of the flattened rows; ``clusters`` broadcast with the rows."""
