"""The conjugate message-passing guide of BayesSCDC; Luo et al. 2018, section 3 and appendix A.

Global sites have one conjugate posterior per prior of the model, trained by natural gradients. q of
the local sites is the fixed point of eq. 12 and 14 under Gaussian potentials r(o) from a
recognition network. Every site returns its mean, so that Pyro's own ELBO is the bound J of eq. 16
and 19-25.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators import sites_in
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugateAtMean,
    FullPlate,
    GaussianAtMean,
    WorkerSummary,
    detached,
)
from pyro_crowdclust.emissions import has_gaps
from pyro_crowdclust.families import Categorical, softmax_without_denormals
from pyro_crowdclust.files import described, rebuilt
from pyro_crowdclust.guides.mixture import Globals, MixtureGuide
from pyro_crowdclust.guides.model_checks import check_model
from pyro_crowdclust.inference import (
    Conditionals,
    ConsistencyTerm,
    FixedConditionals,
    LocalConditionals,
    LocalPosterior,
    LocalSolver,
    RecognitionTerm,
    SumCoupling,
    add_loss_term,
    set_epoch_of,
    widened_by_draws,
)
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import MixtureDraws, observed_latent
from pyro_crowdclust.networks import AssignmentOutputs, GaussianRecognition, learn_partition
from pyro_crowdclust.protocols import SupportsSizeCheck

# The number of items whose observed moments are in memory at a time when q of many is computed.
_ROWS = 4096

if TYPE_CHECKING:
    from pyro_crowdclust.models import SemiCrowdsourcedMixture


@described
class MessagePassingGuide(MixtureGuide):
    """q(Theta) q(Z) q(X) of a ``SemiCrowdsourcedMixture``, by natural steps and message passing.

    If the recognition network has a ``classifier``, q(z) is the classifier's output combined with
    the messages of the answers, instead of eq. 14.

    Parameters
    ----------
    model
        The model whose posterior this approximates.
    recognition
        Network of the Gaussian potentials r(o); None with an ``Identity`` emission.
    solver
        How the local fixed point is found.
    full_gradient
        Also use the second term of eq. 17, the gradient of the global parameters through the
        local fixed point. The optimizer then makes sure that they stay in their domain.
    recognition_term
        A further loss by which the recognition network learns from the answers; see
        ``RecognitionTerm``.
    consistency_term
        A further loss by which it learns from views of the items; see ``ConsistencyTerm``.

    Raises
    ------
    ValueError
        If there is no recognition network, but the latents are not observed or there is a
        ``consistency_term``; or if there is a classifier, but the supervision couples items.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 1), Identity())
    >>> x = np.repeat([-3.0, 3.0], [10, 20])[:, None] + np.linspace(-1, 1, 30)[:, None]
    >>> result = fit(model, MessagePassingGuide(model), CrowdData(x), epochs=9, progress=False)
    >>> np.bincount(result.assignments).tolist()
    [20, 10]
    """

    def __init__(
        self,
        model: SemiCrowdsourcedMixture,
        recognition: GaussianRecognition | None = None,
        *,
        solver: LocalSolver = LocalSolver(),  # noqa: B008, frozen
        full_gradient: bool = False,
        recognition_term: RecognitionTerm | None = None,
        consistency_term: ConsistencyTerm | None = None,
    ) -> None:
        check_model(self, "SemiCrowdsourcedMixture", model, "components", "emission", "supervision")
        super().__init__(model)
        if recognition is None and consistency_term is not None:
            raise ValueError(
                "a consistency term trains a recognition network, but the guide has none: leave "
                "out consistency_term if the emission is an Identity"
            )
        if recognition is None and not model.emission.observes_latent:
            raise ValueError(
                "the model's latents are not observed: give the guide a recognition network, e.g. "
                "GaussianRecognition(SkipMLP((features, 500, 500, 2 * dim)), dim)"
            )
        self.recognition = recognition
        self.outputs = None
        if recognition is not None and recognition.classifier is not None:
            if model.supervision.couples_items:
                raise ValueError(
                    "a recognition network with a classifier cannot be combined with supervision "
                    "that couples items, such as a field: leave out the classifier, or the field"
                )
            self.outputs = AssignmentOutputs(model.num_clusters)
        self.solver = solver
        self.full_gradient = full_gradient
        self.recognition_term = recognition_term
        self.consistency_term = consistency_term
        # Items of the last step, and their log q(z).
        self._of_step: tuple[Tensor, Tensor] | None = None

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        values = self.sample_globals()
        if self.model.sums_out(batch):
            return

        local = self._local(batch, values, learn=True)
        if self.recognition is None and torch.is_grad_enabled():
            self._of_step = batch.items, local.logits.detach()
        with FullPlate("items", batch.items.shape[0], self.model.supervision.item_weight(batch)):
            family = Categorical(self.model.num_clusters)
            z = pyro.sample("z", ConjugateAtMean(family, local.logits))
            if local.latent is not None:
                pyro.sample("x", GaussianAtMean(local.latent))
        if sites := sites_in(self.model.annotators, batch, values.others.get("owners")):
            sites.sample_guide(z, values.rates, batch)

    def _conditionals(self, batch: Batch, values: Globals) -> Conditionals:
        components: Any = self.model.components
        features, theta, others = batch.needed_features, values.components, values.others
        log_weights = self._log_weights(values.weights)
        log_weights = self.model.supervision.local_log_weights(log_weights, others, batch)
        # Local arithmetic runs in the precision of the networks, global arithmetic in float64.
        if self.recognition is None:
            partly = has_gaps(self.model.emission, batch)
            family, theta = components.of_rows(theta, partly, self.model.feature_weight)
            observed = observed_latent(components, self.model.emission, batch)
            assert observed is not None  # there are features
            scores = family.log_likelihoods(theta.to(observed.dtype), observed)
            return FixedConditionals(log_weights.to(scores.dtype) + scores)
        theta = components.latent_statistics(theta)
        of_latents = self._latent_conditionals(features, log_weights, theta)
        log_assignments = self._log_assignments(features)
        if log_assignments is None:
            return of_latents
        with_labels = self.model.supervision.local_log_weights(log_assignments, others, batch)
        return FixedConditionals(with_labels, of_latents)

    def _log_weights(self, weights: Tensor) -> Float[Tensor, " cluster"]:
        """E[log pi] times the ``prior_weight`` of the model."""
        return self.model.prior_weight * self.model.weights.log_weights(weights)

    def _latent_conditionals(
        self, features: Tensor, log_weights: Tensor, theta: Tensor
    ) -> LocalConditionals:
        """The local updates under the potentials of these features."""
        assert self.recognition is not None
        potential = self.recognition(features)
        family, like = self.model.components.latent_family, potential.linear
        return LocalConditionals(family, log_weights.to(like), theta.to(like), potential)

    def _log_assignments(self, features: Tensor) -> Float[Tensor, "item cluster"] | None:
        """log q(z | o) of the classifier, if there is one.

        Outputs of merged clusters are added up.
        """
        if self.recognition is None or self.outputs is None:
            return None
        found = self.recognition.log_assignments(features)
        return None if found is None else self.outputs(found)

    def _local(self, batch: Batch, values: Globals, *, learn: bool = False) -> LocalPosterior:
        """q of the local sites; with ``learn`` also adds the further terms of the loss."""
        if not self.full_gradient:
            values = values.detached()
        weights, _, rates, others = values
        conditionals = self._conditionals(batch, values)
        sites = sites_in(self.model.annotators, batch, others.get("owners"))
        if sites is None:
            found = self.model.supervision.solve(self.solver, conditionals, others, batch)
            if learn:
                self._add_consistency(conditionals, found, weights, batch)
            return found
        dtype = conditionals.dtype
        answers = sites.coupling(rates, batch, dtype)
        field = self.model.supervision.coupling(others, batch)
        coupling = SumCoupling.of(answers, field)
        alone, found = self.solver.solve(conditionals, coupling)
        if not learn:
            return found
        if self.recognition_term is not None:
            if self.full_gradient:  # The term is for the recognition network alone.
                alone = self.solver.solve(conditionals.with_fixed_globals())[1]
            weighted = sites.coupling(detached(rates), batch, dtype, weighted=True)
            relational = self.recognition_term.loss(alone.assignments, weighted)
            add_loss_term("recognition", relational)
        self._add_consistency(conditionals, found, weights, batch)
        return found

    def _add_consistency(
        self,
        conditionals: Conditionals,
        found: LocalPosterior,
        weights: Tensor,
        batch: Batch,
    ) -> None:
        """Add the loss of q(z) from views, without labels, against what was found of the items."""
        if self.consistency_term is None or self.recognition is None:
            return
        views = self.consistency_term.views(batch)
        of_views = self._log_assignments(views)
        if of_views is None:
            assert isinstance(conditionals, LocalConditionals)  # of the recognition network
            viewed = replace(
                conditionals,
                log_weights=self._log_weights(weights).to(conditionals.dtype),
                potential=self.recognition(views),
            )
            of_views = self.solver.solve(viewed.with_fixed_globals())[1].logits
        item_weight = self.model.supervision.item_weight(batch)
        consistency = self.consistency_term.loss(
            found.assignments, of_views, item_weight, batch.answered
        )
        add_loss_term("consistency", consistency)

    def assignments_in_step(self, batch: Batch) -> Float[Tensor, "item cluster"] | None:
        """E[z] of a batch in the last step, if this had all items of the data; otherwise None.

        Also None with a recognition network, whose outputs in training may be random.
        """
        if self._of_step is None or len(self._of_step[0]) < batch.num_items:
            return None
        items, logits = self._of_step
        rows = torch.empty_like(items)
        rows[items] = torch.arange(len(items), device=items.device)
        return softmax_without_denormals(logits[rows[batch.items]])

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) and q(x) of a batch, with the messages of the answers that it holds."""
        alone = self.recognition is None and not self.model.supervision.couples_items
        if alone and len(batch.items) > _ROWS:
            return self._infer_in_parts(batch, self.mean_globals())
        return self._local(batch, self.mean_globals())

    def _infer_in_parts(self, batch: Batch, values: Globals) -> LocalPosterior:
        """The same for many items with observed features, in parts, since moments take memory."""
        parts = (batch.features_of_rows(at, at + _ROWS) for at in range(0, len(batch.items), _ROWS))
        logits = torch.cat([self._conditionals(part, values).first_logits() for part in parts])
        sites = sites_in(self.model.annotators, batch, values.others.get("owners"))
        if sites is None:
            return LocalPosterior(logits, None)
        coupling = sites.coupling(values.rates, batch, logits.dtype)
        asked = logits[: coupling.num_items]
        asked.copy_(self.solver.solve(FixedConditionals(asked), coupling)[1].logits)
        return LocalPosterior(logits, None)

    def workers_given(self, data: CrowdData, interval: float = 0.9) -> WorkerSummary | None:
        """``workers``, with deviations that count how uncertain the clusters are.

        Parameters
        ----------
        data
            The features and answers of training. Without the features, which a file does not hold,
            the deviations are those of ``workers``. Behind a network, too, as the latents depend
            on the clusters.
        interval
            Mass of the intervals.
        """
        summary = self.workers(interval)
        if summary is None or self.recognition is not None:
            return summary
        return widened_by_draws(self, data, summary, interval)

    def mixture_draws(self, batch: Batch, used: Int[Tensor, " used"]) -> MixtureDraws | None:
        """Draws of weights and components given those of all items, where these are conjugate.

        None under heavy tails and with gaps; and where features count less than in training, as
        components then are those of the features at full weight.
        """
        model = self.model
        is_linear = model.components.is_linear and not has_gaps(model.emission, batch)
        is_whole = model.feature_weight == model.prior_weight == 1
        if not is_linear or not is_whole:
            return None
        observed = observed_latent(model.components, model.emission, batch)
        assert observed is not None  # there are features
        return MixtureDraws(model.weights, model.components, observed, used)

    @property
    def feature_weight(self) -> float:
        """tau, the power of the observed features' likelihood in the model."""
        return self.model.feature_weight

    def read_at(self, feature_weight: float) -> MessagePassingGuide:
        """The same posterior under a model with ``p(x | z)^tau`` and an untempered prior of z."""
        return self.for_model(rebuilt(self.model, feature_weight=feature_weight, prior_weight=1.0))

    def tempered(self, feature_weight: float, solver: LocalSolver) -> MessagePassingGuide:
        """The same posterior under a model with ``(pi_z p(x | z))^tau``, by another solver."""
        model = rebuilt(self.model, feature_weight=feature_weight, prior_weight=feature_weight)
        return self.for_model(model, solver)

    def for_model(
        self,
        model: SemiCrowdsourcedMixture,
        solver: LocalSolver = LocalSolver(),  # noqa: B008, frozen
    ) -> MessagePassingGuide:
        """The same posterior for another model; sites that only this has are at their prior.

        Both, with the parts that only this model has, move to the device of this guide.
        """
        other = rebuilt(self, model=model, solver=solver).to(next(self.parameters()).device)
        own = self.state_dict()
        own = {name: value for name, value in own.items() if not name.startswith("model.")}
        other.load_state_dict(own, strict=False)
        return other

    def start_at_partition(
        self,
        features: Float[Tensor, "item feature"],
        responsibilities: Float[Tensor, "item cluster"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train the recognition network to find a given partition, with the mixture fixed."""
        recognition = self.recognition
        assert recognition is not None  # else there is nothing to train
        values = self.mean_globals()
        theta = self.model.components.latent_statistics(values.components)
        log_weights = self.model.weights.log_weights(values.weights)

        def from_latents(features: Tensor) -> Tensor:
            conditionals = self._latent_conditionals(features, log_weights, theta)
            return self.solver.solve(conditionals.with_fixed_globals())[1].logits

        classifier = recognition.classifier
        logits, trained = (
            (from_latents, recognition) if classifier is None else (classifier, classifier)
        )
        features = features.to(next(recognition.parameters()).dtype)
        parameters = list(trained.parameters())
        learn_partition(logits, parameters, features, responsibilities, generator, steps)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the recognition network fits the data and the model."""
        if isinstance(self.recognition, SupportsSizeCheck):
            self.recognition.check_sizes(data.num_features, self.model.components.dim)

    @torch.no_grad()
    def merge(self, first: int, second: int) -> int:
        """Give the statistics and outputs of two clusters to the larger; returns the other."""
        emptied = super().merge(first, second)
        if self.outputs is not None:
            self.outputs.merge(first + second - emptied, emptied)
        return emptied

    @torch.no_grad()
    def empty(self, cluster: int) -> None:
        """Reset a cluster to its prior; its items and outputs no longer count."""
        super().empty(cluster)
        if self.outputs is not None:
            self.outputs.empty(cluster)

    def set_epoch(self, epoch: float) -> None:
        """Set the number of epochs done so far, on which annealed terms depend."""
        set_epoch_of(epoch, self.recognition_term, self.consistency_term)
        super().set_epoch(epoch)
