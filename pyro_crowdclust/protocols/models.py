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
from pyro_crowdclust.distributions.priors import ConjugatePosterior
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


def roots_of(*parts: Any) -> list[nn.Module]:
    """The modules of models and guides; there are none of functions."""
    return [root for root in map(module_of, parts) if root is not None]


def modules_of(*parts: Any) -> list[nn.Module]:
    """The modules of models and guides with all modules in them, each once."""
    return [*dict.fromkeys(module for root in roots_of(*parts) for module in root.modules())]


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
class SupportsFeaturesOf(Protocol):
    """A model that maps latents of clusters to distributions of features."""

    def features_of(
        self, latent: Float[Tensor, "*batch dim"], clusters: Int[Tensor, "*cluster"]
    ) -> TorchDistribution:
        """p(o | x, z) of the flattened rows; ``clusters`` broadcast with the rows."""
