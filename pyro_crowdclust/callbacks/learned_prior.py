"""Empirical Bayes: learn the prior of the components in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pyro_crowdclust.mixture import learn_prior
from pyro_crowdclust.protocols import posteriors_of
from pyro_crowdclust.training.trainer import Trainer


@dataclass(frozen=True)
class LearnedPrior:
    """A callback of ``fit``: after an epoch, set the prior of the components to its optimum.

    The bound depends on the prior's eta by ``sum_k <eta, E_q[t(theta_k)]> - log Z(eta)``, which is
    largest where the mean of t under the prior is the mean over components: type II maximum
    likelihood (MacKay 1992), one step in closed form. At the best q, components without items equal
    the prior, whatever it is, and are left out. Nothing is learned from a single component.

    With many features, a prior that expects components as wide as all data empties most of them. A
    learned prior expects the width of the clusters, and if all have about the same covariance it
    gets so many degrees of freedom that they share it.

    Components that do not implement ``Components.learned_prior`` keep their prior.

    Attributes
    ----------
    first_epoch
        Learn nothing before the end of this epoch.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.interface import mixture_for
    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0)) / 10
    >>> x[::2] += 5
    >>> recipe = mixture_for(CrowdData(x), num_clusters=2)
    >>> result = recipe.fit(callbacks=[LearnedPrior()], progress=False)
    >>> prior = result.model.components.prior
    >>> bool(prior.family.standard(prior.natural_parameters).concentration[0] < 0.1)
    True
    """

    first_epoch: int = 2

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Set the learned prior, and move the components' posteriors by the difference.

        Raises
        ------
        ValueError
            If the guide has no conjugate posteriors.
        """
        posteriors = posteriors_of(trainer.guide)
        if posteriors is None:
            raise ValueError(
                "LearnedPrior moves the posterior of the components with their prior, and "
                f"{type(trainer.guide).__name__} has none: leave the callback out, or use another "
                "guide"
            )
        if trainer.history[-1]["epoch"] < self.first_epoch:
            return
        learn_prior(trainer.model, posteriors)
