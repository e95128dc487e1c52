"""Updates of a choice without answers: the first answers choose anew, as a first call would."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.fitting import TrainingOptions


@dataclass(frozen=True)
class ChoosingTraining(TrainingOptions):
    """``fit`` with the options of the candidate that was chosen without answers.

    The number of clusters of the features alone may be too small for what people see, so that the
    first answers choose again among all candidates, with the seed of the first call.
    """

    num_clusters: int | None
    seed: int

    def __call__(self, model: Any, guide: Any, data: CrowdData, **changes: Any) -> Fitted:
        """Fit with these options, updated by ``changes``."""
        result = super().__call__(model, guide, data, **changes)
        return choosing_again(result, self.num_clusters, self.seed)

    def from_first_answers(self, data: CrowdData, **changes: Any) -> Fitted:
        """What the first call would return for these data, with answers."""
        # That module imports this one.
        from pyro_crowdclust.interface.choosing.choice import choice_for

        choice = choice_for(data, num_clusters=self.num_clusters)
        return choice.fit(**{"seed": self.seed} | changes)


def choosing_again(result: Fitted, num_clusters: int | None, seed: int) -> Fitted:
    """The result of a choice without answers, whose first answers choose again.

    Parameters
    ----------
    result
        The fit of the chosen candidate.
    num_clusters
        The bound that was given; None if there was none.
    seed
        The seed of the choice; that of the result is of the best of several starts.
    """
    if not isinstance(result.train_on, TrainingOptions):
        return result
    own: dict[str, Any] = {"num_clusters": num_clusters, "seed": int(seed)}
    return replace(result, train_on=ChoosingTraining(**result.train_on.of_fit, **own))
