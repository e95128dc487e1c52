"""Draws of global sites under the names and dimensions that a reader expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pyro_crowdclust.annotators.label_sites import LabelLikelihood

if TYPE_CHECKING:
    from pyro_crowdclust.annotators.confusion import ClassAnnotators
    from pyro_crowdclust.diagnostics.draws import SiteDraws

# Plates that stand for something a user knows, and the dimension that they become.
DIMENSION_OF_PLATE = {
    "components_plate": "cluster",
    "class_table_plate": "cluster",
    "coefficients_plate": "class",
    "workers": "worker",
    "accuracy_plate": "worker",
    "sensitivity_plate": "worker",
    "specificity_plate": "worker",
    "community_plate": "worker",
    "sources_plate": "worker",
    "states_plate": "class",
    "habit_plate": "worker",
    "items": "item",
    "pairs": "answer",
}


# What the entries of a site of annotators are.
ENTRIES_OF_SITE = {
    "communities": ("community_number",),
    "community": ("community_number",),
    "sources": ("source",),
    "habit": ("label",),
    "states": ("state",),
}


class NamedDraws(NamedTuple):
    """Draws of a variable; ``dims`` names the axes after the first, which counts the draws."""

    values: Tensor
    dims: tuple[str, ...]


def described(model: Any, draws: dict[str, SiteDraws]) -> dict[str, NamedDraws]:
    """Every variable of the posterior, by name.

    A model may have a method ``describe(draws) -> {site: {variable: NamedDraws}}`` for sites that
    deserve better names than those of ``by_site``, and for functions of several sites.
    """
    own = model.describe(draws) if hasattr(model, "describe") else {}
    plain = {name: by_site(name, site) for name, site in draws.items() if name not in own}
    return {name: drawn for part in (plain | own).values() for name, drawn in part.items()}


def by_site(
    name: str,
    site: SiteDraws,
    event_dims: tuple[str, ...] | None = None,
    plates: tuple[str, ...] | None = None,
) -> dict[str, NamedDraws]:
    """A variable for each part of theta, named after the site and the part.

    Parameters
    ----------
    name
        What to call the site.
    site
        Its draws.
    event_dims
        Names of the axes within one theta, as many as the largest part needs.
    plates
        Names of the dimensions of its plates, in place of those that they usually become.
    """
    if plates is None:
        plates = tuple(DIMENSION_OF_PLATE.get(plate, plate) for plate in site.plates)
    variables = {}
    for key, value in _parts(name, site.value):
        free = value.dim() - 1 - len(plates)
        names = tuple(f"{key}_dim_{axis}" for axis in range(free))
        if event_dims is not None:
            names = event_dims[:free]
        variables[key] = NamedDraws(value, plates + names)
    return variables


def _parts(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a theta: of named tuples by field, of other tuples by number."""
    if isinstance(value, Tensor):
        yield name, value
        return
    fields = value._asdict() if hasattr(value, "_asdict") else dict(enumerate(value))
    for field, part in fields.items():
        yield from _parts(f"{name}_{field}", part)


def of_annotators(
    annotators: ClassAnnotators, draws: Mapping[str, SiteDraws]
) -> dict[str, dict[str, NamedDraws]]:
    """Draws of the workers of class labels: every annotator model has ``confusion`` matrices.

    ``confusion`` is p(label | class) of every worker, whatever sites it is made of; these follow
    under their own names.
    """
    sites = {name: draws[name] for name in annotators.priors()}
    every = {name: site.statistics for name, site in sites.items()}
    (num_draws,) = {len(statistics) for statistics in every.values()}
    confusion = [
        LabelLikelihood(annotators, {name: values[draw] for name, values in every.items()})
        .log_confusion()
        .exp()
        .mT
        for draw in range(num_draws)
    ]
    named = NamedDraws(torch.stack(confusion), ("worker", "class", "label"))
    others = {name: by_site(name, site, ENTRIES_OF_SITE.get(name)) for name, site in sites.items()}
    return others | {"confusion": {"confusion": named}}
