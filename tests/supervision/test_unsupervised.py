"""What an expert said is used or refused, never passed over."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.mixture import DiagonalGaussianComponents, StickBreakingWeights
from pyro_crowdclust.models import DeepLatentMixture
from pyro_crowdclust.networks import ClusterMLP
from pyro_crowdclust.supervision import Unsupervised

from ..crowds import NUM_FEATURES, blobs, plain_pair, quiet_fit

SAID = {
    "labels": ({"known": {0: "a", 7: "b"}}, "of 2 items"),
    "links": ({"must_link": {"left": [0], "right": [3]}}, "of 2 items"),
    "a label": ({"known": {5: "a"}}, "of 1 item, "),
}


@pytest.mark.parametrize(("said", "count"), SAID.values(), ids=SAID)
def test_a_model_without_supervision_refuses_what_an_expert_said(said, count):
    data = CrowdData(blobs(60)[0], **said)
    with pytest.raises(ValueError, match=f"known labels or links {count}.*no supervision"):
        quiet_fit(*plain_pair(), data, epochs=1)


@pytest.mark.parametrize(("said", "count"), SAID.values(), ids=SAID)
def test_so_does_a_deep_mixture(said, count):
    model = DeepLatentMixture(
        StickBreakingWeights(3),
        DiagonalGaussianComponents(3, 2),
        NormalEmission(ClusterMLP((2, 4, NUM_FEATURES), 3), NUM_FEATURES, num_clusters=3),
    )
    with pytest.raises(ValueError, match=f"known labels or links {count}.*no supervision"):
        model.check(CrowdData(blobs(60)[0], **said))


@pytest.mark.parametrize("said", [said for said, _ in SAID.values()], ids=SAID)
def test_by_name_it_is_left_unused(said):
    features = blobs(60)[0]
    fits = [
        quiet_fit(
            *plain_pair(Unsupervised(refuses=False)),
            CrowdData(features, **words),
            batch_size=None,
            initialize=None,
        )
        for words in (said, {})
    ]
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
