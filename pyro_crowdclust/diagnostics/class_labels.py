"""Likelihood and replications of class labels at draws of the global sites, classes summed out.

Given theta the items are independent, so that this is exact. For an item with the labels a_i, and
for one of its labels, a,

    log p(x_i, a_i | Theta) = log sum_k p(k, x_i | Theta) p(a_i | k, Theta)
    log p(a | Theta, all other data) = log p(x_i, a_i | Theta) - log p(x_i, a_i without a | Theta)

The labels of an item need not be independent given its class, since items of a class may differ
(``ClassStates``, ``ItemTrait``).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    batch_of_items,
    local_plates,
    run,
    sites_with_density,
)
from pyro_crowdclust.diagnostics.item_likelihood import (
    continuous_sites,
    discrete_sites,
    enumerated_log_density,
    enumeration_dim,
    item_log_likelihood,
    log_volume,
)
from pyro_crowdclust.inference.enumeration import is_deterministic
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import FittedModel


class LabelDraws(NamedTuple):
    """Log-likelihoods and replications of class labels for draws of theta.

    Attributes
    ----------
    of_items
        ``log p(x_i, a_i | Theta)`` of every chosen item with labels, with all of its labels.
    of_labels
        ``log p(a | Theta, all other data)`` of every chosen label.
    replicated
        Codes of replicated labels: y_i is drawn given all data and Theta, once for all labels of an
        item, then each label given y_i.

    If items have continuous latents, only ``of_items`` is available, by importance sampling. If
    they have several discrete ones, labels are not replicated.
    """

    of_items: Float[Tensor, "draw item"]
    of_labels: Float[Tensor, "draw label"] | None = None
    replicated: Int[Tensor, "draw label"] | None = None


def label_draws(
    result: FittedModel,
    draws: GlobalDraws,
    items: Int[Tensor, " item"],
    rows: Int[Tensor, " label"],
    latent_draws: int = 10,
) -> LabelDraws | None:
    """Likelihoods of items and labels, and replicated labels, under each draw of theta.

    Parameters
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    items
        Positions of the items, each with at least one label.
    rows
        Rows of the labels.
    latent_draws
        As in ``item_log_likelihood``.

    Returns
    -------
    None if the model does not observe class labels, or has no discrete sites of the items.
    """
    labels, local = result.data.needed_class_labels, local_plates(result)
    every = torch.cat([items, labels.item[rows]]).unique()
    batch = batch_of_items(result, every, class_labels=True)
    one_each, others_each = _one_label_each(result, rows), _other_labels_of_each(result, rows)
    discrete = discrete_sites(result, batch, local, nested=True)
    of_whole_items = discrete_sites(result, batch, local)
    unlabelled = sites_with_density(run(result.model, batch_of_items(result, every[:1]), {}))
    observed = {
        name
        for name, site in sites_with_density(run(result.model, batch, {})).items()
        if site["is_observed"] and name not in unlabelled and not is_deterministic(site)
    }
    if not of_whole_items or len(observed) != 1:
        return None
    if continuous_sites(run(result.guide, batch, {}), discrete, local):
        found = item_log_likelihood(result, draws, items, latent_draws, class_labels=True)
        return None if found is None else LabelDraws(found)
    at_items, at_labels = (torch.searchsorted(every, part) for part in (items, labels.item[rows]))
    first_dim = enumeration_dim(result, batch)
    has_density = any(
        site["is_observed"] and not is_deterministic(site) for site in unlabelled.values()
    )
    volume = log_volume(result, items) if has_density else 0.0
    # With several discrete sites only the sum over all of them is computed.
    of = next(iter(of_whole_items)) if len(of_whole_items) == 1 else None
    of_items, of_labels, replicated = [], [], []
    for draw in range(draws.num_draws):
        theta = draws.at(draw)
        joint = enumerated_log_density(result, batch, theta, discrete, local, first_dim, of)
        without = enumerated_log_density(result, others_each, theta, discrete, local, first_dim)
        total = joint if of is None else joint.logsumexp(0)
        of_items.append(total[at_items].cpu() + volume)
        of_labels.append((total[at_labels] - without).cpu())
        if of is not None:
            chosen = torch.distributions.Categorical(logits=joint.mT, validate_args=False).sample()
            values = theta | {of: of_whole_items[of][chosen[at_labels]]}
            sites = sites_with_density(run(result.model, one_each, values))
            (site,) = (sites[name] for name in observed)
            replicated.append(site["fn"].sample().flatten().cpu())
    drawn = torch.stack(replicated) if replicated else None
    return LabelDraws(torch.stack(of_items), torch.stack(of_labels), drawn)


def _one_label_each(result: FittedModel, rows: Int[Tensor, " label"]) -> Batch:
    """A batch with a row for every label: its item, with this label only."""
    return _with_labels_of_each(result, rows, torch.arange(len(rows)), rows)


def _other_labels_of_each(result: FittedModel, rows: Int[Tensor, " label"]) -> Batch:
    """A batch with a row for every label: its item, with all its other labels."""
    given = result.data.needed_class_labels
    order = given.item.argsort(stable=True)
    sizes = torch.bincount(given.item)
    starts, ends = sizes.cumsum(0) - sizes, sizes[given.item[rows]].cumsum(0)
    copies = sizes[given.item[rows]]
    row = torch.arange(len(rows)).repeat_interleave(copies)
    shift = starts[given.item[rows]] - (ends - copies)
    label = order[torch.arange(len(row)) + shift[row]]
    other = label != rows[row]
    return _with_labels_of_each(result, rows, row[other], label[other])


def _with_labels_of_each(
    result: FittedModel,
    rows: Int[Tensor, " label"],
    row: Int[Tensor, " kept"],
    label: Int[Tensor, " kept"],
) -> Batch:
    """A batch with a row for the item of each label in ``rows``, and given labels per row."""
    given = result.data.needed_class_labels
    sizes = given.num_workers, given.num_classes
    weight = None if given.weight is None else given.weight[label]
    labels = ClassLabels(row, given.worker[label], given.label[label], *sizes, weight)
    batch = batch_of_items(result, given.item[rows])
    matrix = labels.of_items(torch.arange(len(rows))).to(result.device)
    return dataclasses.replace(batch, class_labels=matrix)
