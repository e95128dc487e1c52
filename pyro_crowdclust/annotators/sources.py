"""Workers whose answers come from several sources, some of which do not depend on the item.

    theta_j ~ Dir(a)      s_ij ~ Cat(theta_j)      a_ij | s_ij = s, y_i = k ~ Cat(gamma^s_jk)

Every source is an annotator model itself: ``Truth`` names the class, ``Habit`` gives labels that do
not depend on the class, and a confusion matrix has errors of its own for every class. Truth and
habit are the model of Hovy et al. 2013 (MACE); with a confusion matrix in addition, workers with
many answers have their own errors, and the others are described as simply as their answers allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.random import Generator
from torch import Tensor, nn

from pyro_crowdclust.annotators.confusion import summary_of_mixed_rows
from pyro_crowdclust.annotators.learned_rows import LearnedRows, draw_log_shares
from pyro_crowdclust.annotators.more_workers import with_workers
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.families import Dirichlet, PosteriorSummary
from pyro_crowdclust.files.parts import described, rebuilt
from pyro_crowdclust.protocols import ClassAnnotators
from pyro_crowdclust.protocols.annotators import ItemCounts, LabelCounts

# The logarithm of a label that a source never gives; finite, so that 0 times it is 0.
_NEVER = -800.0


@described
class Truth(nn.Module):
    """``gamma_jkl = [l = k]``: the label is the class. A source, not a model to use alone.

    Parameters
    ----------
    num_workers, num_classes
        M and K.
    """

    log_labels: Tensor

    def __init__(self, num_workers: int, num_classes: int) -> None:
        super().__init__()
        self.num_workers, self.num_classes = num_workers, num_classes
        never = _NEVER * (1 - torch.eye(num_classes, dtype=torch.float64))
        self.register_buffer("log_labels", never)

    def priors(self) -> dict[str, ConjugatePrior]:
        """No sites: there is nothing to learn."""
        return {}

    def sample(self) -> dict[str, Tensor]:
        """Run no site."""
        return {}

    def log_answers(
        self, values: Mapping[str, Tensor]
    ) -> Float[Tensor, "*chain worker label class"]:
        """0 for the label that is the class, and a very low value for the others."""
        return self.log_labels.expand(self.num_workers, -1, -1)

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """The identity, with deviations of 0."""
        right = np.broadcast_to(
            np.eye(self.num_classes), (self.num_workers, self.num_classes, self.num_classes)
        )
        return PosteriorSummary(right, np.zeros_like(right), right, right)

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """Nothing to draw."""
        return {}


@described
class Habit(nn.Module):
    """``gamma_jkl = xi_jl``, ``xi_j ~ Dir(b)``: labels that do not depend on the class.

    Parameters
    ----------
    num_workers, num_classes
        M and K.
    """

    def __init__(self, num_workers: int, num_classes: int) -> None:
        super().__init__()
        self.num_workers, self.num_classes = num_workers, num_classes
        ones = torch.ones(num_classes, dtype=torch.float64)
        self.rows = LearnedRows(ones.expand(1, 1, -1))
        family = Dirichlet(num_classes)
        self.habit = ConjugatePrior(
            family, family.natural(ones), num_workers, dims=("worker", "label")
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global site ``habit``, a Dirichlet for every worker."""
        return {"habit": self.habit}

    def sample(self) -> dict[str, Tensor]:
        """Run the site in a model; its prior is learned from all workers."""
        return {"habit": self.rows.sample("habit", _one_community(self.num_workers))}

    def log_answers(
        self, values: Mapping[str, Tensor]
    ) -> Float[Tensor, "*chain worker label class"]:
        """``log xi_jl``, the same for every class."""
        habit = values["habit"].unsqueeze(-1)
        return habit.expand(*habit.shape[:-1], self.num_classes)

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """The shares of the labels, the same for every class."""
        parts = posteriors["habit"].summary(interval)
        return PosteriorSummary(*(np.repeat(part[:, None], self.num_classes, 1) for part in parts))

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """``xi_j ~ Dir(b + n_j)``, the counts of all classes together; b takes a step first."""
        return _draw_learned("habit", self.rows, values, counts.sum(-2), rng)


def _draw_learned(
    site: str,
    rows: LearnedRows,
    values: Mapping[str, Tensor],
    counts: Float[np.ndarray, "*chain worker share"],
    rng: Generator,
) -> dict[str, Tensor]:
    """One row of every worker, whose prior is learned first."""
    everybody = np.ones((*counts.shape[:-1], 1))
    concentration = rows.learned(rows.of_draw(site, values), counts[..., None, :], everybody)
    return {
        site: draw_log_shares(concentration[..., 0, :] + counts, rng),
        f"{site}_concentration": torch.from_numpy(concentration),
    }


def _one_community(num_workers: int) -> Float[Tensor, "worker community"]:
    return torch.ones(num_workers, 1, dtype=torch.float64)


