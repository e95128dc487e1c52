"""Weights that features may have in the posterior of an item."""

from __future__ import annotations

from pyro_crowdclust.interface.candidates.forms import ANSWERS, Form

# Weights of features, from full to almost none: every model is misspecified, and models of many
# features are the most overconfident.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.05)
# Also where answers are known to disagree with the features, or no candidate has seen any.
ALL_WEIGHTS = (*WEIGHTS, 0.02)
# Regressions may be overconfident or underconfident.
REGRESSION_WEIGHTS = (1.0, 0.5, 0.7, 1.4, 2.0)


def weights_for(form: Form) -> tuple[float, ...]:
    """The weights of features that are tried for candidates of a form, 1 first."""
    if form.of_features:
        return WEIGHTS
    return WEIGHTS[:1] if form == ANSWERS else REGRESSION_WEIGHTS
