"""Draws of the global sites from the fitted guide of any model.

A statistic-valued posterior provides its draws (``real_draws``) after a single run of the guide.
Other sites, such as those of an autoguide, are drawn by running the guide again for every draw. Two
runs on batches of different size show which sites are local.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import pyro
import torch
from jaxtyping import Float, Int
from pyro import poutine
from pyro.distributions import Distribution
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyro_crowdclust.distributions.at_mean import Point, SupportsRealDraws
from pyro_crowdclust.distributions.draws import NamedDraws, SiteDraws, named_draws
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.inference.enumeration import ItemSite, is_deterministic, trace_sites
from pyro_crowdclust.minibatches.answer_plate import AnswerFrame
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import items_alone
from pyro_crowdclust.protocols import FittedModel


@runtime_checkable
class SupportsPriors(Protocol):
    """A model with conjugate priors, which also have names of the axes of draws (``dims``)."""

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """The global sites, by name."""


@runtime_checkable
class SupportsDescribe(Protocol):
    """A model whose sites have other variables in diagnostics than their parameters theta."""

    def describe(self, draws: Mapping[str, SiteDraws]) -> dict[str, dict[str, NamedDraws]]:
        """Variables by name, for every site that has them; ``draws`` holds all global sites."""


class GivenValues(Messenger):
    """Sets the values of latent sites, without turning them into observed ones.

    Parameters
    ----------
    values
        The values of the sites, by name.
    """

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._values = values

    def _pyro_sample(self, message: dict[str, Any]) -> None:
        if message["name"] in self._values and not message["is_observed"]:
            message["value"] = self._values[message["name"]]
            message["done"] = True


@dataclass(frozen=True)
class GlobalDraws:
    """Draws of all global sites from q.

    Attributes
    ----------
    sites
        Draws of every site, by name.
    log_density
        log q of each draw, summed over the random sites.
    auxiliary
        Draws of the guide's auxiliary sites, from which it computes some of the model's sites.
    """

    sites: dict[str, SiteDraws]
    log_density: Float[Tensor, " draw"]
    auxiliary: dict[str, Tensor] = field(default_factory=dict)

    @property
    def num_draws(self) -> int:
        """Number of draws."""
        return len(self.log_density)

    def at(self, draw: int) -> dict[str, Tensor]:
        """The values of the model's sites at one draw."""
        return {name: site.statistics[draw] for name, site in self.sites.items()}


def batch_of_items(
    result: FittedModel, items: Int[Tensor, " item"], class_labels: bool = False
) -> Batch:
    """A batch of some items without their answers, on the device of the fit."""
    return items_alone(result.data, items, class_labels).to(result.device, result.dtype)


def sites_with_density(trace: Trace) -> dict[str, Any]:
    """The sample sites of a trace with a Pyro distribution, by name."""
    return {
        name: site
        for name, site in trace_sites(trace).items()
        if isinstance(site["fn"], Distribution)
    }


def run(part: Callable, batch: Batch, values: Mapping[str, Tensor]) -> Trace:
    """One run of a model or guide, with some of its latent sites given."""
    with pyro.validation_enabled(False), GivenValues(values):
        try:
            return poutine.trace(part).get_trace(batch)
        except ValueError as error:
            # Pyro wraps errors, such as that of missing features, in one with a table of all sites.
            raise error.__cause__ or error from None


def local_plates(result: FittedModel) -> frozenset[str]:
    """Names of the plates that grow with the batch, in guide and model."""
    count = min(3, result.data.num_items)
    sizes: list[dict[str, int]] = []
    for number in (max(count - 1, 1), count):
        batch = batch_of_items(result, torch.arange(number))
        try:
            traces = [run(part, batch, {}) for part in (result.guide, result.model)]
        except (TypeError, AttributeError):
            if result.feature_shape is not None:
                _ = batch.needed_features  # raises a clear error after a fit was loaded without
            raise
        sizes.append(
            {
                frame.name: frame.size
                for trace in traces
                for site in sites_with_density(trace).values()
                for frame in site["cond_indep_stack"]
            }
        )
    return frozenset(name for name, size in sizes[1].items() if sizes[0][name] != size)


def is_local(site: dict[str, Any], local: frozenset[str]) -> bool:
    """Whether a site of a trace is in a plate that grows with the batch."""
    return any(frame.name in local for frame in site["cond_indep_stack"])


def is_of_answers(site: dict[str, Any]) -> bool:
    """Whether a site of a trace is in an ``AnswerPlate``."""
    return any(isinstance(frame, AnswerFrame) for frame in site["cond_indep_stack"])


def plates_of(site: dict[str, Any]) -> tuple[str, ...]:
    """Names of the plates of a site, leftmost axis first."""
    frames = [frame for frame in site["cond_indep_stack"] if frame.vectorized]
    return tuple(frame.name for frame in sorted(frames, key=lambda frame: frame.dim))


