"""The structured guide of deep latent mixtures; Echraibi et al. 2020, section 3.

    q = prod_sites q(theta) prod_n q(z_n) prod_l N(h_n^(l) | mu_k^(l)(o_n), diag sigma_k^(l)(o_n)^2)

Latents depend on the cluster, through a recognition network with the cluster as an input. q(z)
maximizes the bound (eq. 5): ``log q(z_n=k) = E[log pi_k] + E_{q(h | o_n, k)}[log p(o_n, h | k) -
log q(h | o_n, k)] + const``; or it is a classifier, as in M2 of Kingma et al. 2014. Global sites
are conjugate (eq. 3, 4, 7, 8) and trained by natural gradients; networks learn from reparameterized
draws of h given each cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyro
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.annotators import sites_in
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugateAtMean,
    FullPlate,
    OfItems,
    RowNormalAtMean,
    Rows,
)
from pyro_crowdclust.families import Categorical
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.mixture import Globals, MixtureGuide
from pyro_crowdclust.guides.model_checks import check_model
from pyro_crowdclust.inference import (
    ConsistencyTerm,
    LabelTerm,
    LocalPosterior,
    LocalSolver,
    LogRatios,
    SumCoupling,
    add_loss_term,
    set_epoch_of,
)
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import check_network_of_clusters
from pyro_crowdclust.networks import AssignmentOutputs, ClusterRecognition, learn_partition

if TYPE_CHECKING:
    from pyro_crowdclust.models import DeepLatentMixture


@described
class StructuredGuide(MixtureGuide):
    """The structured posterior q(Theta) q(z) q(h | z) of a ``DeepLatentMixture``.

    Parameters
    ----------
    model
        The model whose posterior this approximates.
    recognition
        q(h | o, z), with the layers of the model.
    threshold
        Probabilities q(z) below this are set to zero, and the networks are not trained on them.
        Any q gives a bound; if most probabilities are zero, a step costs little more than one
        forward pass per cluster.
    num_draws
        Draws of h for the importance-weighted estimate of ``p(o | z=k)`` in predictions.
    classifier
        Network from features to K logits of q(z | o): M2 of Kingma et al. 2014. None: q(z | o)
        maximizes the bound.
    label_term
        A further loss by which q(z | o) learns from known labels; see ``LabelTerm``.
    consistency_term
        A further loss by which the classifier learns from views of the items; see
        ``ConsistencyTerm``.
    solver
        Computes the messages between the items that workers compared.

    Raises
    ------
    ValueError
        If the threshold is so high that an item might keep no cluster, if the recognition network
        has another number of layers or clusters than the model, or if there is a
        ``consistency_term``, but no classifier.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.emissions import BernoulliEmission
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> from pyro_crowdclust.mixture import DiagonalGaussianComponents, StickBreakingWeights
    >>> from pyro_crowdclust.models import DeepLatentMixture
    >>> from pyro_crowdclust.networks import CodedMLP, SkipMLP
    >>> model = DeepLatentMixture(
    ...     StickBreakingWeights(3),
    ...     DiagonalGaussianComponents(3, 2),
    ...     BernoulliEmission(CodedMLP((2, 8, 6), 3)),
    ... )
    >>> recognition = ClusterRecognition(SkipMLP((6, 9, 5)), CodedMLP((5, 8, 4), 3), [2])
    >>> guide = StructuredGuide(model, recognition)
    >>> guide.infer(full_batch(CrowdData(torch.zeros(4, 6)))).assignments.shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        model: DeepLatentMixture,
        recognition: ClusterRecognition,
        *,
        threshold: float = 1e-3,
        num_draws: int = 10,
        classifier: nn.Module | None = None,
        label_term: LabelTerm | None = None,
        consistency_term: ConsistencyTerm | None = None,
        solver: LocalSolver = LocalSolver(exchanges=10),  # noqa: B008, frozen
    ) -> None:
        check_model(self, "DeepLatentMixture", model, "components", "latent_names")
        super().__init__(model)
        if not 0 <= threshold < 1 / model.num_clusters:
            raise ValueError(
                f"threshold is {threshold}, but must be in [0, 1/{model.num_clusters}), so that "
                "every item keeps a cluster"
            )
        if len(recognition.dims) != len(model.latent_names()):
            raise ValueError(
                f"the recognition network has {len(recognition.dims)} layers of latents, but the "
                f"model has {len(model.latent_names())}: give both the same number"
            )
        check_network_of_clusters(recognition.head, model.num_clusters)
        if classifier is None and consistency_term is not None:
            raise ValueError(
                "a consistency term trains a classifier, but the guide has none: pass one, e.g. "
                "classifier=SkipMLP((features, 100, clusters)), or leave out consistency_term"
            )
        self.recognition = recognition
        self.classifier = classifier
        self.outputs = AssignmentOutputs(model.num_clusters)
        self.threshold = threshold
        self.num_draws = num_draws
        self.label_term = label_term
        self.consistency_term = consistency_term
        self.solver = solver

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        features = batch.needed_features
        values = self.sample_globals()
        seen = self.recognition.trunk(features.flatten(1))
        logits = self._logits(batch, seen, values.detached())
        with FullPlate("items", batch.items.shape[0], self.model.supervision.item_weight(batch)):
            z = pyro.sample("z", ConjugateAtMean(Categorical(self.model.num_clusters), logits))
            rows = Rows.of(z)
            latents = self.recognition.latents(seen, rows)
            for name, moments in zip(self.model.latent_names(), latents, strict=True):
                pyro.sample(name, OfItems(RowNormalAtMean(*moments), rows))
        if sites := sites_in(self.model.annotators, batch):
            sites.sample_guide(z, values.rates, batch)

    @property
    def log_ratios(self) -> LogRatios:
        """Estimates of ``E_{q(h | o, k)}[log p(o, h | k) - log q(h | o, k)]``."""
        return LogRatios(self.model, self.recognition)

    def _logits(self, batch: Batch, seen: Tensor, values: Globals) -> Float[Tensor, "item cluster"]:
        """log q(z) of training, which also adds the terms of labels and views to the loss."""
        features, theta = batch.needed_features, values.components
        supervision = self.model.supervision
        log_weights = self.model.weights.log_weights(values.weights)
        if self.classifier is None:
            alone = log_weights + self.log_ratios.of_all(theta, features, seen)
        else:
            alone = self._classified(features)
        with_labels = self._with_labels(alone, log_weights, values, batch)
        if self.label_term is not None and batch.known is not None:
            labelled = batch.known >= 0
            parts = alone[labelled], with_labels[labelled]
            if self.classifier is None:
                zeros = self._zeros_with_gradient(theta, features[labelled], seen[labelled], *parts)
                parts = parts[0] + zeros, parts[1] + zeros
            weight = supervision.item_weight(batch)[labelled]
            add_loss_term("labels", self.label_term.loss(*parts, weight))
        logits = self._with_messages(with_labels.to(seen.dtype), values, batch)
        if self.consistency_term is not None:
            self._add_consistency(logits, batch)
        return logits.masked_fill(logits.softmax(-1) < self.threshold, -torch.inf)

    def _classified(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item cluster"]:
        """log q(z | o) of the classifier."""
        assert self.classifier is not None  # callers have checked
        return self.outputs(self.classifier(features.flatten(1)).log_softmax(-1))

    def _with_labels(
        self, alone: Tensor, log_weights: Tensor, values: Globals, batch: Batch
    ) -> Float[Tensor, "item cluster"]:
        """log q(z) of items with the terms of their known labels added."""
        local = self.model.supervision.local_log_weights(log_weights, values.others, batch)
        return alone + (local - log_weights)

    def _add_consistency(self, logits: Tensor, batch: Batch) -> None:
        """Add the loss of the classifier's q(z) from views against q(z) of the items."""
        assert self.consistency_term is not None
        of_views = self._classified(self.consistency_term.views(batch))
        item_weight = self.model.supervision.item_weight(batch)
        consistency = self.consistency_term.loss(
            logits.softmax(-1), of_views, item_weight, batch.answered
        )
        add_loss_term("consistency", consistency)

    def _zeros_with_gradient(
        self, theta: Tensor, features: Tensor, seen: Tensor, alone: Tensor, with_labels: Tensor
    ) -> Float[Tensor, "labelled cluster"]:
        """Zeros whose gradient is that of ``log_ratios``, where the label changes q(z).

        The derivative of the log loss is the change of q(z) by the label. Where it is below the
        threshold, no pass through the networks is made.
        """
        change = (with_labels.softmax(-1) - alone.softmax(-1)).abs()
        rows = Rows.of((change >= self.threshold).to(seen.dtype))
        zeros = seen.new_zeros(len(seen) * self.model.num_clusters)
        if not len(rows.item):
            return zeros.view_as(alone)
        ratios = self.log_ratios(theta, features, seen, rows)
        places = rows.item * self.model.num_clusters + rows.cluster
        return zeros.index_add(0, places, (ratios - ratios.detach()).to(zeros.dtype)).view_as(alone)

    def _with_messages(
        self, alone: Float[Tensor, "item cluster"], values: Globals, batch: Batch
    ) -> Float[Tensor, "item cluster"]:
        """log q(z) with the messages of answers and of the supervision's links."""
        sites = sites_in(self.model.annotators, batch)
        answers = None if sites is None else sites.coupling(values.rates, batch, alone.dtype)
        coupling = SumCoupling.of(self.model.supervision.coupling(values.others, batch), answers)
        return alone if coupling is None else self.solver.exchanged(alone, coupling)

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of a batch, and the top layer in the most probable cluster.

        q(z) is that of the classifier, or by importance weights if there is none.
        """
        features = batch.needed_features
        if self.classifier is None:
            logits = self.importance_logits(batch)
        else:
            values = self.mean_globals()
            log_weights = self.model.weights.log_weights(values.weights)
            alone = self._classified(features)
            with_labels = self._with_labels(alone, log_weights, values, batch)
            logits = self._with_messages(with_labels.to(alone.dtype), values, batch)
        best = torch.nn.functional.one_hot(logits.argmax(-1), self.model.num_clusters)
        seen = self.recognition.trunk(features.flatten(1))
        top, *_ = self.recognition.latents(seen, Rows.of(best.to(seen.dtype)))
        return LocalPosterior(logits, top.full())

    @torch.no_grad()
    def importance_logits(self, batch: Batch) -> Float[Tensor, "item cluster"]:
        """log q(z) of a batch by importance weights, up to a constant for each item.

        ``p(z=k | o)`` is proportional to ``E[pi_k] (1/S) sum_s p(o, h_s | k) / q(h_s | o, k)``
        with S draws h_s from q(h | o, k); eq. 10 with the weights of importance sampling. The draws
        are the same in every call and use the same noise for all items.
        """
        values = self.mean_globals()
        features, seeds = batch.needed_features, range(self.num_draws)
        log_likelihoods = self.log_ratios.log_likelihoods(values.components, features, seeds)
        eta = self.posteriors["weights"].natural_parameters
        log_weights = self.model.weights.mean(eta).log()
        alone = log_weights + log_likelihoods
        with_labels = self._with_labels(alone, log_weights, values, batch)
        return self._with_messages(with_labels.to(log_likelihoods.dtype), values, batch)

    @torch.no_grad()
    def item_log_likelihood(
        self, sites: Mapping[str, Tensor], batch: Batch, num_draws: int
    ) -> Float[Tensor, " item"]:
        """``log p(o | Theta) = log sum_k pi_k (1/S) sum_s p(o, h_s | k) / q(h_s | o, k)``.

        Parameters
        ----------
        sites
            Values of the sites of Theta, by name.
        batch
            The items; their answers and labels are not used.
        num_draws
            S, the number of draws of h from q(h | o, k) for every cluster.
        """
        log_weights = self.model.weights.log_weights(sites["weights"])
        seeds = torch.randint(2**31, (num_draws,)).tolist()
        theta, features = sites["components"], batch.needed_features
        log_likelihoods = self.log_ratios.log_likelihoods(theta, features, seeds)
        return (log_weights + log_likelihoods).logsumexp(-1)

    def start_at_partition(
        self,
        features: Float[Tensor, "item feature"],
        responsibilities: Float[Tensor, "item cluster"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train the classifier, if there is one, to find a given partition."""
        if self.classifier is None:
            return
        features = features.to(next(self.classifier.parameters()))
        parameters = self.classifier.parameters()
        learn_partition(self.classifier, parameters, features, responsibilities, generator, steps)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the recognition network fits the data and the model."""
        self.recognition.check_sizes(data.num_features, self.model.components.dim)

    def set_epoch(self, epoch: float) -> None:
        """Set the number of epochs done so far, on which annealed terms depend."""
        set_epoch_of(epoch, self.label_term, self.consistency_term)
        super().set_epoch(epoch)

    @torch.no_grad()
    def merge(self, first: int, second: int) -> int:
        """Give the statistics of two components to the larger; returns the other, emptied."""
        emptied = super().merge(first, second)
        self.outputs.merge(first + second - emptied, emptied)
        return emptied

    @torch.no_grad()
    def empty(self, cluster: int) -> None:
        """Reset a cluster to its prior; the classifier's output for it is ignored."""
        super().empty(cluster)
        self.outputs.empty(cluster)