@described
class AnswerSources(nn.Module):
    """``gamma_jk = sum_s theta_js gamma^s_jk``: where each worker's answers come from.

    The prior of theta is learned from all workers (``LearnedRows``). Which source an answer had is
    summed out: ``log_answers`` is ``log sum_s exp(E[log theta_js] + E[log gamma^s_jkl])``, the
    bound at the optimal q(s), so that natural steps are the same as with a site for s.

    Parameters
    ----------
    sources
        Annotator models with different sites, such as ``Truth``, ``Habit`` and
        ``CommunityConfusion`` with one community. At the start, most answers are expected to come
        from the first.

    Raises
    ------
    ValueError
        If there are fewer than two sources, or if they differ in size or share a site.

    Examples
    --------
    >>> annotators = AnswerSources([Truth(3, 2), Habit(3, 2)])
    >>> sorted(annotators.priors())
    ['habit', 'sources']
    """

    def __init__(self, sources: Sequence[ClassAnnotators]) -> None:
        super().__init__()
        if len(sources) < 2:
            raise ValueError(
                f"sources has {len(sources)}: give two or more, or use a single one by itself"
            )
        sizes = {(source.num_workers, source.num_classes) for source in sources}
        if len(sizes) > 1:
            raise ValueError(
                f"sources have (workers, classes) {sorted(sizes)}: give them the same numbers"
            )
        self.parts: Any = nn.ModuleList(cast("Sequence[nn.Module]", sources))
        names = [name for source in sources for name in source.priors()]
        if len(set(names)) < len(names):
            raise ValueError(
                f"two of the sources have the same site, of {names}: give each kind once"
            )
        ((self.num_workers, self.num_classes),) = sizes
        start = torch.ones(len(sources), dtype=torch.float64)
        start[0] = 3.0
        self.shares = LearnedRows(start.expand(1, 1, -1))
        family = Dirichlet(len(sources))
        self.prior = ConjugatePrior(
            family, family.natural(start), self.num_workers, dims=("worker", "source")
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global site ``sources`` of the shares, and those of every source."""
        sites = {"sources": self.prior}
        for source in self.parts:
            sites |= source.priors()
        return sites

    def sample(self) -> dict[str, Tensor]:
        """Run the sites of the shares and of every source in a model."""
        values = {"sources": self.shares.sample("sources", _one_community(self.num_workers))}
        for source in self.parts:
            values |= source.sample()
        return values

    def with_workers(self, rows: Int[Tensor, " before"], number: int) -> AnswerSources | None:
        """The same sources for ``number`` workers, the earlier ones in ``rows``."""
        grown = [with_workers(source, rows, number) for source in self.parts]
        return None if any(one is None for one in grown) else rebuilt(self, sources=grown)

    def log_answers(
        self, values: Mapping[str, Tensor]
    ) -> Float[Tensor, "*chain worker label class"]:
        """``log sum_s exp(E[log theta_js] + E[log gamma^s_jkl])``."""
        parts = self._log_parts(values)
        # Where tables are large, torch's logsumexp of all in one takes twice as long.
        largest = reduce(torch.maximum, parts).detach()
        return largest + reduce(torch.add, [(part - largest).exp() for part in parts]).log()

    def _log_parts(
        self, values: Mapping[str, Tensor]
    ) -> list[Float[Tensor, "*chain worker label class"]]:
        """``E[log theta_js] + E[log gamma^s_jkl]`` of every source s."""
        of_sources = values["sources"].movedim(-1, 0)[..., None, None]
        pairs = zip(self.parts, of_sources, strict=True)
        return [source.log_answers(values) + log_share for source, log_share in pairs]

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """Exact means and deviations; intervals are those of Betas with these moments."""
        alpha = posteriors["sources"].standard().concentration.numpy(force=True)
        parts = [source.summary(posteriors, interval) for source in self.parts]
        means, sds = (np.stack(part, -1) for part in list(zip(*parts, strict=True))[:2])
        return summary_of_mixed_rows(alpha[:, None], means, sds, interval)

    def expected_rows(
        self, values: Mapping[str, Tensor]
    ) -> Float[np.ndarray, "*chain worker class label"]:
        """The rows themselves: none of a worker's own is a parameter."""
        return self.log_answers(values).mT.softmax(-1).numpy(force=True)

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """Answers are first distributed over the sources, by ``theta_js gamma^s_jkl``."""
        given = counts > 0  # most cells of many classes are empty
        parts = [part.mT[torch.from_numpy(given)] for part in self._log_parts(values)]
        shares = torch.stack(parts, -1).softmax(-1).numpy(force=True)
        dealt = np.zeros((*counts.shape, len(self.parts)))
        dealt[given] = rng.multinomial(counts[given].astype(int), shares)
        found = _draw_learned("sources", self.shares, values, dealt.sum((-3, -2)), rng)
        for number, source in enumerate(self.parts):
            found |= source.draw(values, dealt[..., number], items, rng)
        return found