def global_draws(result: FittedModel, num_draws: int) -> GlobalDraws:
    """Draws of all global sites of a fitted guide.

    It uses torch's global random state: call it inside ``result.inside(seed)``.

    Parameters
    ----------
    result
        The result of ``fit``.
    num_draws
        The number of draws.
    """
    local = local_plates(result)
    batch = batch_of_items(result, torch.arange(min(2, result.data.num_items)))
    sites = {
        name: site
        for name, site in sites_with_density(run(result.guide, batch, {})).items()
        if not is_local(site, local) and not is_of_answers(site)
    }
    drawn: dict[str, SiteDraws] = {}
    log_density = torch.zeros(num_draws, dtype=torch.float64)
    for name, site in sites.items():
        fn: Any = site["fn"]
        if not isinstance(fn, SupportsRealDraws):
            continue
        value, statistics = fn.real_draws(num_draws)
        is_random = not isinstance(fn, Point)
        drawn[name] = SiteDraws(value, statistics, plates_of(site), is_random)
        if is_random:
            log_density += _per_draw(site["fn"].log_prob(statistics))
    ordinary = [name for name in sites if name not in drawn]
    auxiliary: dict[str, Tensor] = {}
    if ordinary:
        values, density = _draws_by_running(result, batch, ordinary, num_draws)
        log_density += density
        for name, value in values.items():
            if sites[name]["is_observed"]:  # a factor, or a deterministic site of the guide
                continue
            if sites[name]["infer"].get("is_auxiliary"):
                auxiliary[name] = value
                continue
            is_random = bool((value != value[:1]).any())
            drawn[name] = SiteDraws(value, value, plates_of(sites[name]), is_random, reruns=True)
    return GlobalDraws(drawn, log_density, auxiliary)


def _draws_by_running(
    result: FittedModel, batch: Batch, names: list[str], num_draws: int
) -> tuple[dict[str, Tensor], Float[Tensor, " draw"]]:
    """Draws by running the guide, and their joint log-density."""
    values: dict[str, list[Tensor]] = {name: [] for name in names}
    densities = []
    for _ in range(num_draws):
        sites = sites_with_density(run(result.guide, batch, {}))
        density = torch.zeros((), dtype=torch.float64)
        for name in names:
            site = sites[name]
            density = density + site["fn"].log_prob(site["value"]).sum().double().cpu()
            values[name].append(site["value"])
        densities.append(density)
    return {name: torch.stack(drawn) for name, drawn in values.items()}, torch.stack(densities)


def deterministic_draws(result: FittedModel, draws: GlobalDraws) -> dict[str, SiteDraws]:
    """Deterministic global sites of the model, such as ``pyro.deterministic``, at each draw.

    The model runs on one item and on others; sites with different values in the two runs depend on
    more than theta and are left out.

    Parameters
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    """
    local, places = local_plates(result), torch.arange(min(3, result.data.num_items))
    batches = [batch_of_items(result, items) for items in (places[:1], places[-2:])]
    rows: list[dict[str, Tensor]] = []
    for draw in range(draws.num_draws):
        values = draws.at(draw)
        one, other = (
            {
                name: site
                for name, site in sites_with_density(run(result.model, batch, values)).items()
                if is_deterministic(site) and not is_local(site, local)
            }
            for batch in batches
        )
        equal = [n for n in one if n in other and torch.equal(one[n]["value"], other[n]["value"])]
        if not equal:
            return {}
        rows.append({name: one[name]["value"] for name in equal})
    found: dict[str, SiteDraws] = {}
    for name in rows[0]:
        if all(name in row for row in rows):
            value = torch.stack([row[name] for row in rows])
            found[name] = SiteDraws(value, value, plates_of(one[name]), is_random=True)
    return found


def dims_of_weights(
    result: FittedModel, sites: Mapping[str, SiteDraws]
) -> dict[str, tuple[str, ...]]:
    """Names of the axes of sites that hold the probabilities of an enumerated z.

    They are recognized by their values: the probabilities of the first item are one of their rows.
    """
    batch = batch_of_items(result, torch.arange(min(2, result.data.num_items)))
    theta = {name: site.statistics[0] for name, site in sites.items()}
    trace = run(result.model, batch, theta)
    z = ItemSite.find(trace, run(result.guide, batch, {}), len(batch.items))
    nodes: Any = trace.nodes
    weights = None if z is None else getattr(nodes[z.name]["fn"], "probs", None)
    if weights is None or weights.dim() < 2:  # the single probability of a Bernoulli
        return {}
    weights = weights.flatten(0, -2)[0]
    axis = "cluster" if result.data.class_labels is None else "class"
    return {
        name: (*site.plates, axis)
        for name, site in sites.items()
        if theta[name].dim() == len(site.plates) + 1
        and theta[name].shape[-1:] == weights.shape
        and torch.isclose(theta[name], weights.to(theta[name])).all(-1).any()
    }


def variables_of(
    model: Any,
    draws: Mapping[str, SiteDraws],
    dims: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> dict[str, NamedDraws]:
    """Every variable of the posterior, by name.

    The model describes its sites itself (``SupportsDescribe``); otherwise the axes have the names
    in its priors, in ``dims``, or else those of the plates. An axis cannot have the name of a
    variable in xarray, and gets ``_dim`` at its end.
    """
    own = model.describe(draws) if isinstance(model, SupportsDescribe) else {}
    priors = model.priors() if isinstance(model, SupportsPriors) else {}
    dims = {**dims, **{name: prior.dims for name, prior in priors.items()}}
    plain = {
        name: named_draws(name, site, dims.get(name, ()))
        for name, site in draws.items()
        if name not in own
    }
    found = {name: drawn for part in (plain | own).values() for name, drawn in part.items()}
    return {name: drawn.with_free_dims(found) for name, drawn in found.items()}


def _per_draw(log_density: Float[Tensor, "draw ..."]) -> Float[Tensor, " draw"]:
    return log_density.flatten(1).sum(1).cpu() if log_density.dim() > 1 else log_density.cpu()
