from __future__ import annotations

from torch import Tensor

from pyro_crowdclust.protocols import LookAnnotators, PairAnnotators


def drawn_rates(annotators: PairAnnotators | LookAnnotators) -> dict[str, Tensor]:
    """The statistics of rates that are drawn from the priors of annotators."""
    return {
        name: prior.family.sufficient_statistics(prior.family.sample(prior.natural_parameters))
        for name, prior in annotators.priors().items()
    }
