"""Annotator models of class labels: confusion matrices, one for each worker.

    gamma_jkl = p(worker j says l | class k)

The models have more or fewer free parameters. Each is an object with the verbs ``priors`` (global
sites and where their posteriors begin), ``sample`` (run the sites in a model), ``log_answers``
(``log gamma``, linear in the sites' values) and ``summary`` (the posterior of gamma).

References: Dawid and Skene 1979 (confusion matrices), Felt et al. 2015, section 3 (the same with
Dirichlet priors), Venanzi et al. 2014 (communities).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyro
import scipy  # loads its subpackages when they are first used
import torch
from jaxtyping import Float, Int
from numpy.random import Generator
from torch import Tensor, nn

from pyro_crowdclust.annotators.learned_rows import LearnedRows, draw_log_shares
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior, sample_sites
from pyro_crowdclust.families import Categorical, Dirichlet, PosteriorSummary
from pyro_crowdclust.families.summaries import summary_of_moments
from pyro_crowdclust.files.parts import described, rebuilt
from pyro_crowdclust.protocols.annotators import ItemCounts, LabelCounts


def check_sizes(num_workers: int, num_classes: int) -> None:
    """Raise a ``ValueError`` unless there are enough workers and classes."""
    if num_workers < 1 or num_classes < 2:
        raise ValueError(
            f"{num_workers} workers and {num_classes} classes: confusion matrices need at least 1 "
            "worker and 2 classes"
        )


def diagonal_concentration(
    num_classes: int, right: float, wrong: float
) -> Float[Tensor, "class label"]:
    """Dirichlet rows: ``right`` pseudo-answers name the class, ``wrong`` the others together."""
    if right <= 0 or wrong <= 0:
        raise ValueError(f"right is {right} and wrong is {wrong}, but both must be above 0")
    other = wrong / (num_classes - 1)
    rows = torch.full((num_classes, num_classes), other, dtype=torch.float64)
    return rows.fill_diagonal_(right)


def summary_of_mixed_rows(
    concentration: Float[np.ndarray, "... part"],
    mean: Float[np.ndarray, "... label part"],
    sd: Float[np.ndarray, "... label part"],
    interval: float,
) -> PosteriorSummary:
    """Posterior summary of ``sum_s theta_s gamma_s``, theta ~ Dir(a), for independent gamma_s.

    ``E[(sum_s theta_s gamma_s)^2] = sum_st E[theta_s theta_t] E[gamma_s gamma_t]`` with
    ``E[theta_s theta_t] = a_s (a_t + [s = t]) / (A (A + 1))``, A the sum of a. Means and deviations
    are exact; intervals are those of Betas with these moments.

    Parameters
    ----------
    concentration
        a of every row.
    mean, sd
        Of the labels in every part.
    interval
        Mass of the intervals.
    """
    total = concentration.sum(-1, keepdims=True)
    of_shares = concentration[..., :, None] * (
        concentration[..., None, :] + np.eye(concentration.shape[-1])
    )
    of_shares = of_shares / (total * (total + 1))[..., None]
    of_rows = mean[..., :, None] * mean[..., None, :]
    of_rows = of_rows + (sd**2)[..., None] * np.eye(mean.shape[-1])
    second = (of_rows * of_shares[..., None, :, :]).sum((-2, -1))
    mean = (mean * (concentration / total)[..., None, :]).sum(-1)
    return summary_of_moments(mean, second - mean**2, interval)


def _checked_weights(
    worker_weights: Sequence[float] | None, num_workers: int
) -> Float[Tensor, " worker"] | None:
    if worker_weights is None:
        return None
    numbers = torch.tensor([*worker_weights], dtype=torch.float64)
    if len(numbers) != num_workers or not (numbers > 0).all():
        raise ValueError(
            f"worker_weights is {[*worker_weights]}, but must be one number above 0 for each of "
            f"{num_workers} workers"
        )
    return numbers


@described
class ConfusionMatrices(nn.Module):
    """``gamma_jk ~ Dir(b_k)``: a full confusion matrix for every worker; Felt et al. 2015, sec. 3.

    Parameters
    ----------
    num_workers, num_classes
        M and K.
    right, wrong
        The prior of every row counts as ``right`` answers that name the class and ``wrong`` that
        name another, evenly. The default, four and two, expects two thirds of the answers to be
        right, is outweighed by some ten answers, and keeps the classes from being swapped.
    worker_weights
        w, the number of independent workers that each worker counts as, such as
        ``discount_copies(data).worker_weights``: an answer adds ``w_j log gamma_jk(a)``. By default
        every answer counts in full. Bounds (ELBO) with different w cannot be compared.
    prior_share
        s: tables and draws of the rates have the prior ``Dir(s b_k)``. A prior that is strong so
        that no class is lost is no knowledge about the workers, and would make intervals narrow.

    Raises
    ------
    ValueError
        If there is no worker, there are fewer than two classes, ``worker_weights`` is not one
        number above 0 for each worker, or ``prior_share`` is not above 0 and at most 1.

    Examples
    --------
    >>> prior = ConfusionMatrices(5, 3).confusion  # a row for every worker and class
    >>> prior.family.natural(torch.tensor([4.0, 1.0, 1.0])) == prior.natural_parameters[0]
    tensor([True, True, True])
    """

    _worker_weights: Tensor | None

    def __init__(
        self,
        num_workers: int,
        num_classes: int,
        right: float = 4.0,
        wrong: float = 2.0,
        worker_weights: Sequence[float] | None = None,
        prior_share: float = 1.0,
    ) -> None:
        super().__init__()
        check_sizes(num_workers, num_classes)
        if not 0 < prior_share <= 1:
            raise ValueError(f"prior_share is {prior_share}, but must be above 0, and at most 1")
        self.num_workers, self.num_classes = num_workers, num_classes
        self.prior_share = prior_share
        self.register_buffer("_worker_weights", _checked_weights(worker_weights, num_workers))
        family = Dirichlet(num_classes)
        rows = diagonal_concentration(num_classes, right, wrong).repeat(num_workers, 1)
        self.confusion = ConjugatePrior(family, family.natural(rows), num_workers * num_classes)

    @property
    def worker_weights(self) -> Float[Tensor, " worker"] | None:
        """The number of independent workers that each counts as; None if all count in full."""
        return self._worker_weights

    def with_workers(self, rows: Int[Tensor, " before"], number: int) -> ConfusionMatrices:
        """The same for ``number`` workers, the earlier ones in ``rows``; new ones count as one."""
        if self._worker_weights is None:
            return rebuilt(self, num_workers=number)
        worker_weights = torch.ones(number, dtype=torch.float64)
        worker_weights[rows] = self._worker_weights.cpu()
        return rebuilt(self, num_workers=number, worker_weights=tuple(worker_weights.tolist()))

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global site ``confusion``: a Dirichlet for every worker and class."""
        return {"confusion": self.confusion}

    def sample(self) -> dict[str, Tensor]:
        """Run the site of all rows in a model."""
        return sample_sites(self.priors())

    def log_answers(
        self, values: Mapping[str, Tensor]
    ) -> Float[Tensor, "*chain worker label class"]:
        """``log gamma_jkl``, the rows of each worker side by side."""
        return values["confusion"].unflatten(-2, (-1, self.num_classes)).mT

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """The rows themselves, each a Dirichlet; of the prior b, ``s b`` is counted."""
        eta: Tensor = posteriors["confusion"].natural_parameters
        if self.prior_share < 1:
            rows = self._prior_rows(posteriors).flatten(0, 1)
            eta = eta - (1 - self.prior_share) * rows.to(eta)
        eta = eta.unflatten(0, (-1, self.num_classes))
        return posteriors["confusion"].family.summary(eta, interval)

    def leave_one_out_counts(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        classes: Float[Tensor, "item class"],
    ) -> tuple[Float[Tensor, "answer class"], Float[Tensor, "answer class"]]:
        """How often the worker of every answer says that about each class, and anything at all.

            alpha_jka - w_j q(y_i = k)    sum_l alpha_jkl - w_j q(y_i = k)

        without what the answer itself has added to the counts, or, if the worker has several about
        the item, all of these. The prior stays.

        Parameters
        ----------
        posteriors
            Those of the sites, which learned of the labels.
        labels
            The answers.
        classes
            q(y), by which they were counted.
        """
        shape = self.num_workers, self.num_classes, self.num_classes
        counted = posteriors["confusion"].standard().concentration.reshape(shape)
        prior = self._prior_rows(posteriors).to(counted)
        own = classes.to(counted)[labels.item]
        if self.worker_weights is not None:
            own = self.worker_weights.to(counted)[labels.worker, None] * own
        # Never less than the prior: some answers may not have been counted at all.
        least = prior[labels.worker, :, labels.label]
        left = counted[labels.worker, :, labels.label] - labels.of_source(own, same_label=True)
        named, least = torch.maximum(left, least), prior.sum(-1)[labels.worker]
        left = counted.sum(-1)[labels.worker] - labels.of_source(own)
        return named, torch.maximum(left, least)

    def log_leave_one_out(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        classes: Float[Tensor, "item class"],
    ) -> Float[Tensor, "answer class"]:
        """``log E_-i[gamma_jka]``: the share of such answers, without the answer itself."""
        named, total = self.leave_one_out_counts(posteriors, labels, classes)
        return (named / total).log()

    def _prior_rows(
        self, posteriors: Mapping[str, ConjugatePosterior]
    ) -> Float[Tensor, "worker class label"]:
        standard = self.confusion.family.standard(self.confusion.natural_parameters)
        return standard.concentration.reshape(self.num_workers, self.num_classes, self.num_classes)

    def expected_rows(
        self, values: Mapping[str, Tensor]
    ) -> Float[np.ndarray, "*#chain worker class label"]:
        """The mean of the prior of every row."""
        rows = self._prior_rows({}).numpy(force=True)
        return np.asarray(rows / rows.sum(-1, keepdims=True))

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """``gamma_jk ~ Dir(s b_k + n_jk)``."""
        prior = self.prior_share * self._prior_rows({}).numpy(force=True)
        return {"confusion": draw_log_shares(prior + counts, rng).flatten(-3, -2)}


