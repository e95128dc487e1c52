"""Rates of workers that vary around those that a model expects, by as much as their labels show.

    s_r ~ Cat(pi)        gamma_r | s_r = s  ~  Dir(c_s m_r)        n_r ~ Mult(gamma_r)

for every row r, a worker in a class, with m_r the row that the model expects and n_r the counts of
the worker's labels of items in the class. Labels decide how near a row is to m_r:

    r_s  propto  pi_s p(n_r | c_s m_r)        p(n | a) = B(a + n) / B(a), a Dirichlet multinomial
    E[gamma_r | n_r]  =  sum_s r_s (c_s m_r + n_r) / (c_s + N_r)

The grid of c is fixed and pi is learned from all rows by EM. One c for all would be a compromise:
most workers are like the others, or err at one rate, but a few mix up two classes. Their rows are
then pulled far towards m_r, with intervals as narrow as the others'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy  # loads its subpackages when they are first used
from jaxtyping import Float
from scipy.special import softmax
from torch import Tensor

from pyro_crowdclust.data.class_labels import ClassLabels

# c_s: from rows that say nothing about another one to rows that hardly differ from m.
STRENGTHS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
# Rows with which pi begins, so that a few rows do not determine it.
_ROWS = 2.0
_STEPS = 30
_DRAWN_CLASSES = 20


@runtime_checkable
class SupportsExpectedRows(Protocol):
    """Class annotators that say around which row the labels of a worker in a class vary."""

    def expected_rows(
        self, values: Mapping[str, Tensor]
    ) -> Float[np.ndarray, "*#chain worker class label"]:
        """m, from values of the sites; every row sums to 1."""


class RowMoments(NamedTuple):
    """Posterior mean and second moment of every rate."""

    mean: Float[np.ndarray, "*row label"]
    square: Float[np.ndarray, "*row label"]


def rows_around(
    expected: Float[np.ndarray, "*row label"], counts: Float[np.ndarray, "*row label"]
) -> RowMoments:
    """The posterior of rows given the counts of labels, which need not be whole numbers.

    Parameters
    ----------
    expected
        m, above 0; every row sums to 1.
    counts
        n.

    Examples
    --------
    >>> import numpy as np
    >>> expected = np.full((20, 2), [0.9, 0.1])
    >>> counts = np.array([[18.0, 2.0]] * 19 + [[10.0, 10.0]])
    >>> mean = rows_around(expected, counts).mean[:, 0]
    >>> mean[[0, 19]].round(2).tolist()
    [0.9, 0.58]
    """
    shape, num_labels = counts.shape, counts.shape[-1]
    expected, counts = expected.reshape(-1, num_labels), counts.reshape(-1, num_labels)
    log_likelihood = _log_likelihood(expected, counts)
    number, prior = len(counts), _ROWS / len(STRENGTHS)
    pi = np.full(len(STRENGTHS), 1 / len(STRENGTHS))
    for _ in range(_STEPS):
        of_strength = softmax(log_likelihood + np.log(pi), axis=1)
        pi = (of_strength.sum(0) + prior) / (number + _ROWS)
    total = counts.sum(1, keepdims=True) + STRENGTHS
    mean, square = (np.zeros_like(counts) for _ in range(2))
    for s, strength in enumerate(STRENGTHS):
        concentration, whole = counts + strength * expected, total[:, s, None]
        of_rows = of_strength[:, s, None] * concentration / whole
        mean += of_rows
        square += of_rows * (concentration + 1) / (whole + 1)
    return RowMoments(mean.reshape(shape), square.reshape(shape))


def rows_of_drawn_classes(
    expected: Float[np.ndarray, "worker class label"],
    labels: ClassLabels,
    classes: Float[np.ndarray, "item class"],
    rng: np.random.Generator,
) -> RowMoments:
    """``rows_around`` of the counts of labels in classes that are drawn from q(y).

    Counts of q(y) itself would not do: a small part of a label in every cell looks like a row that
    is as expected.

    Parameters
    ----------
    expected
        m.
    labels
        The labels.
    classes
        q(y) of all items.
    rng
        Of the draws.
    """
    item, worker, label = (part.numpy() for part in (labels.item, labels.worker, labels.label))
    mean, square = np.zeros(1), np.zeros(1)
    for _ in range(_DRAWN_CLASSES):
        drawn = rng.multinomial(1, classes).argmax(1)[item]
        counts = np.zeros(expected.shape)
        np.add.at(counts, (worker, drawn, label), labels.weights.numpy())
        of_draw = rows_around(expected, counts)
        mean = mean + of_draw.mean / _DRAWN_CLASSES
        square = square + of_draw.square / _DRAWN_CLASSES
    return RowMoments(mean, square)


def _log_likelihood(
    expected: Float[np.ndarray, "row label"], counts: Float[np.ndarray, "row label"]
) -> Float[np.ndarray, "row strength"]:
    """``log p(n | c m)`` of every row and c, without the factor that does not depend on c."""
    gammaln = scipy.special.gammaln
    row, label = np.nonzero(counts)
    given = expected[row, label, None] * STRENGTHS
    of_cells = gammaln(given + counts[row, label, None]) - gammaln(given)
    sums = [np.bincount(row, column, len(counts)) for column in of_cells.T]
    whole = counts.sum(1, keepdims=True) + STRENGTHS
    return np.stack(sums, axis=1) + gammaln(STRENGTHS) - gammaln(whole)
