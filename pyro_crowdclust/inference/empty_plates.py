"""What to do about a plate of pairs in a batch without answers."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from pyro_crowdclust.errors import place_in_users_code


@contextmanager
def explained_empty_plates() -> Iterator[None]:
    """Raise a ``ValueError`` that names the plate instead of Pyro's "size cannot be zero".

    Models and guides also run on batches without answers: minibatches of items that nobody was
    asked about, and wherever a result needs what the features alone say.
    """
    try:
        yield
    except ZeroDivisionError as error:
        frames = list(traceback.walk_tb(error.__traceback__))
        # Pyro raises it in the constructor of the plate.
        name = frames[-1][0].f_locals.get("name")
        if "size cannot be zero" not in str(error) or name is None:
            raise
        place = place_in_users_code(frames)
        where = "" if place is None else f" (in {place})"
        raise ValueError(
            f"the plate {name!r} has size zero{where}, in a batch that has no answers: the library "
            "also runs model and guide without answers, so write 'if batch.num_pairs:' before a "
            "plate of the pairs. Data without answers have no workers either: their plate belongs "
            "under the same 'if', or has a number of workers of your own"
        ) from error