@described
class CommunityConfusion(ConfusionMatrices):
    """Confusion matrices whose priors are learned, one for each community of workers.

        rho ~ Dir(1, ..., 1)    c_j ~ Cat(rho)    gamma_jk | c_j = c ~ Dir(a_ck)

    (Venanzi et al. 2014, with Dirichlet rows.) The concentrations ``a`` are parameters, learned by
    the ELBO together with everything else: what workers have in common is learned from all of them,
    and rates of workers with few answers are shrunk towards their community. A Gamma prior on every
    concentration keeps them finite. One community is a hierarchical model without mixture. Several
    need more than a handful of workers to be learned from; with fewer, ``ConfusionMatrices`` have
    better probabilities.

    Parameters
    ----------
    num_workers, num_classes
        M and K.
    num_communities
        C. Communities begin at different accuracies, from good to bad.
    worker_weights
        As in ``ConfusionMatrices``.
    outliers
        Numbers (right, wrong), each for one more community, which has the prior of
        ``ConfusionMatrices`` with these numbers: for workers whom no other is like, such as an
        expert among beginners. It is not learned, so that one such worker suffices to use it, and
        is then not shrunk towards all others. None by default.
    """

    def __init__(
        self,
        num_workers: int,
        num_classes: int,
        num_communities: int = 3,
        worker_weights: Sequence[float] | None = None,
        outliers: Sequence[tuple[float, float]] = (),
    ) -> None:
        super().__init__(num_workers, num_classes, worker_weights=worker_weights)
        self.num_communities = num_communities
        accuracy = torch.linspace(0.9, 0.2, num_communities, dtype=torch.float64)
        if num_communities == 1:
            accuracy = accuracy.new_tensor([0.6])
        identity = torch.eye(num_classes, dtype=torch.float64)
        spread = (1 - accuracy)[:, None, None] / num_classes
        start = 0.5 + 3 * (accuracy[:, None, None] * identity + spread)
        known = [diagonal_concentration(num_classes, right, wrong) for right, wrong in outliers]
        self.rows = LearnedRows(start, torch.stack(known) if known else None)
        number = num_communities + len(known)
        family = Dirichlet(number)
        ones = torch.ones(number, dtype=torch.float64)
        dims = "worker", "community_number"
        self.communities = ConjugatePrior(family, family.natural(ones), dims=dims[1:])
        self.community = ConjugatePrior(
            Categorical(number), torch.zeros_like(ones), num_workers, dims
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """Shares of the communities, the community of every worker, and the rows."""
        return {
            "communities": self.communities,
            "community": self.community,
            "confusion": self.confusion,
        }

    def concentration(self) -> Float[Tensor, "community class label"]:
        """a, the learned Dirichlet parameters of every community."""
        return self.rows.concentration()

    def _prior_rows(
        self, posteriors: Mapping[str, ConjugatePosterior]
    ) -> Float[Tensor, "worker class label"]:
        community = posteriors["community"].mean()
        return torch.einsum("jc,ckl->jkl", community, self.concentration().to(community))

    def sample(self) -> dict[str, Tensor]:
        """Run the sites in a model; rows of a worker follow those of its community."""
        values = sample_sites({"communities": self.communities})
        with FullPlate("community_plate", self.num_workers):
            values["community"] = pyro.sample("community", Assignment(values["communities"]))
        values["confusion"] = self.rows.sample("confusion", values["community"])
        return values

    def expected_rows(
        self, values: Mapping[str, Tensor]
    ) -> Float[np.ndarray, "*#chain worker class label"]:
        """The mean of the rows of each worker's community."""
        concentration = self.rows.of_draw("confusion", values)
        share = concentration / concentration.sum(-1, keepdims=True)
        community = values["community"].numpy(force=True)
        return np.einsum("...jc,...ckl->...jkl", community, share)

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """The community of a worker is drawn given its counts, with its rates summed out."""
        concentration = self.rows.of_draw("confusion", values)
        log_share = values["communities"].numpy(force=True)[..., None, :]
        log_share = log_share + _log_marginal(counts, concentration)
        responsible = scipy.special.softmax(log_share, -1)
        concentration = self.rows.learned(concentration, counts, responsible)
        community = rng.multinomial(1, responsible).astype(float)
        drawn = np.einsum("...jc,...ckl->...jkl", community, concentration)
        return {
            "communities": draw_log_shares(1 + community.sum(-2), rng),
            "community": torch.from_numpy(community),
            "confusion": draw_log_shares(drawn + counts, rng).flatten(-3, -2),
            "confusion_concentration": torch.from_numpy(concentration),
        }


def _log_marginal(
    counts: Float[np.ndarray, "*chain worker class label"],
    concentration: Float[np.ndarray, "*#chain community class label"],
) -> Float[np.ndarray, "*chain worker community"]:
    """``log p(answers of j)`` under ``gamma_jk ~ Dir(a_ck)``, the rates summed out."""
    gammaln, counts = scipy.special.gammaln, counts[..., None, :, :]
    concentration = concentration[..., None, :, :, :]
    total, size = concentration.sum(-1), counts.sum(-1)
    of_rows = gammaln(total) - gammaln(total + size)
    of_labels = gammaln(concentration + counts) - gammaln(concentration)
    return of_rows.sum(-1) + of_labels.sum((-1, -2))
