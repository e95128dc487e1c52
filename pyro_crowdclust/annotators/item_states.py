"""Items of a class in several states: easy ones, on which workers agree, and hard ones.

    s_i | y_i = k ~ Cat(pi_k)    gamma_jks ~ Dir(b_ks)    a_ij | y_i = k, s_i = s ~ Cat(gamma_jks)

Answers about an item are independent only given its class and state, so that agreement counts for
less where items differ (Li et al. 2019, subtypes; here every state has a prior of its own). The
state of an item is summed out at its best q(s | y), so that models deal with classes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import scipy  # loads its subpackages when they are first used
import torch
from jaxtyping import Float, Int
from numpy.random import Generator
from torch import Tensor, nn

from pyro_crowdclust.annotators.confusion import (
    check_sizes,
    diagonal_concentration,
    summary_of_mixed_rows,
)
from pyro_crowdclust.annotators.learned_rows import draw_log_shares
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior, sample_sites
from pyro_crowdclust.families import Dirichlet, PosteriorSummary
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.protocols.annotators import ItemCounts, LabelCounts

# Relative to chance. A state in which workers were worse would belong to another class.
_MIN_ACCURACY = 1.2


@described
class ClassStates(nn.Module):
    """A confusion row of every worker for each of S states that the items of a class can have.

    Besides the verbs of every annotator model it has ``sum_states``, which turns evidence of states
    into evidence of classes, ``draw_states``, and ``answer_probabilities`` given other answers.

    Parameters
    ----------
    num_workers, num_classes
        M and K.
    accuracies
        The share of right answers that the prior expects in each state; at least 1.2 / K.
    strength
        Pseudo-answers of a row.

    Examples
    --------
    >>> annotators = ClassStates(3, 2)
    >>> sorted(annotators.priors()), annotators.num_states
    (['confusion', 'states'], 3)
    """

    def __init__(
        self,
        num_workers: int,
        num_classes: int,
        accuracies: Sequence[float] = (0.9, 0.7, 0.5),
        strength: float = 6.0,
    ) -> None:
        super().__init__()
        check_sizes(num_workers, num_classes)
        if not accuracies or not all(0 < accuracy < 1 for accuracy in accuracies):
            raise ValueError(f"accuracies are {accuracies}: give one or more between 0 and 1")
        self.num_workers, self.num_classes = num_workers, num_classes
        self.num_states = len(accuracies)
        rights = [strength * max(one, _MIN_ACCURACY / num_classes) for one in accuracies]
        rows = [diagonal_concentration(num_classes, one, strength - one) for one in rights]
        # Rows are sorted by worker, class and state.
        concentration = torch.stack(rows, 1).flatten(0, 1).repeat(num_workers, 1)
        family, of_states = Dirichlet(num_classes), Dirichlet(self.num_states)
        self.confusion = ConjugatePrior(family, family.natural(concentration), len(concentration))
        ones = torch.ones(self.num_states, dtype=torch.float64)
        self.states = ConjugatePrior(
            of_states, of_states.natural(ones), num_classes, dims=("class", "state")
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites: rows for every state of a class, and shares of the states."""
        return {"confusion": self.confusion, "states": self.states}

    def sample(self) -> dict[str, Tensor]:
        """Run both sites in a model."""
        return sample_sites(self.priors())

    def log_answers(
        self, values: Mapping[str, Tensor]
    ) -> Float[Tensor, "*chain worker label state"]:
        """``log p(label | class, state)``, state after state of each class."""
        rows = self.num_classes * self.num_states
        return values["confusion"].unflatten(-2, (-1, rows)).mT

    def log_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row column"]
    ) -> Float[Tensor, "*row class state"]:
        """``log p(a_i, s_i = s | y_i = k)``."""
        return evidence.unflatten(-1, (self.num_classes, -1)) + values["states"]

    def sum_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row state"]
    ) -> Float[Tensor, "*row class"]:
        """``log sum_s p(s | k) p(a | k, s)`` from ``log p(a | k, s)``."""
        return self.log_states(values, evidence).logsumexp(-1)

    def draw_states(
        self, values: Mapping[str, Tensor], assignments: Float[Tensor, "item class"]
    ) -> Float[Tensor, "item state"]:
        """One-hot states of items of these classes."""
        shares = assignments.unsqueeze(-1) * values["states"].softmax(-1)
        return torch.distributions.OneHotCategorical(probs=shares.flatten(1)).sample()

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """``gamma_jks ~ Dir(b_ks + n_jks)``, ``pi_k ~ Dir(1 + n_k)``."""
        family, eta = self.confusion.family, self.confusion.natural_parameters
        prior = family.standard(eta).concentration.numpy(force=True).reshape(counts.shape[-3:])
        of_states = 1 + items.reshape(*items.shape[:-1], self.num_classes, self.num_states)
        return {
            "confusion": draw_log_shares(prior + counts, rng).flatten(-3, -2),
            "states": draw_log_shares(of_states, rng),
        }

    @torch.no_grad()
    def answer_probabilities(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``sum_s q(s | y_i = k, labels) E[gamma_jksl]`` for answers that are not in ``labels``."""
        values = {name: posterior.mean() for name, posterior in posteriors.items()}
        evidence = labels.evidence(self.log_answers(values))
        state = self.log_states(values, evidence).softmax(-1)
        alpha = posteriors["confusion"].standard().concentration
        mean = (alpha / alpha.sum(-1, keepdim=True)).unflatten(
            0, (self.num_workers, *state.shape[1:])
        )
        return (state[item] * mean[worker, ..., label]).sum(-1)

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """Rows averaged over the states, with exact deviations; intervals are those of Betas."""
        shape = self.num_workers, self.num_classes, self.num_states, -1
        alpha = posteriors["confusion"].standard().concentration.reshape(shape).numpy(force=True)
        states = posteriors["states"].standard().concentration.numpy(force=True)
        # A share of a Dirichlet is a Beta.
        beta = scipy.stats.beta(alpha, alpha.sum(-1, keepdims=True) - alpha)
        mean, sd = (part.swapaxes(-1, -2) for part in (beta.mean(), beta.std()))
        return summary_of_mixed_rows(states[None], mean, sd, interval)
