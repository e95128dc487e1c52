"""Importance weights of latents that depend on the cluster: ``p(o, h | k) / q(h | o, k)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.row_sites import RowNormalAtMean
from pyro_crowdclust.distributions.rows import Rows, common_noise
from pyro_crowdclust.families import IndependentMoments
from pyro_crowdclust.networks import ClusterRecognition

# Number of rows per pass through the networks when all clusters of many items are scored.
_ROWS = 8192


class ModelOfRows(Protocol):
    """Interface of the model, such as ``DeepLatentMixture``."""

    @property
    def num_clusters(self) -> int:
        """K."""

    def latent_names(self) -> Sequence[str]:
        """The sites of the latents, from the top down."""

    def generate(self, theta: Tensor, rows: Rows, sample: Callable[[str, Any], Tensor]) -> None:
        """Run the sites of latents and features of some rows, from the top down."""


@dataclass(frozen=True)
class LogRatios:
    """``E_{q(h | o, k)}[log p(o, h | k) - log q(h | o, k)]`` of pairs of item and cluster.

    Attributes
    ----------
    model
        p(o, h | k).
    recognition
        q(h | o, k), with the layers of the model.
    """

    model: ModelOfRows
    recognition: ClusterRecognition

    def __call__(
        self,
        theta: Float[Tensor, "cluster size"],
        features: Float[Tensor, "item ..."],
        seen: Float[Tensor, "item width"],
        rows: Rows,
        noise: Callable[[Tensor], Tensor] | None = None,
    ) -> Float[Tensor, " row"]:
        """The log ratios of some items and clusters.

        One draw of h is used for the emission (and for all layers but the top), all other terms are
        in closed form. With ``noise`` one draw is used for all terms: a log importance weight.

        Parameters
        ----------
        theta
            E[t(theta_k)].
        features
            Of the items.
        seen
            Output of the recognition network's trunk for them.
        rows
            Which items and clusters.
        noise
            Noise of the draws, see ``Rows.draw``.
        """
        latents = self.recognition.latents(seen, rows)
        values, total = {}, seen.new_zeros(())
        for name, moments in zip(self.model.latent_names(), latents, strict=True):
            value = moments
            if noise is not None:
                value = IndependentMoments.point(rows.draw(moments, noise))
            values[name] = value.flat()
            total = total - RowNormalAtMean(*moments).log_prob(values[name])
        values["o"] = features.index_select(0, rows.item)

        def sample(name: str, distribution: Any) -> Tensor:
            nonlocal total
            total = total + distribution.log_prob(values[name])
            return values[name]

        self.model.generate(theta, rows, sample)
        return total

    @torch.no_grad()
    def of_all(
        self,
        theta: Float[Tensor, "cluster size"],
        features: Float[Tensor, "item ..."],
        seen: Float[Tensor, "item width"],
        seed: int | None = None,
    ) -> Float[Tensor, "item cluster"]:
        """The log ratios of all items and clusters, in parts that limit memory.

        With a ``seed``, all items use the same noise: the results for an item do not depend on
        which other items there are.
        """
        num_clusters = self.model.num_clusters
        table = seen.new_empty(len(seen), num_clusters)
        items = torch.arange(len(seen), device=seen.device)
        for part in items.split(max(1, _ROWS // num_clusters)):
            rows = Rows.every(len(part), num_clusters, seen)
            given = features[part], seen[part]
            noise = None if seed is None else common_noise(seed)
            ratios = self(theta, *given, rows, noise)
            table[part] = ratios.to(table.dtype).view(len(part), num_clusters)
        return table

    @torch.no_grad()
    def log_likelihoods(
        self,
        theta: Float[Tensor, "cluster size"],
        features: Float[Tensor, "item ..."],
        seeds: Sequence[int],
    ) -> Float[Tensor, "item cluster"]:
        """``log p(o | k) = log (1/S) sum_s p(o, h_s | k) / q(h_s | o, k)``, one h_s per seed."""
        seen = self.recognition.trunk(features.flatten(1))
        first, *others = seeds
        total = self.of_all(theta, features, seen, first)
        for seed in others:
            total = torch.logaddexp(total, self.of_all(theta, features, seen, seed))
        return total - math.log(len(seeds))
