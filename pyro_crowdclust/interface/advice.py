"""What a fit's own figures say about its settings, for people who do not read figures."""

from __future__ import annotations

from pyro_crowdclust.protocols import SupportsMixture
from pyro_crowdclust.results import Fitted

# A worker is heard if an answer counts at least so many nats.
_HEARD = 1.0


def advice(result: Fitted) -> list[str]:
    """Sentences about settings that this fit suggests to change; none if there is nothing to say.

    - Every cluster has items: the bound on their number may be too low.
    - Most answers come from workers who count for next to nothing. A crowd that knows what it
      was asked does not look like that; clusters much coarser or finer than its idea of "same" do.
    - The ELBO was still rising when the epochs were used up.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.interface import cluster
    >>> features = np.random.default_rng(0).normal([[0.0], [9.0]], size=(2, 50)).reshape(-1, 1)
    >>> advice(cluster(features, num_clusters=5, progress=False))
    []
    >>> advice(cluster(features, num_clusters=2, progress=False))
    ['all 2 clusters hold items: there may be more, so raise their number']
    """
    found = []
    if isinstance(result.guide, SupportsMixture):
        assigned = result.clusters["assigned_items"]
        if len(assigned) > 1 and (assigned > 0).all():
            found.append(
                f"all {len(assigned)} clusters hold items: there may be more, so raise their number"
            )
    if result.data.has_answers and _unheard_share(result) > 0.5:
        found.append(
            "most answers come from workers who seem to guess: clusters may be much coarser than "
            'what the workers call "same" (raise their number) or finer, or features may not show '
            "what the workers see"
        )
    if _still_rising(result):
        found.append("the ELBO was still rising at the end: train for more epochs")
    return found


def _unheard_share(result: Fitted) -> float:
    """Share of the answers that come from workers of next to no weight."""
    workers = result.workers
    return float(workers["answers"][workers["weight"] < _HEARD].sum() / workers["answers"].sum())


def _still_rising(result: Fitted) -> bool:
    """Whether the last tenth of the epochs brought 1 % of all that was gained.

    Epochs are averages of noisy minibatches, so the rise is that of halves of the last fifth.
    """
    if not result.stop_reason.startswith("budget") or len(result.history) < 10:
        return False
    elbo = result.history["elbo"].to_numpy()
    last = elbo[-max(len(elbo) // 5, 4) :]
    half = len(last) // 2
    rise = last[half:].mean() - last[:half].mean()
    return bool(rise > 0.01 * (elbo[-1] - elbo[0]))
