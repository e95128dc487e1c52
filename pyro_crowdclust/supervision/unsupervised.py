"""``z_n ~ Cat(pi)``: the supervision of a mixture without an expert's labels or links."""

from __future__ import annotations

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import count
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.supervision.supervision import Supervision


@described
class Unsupervised(Supervision):
    """``z_n ~ Cat(pi)``, for data without known labels and links.

    A model whose ``supervision`` is None has this one.

    Parameters
    ----------
    refuses
        Whether labels and links are refused; otherwise they are silently ignored.

    Examples
    --------
    >>> from pyro_crowdclust.data import CrowdData
    >>> Unsupervised().check(CrowdData([[0.0], [1.0]], known={0: "a"}))
    Traceback (most recent call last):
        ...
    ValueError: the data have known labels or links of 1 item, but the model has no supervision ...
    """

    uses_labels_or_links = False

    def __init__(self, refuses: bool = True) -> None:
        super().__init__()
        self.refuses = refuses

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` if there are labels or links, unless they are to be ignored."""
        if self.refuses:
            refuse_experts(
                data,
                "give it one, such as supervision=ClassTable(...), or "
                "Unsupervised(refuses=False) to ignore them",
            )


def refuse_experts(data: CrowdData, remedy: str) -> None:
    """Raise a ``ValueError`` if there are known labels or links, which the model does not use.

    Parameters
    ----------
    data
        The data that a model is about to be fitted to.
    remedy
        What the user can do, apart from building the data without them.
    """
    number = len(data.supervised_items)
    if number:
        raise ValueError(
            f"the data have known labels or links of {count(number, 'item')}, but the model has no "
            f"supervision that uses them: {remedy}, or build the data without them"
        )
