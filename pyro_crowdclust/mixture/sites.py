"""What all mixtures of parts share about their global sites."""

from __future__ import annotations

from typing import Any

import torch

from pyro_crowdclust import diagnostics
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.mixture.weights import Weights
from pyro_crowdclust.supervision.supervision import Supervision


def mixture_priors(model: Any) -> dict[str, ConjugatePrior]:
    """Priors of weights and components, of the workers' rates and of what labels say, by site."""
    workers = {} if model.annotators is None else model.annotators.priors()
    mixture = {"weights": model.weights.prior, "components": model.components.prior}
    return {**mixture, **workers, **model.supervision.priors()}


def describe_mixture(
    model: Any, draws: dict[str, diagnostics.SiteDraws]
) -> dict[str, dict[str, diagnostics.NamedDraws]]:
    """Draws of weights and components under the names that diagnostics give them."""
    log_weights = [model.weights.log_weights(site) for site in draws["weights"].statistics]
    weights = diagnostics.NamedDraws(torch.stack(log_weights).exp(), ("cluster",))
    components = diagnostics.by_site("component", draws["components"], ("dim", "dim_other"))
    return {"weights": {"weights": weights}, "components": components}


def check_num_clusters(weights: Weights, components: Components, supervision: Supervision) -> None:
    """Raise a ``ValueError`` unless the parts are of one number of clusters."""
    if weights.num_clusters != components.num_clusters:
        raise ValueError(
            f"weights have {weights.num_clusters} clusters, components "
            f"{components.num_clusters}: give both the same number"
        )
    of_clusters = getattr(supervision, "num_clusters", weights.num_clusters)
    if of_clusters != weights.num_clusters:
        raise ValueError(
            f"weights have {weights.num_clusters} clusters, the supervision {of_clusters}: "
            "give both the same number"
        )
