"""Sentences of why a candidate was chosen, and of what its fit is."""

from __future__ import annotations

from dataclasses import replace

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.errors import listed
from pyro_crowdclust.interface.about_data import feature_names
from pyro_crowdclust.protocols import Model, part_of
from pyro_crowdclust.results import Chosen
from pyro_crowdclust.transforms import Projected, Within

RECORDS = (
    "held-out answers are clearly likelier if there are clusters of any number and size, and "
    "features only measure how similar two items are, than with clusters of the features"
)
FROM_DRAWS = (
    "its clusters explain the answers worse than partitions found from the answers alone, so that "
    "a fit is kept that starts at these, with {} and a larger ELBO"
)
FROM_CANDIDATE = (
    "the fit with the largest ELBO has one cluster, though the candidate had several, so that a "
    "fit is kept that starts at the candidate"
)
FROM_FEATURES = (
    "its clusters explain the answers worse than those of the features alone, by {:.0f} nats, so "
    "these are used"
)
FROM_OTHER_START = (
    "the fit with the largest ELBO predicts held-out labels clearly worse than one from another "
    "start, which is kept"
)
FROM_REGRESSION = (
    "a regression on the features predicts the labels, each held out once, at {:.3f} nats an item, "
    "and the mixture at {:.3f}, so the regression is kept"
)
FROM_OTHER_FEATURES = (
    "other clusters of the features explain the answers better, by {:.0f} nats, so these are used"
)
UNEXPLAINED = (
    "its clusters explain the answers worse than partitions found from the answers alone, so the "
    "rates of workers are estimated from these partitions"
)
STILL_UNEXPLAINED = (
    "it explains the answers worse than these partitions, too, so the rates of workers are "
    "estimated from them"
)


def about_left_out(model: Model, data: CrowdData) -> str:
    """The columns that no coordinate depends on, as the end of a sentence, or nothing."""
    names = feature_names(data)
    number = len(names)
    emission = part_of(model, "emission", Identity)
    if isinstance(emission, Within):
        emission = emission.inner
    assert emission is not None  # as every form has one
    own = {*emission.own_features(number)}
    if isinstance(emission, Projected):
        own |= {*emission.inner.own_features(number)}
    if not own:  # no feature is used at all, as the choice already says
        return ""
    others = [name for place, name in enumerate(names) if place not in own]
    return f"; columns left out as constant or redundant: {listed(others)}" if others else ""


def choice_of(fitted: Fitted) -> Chosen:
    """How a fit was chosen."""
    assert fitted.chosen is not None  # every choice sets it
    return fitted.chosen


def with_reason(chosen: Chosen | None, why: str) -> Chosen:
    """The choice with more at the end of its reason."""
    assert chosen is not None  # every choice sets it
    return replace(chosen, reason=f"{chosen.reason}; {why}")


def because(why: str, chosen: Chosen | None) -> Chosen:
    """The choice with a reason put in front of its own."""
    assert chosen is not None  # every choice sets it
    return replace(chosen, reason=f"{why}: {chosen.reason}")
