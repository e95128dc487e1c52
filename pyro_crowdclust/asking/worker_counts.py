"""Pseudo-counts of the workers' rates, shares of grades and confusion matrices, from a fit."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.annotators.channels import Channels
from pyro_crowdclust.annotators.confusion import diagonal_concentration
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import beta_of_moments
from pyro_crowdclust.protocols import FittedModel

# Pseudo-counts (right, wrong) of a worker without answers.
STRANGER = (3.0, 1.0)
# Shares of labels below this are drawn as if they were it, so that no row is empty.
LEAST_SHARE = 1e-6


def rate_counts(channels: Channels) -> Float[np.ndarray, "worker rate 2"]:
    """Pseudo-counts of every worker's sensitivity and specificity.

    For workers who lapse on some pages, they are those on a new page.
    """
    mean, sd = (part[:, [1, 0], [1, 0]] for part in channels)
    return beta_counts(mean, sd)


def agreement_counts(result: FittedModel) -> Float[np.ndarray, "worker rate 2"]:
    """Pseudo-counts of how often each worker says what the clusters say, where no rates are known.

    With s_n the probability that the items of answer n share a cluster, and y_n the answer, those
    of the sensitivity are ``sum_n s_n (y_n, 1 - y_n)``, and those of the specificity ``sum_n (1 -
    s_n) (1 - y_n, y_n)``, both beside the counts of a worker without answers.
    """
    answers = result.data.answers
    assert answers is not None  # as the caller has seen
    same = result.same_cluster_by_position(answers.left.numpy(), answers.right.numpy())
    worker, yes = answers.worker.numpy(), answers.label.double().numpy()
    right_and_wrong = [[same * yes, same * (1 - yes)], [(1 - same) * (1 - yes), (1 - same) * yes]]

    def by_worker(weights: Float[np.ndarray, " answer"]) -> Float[np.ndarray, " worker"]:
        return np.bincount(worker, weights, minlength=result.data.num_workers)

    counts = np.array([[by_worker(part) for part in rate] for rate in right_and_wrong])
    return np.moveaxis(counts, -1, 0) + STRANGER


def accuracy_counts(summary: WorkerSummary) -> Float[np.ndarray, "worker 2"]:
    """Pseudo-counts of the accuracy of placements."""
    if "accuracy" not in summary.rates:
        raise ValueError(
            "the workers have no accuracy, from which the information of a placement can be "
            "computed: build the model with SortedPages"
        )
    rate = summary.rates["accuracy"]
    return beta_counts(rate.mean, rate.sd)


def with_stranger(
    counts: Float[np.ndarray, " worker *rate 2"],
) -> Float[np.ndarray, " row *rate 2"]:
    """The counts, and in a last row those of a worker without answers, whose code is -1."""
    return np.concatenate([counts, np.broadcast_to(STRANGER, (1, *counts.shape[1:]))])


def beta_counts(
    mean: Float[np.ndarray, "*rate"], sd: Float[np.ndarray, "*rate"]
) -> Float[np.ndarray, "*rate 2"]:
    """Pseudo-counts (right, wrong) of rates with these means and standard deviations."""
    return np.stack(_shapes(np.clip(mean, 1e-3, 1 - 1e-3), sd), -1)


def _shapes(
    mean: Float[np.ndarray, "*share"], sd: Float[np.ndarray, "*share"]
) -> tuple[Float[np.ndarray, "*share"], Float[np.ndarray, "*share"]]:
    """Shapes of Betas with these moments, from which rates can be drawn."""
    return beta_of_moments(mean, np.maximum(np.nan_to_num(sd) ** 2, 1e-8), fewest=0.5)


def limited_by_decisions(
    counts: Float[np.ndarray, "worker rate 2"], data: CrowdData
) -> Float[np.ndarray, "worker rate 2"]:
    """Pseudo-counts reduced to the number of independent decisions behind answers about pairs.

    A sorted page of n items is n - 1 decisions, but n (n - 1) / 2 answers, which are consistent
    with each other even if they are wrong. So the rates of its worker are less certain than the
    number of answers suggests. The pseudo-counts of a worker without answers are kept.
    """
    answers = data.answers
    if answers is None or answers.page is None or not data.is_sorted:
        return counts
    pages = torch.stack([answers.worker, answers.page]).unique(dim=1)[0]
    ends = torch.cat([answers.left, answers.right])
    places = torch.stack([answers.worker.repeat(2), answers.page.repeat(2), ends]).unique(dim=1)[0]
    number = len(counts)
    decisions = torch.bincount(places, minlength=number) - torch.bincount(pages, minlength=number)
    share = decisions.numpy() / np.maximum(data.answers_per_worker, 1)
    total = counts.sum(-1, keepdims=True)
    few = sum(STRANGER)
    kept = few + np.maximum(total - few, 0.0) * share[:, None, None]
    return counts * np.minimum(kept / total, 1.0)


def grade_counts(
    channels: Channels, codes: Int[np.ndarray, " worker"]
) -> Float[np.ndarray, "worker truth outcome"]:
    """Pseudo-counts of every share; for a worker without answers, few with the mean shares."""
    total = np.median(np.add(*_shapes(channels.mean, channels.sd)), axis=-1, keepdims=True)
    stranger = sum(STRANGER) * channels.mean.mean(0, keepdims=True)
    return np.concatenate([channels.mean * total, stranger])[codes]


def best_reading(
    grades: Float[np.ndarray, "worker truth outcome"],
) -> Bool[np.ndarray, "worker truth outcome"]:
    """Which grades are read as "different", and which as "same": those more probable for these."""
    different, same = np.moveaxis(normalized(grades), 1, 0)
    return np.stack([different >= same, same > different], 1)


def normalized(
    counts: Float[np.ndarray, "*batch outcome"],
) -> Float[np.ndarray, "*batch outcome"]:
    """Counts as shares, which sum to 1."""
    return counts / counts.sum(-1, keepdims=True)


def confusion_counts(
    result: FittedModel,
    codes: Int[np.ndarray, " worker"],
    may_err: Bool[np.ndarray, " annotator"],
) -> Float[np.ndarray, "worker class label"]:
    """Pseudo-counts of every row of the workers' confusion matrices, from their moments.

    The deviations of the table count how uncertain the classes are. Otherwise workers whose labels
    nobody checked would be rated, with certainty, by classes that follow from these labels. A
    worker without answers has few counts, with the mean over workers who may err.
    """
    number = len(result.data.class_ids)
    table = result.confusion[["mean", "sd"]].to_numpy().reshape(-1, number, number, 2)
    mean, sd = np.clip(table[..., 0], LEAST_SHARE, 1.0), table[..., 1]
    total = np.median(sum(_shapes(mean, sd)), axis=-1, keepdims=True)
    # If all workers are trusted, a new one gets the prior.
    stranger = diagonal_concentration(number, *STRANGER).numpy()
    if may_err.any():
        stranger = sum(STRANGER) * normalized(mean[may_err].mean(0))
    return np.concatenate([normalized(mean) * total, stranger[None]])[codes]
