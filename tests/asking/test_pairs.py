"""Which pairs may be asked about."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pyro_crowdclust.asking.criteria import InformationGain
from pyro_crowdclust.asking.pairs import _between_components, _candidates


def test_every_component_is_compared_with_every_other_one_by_its_core():
    """Of six components two of three items are their core; one of the seventh is all it has."""
    held = np.repeat(np.eye(7), [3] * 6 + [1], axis=0)
    bound = np.append(np.tile([0.9, 0.8, 0.3], 6), 0.2)
    beliefs = SimpleNamespace(components=held, bound=bound, together=np.eye(7))
    pairs = _between_components(
        SimpleNamespace(beliefs=beliefs, generator=np.random.default_rng(0))
    )
    found = [frozenset(pair) for pair in held.argmax(1)[pairs].tolist()]
    # Once from either side, and none with itself.
    assert {(len(pair), found.count(pair)) for pair in found} == {(2, 2)}
    assert len(found) == 7 * 6
    assert set(pairs.ravel().tolist()) == {*np.flatnonzero(bound >= 0.8).tolist(), 18}


def test_promising_items_are_paired_with_sure_ones_of_their_likeliest_clusters():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.full(6, 0.4), 1000)
    own, others = rng.random(1000), 3 * rng.random(1000)
    beliefs = SimpleNamespace(
        probabilities=q,
        components=np.empty((1000, 0)),
        own=lambda items: own[items],
        others=lambda items: others[items],
    )
    situation = SimpleNamespace(
        beliefs=beliefs,
        generator=rng,
        criterion=InformationGain(),
        pool=lambda: np.arange(1000),
    )
    pairs = _candidates(situation, 160)
    found = set(map(tuple, pairs.tolist()))
    assert (pairs[:, 0] < pairs[:, 1]).all()
    surest = {cluster: set(np.argsort(-q[:, cluster])[:20].tolist()) for cluster in range(6)}
    for item in np.argsort(-(own + others))[:320].tolist():
        for cluster in np.argsort(-q[item])[:3]:
            with_sure = {tuple(sorted((item, other))) for other in surest[cluster]}
            assert item in surest[cluster] or with_sure & found
