"""How much features may count in what a candidate says of an item."""

from __future__ import annotations

from pyro_crowdclust.interface.candidates.forms import ANSWERS, Form

# Features may count so much, from as they are to next to nothing: no model is the truth, and that
# of many features is the surest of itself.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.05)
# Regressions may be too sure as well, or not sure enough.
SHARPNESS = (1.0, 0.5, 0.7, 1.4, 2.0)


def weights_for(form: Form) -> tuple[float, ...]:
    """How much features may count in what a candidate of some form says of an item, 1 first."""
    if form.of_features:
        return WEIGHTS
    return WEIGHTS[:1] if form == ANSWERS else SHARPNESS
