"""A mixture that was given no supervision, and so no way to hear an expert."""

from __future__ import annotations

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import count
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.supervision.supervision import Supervision


@described
class Unsupervised(Supervision):
    """``z_n ~ Cat(pi)``, for data about which no expert said a word.

    What a model has whose ``supervision`` is None.

    Parameters
    ----------
    refuses
        Whether labels and links are refused; else they are passed over in silence.

    Examples
    --------
    >>> from pyro_crowdclust.data import CrowdData
    >>> Unsupervised().check(CrowdData([[0.0], [1.0]], known={0: "a"}))
    Traceback (most recent call last):
        ...
    ValueError: the data have known labels or links of 1 item, but the model has no supervision ...
    """

    hears_experts = False

    def __init__(self, refuses: bool = True) -> None:
        super().__init__()
        self.refuses = refuses

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` if there are labels or links, unless they are passed over."""
        if self.refuses:
            refuse_experts(
                data,
                "give it one, such as supervision=ClassTable(...), or "
                "Unsupervised(refuses=False) to leave them unheard",
            )


def refuse_experts(data: CrowdData, remedy: str) -> None:
    """Raise a ``ValueError`` if there are known labels or links, which a model does not hear.

    Parameters
    ----------
    data
        What a model is about to be fitted to.
    remedy
        What else to do than to build the data without them.
    """
    number = len(data.supervised_items)
    if number:
        raise ValueError(
            f"the data have known labels or links of {count(number, 'item')}, but the model has no "
            f"supervision that hears them: {remedy}, or build the data without them"
        )
