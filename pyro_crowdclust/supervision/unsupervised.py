"""A mixture that was given no supervision, and so no way to hear an expert."""

from __future__ import annotations

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.files.description import described
from pyro_crowdclust.supervision.supervision import Supervision


@described
class Unsupervised(Supervision):
    """``z_n ~ Cat(pi)``, for data about which no expert said a word.

    What a model has whose ``supervision`` is None. Labels and links are refused, since they would
    be passed over in silence; ``Supervision()``, given by name, does pass over them.

    Examples
    --------
    >>> from pyro_crowdclust.data import CrowdData
    >>> Unsupervised().check(CrowdData([[0.0], [1.0]], known={0: "a"}))
    Traceback (most recent call last):
        ...
    ValueError: the data have known labels or links of 1 item, but the model has no supervision ...
    """

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` if there are known labels or links."""
        count = len(data.supervised_items)
        if count:
            raise ValueError(
                f"the data have known labels or links of {count} item{'s' if count > 1 else ''}, "
                "but the model has no supervision that hears them: give it one, such as "
                "supervision=ClassTable(...), or Supervision() to leave them unheard, or build the "
                "data without them"
            )
