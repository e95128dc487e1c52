"""What a part must be to take part: the contracts of models, guides, annotators and all the rest.

A part needs no base class, only the verbs of its contract. The first contract of each kind is what
every such part has; those called ``Supports...`` are verbs that a part may have, each for something
that the library can do with it, and is asked for by ``isinstance``. Arrays have the shapes in the
signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from pyro.distributions import TorchDistribution
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.draws import NamedDraws, SiteDraws
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import (
    ComponentSummary,
    LocalPosterior,
    MixtureSummary,
    WorkerSummary,
)
from pyro_crowdclust.families import ExponentialFamily, PosteriorSummary
from pyro_crowdclust.minibatches.batch import Batch

# ``Model`` and ``Guide``: any Pyro function of a batch, or a module with such a ``forward``.
Model = Callable[[Batch], Any]
Guide = Callable[[Batch], Any]


@runtime_checkable
class SupportsCheck(Protocol):
    """A model or guide that knows which data fit it."""

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data fit; ``fit`` asks before it trains."""


Part = TypeVar("Part")


def part_of(whole: Any, name: str, kind: type[Part]) -> Part | None:
    """What a module calls by this name, if it has it and it is of this kind.

    By convention a model calls its parts ``components``, ``emission`` and ``supervision``, a guide
    ``model`` and ``recognition``.
    """
    children = dict(whole.named_children()) if isinstance(whole, nn.Module) else {}
    found = children.get(name)
    return found if isinstance(found, kind) else None


# Models


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


# Guides


@runtime_checkable
class SupportsInfer(Protocol):
    """A guide that knows q of the items: for ``assignments``, ``predict`` and all moves."""

    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of the items of a batch, with the answers that it holds."""


@runtime_checkable
class SupportsMixture(Protocol):
    """A guide of a mixture: for ``result.clusters``, ``components`` and the history."""

    def mixture(self) -> MixtureSummary:
        """Weights, and what the components look like."""


@runtime_checkable
class SupportsPartition(Protocol):
    """A guide that draws partitions: ``result`` then reads clusters from these draws."""

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """The cluster of every item in every draw, by any numbers."""


@runtime_checkable
class SupportsWorkers(Protocol):
    """A guide of workers who answer about pairs: for ``result.workers``."""

    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Rates and weight of every worker; None if the model has no workers."""


@runtime_checkable
class SupportsRateStatistics(Protocol):
    """A guide of workers who say what belongs together: for ``result.pages`` and merge moves."""

    def rate_statistics(self) -> dict[str, Float[Tensor, "worker size"]]:
        """E[t] of every site of the annotators, by name."""


@runtime_checkable
class SupportsConfusion(Protocol):
    """A guide of workers who give class labels: for ``result.confusion``."""

    def confusion(self, interval: float = 0.9) -> PosteriorSummary:
        """``p(label | class)`` of every worker, ``[worker, class, label]``."""


