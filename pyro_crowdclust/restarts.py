"""Fits from several seeds, ordered by ELBO, and averages of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.diagnostics.alignment import aligned_order
from pyro_crowdclust.errors import warnings_once
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.protocols import Guide, Model
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.training.checkpoint import Checkpoint
from pyro_crowdclust.training.interrupts import WaitingInterrupt
from pyro_crowdclust.training.stopping import Ending, interrupted_too_early, is_interrupted

INTERRUPTED_STARTS = f"{Ending.INTERRUPTED} by the user while starts were tried: the best so far"


@warnings_once()
def fit_restarts(
    model: Model,
    guide: Guide,
    data: CrowdData,
    *,
    seeds: Iterable[int] = range(5),
    **options: Any,
) -> list[Fitted]:
    """Fit from every seed; the fit with the highest ELBO of all data is the first in the list.

    Ctrl-C ends this early and returns the fits so far.

    If the guide draws latents, ``result.elbo`` is an average over draws, with the same random
    numbers for every fit.

    The ELBO of a mixture has many local maxima. Findings in which fits from different starts agree
    do not depend on the start; ``diagnostics.to_arviz`` takes the list to compare them.

    Parameters
    ----------
    model, guide, data, **options
        As for ``fit``; with a ``checkpoint`` there is a file for every seed, such as
        ``run_seed3.safetensors`` for seed 3 and ``run.safetensors``.
    seeds
        The seed of every fit.

    Raises
    ------
    ValueError
        If there is no seed, or one occurs twice.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> data = CrowdData(torch.cat([torch.randn(50, 2) - 4, torch.randn(50, 2) + 4]))
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(4), GaussianComponents(4, 2), Identity())
    >>> results = fit_restarts(model, MessagePassingGuide(model), data, seeds=[3, 4], epochs=5,
    ...                        batch_size=None, step_size=1.0, progress=False)
    >>> best, other = results
    >>> best.elbo >= other.elbo
    True
    """
    seeds = list(seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds is {seeds}, but must have at least one seed, and none twice")
    checkpoint = options.pop("checkpoint", None)
    return best_first(
        partial(
            fit, model, guide, data, seed=seed, checkpoint=_of_seed(checkpoint, seed), **options
        )
        for seed in seeds
    )


def _of_seed(checkpoint: Any, seed: int) -> Any:
    """The checkpoint with a separate file for the seed; ``fit`` refuses invalid ones."""
    if isinstance(checkpoint, Checkpoint):
        return replace(checkpoint, path=_of_seed(checkpoint.path, seed))
    if isinstance(checkpoint, str | os.PathLike):
        path = Path(checkpoint)
        return path.with_stem(f"{path.stem}_seed{seed}")
    return checkpoint


def best_first(attempts: Iterable[Callable[[], Fitted]]) -> list[Fitted]:
    """Fits of the same data, the highest ELBO first; Ctrl-C ends this with the fits so far.

    Raises
    ------
    KeyboardInterrupt
        If there is no fit so far.
    """
    found: list[tuple[float, Fitted]] = []
    interrupted = False
    try:
        for attempt in attempts:
            result = attempt()
            with WaitingInterrupt() as interrupt:
                found.append((_rank(result.elbo), result))
            interrupted = interrupt.received or is_interrupted(result)
            if interrupted:
                break
    except KeyboardInterrupt:
        if not found:
            raise interrupted_too_early() from None
        interrupted = True
    best, *others = [result for _, result in sorted(found, key=itemgetter(0))]
    if interrupted and not is_interrupted(best):
        best = replace(best, stop_reason=INTERRUPTED_STARTS)
    return [best, *others]


def average_probabilities(results: Sequence[Fitted]) -> Float[np.ndarray, "item cluster"]:
    """``q(z_i) = mean_r q_r(z_i)`` over fits r, with matched clusters.

    Each fit is one mode of the posterior and does not include the uncertainty between modes. ELBOs
    of modes differ too much to be used as weights, so that all fits have the same weight. The
    average is less certain about items for which the fits differ. Clusters are matched by
    ``diagnostics.aligned_order``, every fit with the average of those before it.

    Parameters
    ----------
    results
        Fits of the same data with the same number of clusters, the best first.

    Raises
    ------
    ValueError
        If there is no fit, or fits differ in the number of items or clusters.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(probabilities=np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> other = SimpleNamespace(probabilities=np.array([[0.3, 0.7], [0.4, 0.6]]))
    >>> average_probabilities([one, other])
    array([[0.8, 0.2],
           [0.4, 0.6]])
    """
    if not results:
        raise ValueError("results is empty: pass the list that fit_restarts returns")
    total = results[0].probabilities
    for result in results[1:]:
        total = total + result.probabilities[:, aligned_order(total, result.probabilities)]
    return total / len(results)


def _rank(elbo: float) -> float:
    return math.inf if math.isnan(elbo) else -elbo
