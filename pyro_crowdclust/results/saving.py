"""The content of a result's file: everything that can be read from it, except the features."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Protocol

import pandas as pd
import torch
from pyro.infer.elbo import ELBO
from torch import Tensor

from pyro_crowdclust.files.description import NotDescribable, build, describe
from pyro_crowdclust.protocols import FittedModel
from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.results.cluster_doubt import ClusterDoubt
from pyro_crowdclust.results.further_training import FurtherTraining
from pyro_crowdclust.results.guide_tables import has_widened_workers
from pyro_crowdclust.results.lost_options import without_own_parts
from pyro_crowdclust.results.saved_data import data_fields
from pyro_crowdclust.training.copies import check_same_tensors, named_tensors
from pyro_crowdclust.training.elbo import OF_RESULT, can_be_kept, elbo_fields
from pyro_crowdclust.training.freezing import frozen_names
from pyro_crowdclust.training.isolation import own_random_numbers


class SavableResult(FittedModel, Protocol):
    """A result with everything that is written to its file."""

    @property
    def elbo(self) -> float:
        """The ELBO of all data."""

    @property
    def elbo_objective(self) -> ELBO:
        """The bound that was trained on, such as Pyro's ``Trace_ELBO``."""

    @property
    def chosen(self) -> Chosen | None:
        """How the model was chosen."""

    @property
    def doubt(self) -> ClusterDoubt | None:
        """Whether the clusters are kinds."""

    @property
    def parameter_store(self) -> dict[str, Any]:
        """State of Pyro's parameter store."""

    @property
    def train_on(self) -> Callable[..., Any] | None:
        """Function that continues the fit, with its options."""


def content_of(result: SavableResult) -> dict[str, Any]:
    """The content of a result's file, from which ``load`` makes the result again."""
    probabilities = latent_means = None
    if result.has_assignments:
        probabilities, latents = result.component_probabilities, result.latent_means
        latent_means = None if latents is None else torch.tensor(latents)
    structure, reason = structure_of(result.model, result.guide)
    parameters = named_tensors(result.model, result.guide, result.parameter_store["params"])
    return {
        "structure": structure,
        "reason": reason,
        "parameters": parameters,
        "frozen": frozen_names(parameters),
        "data": data_fields(result.data),
        "feature_shape": result.feature_shape,
        "probabilities": probabilities,
        "cluster_order": None if probabilities is None else result.cluster_order,
        "latent_means": latent_means,
        "workers": columns_of(result.workers) if has_widened_workers(result) else None,
        "elbo": result.elbo,
        "elbo_objective": elbo_fields(result.elbo_objective),
        "history": columns_of(result.history),
        "stop_reason": result.stop_reason,
        "seconds": result.seconds,
        "seed": result.seed,
        "chosen": None if result.chosen is None else fields_of_choice(result.chosen),
        "doubt": None if result.doubt is None else vars(result.doubt),
        "dtype": result.dtype,
        **_options(result.train_on, result.elbo_objective),
    }


def _options(train_on: Callable[..., Any] | None, elbo: ELBO) -> dict[str, Any]:
    """The options of the fit, as JSON and tensors.

    If the bound is an option, a placeholder refers to that of the result, which the file has.
    Others stand for options from outside of this library.
    """
    if not isinstance(train_on, FurtherTraining):
        return {"train_on": None}
    options: Any = train_on
    if getattr(options, "elbo", None) is elbo and can_be_kept(elbo):
        options = replace(options, elbo=OF_RESULT)
    tensors: dict[str, Tensor] = {}
    # As a separate text, since it is parsed only when it is needed.
    text = json.dumps(describe(without_own_parts(options), tensors))
    return {"train_on": text, "train_on_tensors": tensors}


def structure_of(model: Any, guide: Any) -> tuple[dict[str, Any] | None, str]:
    """How model and guide are built of the library's parts, or None and why this is unknown."""
    tensors: dict[str, Tensor] = {}
    try:
        description = describe([model, guide], tensors)
        # Parts may have been replaced after construction.
        with own_random_numbers():
            built = build(description, tensors)
            rebuilt = named_tensors(built[0], built[1], {})
        check_same_tensors(rebuilt, named_tensors(model, guide, {}))
    except NotDescribable as error:
        return None, f"in [model, guide], {error}"
    except (ValueError, TypeError) as error:
        return None, f"its parts were changed after construction: {error}"
    # As a separate text, since it is parsed only when it is needed.
    return {"text": json.dumps(description), "tensors": tensors}, ""


def fields_of_choice(chosen: Chosen) -> dict[str, Any]:
    """How the model was chosen, as plain values."""
    names = [field.name for field in fields(chosen) if field.name != "table"]
    of_choice = {name: getattr(chosen, name) for name in names}
    return of_choice | {"table": columns_of(chosen.table)}


def columns_of(frame: pd.DataFrame) -> dict[str, Any]:
    """A table as plain values, with the type of every column."""
    return {
        str(name): {"dtype": str(column.dtype), "values": column.tolist()}
        for name, column in frame.items()
    }
