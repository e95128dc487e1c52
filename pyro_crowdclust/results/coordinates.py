"""The items of a fit in the coordinates of its components."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from pyro_crowdclust.data.imputation import median_imputed
from pyro_crowdclust.emissions import Emission
from pyro_crowdclust.protocols import FittedModel, part_of


def component_coordinates(fitted: FittedModel) -> Float[np.ndarray, "item dim"]:
    """x of all training items: latent means, or features as transformed by the emission.

    Missing numbers are replaced by the median of their column.
    """
    if fitted.latent_means is not None:
        return fitted.latent_means
    features = fitted.data.all_rows().flatten(1).double()
    emission = part_of(fitted.model, "emission", Emission)
    if emission is not None and emission.observes_latent:
        features = emission.latent(features)
    return median_imputed(features).numpy(force=True)
