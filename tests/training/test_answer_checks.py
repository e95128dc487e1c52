"""Sites that depend on enumerated clusters outside of their plate are refused."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoDelta

from pyro_crowdclust import CrowdData
from pyro_crowdclust.distributions import Assignment, ConjugateAtMean, SameCluster
from pyro_crowdclust.families import Categorical
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.minibatches import full_batch

from ..crowds import quiet_fit
from ..refusals import refuses

FEATURES = torch.tensor([[0.0], [0.5], [2.0], [3.0], [1.4]], dtype=torch.float64)
PAIRS = {"left": [0, 0, 1, 2, 3], "right": [1, 2, 4, 3, 4], "worker": [0, 1, 0, 1, 1]}
PAIRS |= {"label": [1, 0, 1, 1, 0]}
DATA = CrowdData(FEATURES, PAIRS)
RIGHT = torch.tensor([[0.9, 0.8], [0.6, 0.7]], dtype=torch.float64)  # [cluster, worker]
LOCATION = torch.tensor([0.0, 2.5], dtype=torch.float64)


def enumerated(of_cluster, of_features=False):
    def model(batch):
        with pyro.plate("worker", batch.num_workers), pyro.plate("kind", 2):
            right = pyro.sample("right", dist.Beta(4.0, 2.0))
        with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
            half = dist.Categorical(torch.ones(2, dtype=torch.float64))
            z = pyro.sample("z", half, infer={"enumerate": "parallel"})
            location = LOCATION.to(batch.features)
            pyro.sample("o", dist.Normal(location[z], 1.0), obs=batch.features[:, 0])
        if not batch.num_pairs:
            return
        with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_weight):
            same = SameCluster(z, batch.left, batch.right, batch.num_paired)
            same = pyro.sample("same", same)
            every = z.expand(*z.shape[:-1], len(batch.items))
            cluster = every[..., batch.left] if of_cluster else 0
            of_worker = right[cluster, batch.worker]
            if of_features:
                of_worker = of_worker * batch.features[batch.left, 0].sigmoid()
            yes = torch.where(same > 0.5, of_worker, 1 - of_worker)
            pyro.sample("label", dist.Bernoulli(yes), obs=batch.label)

    return model, EnumeratedGuide(model, AutoDelta(poutine.block(model, hide=["z", "same"])))


def test_answers_that_depend_on_an_enumerated_cluster_are_refused():
    with refuses(
        "the answers about pairs depend on 'z' in another way than through the site 'same' of Same"
    ):
        quiet_fit(*enumerated(of_cluster=True), DATA, epochs=1)


@pytest.mark.parametrize("of_features", [False, True])
def test_answers_may_depend_on_agreement_and_features(of_features):
    quiet_fit(*enumerated(of_cluster=False, of_features=of_features), DATA, epochs=1)


def known_mixture(batch, second_plate=False, by_ends=False, by_mask=False):
    """A mixture of known clouds, some of whose items have known labels."""
    shift = pyro.sample("shift", dist.Normal(torch.zeros((), dtype=torch.float64), 1.0))
    half = dist.Categorical(torch.ones(2, dtype=torch.float64))
    items = pyro.plate("items", len(batch.items))
    with items:
        if by_mask:
            z = pyro.sample("z", half, obs=batch.known.clamp_min(0), obs_mask=batch.known >= 0)
        else:
            z = pyro.sample("z", half, infer={"enumerate": "parallel"})
            if batch.known is not None:
                fits = (batch.known < 0) | (z == batch.known)
                pyro.factor("known", torch.where(fits, 0.0, -torch.inf))
    with pyro.plate("again", len(batch.items)) if second_plate else items:
        o = dist.Normal(LOCATION[z] + shift, 1.0)
        pyro.sample("o", o, obs=batch.features[:, 0])
    if by_ends and batch.num_pairs:
        with pyro.plate("pairs", batch.num_pairs):
            yes = torch.where(z[batch.left] == z[batch.right], 0.9, 0.1)
            pyro.sample("label", dist.Bernoulli(yes), obs=batch.label)


def fit_known(wrap, pairs=None, epochs=1, **options):
    model = partial(known_mixture, **options)
    guide = AutoDelta(poutine.block(model, hide=["z", "z_unobserved"]))
    guide = EnumeratedGuide(model, guide) if wrap else guide
    data = CrowdData(FEATURES, pairs, known=[1, None, 0, None, None])
    options = {"dtype": torch.float64, "batch_size": None, "epochs": epochs}
    return quiet_fit(model, guide, data, **options)


@pytest.mark.parametrize("wrap", [False, True])
class TestOutsideOfThePlate:
    def test_items_in_a_second_plate_are_refused(self, wrap):
        with refuses("the site 'o' depends on 'z', which is enumerated in the plate 'items', but"):
            fit_known(wrap, second_plate=True)

    def test_the_clusters_of_both_ends_are_refused(self, wrap):
        with pytest.raises(ValueError, match=r"'label'.* depend on 'z', .*SameCluster\(z, batch.l"):
            fit_known(wrap, PAIRS, by_ends=True)

    def test_sites_of_obs_mask_are_refused(self, wrap):
        with pytest.raises(ValueError, match="some values of .* site 'z' by obs_mask=, .* factor"):
            fit_known(wrap, by_mask=True)

    def test_known_labels_are_exact_by_a_factor(self, wrap):
        result = fit_known(wrap)
        shift = result.guide.median() if not wrap else result.guide.of_globals.median()
        shift = shift["shift"].detach()
        joint = dist.Normal(LOCATION + shift, 1.0).log_prob(FEATURES) - np.log(2)
        of_known = joint[0, 1] + joint[2, 0]
        exact = of_known + joint[[1, 3, 4]].logsumexp(1).sum() + dist.Normal(0, 1).log_prob(shift)
        assert result.elbo == pytest.approx(float(exact))
        q = joint.softmax(1).numpy()
        q[0], q[2] = [0, 1], [1, 0]
        np.testing.assert_allclose(result.probabilities, q, atol=1e-8)
        assert len(result.predict(FEATURES)) == 5


def test_values_of_sites_with_vectors_are_found():
    """A one-hot cluster, in its own plate and in a second one."""

    def model(again, batch):
        pyro.sample("mean", dist.Normal(torch.zeros((), dtype=torch.float64), 1.0))
        items = pyro.plate("items", len(batch.items))
        with items:
            half = dist.OneHotCategorical(torch.ones(2, dtype=torch.float64))
            z = pyro.sample("z", half, infer={"enumerate": "parallel"})
        with pyro.plate("again", len(batch.items)) if again else items:
            pyro.sample("o", dist.Normal(z @ LOCATION, 1.0), obs=batch.features[:, 0])

    for again in (False, True):
        own = partial(model, again)
        guide = AutoDelta(poutine.block(own, hide=["z"]))
        with refuses("the site 'o' depends on 'z'") if again else nullcontext():
            quiet_fit(own, guide, CrowdData(FEATURES), epochs=1, dtype=torch.float64)


def at_mean(batch):
    """The model of docs/own_answers.md, at known rates and locations."""
    with pyro.plate("items", len(batch.items)):
        z = pyro.sample("z", Assignment(torch.full((2,), 0.5, dtype=torch.float64).log()))
        o = dist.Normal(LOCATION, 1.0).log_prob(batch.features)
        pyro.factor("o", (z * o).sum(-1))
    with pyro.plate("pairs", batch.num_pairs):
        rate = RIGHT[:, batch.worker].T
        yes = batch.label[:, None] > 0.5
        together = torch.where(yes, rate, 1 - rate).log()
        apart = torch.where(yes, 1 - rate, rate).log()
        first, second = z[batch.left], z[batch.right]
        pyro.factor("label", (first * (second * together + (1 - second) * apart)).sum(-1))


def test_the_bound_with_z_at_its_mean_is_the_sum_over_all_partitions():
    logits = torch.randn(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    batch = full_batch(DATA)

    def guide(batch):
        with pyro.plate("items", len(batch.items)):
            pyro.sample("z", ConjugateAtMean(Categorical(2), logits))

    found = -Trace_ELBO().loss(at_mean, guide, batch)
    q = logits.log_softmax(-1)
    expected = 0.0
    for drawn in itertools.product(range(2), repeat=5):
        z = torch.tensor(drawn)
        log_q = q[torch.arange(5), z].sum()
        log_p = -5 * torch.tensor(2.0, dtype=torch.float64).log()
        log_p += dist.Normal(LOCATION[z], 1.0).log_prob(batch.features[:, 0]).sum()
        right = RIGHT[z[batch.left], batch.worker]
        yes = torch.where(z[batch.left] == z[batch.right], right, 1 - right)
        log_p += dist.Bernoulli(yes).log_prob(batch.label.double()).sum()
        expected += float(log_q.exp() * (log_p - log_q))
    assert found == pytest.approx(expected)
