"""Batches of items and answers: drawing them, and dividing them among processes."""

from pyro_crowdclust.minibatches.answer_plate import AnswerPlate
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.blocks import AnswerSampling
from pyro_crowdclust.minibatches.item_plate import ItemPlate
from pyro_crowdclust.minibatches.making import (
    answered_batch,
    full_batch,
    item_batches,
    items_alone,
)
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.minibatches.processes import Ranks, joined_ranks
from pyro_crowdclust.minibatches.sampler import MinibatchSampler

__all__ = [
    "AnswerPlate",
    "AnswerSampling",
    "Batch",
    "BatchPages",
    "ItemPlate",
    "MinibatchSampler",
    "Ranks",
    "answered_batch",
    "full_batch",
    "item_batches",
    "items_alone",
    "joined_ranks",
]