@runtime_checkable
class SupportsAnswerProbabilities(Protocol):
    """A guide of class labels that says how likely other labels are, of the same items."""

    def answer_probabilities(
        self,
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, given those that are."""


@runtime_checkable
class SupportsClassTable(Protocol):
    """A guide that learns the classes of clusters from known labels."""

    def class_table(self) -> Float[Tensor, "cluster class"] | None:
        """``E[rho_kc]``; None if the model has no such table."""


@runtime_checkable
class SupportsItemLogLikelihood(Protocol):
    """A guide whose latents depend on the cluster, which it sums out itself."""

    def item_log_likelihood(
        self, sites: Mapping[str, Tensor], batch: Batch, num_draws: int
    ) -> Float[Tensor, " item"]:
        """``log p(o | Theta)``, with so many draws of each latent."""


@runtime_checkable
class SupportsEpochs(Protocol):
    """A guide that anneals something."""

    def set_epoch(self, epoch: float) -> None:
        """How far training is, in epochs; told before every step."""


class SiteStatistics(Protocol):
    """What a start knows about the global sites, such as a partition of some items."""

    def statistics(self, model: Any) -> dict[str, Tensor]:
        """Expected sufficient statistics that its items add to sites of the model, by name."""


@runtime_checkable
class SupportsStartAt(Protocol):
    """A guide that can begin at a partition of the items."""

    def start_at(self, start: SiteStatistics) -> None:
        """Move the global sites to where the statistics put them."""


@runtime_checkable
class SupportsStartAtPartition(Protocol):
    """A guide, or a recognition network, that can learn a partition before training."""

    def start_at_partition(
        self,
        features: Float[Tensor, "item feature"],
        responsibilities: Float[Tensor, "item cluster"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train the networks of q(z | o) to find it."""


@runtime_checkable
class SupportsStart(Protocol):
    """A guide with a start of its own, in place of the default one."""

    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Move to where training is to begin."""


# Annotators


class PairAnnotators(Protocol):
    """How workers answer "are these two the same?"; every site is in the plate of the workers."""

    @property
    def num_workers(self) -> int:
        """M."""

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """What is unknown of every worker: global sites by name, of any family."""

    def answer(
        self,
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
    ) -> TorchDistribution:
        """Likelihood of the answers, linear in ``same`` and in the statistics ``rates``."""

    def log_likelihood_ratio(
        self,
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
        label: Float[Tensor, " pair"],
    ) -> Float[Tensor, " pair"]:
        """``log p(L | same) - log p(L | different)``, the weight of a message."""


@runtime_checkable
class SupportsItems(Protocol):
    """Annotators of pairs to whom it matters which two items are asked about: hard ones, say."""

    def about(self, items: Int[Tensor, "pair 2"]) -> PairAnnotators:
        """The annotators of answers about these pairs of items, by their positions in the data."""


@runtime_checkable
class SupportsTrust(Protocol):
    """Annotators of pairs who can begin as reliable: for starts."""

    def with_trust(self, trust: tuple[float, float]) -> PairAnnotators:
        """The same workers with these pseudo-counts of right and wrong answers."""


class ClassAnnotators(Protocol):
    """Which label a worker gives to an item of which class."""

    num_workers: int
    num_classes: int

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """Global sites by name; posteriors begin at these."""

    def sample(self) -> dict[str, Tensor]:
        """Run the sites in a model; returns their values."""

    def log_answers(self, values: Mapping[str, Tensor]) -> Float[Tensor, "worker label state"]:
        """``log p(label | class)`` of every worker, linear in the sites' values.

        The states are the classes, or those within each of them (``SupportsStates``).
        """

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """``p(label | class)``, ``[worker, class, label]``."""


@runtime_checkable
class SupportsDraws(ClassAnnotators, Protocol):
    """Class annotators whose sites can be drawn where the classes of all items are known.

    Chains are drawn side by side: all arrays have an axis of chains in front, and so may the values
    of ``log_answers``.
    """

    def draw(
        self,
        values: Mapping[str, Tensor],
        counts: Float[np.ndarray, "*chain worker state label"],
        items: Float[np.ndarray, "*chain state"],
        rng: np.random.Generator,
    ) -> dict[str, Tensor]:
        """Values of the sites, from those of the draw before and how often who said what of what.

        ``items`` are in each state, which is a class where classes have no states. Learned
        concentrations, which take a step towards where they are likeliest, are values, too.
        """


@runtime_checkable
class SupportsStateDraws(SupportsDraws, Protocol):
    """Class annotators whose sites can be drawn where the states of all items are known."""

    def log_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row column"]
    ) -> Float[Tensor, "*row class state"]:
        """``log p(a_i, s_i = s | y_i = k)`` from ``log p(a_i | k, s)``."""


class Coupling(Protocol):
    """Terms of the bound that are quadratic in q(z), as messages between items.

    With ``m_n(q)`` the message to item n, linear in the q of others, the terms are
    ``sum_n <q_n, m_n(q)> / 2``.
    """

    num_items: int

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """What each of the first ``num_items`` items hears; ``last`` in the last round."""


@runtime_checkable
class SupportsStates(Protocol):
    """Class annotators under whom the items of a class have states."""

    def sum_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row state"]
    ) -> Float[Tensor, "*row class"]:
        """Evidence of classes from evidence of their states."""

    def draw_states(
        self, values: Mapping[str, Tensor], assignments: Float[Tensor, "item class"]
    ) -> Float[Tensor, "item state"]:
        """One-hot states of items of these classes."""

    def answer_probabilities(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, given those that are."""


# Components and networks


class ComponentPrior(Protocol):
    """What the features of the items in one cluster look like; ``Components`` has defaults."""

    num_clusters: int
    family: ExponentialFamily
    prior: ConjugatePrior
    latent_family: ExponentialFamily | None

    @property
    def num_features(self) -> int:
        """Features of an item (or latent dimensions) that the components are on."""

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Labels of the columns of ``summary``, from names of the features or their positions."""

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Means of the features of every component under a posterior."""

    def observe(
        self, features: Float[Tensor, "item feature"], has_gaps: bool = False
    ) -> Float[Tensor, "item observation"]:
        """The value of the site ``x`` that known features are; NaN where they have gaps."""

    def features(self, observation: Float[Tensor, "item observation"]) -> Tensor:
        """Inverse of ``observe``, e.g. of simulated items."""

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item column"]:
        """Coordinates in which k-means finds a start."""

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        """Raise a ``ValueError`` where features lie outside the support."""


@runtime_checkable
class SupportsSetLinear(Protocol):
    """A network that can begin as a linear map: for the start at principal components."""

    def set_linear(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"]
    ) -> None:
        """Become ``x -> W x + b``."""


@runtime_checkable
class SupportsDrawParameters(Protocol):
    """A network or emission that starts anew with every fit, in the precision that ``fit`` has."""

    def draw_parameters(self) -> None:
        """Draw its parameters, so that the seed of the fit decides them."""


@runtime_checkable
class SupportsLearnPatterns(Protocol):
    """A network whose first filters are what patches of the images look like."""

    def learn_patterns(
        self, images: Float[Tensor, "item feature"], generator: torch.Generator
    ) -> None:
        """Find them from some images."""


@runtime_checkable
class SupportsSizeCheck(Protocol):
    """A recognition network that knows its sizes."""

    def check(self, num_features: int, dim: int) -> None:
        """Raise a ``ValueError`` unless it is of so many features and latent dimensions."""


# Training


class Start(Protocol):
    """Where training begins: ``fit(initialize=...)``, given copies of model and guide."""

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Move parameters and posteriors; all chance is from the generator."""


class TrainingRun(Protocol):
    """What a callback finds: the ``Trainer`` after an epoch."""

    model: Any
    guide: Any
    data: CrowdData
    history: list[dict[str, float]]
    optim: torch.optim.Optimizer | None
    epochs_done: int
    steps_done: int
    dtype: torch.dtype
    device: str | torch.device | None


class Callback(Protocol):
    """What happens after an epoch: ``fit(callbacks=...)``."""

    def __call__(self, trainer: Any, /) -> None:
        """Look at the ``TrainingRun``, change its guide, or add keys to ``history[-1]``."""


@runtime_checkable
class SupportsState(Protocol):
    """A callback with state of its own, which checkpoints keep."""

    def state_dict(self) -> dict[str, Any]:
        """The state, of plain values and tensors."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""


# Results


class FittedModel(Protocol):
    """What diagnostics and plots need of a fitted result."""

    @property
    def model(self) -> Any:
        """The fit's own copy of the model."""

    @property
    def guide(self) -> Any:
        """The fit's own copy of the guide."""

    @property
    def data(self) -> CrowdData:
        """What was learned from."""

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch."""

    @property
    def stop_reason(self) -> str:
        """Why training ended."""

    @property
    def seconds(self) -> float:
        """Time of the whole fit."""

    @property
    def seed(self) -> int:
        """Seed of the fit."""

    @property
    def feature_shape(self) -> tuple[int, ...] | None:
        """Shape of the features of one item."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of features and networks."""

    @property
    def device(self) -> Any:
        """Where the fit's tensors are."""

    @property
    def probabilities(self) -> Float[np.ndarray, "item cluster"]:
        """q(z_i = k) of every training item."""

    @property
    def has_assignments(self) -> bool:
        """Whether there is a q(z) of the items."""

    @property
    def cluster_order(self) -> Int[np.ndarray, " cluster"] | None:
        """The guide's own number of every cluster, from the largest on; None: as they are."""

    @property
    def component_probabilities(self) -> Float[Tensor, "item component"]:
        """q(z_i) of every training item, of components and in the guide's own order."""

    @property
    def component_probabilities_by_features(self) -> Float[Tensor, "item component"] | None:
        """The same as if nobody had been asked; None where there are no features."""

    @property
    def owners(self) -> Float[np.ndarray, "component cluster"] | None:
        """q(c) of every component, where clusters own components; None where each is one."""

    @property
    def assignments(self) -> Int[np.ndarray, " item"]:
        """The most probable cluster of every training item."""

    def same_cluster_probability(self, left: Any, right: Any) -> Any:
        """P(z_i = z_j) of pairs of training items, by the user's ids."""

    @property
    def latent_means(self) -> Float[np.ndarray, "item dim"] | None:
        """E_q[x_i] of every training item; None where the features are the latents."""

    @property
    def workers(self) -> pd.DataFrame:
        """One row per worker."""

    def inside(self, seed: int | None = None) -> AbstractContextManager[None]:
        """The fit's own parameter store, random numbers that repeat, and no gradients."""
