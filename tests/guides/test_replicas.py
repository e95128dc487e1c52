"""Replicas with powers of the likelihood: against sums over all partitions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.guides.pair_evidence import PairEvidence
from pyro_crowdclust.guides.replicas import Replica, run_replicas
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters

from ..partitions.partitions import complete_pairs, every_partition

# What two workers said of each pair; their rates and those of the looks are known.
SAID = {(0, 1): [1, 1], (0, 2): [1], (0, 3): [0, 0], (1, 2): [0], (1, 3): [0, 0], (2, 3): [1, 1]}
SENSITIVITY, SPECIFICITY, CLEAR, SURE = 0.9, 0.8, 0.95, 1e7
POWERS, ROUNDS = (0.2, 1.0), 500


def evidence() -> PairEvidence:
    rows = [
        (*ends, worker, said) for ends, all_ in SAID.items() for worker, said in enumerate(all_)
    ]
    frame = pd.DataFrame(rows, columns=["left", "right", "worker", "label"])
    data = CrowdData(None, frame, item_ids=range(4))
    rates = [(SURE * rate, SURE * (1 - rate)) for rate in (SENSITIVITY, SPECIFICITY)]
    model = AnsweredPartition(TwoCoin(2, *rates), FewClusters())
    looks = SURE * torch.tensor([[CLEAR, 1 - CLEAR], [1 - CLEAR, CLEAR]], dtype=torch.float64)
    model.looks.set_natural_parameters(looks)
    return PairEvidence(model, PartitionGuide(model, 4).posteriors, full_batch(data))


def together_by_sums(power: float) -> np.ndarray:
    """Probabilities that the items of the pairs are one cluster, over all 15 partitions."""
    pairs, prior, total, found = complete_pairs(4), FewClusters(), 0.0, np.zeros(6)
    for labels in every_partition(4):
        likely, together = float(prior.log_prob(labels, pairs).exp()), pairs.together(labels)
        for said, is_one in zip(SAID.values(), together, strict=True):
            yes, no = sum(said), len(said) - sum(said)
            looks_same = SENSITIVITY**yes * (1 - SENSITIVITY) ** no
            looks_other = (1 - SPECIFICITY) ** yes * SPECIFICITY**no
            share = CLEAR if is_one else 1 - CLEAR
            likely *= share * looks_same**power + (1 - share) * looks_other**power
        total, found = total + likely, found + likely * together.numpy()
    return found / total


def test_every_replica_has_the_distribution_of_its_power():
    torch.manual_seed(0)
    heard = evidence()
    given = {name: prior.natural_parameters for name, prior in heard.model.priors().items()}
    replicas = [Replica(torch.arange(4), torch.zeros(4, dtype=torch.int64), given)] * 2
    found = np.zeros((2, 6))
    for turn in range(ROUNDS):
        replicas, _ = run_replicas(replicas, POWERS, heard, turn % 2)
        found += [heard.pairs.together(replica.labels).numpy() / ROUNDS for replica in replicas]
    expected = np.stack([together_by_sums(power) for power in POWERS])
    assert np.abs(expected[0] - expected[1]).max() > 0.2
    np.testing.assert_allclose(found, expected, atol=0.07)
