from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.mixture import (
    BernoulliComponents,
    GaussianComponents,
    MixedComponents,
    PoissonComponents,
)

from ..comparisons import same


def test_every_feature_of_mixed_components_has_the_same_say():
    """In coordinates a part of m features has variance m together; one item alone has none."""
    parts = [GaussianComponents(2, 2), PoissonComponents(2, 1)]
    components = MixedComponents(parts)
    features = torch.cat([70 * torch.randn(50, 2), torch.poisson(torch.full((50, 1), 9.0))], 1)
    found = components.coordinates(features).var(0)
    same(torch.stack([found[:2].sum(), found[2]]), torch.tensor([2.0, 1.0]))
    one = features[:1]
    same(components.coordinates(one), torch.cat([one[:, :2], parts[1].coordinates(one[:, 2:])], 1))


def test_mixed_components_name_the_column_of_the_data():
    inner = MixedComponents(
        [BernoulliComponents(3, 1), PoissonComponents(3, 1)], columns=[[1], [0]]
    )
    components = MixedComponents([GaussianComponents(3, 1), inner], columns=[[1], [2, 0]])
    good = torch.tensor([[1.0, -0.3, 7.0]])
    components.check(good)
    for column, bad, what in [(0, 0.5, "Bernoulli"), (2, -1.0, "Poisson")]:
        features = good.clone()
        features[0, column] = bad
        with pytest.raises(ValueError, match=f"row 10, column {column} of .*, but {what}"):
            components.check(features, first_row=10)
    assert components.column_labels(["a", "b", "c"]) == ["b", "a", "c"]
    same(components.features(components.observe(good)), good)


@pytest.mark.parametrize(
    ("parts", "columns", "message"),
    [
        ([], None, r"parts have \[\] clusters"),
        ([(3, 1), (4, 1)], None, r"parts have \[3, 4\] clusters: give"),
        ([(3, 1), (3, 2)], [[0], [1]], r"the parts take \[1, 2\] columns: give every column"),
        ([(3, 1), (3, 2)], [[0], [0, 1]], "give every column from 0 to 2 to one part"),
    ],
)
def test_mixed_components_that_do_not_fit(parts, columns, message):
    with pytest.raises(ValueError, match=message):
        MixedComponents([BernoulliComponents(*part) for part in parts], columns)
