"""One fit as a chain of an export: draws from q, likelihoods and predictions of the data."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.diagnostics.answer_likelihood import left_out_answers, left_out_on_pages
from pyro_crowdclust.diagnostics.arviz_adapter import Groups, Variables
from pyro_crowdclust.diagnostics.class_labels import label_draws
from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    deterministic_draws,
    dims_of_weights,
    global_draws,
    variables_of,
)
from pyro_crowdclust.diagnostics.exported_data import ExportedRows, feature_axes
from pyro_crowdclust.diagnostics.item_likelihood import item_log_likelihood
from pyro_crowdclust.diagnostics.known_labels import known_label_draws
from pyro_crowdclust.diagnostics.placements import placement_draws
from pyro_crowdclust.diagnostics.predictive import (
    outcome_log_likelihoods,
    replicated_answers,
    replicated_features,
    same_cluster_draws,
)
from pyro_crowdclust.mixture.ownership import Ownership
from pyro_crowdclust.protocols import FittedModel, SupportsLapses, part_of


def chain_of(
    result: FittedModel,
    num_draws: int,
    rows: ExportedRows,
    latent_draws: int,
    log_likelihood: bool,
    seed: int | None,
) -> Groups:
    """The groups of one fit; the first axis of all variables except the ELBO is the draw."""
    with result.inside(seed):
        draws = global_draws(result, num_draws)
        groups: Groups = {
            "sample_stats": {
                "elbo": (("epoch",), result.history["elbo"].to_numpy()),
                "log_guide": (("draw",), draws.log_density.numpy(force=True)),
            },
        }
        if log_likelihood:
            likelihood, predictive = _likelihoods(result, draws, rows, latent_draws)
            groups |= {"log_likelihood": likelihood, "posterior_predictive": predictive}
        sites = draws.sites | deterministic_draws(result, draws)
        variables = variables_of(result.model, sites, dims_of_weights(result, sites))
        groups["posterior"] = {
            name: (("draw", *variable.dims), variable.values.numpy(force=True))
            for name, variable in variables.items()
        }
    if result.cluster_order is not None:
        reorder(groups, result.cluster_order)
    return groups


def weight_draws(result: FittedModel, num_draws: int) -> Float[np.ndarray, "draw cluster"] | None:
    """Draws of the cluster weights from q; None if the model has no site for them.

    With an ownership they are ``sum_l pi_l q(c_l = k)``, as in ``result.clusters``.
    """
    with result.inside():
        variables = variables_of(result.model, global_draws(result, num_draws).sites)
    if "weights" not in variables:
        return None
    values = variables["weights"].values.numpy(force=True)
    if result.owners is not None:
        sizes = result.component_probabilities.sum(0)
        return values @ Ownership.by_name(torch.tensor(result.owners), sizes).numpy()
    return values if result.cluster_order is None else values[:, result.cluster_order]


def reorder(groups: Groups, order: Int[np.ndarray, " cluster"], dim: str = "cluster") -> None:
    """Put the clusters of every variable, or the entries of another axis, in this order."""
    for variables in groups.values():
        for name, (dims, values) in variables.items():
            for axis in np.flatnonzero(np.array(dims) == dim):
                values = values.take(order, axis=axis)
            variables[name] = (dims, values)


def _likelihoods(
    result: FittedModel, draws: GlobalDraws, rows: ExportedRows, latent_draws: int
) -> tuple[Variables, Variables]:
    """Variables of the groups ``log_likelihood`` and ``posterior_predictive``."""
    likelihood: Variables = {}
    predictive: Variables = {}
    if result.data.features is not None:
        of_features = item_log_likelihood(result, draws, rows.items, latent_draws)
        if of_features is not None:
            likelihood["features"] = (("draw", "item"), of_features.numpy(force=True))
        replicated = replicated_features(result, draws, rows.replicated)
        if replicated is not None:
            predictive["features"] = (
                ("draw", *feature_axes(replicated[0])),
                replicated.numpy(force=True),
            )
    if len(rows.answers) and result.has_assignments:
        given = _answer_variables(result, draws, rows.answers)
        if given is not None:
            dims = ("draw", "answer")
            likelihood["answers"], predictive["answers"] = (
                (dims, part.numpy(force=True)) for part in given
            )
    if len(rows.labels):
        labels = label_draws(result, draws, rows.labelled, rows.labels, latent_draws)
        if labels is not None:
            likelihood["items"] = (("draw", "labelled_item"), labels.of_items.numpy(force=True))
        dims = ("draw", "class_answer")
        if labels is not None and labels.of_labels is not None:
            likelihood["labels"] = (dims, labels.of_labels.numpy(force=True))
        if labels is not None and labels.replicated is not None:
            predictive["labels"] = (dims, labels.replicated.numpy(force=True))
    if len(rows.placements) and result.has_assignments:
        of_groups = placement_draws(result, draws, rows.placements)
        if of_groups is not None:
            likelihood["groups"], predictive["groups"] = (
                (("draw", "placement"), part.numpy(force=True)) for part in of_groups
            )
    if len(rows.known):
        of_known = known_label_draws(result, draws, rows.known)
        if of_known is not None:
            likelihood["known"], predictive["known"] = (
                (("draw", "known_item"), part.numpy(force=True)) for part in of_known
            )
    return likelihood, predictive


def _answer_variables(
    result: FittedModel, draws: GlobalDraws, answers: Int[Tensor, " answer"]
) -> tuple[Tensor, Tensor] | None:
    """Log-likelihoods of answers, each left out in turn, and replicated answers."""
    # For every possible answer; the likelihood then takes the one that was given.
    of_outcomes = outcome_log_likelihoods(result, draws, answers)
    if of_outcomes is None:
        return None
    data = result.data.needed_answers
    given = result.data.outcomes.places(data.label[answers])
    if_same, if_different = (one[:, given, torch.arange(len(answers))] for one in of_outcomes)
    together = result.same_cluster_by_position(data.left, data.right)
    lapsing = part_of(result.model, "annotators", SupportsLapses)
    if lapsing is None or data.page is None:
        of_answers = left_out_answers(if_same, if_different, together[answers.numpy()])
    else:
        of_answers = left_out_on_pages(lapsing, draws, data, answers, together)
    same = same_cluster_draws(result, answers, draws.num_draws)
    replicated = replicated_answers(same, *of_outcomes)
    return of_answers, replicated.to(torch.int8)
