"""What all models of clusters share about workers' answers: the sites, and the check."""

from __future__ import annotations

import pyro
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.pairs import SameCluster
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import PairAnnotators


def sample_answers(
    annotators: PairAnnotators | None, z: Float[Tensor, "*enumerated item cluster"], batch: Batch
) -> None:
    """Run the sites of the workers' rates, if there are any, and of every pair.

    These are ``same`` and ``label``.
    """
    if annotators is None:
        return
    with FullPlate("workers", annotators.num_workers):
        rates = {
            name: pyro.sample(name, prior.distribution())
            for name, prior in annotators.priors().items()
        }
    if not batch.num_pairs:
        return
    with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
        same = pyro.sample("same", SameCluster(z, batch.left, batch.right, batch.num_paired))
        pyro.sample("label", annotators.answer(same, rates, batch.worker), obs=batch.label)


def check_workers(annotators: PairAnnotators | None, data: CrowdData) -> None:
    """Raise a ``ValueError`` if the data have answers that the annotators are not of."""
    if data.answers is None:
        return
    if annotators is None:
        raise ValueError(
            f"the data have {data.num_pairs} answers, but the model has no annotators: build "
            "it with TwoCoin(data.num_workers), or pass CrowdData without pairs"
        )
    if annotators.num_workers != data.num_workers:
        raise ValueError(
            f"the model has {annotators.num_workers} workers, but the answers come from "
            f"{data.num_workers}: build it with TwoCoin(data.num_workers)"
        )
