"""The plate of the answers about pairs of a batch, for models and guides in plain Pyro."""

from __future__ import annotations

from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.indexed_plate import IndexedFrame, IndexedPlate


class AnswerFrame(IndexedFrame):
    """The mark of an ``AnswerPlate`` on the sites inside it."""

    __slots__ = ()


class AnswerPlate(IndexedPlate):
    """The plate of all answers about pairs, of which a batch holds some, with their weights.

    It scales sites by ``batch.pair_scale``. Parameters with a row for every answer, such as those
    of an ``AutoNormal`` about a latent of the answers, are indexed by ``batch.answers``: the first
    row belongs to the first row of ``data.counted_pairs``, whatever the order of the answers in a
    batch.

    Parameters
    ----------
    name
        Name of the plate.
    batch
        The batch.
    dim
        Axis of the answers, counted from the right; by default the first free one.

    Raises
    ------
    ValueError
        Where a parameter has neither one row nor one for every answer of the data.

    Examples
    --------
    An autoguide makes its plates anew for every batch. Here it has an ease of every answer:

    >>> import pyro
    >>> from pyro.infer.autoguide import AutoNormal
    >>> def model(batch):
    ...     if batch.num_pairs:
    ...         with AnswerPlate("pairs", batch):
    ...             ease = pyro.sample("ease", pyro.distributions.Normal(0.0, 1.0))
    ...             yes = pyro.distributions.Bernoulli(logits=ease)
    ...             pyro.sample("label", yes, obs=batch.label)
    >>> guide = AutoNormal(model, create_plates=lambda batch: AnswerPlate("pairs", batch))
    """

    frame = AnswerFrame
    members = "answers"

    def __init__(self, name: str, batch: Batch, dim: int | None = None) -> None:
        # Autoguides make it for data without answers, too, but Pyro refuses plates of size zero.
        size = max(batch.num_answers, 1)
        super().__init__(name, size, batch.answers, batch.pair_scale, dim)
