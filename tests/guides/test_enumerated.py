"""Plain Pyro mixtures: z enumerated in a guide, under any weights and with answers about pairs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from pyro import poutine
from pyro.infer import Predictive, TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import Batch, full_batch

from ..crowds import NUM_CLUSTERS, NUM_FEATURES, blobs, crowd, quiet_fit

ENUMERATE = {"enumerate": "parallel"}
BOUND = TraceEnum_ELBO(max_plate_nesting=1)
adam = partial(torch.optim.Adam, lr=0.05)


def answer(yes: torch.Tensor, batch: Batch) -> None:
    pyro.sample("label", dist.Bernoulli(yes), obs=batch.label)


def model(batch: Batch, scale: object = None, answer: Callable[..., None] = answer) -> None:
    """A mixture with workers, of Pyro's own distributions but for the agreement of pairs."""
    weights = pyro.sample("weights", dist.Dirichlet(torch.ones(NUM_CLUSTERS)))
    with pyro.plate("cluster", NUM_CLUSTERS):
        mean = pyro.sample("mean", dist.Normal(torch.zeros(NUM_FEATURES), 3.0).to_event(1))
    with pyro.plate("worker", max(batch.num_workers, 1)):
        sensitivity = pyro.sample("sensitivity", dist.Beta(4.0, 2.0))
        specificity = pyro.sample("specificity", dist.Beta(4.0, 2.0))
    scale = batch.item_weight if scale is None else scale
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=scale):
        z = pyro.sample("z", dist.Categorical(weights), infer=ENUMERATE)
        pyro.sample("o", dist.Normal(mean[z], 0.6).to_event(1), obs=batch.features)
    if batch.num_pairs:
        with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_weight):
            ends = batch.left, batch.right, batch.num_paired
            same = pyro.sample("same", SameCluster(z, *ends))
            yes = torch.where(same > 0.5, sensitivity[batch.worker], 1 - specificity[batch.worker])
            answer(yes, batch)


def globals_guide(kind: type = AutoDelta) -> AutoDelta | AutoNormal:
    return kind(poutine.block(model, hide=["z", "same"]), init_loc_fn=start)


def start(site: dict) -> torch.Tensor:
    """Means of items far apart, and workers that are rather right."""
    if site["name"] == "mean":
        return torch.tensor(blobs(60)[0][[0, 1, 3]])
    return site["fn"].mean


def bound_and_gradients(a_model, guide, parameters, batch) -> list[torch.Tensor]:
    loss = BOUND.differentiable_loss(a_model, guide, batch)
    return [loss, *torch.autograd.grad(loss, parameters)]


@pytest.fixture(autouse=True)
def store():
    """Parameters that guides make outside of fits."""
    with pyro.get_param_store().scope():
        yield


def test_without_answers_it_is_the_model_with_z_summed_out():
    batch = full_batch(crowd(num_items=18)).without_answers()
    of_globals = globals_guide()
    of_globals(batch)
    parameters = [p for p in of_globals.parameters() if p.numel() != batch.num_workers]
    by_model = bound_and_gradients(partial(model, scale=2.5), of_globals, parameters, batch)
    weighted = partial(model, scale=torch.full((18,), 2.5))
    guide = EnumeratedGuide(weighted, of_globals)
    by_guide = bound_and_gradients(weighted, guide, parameters, batch)
    for one, other in zip(by_model, by_guide, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_items_count_by_their_weights():
    batch = full_batch(crowd(num_items=18)).without_answers()
    of_globals, weight = globals_guide(), 0.5 + torch.rand(18)

    def bound(scale: torch.Tensor) -> float:
        scaled = partial(model, scale=scale)
        return BOUND.loss(scaled, EnumeratedGuide(scaled, of_globals), batch)

    ones = torch.ones(18)
    alone = [bound(ones + one) - bound(ones) for one in torch.eye(18)]
    assert bound(weight) - bound(ones) == pytest.approx((weight - 1).numpy() @ alone, rel=1e-10)


def test_with_answers_it_is_the_explicit_expectation_and_a_bound():
    """On four items: the bound written out over all pairs, below the sum over all z."""
    features = blobs(60)[0][[0, 1, 3, 7]] / 10
    pairs = {"left": [0, 0, 1], "right": [1, 2, 3], "worker": ["a", "b", "a"], "label": [1, 0, 0]}
    batch = full_batch(CrowdData(features, pairs))
    of_globals = globals_guide()
    guide = EnumeratedGuide(model, of_globals)
    found = -BOUND.loss(model, guide, batch)
    theta = {name: value.detach() for name, value in of_globals.median().items()}
    q = guide.infer(batch).assignments.numpy()
    log_items = scipy.stats.norm.logpdf(
        batch.features.numpy()[:, None], theta["mean"].numpy(), 0.6
    ).sum(-1) + np.log(theta["weights"].numpy())
    a, b = (theta[name][batch.worker].numpy() for name in ("sensitivity", "specificity"))
    yes = batch.label.numpy() == 1
    if_same, if_different = np.log(np.where(yes, a, 1 - a)), np.log(np.where(yes, 1 - b, b))
    left, right = batch.left.numpy(), batch.right.numpy()
    same = (q[left] * q[right]).sum(-1)
    expected = (q * (log_items - np.log(q))).sum() + (same * if_same).sum()
    expected += ((1 - same) * if_different).sum()
    total = [
        log_items[np.arange(4), z].sum()
        + np.where(z[left] == z[right], if_same, if_different).sum()
        for z in map(np.array, itertools.product(range(NUM_CLUSTERS), repeat=4))
    ]
    log_prior = sum(
        float(fn.log_prob(theta[name]).sum())
        for name, fn in {
            "weights": dist.Dirichlet(torch.ones(NUM_CLUSTERS)),
            "mean": dist.Normal(0.0, 3.0),
            "sensitivity": dist.Beta(4.0, 2.0),
            "specificity": dist.Beta(4.0, 2.0),
        }.items()
    )
    assert found - log_prior == pytest.approx(expected, rel=1e-10)
    assert expected < scipy.special.logsumexp(total)
    # Answers are used: the alternative without them is a worse bound.
    deaf = scipy.special.softmax(log_items, 1)
    same = (deaf[left] * deaf[right]).sum(-1)
    unheard = (deaf * (log_items - np.log(deaf))).sum() + (same * if_same).sum()
    assert unheard + ((1 - same) * if_different).sum() < expected


def halves(batch: Batch, scaled: bool = True) -> None:
    """The model in the docstring of the guide, in the default precision."""
    mean = pyro.sample("mean", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    scale = batch.item_scale if scaled else 1.0
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=scale):
        z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
        pyro.sample("o", dist.Normal(mean[z], 1.0), obs=batch.features[:, 0])


def halves_by_pyro(batch: Batch) -> None:
    """The same in Pyro's own minibatches."""
    mean = pyro.sample("mean", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    with pyro.plate("items", batch.num_items, subsample=batch.items):
        z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
        pyro.sample("o", dist.Normal(mean[z], 1.0), obs=batch.features[:, 0])


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def precision(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.mark.parametrize(
    ("a_model", "batch_size"),
    [(halves, 16), (halves_by_pyro, 16), (partial(halves, scaled=False), None)],
    ids=["scaled", "subsampled", "whole"],
)
def test_models_in_any_precision_are_fitted(a_model, batch_size, precision):
    x = 3.0 * (torch.arange(40) % 2) + torch.linspace(-0.5, 0.5, 40)
    first = {"mean": torch.tensor([1.0, 2.0])}
    inner = AutoDelta(
        poutine.block(a_model, hide=["z"]), init_loc_fn=lambda site: first[site["name"]]
    )
    options = {"epochs": 60, "batch_size": batch_size, "optim": adam, "dtype": precision}
    guide = EnumeratedGuide(a_model, inner)
    result = quiet_fit(a_model, guide, CrowdData(x[:, None]), **options)
    np.testing.assert_array_equal(result.assignments == result.assignments[0], x.numpy() < 1.5)
    assert result.predict([[0.0], [3.0]]).tolist() == result.assignments[:2].tolist()
    mean, x = result.guide.of_globals.median()["mean"].numpy(), x.numpy()
    bound = scipy.stats.norm.logpdf(mean, 0, 5).sum()
    bound += np.log(scipy.stats.norm.pdf(x[:, None], mean).mean(1)).sum()
    assert result.elbo == pytest.approx(bound, rel=1e-6 if precision is torch.float32 else 1e-12)
    assert "features" in result.to_arviz(3)["log_likelihood"]


@pytest.mark.parametrize("precision", [torch.float32], indirect=True)
def test_pyros_own_bound_says_that_it_mixes_no_precisions(precision):
    guide = EnumeratedGuide(halves, AutoDelta(poutine.block(halves, hide=["z"])))
    with pytest.raises(ValueError, match=r"leave elbo out, or pass training.EnumeratedELBO\(max_p"):
        quiet_fit(halves, guide, CrowdData(torch.zeros(9, 1)), dtype=precision, elbo=BOUND)


@pytest.mark.long
@pytest.mark.parametrize("kind", [AutoDelta, AutoNormal])
def test_a_fit_in_minibatches_gives_what_other_fits_give(kind, tmp_path):
    data, (features, truth) = crowd(), blobs(60)
    guide = EnumeratedGuide(model, globals_guide(kind))
    result = quiet_fit(model, guide, data, epochs=30, optim=adam)
    assert clustering_accuracy(truth, result.assignments) == 1.0
    assert clustering_accuracy(truth, result.predict(features)) == 1.0
    assert result.same_cluster_probability(0, 0) == 1.0
    tree = result.to_arviz(20)
    assert tree["posterior"]["mean"].sizes["cluster"] == NUM_CLUSTERS
    assert tree["posterior"]["sensitivity"].dims == ("chain", "draw", "worker")
    of_answers = tree["log_likelihood"]["answers"]
    assert of_answers.sizes["answer"] == data.num_pairs
    assert bool((of_answers <= 0).all())
    assert bool(np.isfinite(tree["log_likelihood"]["features"]).all())
    result.save(tmp_path / "plain.safetensors")
    loaded = load(tmp_path / "plain.safetensors", model, guide, data)
    np.testing.assert_array_equal(loaded.probabilities, result.probabilities)
    assert loaded.elbo_of(full_batch(data)) == pytest.approx(result.elbo, rel=1e-12)
    np.testing.assert_array_equal(loaded.predict_proba(features), result.predict_proba(features))


@pytest.mark.long
def test_answers_change_what_is_found():
    """Two clouds that lie in each other, which only the answers tell apart."""
    rng = np.random.default_rng(0)
    truth = np.arange(40) % 2
    apart = (2 * truth - 1)[:, None] * np.array([0.3, 0.0, 0.0, 0.0])
    pairs = list(itertools.combinations(range(40), 2))
    chosen = [pairs[row] for row in rng.choice(len(pairs), 500, replace=False)]
    frame = {
        "left": [i for i, _ in chosen],
        "right": [j for _, j in chosen],
        "worker": rng.integers(3, size=500),
        "label": [int(truth[i] == truth[j]) for i, j in chosen],
    }
    features = apart + 0.6 * rng.standard_normal((40, NUM_FEATURES))

    def apart_at_first(site: dict) -> torch.Tensor:
        signs = torch.tensor([-1.0, 1.0, 9.0]).unsqueeze(-1)
        return signs * torch.ones(NUM_FEATURES) / 4 if site["name"] == "mean" else site["fn"].mean

    found = {}
    for name, data in {"alone": CrowdData(features), "heard": CrowdData(features, frame)}.items():
        inner = AutoDelta(poutine.block(model, hide=["z", "same"]), init_loc_fn=apart_at_first)
        options = {"epochs": 30, "optim": adam, "batch_size": None}
        result = quiet_fit(model, EnumeratedGuide(model, inner), data, **options)
        found[name] = clustering_accuracy(truth, result.assignments)
    assert found["alone"] < 0.85
    assert found["heard"] == 1.0


def test_weights_that_pyro_refuses_are_an_error_at_the_door():
    data = crowd()
    plain = globals_guide()
    with pytest.raises(ValueError, match="wrapping this as EnumeratedGuide"):
        quiet_fit(model, plain, data)
    with pytest.raises(ValueError, match=r"scale by batch\.item_scale"):
        quiet_fit(model, plain, CrowdData(data.features))

    def subsampled(batch):
        with pyro.plate("items", batch.num_items, subsample=batch.items):
            pyro.sample("o", dist.Normal(0.0, 1.0).expand([4]).to_event(1), obs=batch.features)

    with pytest.raises(ValueError, match="the plate 'items' gives all items of a batch the same"):
        quiet_fit(subsampled, lambda batch: None, data)


def test_a_model_without_z_is_refused():
    def no_z(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("items", len(batch.items)):
            pyro.sample("o", dist.Normal(mean, 1.0), obs=batch.features[:, 0])

    with pytest.raises(ValueError, match="enumerates no site of the items"):
        EnumeratedGuide(no_z, AutoDelta(no_z))(full_batch(CrowdData(blobs(5)[0])))


class TestSeveralEnumeratedSites:
    """Some items are outliers of their cluster."""

    @staticmethod
    def model(batch: Batch, z: str = "z", fn: object = None, scale: str = "item_scale") -> None:
        means = pyro.sample("means", dist.Normal(torch.tensor([-1.0, 1.0]), 1.0).to_event(1))
        items = pyro.plate("items", len(batch.items))
        with items, poutine.scale(scale=getattr(batch, scale)):
            clusters = dist.Categorical(torch.ones(2)) if fn is None else fn
            own = means[pyro.sample(z, clusters, infer=ENUMERATE).long()]
            outlier = pyro.sample("outlier", dist.Bernoulli(0.1), infer=ENUMERATE)
            pyro.sample("o", dist.Normal(own, 1 + 9 * outlier), obs=batch.features[:, 0])

    @staticmethod
    def guide(model: Callable) -> EnumeratedGuide:
        hidden = ["z", "kind", "outlier"]
        return EnumeratedGuide(model, AutoDelta(poutine.block(model, hide=hidden)))

    def test_others_are_summed_out_by_pyro(self):
        batch, guide = full_batch(crowd(num_items=18)).without_answers(), self.guide(self.model)
        found = BOUND.loss(self.model, guide, batch)
        assert found == pytest.approx(BOUND.loss(self.model, guide.of_globals, batch), rel=1e-10)

    def test_that_of_the_clusters_has_a_name(self):
        other = partial(self.model, z="kind")
        with pytest.raises(ValueError, match="enumerates 'kind' and 'outlier': .*call .* 'z'"):
            quiet_fit(other, self.guide(other), CrowdData(blobs(5)[0]))
        result = quiet_fit(other, self.guide(other).of_globals, CrowdData(blobs(5)[0]))
        with pytest.raises(
            ValueError, match="a discrete site of the items .called 'z' if there are several"
        ):
            _ = result.assignments

    def test_under_weights_there_is_one(self):
        weighted = partial(self.model, scale="item_weight")
        said = "enumerates 'outlier' with a different weight .* the guide enumerates only 'z'"
        with pytest.raises(ValueError, match=said):
            quiet_fit(weighted, self.guide(weighted), crowd())


class TestOtherDiscreteSites:
    """Of workers who may be spammers, or items that may be hard, on which answers depend."""

    @staticmethod
    def model(batch: Batch, of: str, scale: str = "item_scale", enumerate_it: bool = True) -> None:
        infer = ENUMERATE if enumerate_it else {}
        right = torch.tensor([0.9, 0.5])
        two = dist.Categorical(torch.ones(2))
        if of == "worker":
            with pyro.plate("worker", batch.num_workers):
                kind = pyro.sample("kind", two, infer=infer)
        items = pyro.plate("items", len(batch.items))
        with items, poutine.scale(scale=getattr(batch, scale)):
            z = pyro.sample("z", two, infer=ENUMERATE)
            if of == "item":
                kind = pyro.sample("kind", two, infer=infer)
            pyro.sample("o", dist.Normal(1.0 * z, 1.0), obs=batch.features[:, 0])
        if batch.num_pairs:
            with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_scale):
                ends = batch.left, batch.right, batch.num_paired
                same = pyro.sample("same", SameCluster(z, *ends))
                if of == "item":
                    kind = kind.expand(*kind.shape[:-1], len(batch.items))
                own = right[kind[..., batch.worker if of == "worker" else batch.left]]
                answer(torch.where(same > 0.5, own, 1 - own), batch)

    def refused(self, said: str, of_globals: Callable = lambda batch: None, **options) -> None:
        own = partial(self.model, **options)
        with pytest.raises(ValueError, match=said):
            quiet_fit(own, EnumeratedGuide(own, of_globals), crowd(), batch_size=None)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (
                {"of": "worker"},
                "'kind' outside of the plate of the items.*enumerates 'z', 'same': leave out",
            ),
            (
                {"of": "item", "scale": "item_weight"},
                "'kind' with a different weight for every item.*if answers depend on 'kind', Pyro",
            ),
            (
                {"of": "item"},
                "enumerates 'kind', on which 'label' depends .*leave out 'kind' and sum",
            ),
        ],
        ids=["workers", "items with weights", "items with one weight"],
    )
    def test_of_a_model(self, options, said):
        self.refused(said, **options)

    def test_of_a_guide(self):
        def guide(batch):
            with pyro.plate("worker", batch.num_workers):
                pyro.sample("kind", dist.Categorical(torch.ones(2)), infer=ENUMERATE)

        said = "guide of the other sites enumerates 'kind'.*one value of each site: leave it out"
        self.refused(said, guide, of="worker", enumerate_it=False)


def test_autoguides_that_keep_the_agreement_are_told_to_hide_it():
    inner = AutoNormal(poutine.block(model, hide=["z"]))
    with pytest.raises(ValueError, match=r"site of SameCluster.*hide=\[\"z\", \"same\"\]"):
        quiet_fit(model, EnumeratedGuide(model, inner), crowd())


def test_z_holds_codes():
    numbers = partial(TestSeveralEnumeratedSites.model, fn=dist.Bernoulli(0.5))
    guide = TestSeveralEnumeratedSites.guide(numbers)
    with pytest.raises(ValueError, match="'z' has values of torch.float64.*from a Categorical"):
        quiet_fit(numbers, guide, CrowdData(blobs(5)[0]))


def test_all_sites_of_a_pair_are_used():
    """Two that say the same are one of two numbers; a parameter is no site."""

    def two_sites(yes: torch.Tensor, batch: Batch) -> None:
        yes = yes * pyro.param("share", torch.tensor(1.0))
        for name in ("label", "again"):
            pyro.sample(name, dist.Bernoulli(yes), obs=batch.label)

    def two_numbers(yes: torch.Tensor, batch: Batch) -> None:
        both = dist.Bernoulli(torch.stack([yes, yes], -1)).to_event(1)
        pyro.sample("label", both, obs=torch.stack([batch.label] * 2, -1))

    batch, of_globals = full_batch(crowd(num_items=18)), globals_guide()
    one, other = (
        EnumeratedGuide(partial(model, answer=answers), of_globals).infer(batch).assignments
        for answers in (two_sites, two_numbers)
    )
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("scale", ["pair_weight", "pair_scale"])
def test_sites_of_answers_are_refused_whatever_their_weight(scale):
    def plain(batch: Batch) -> None:
        with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
            z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
            pyro.sample("o", dist.Normal(1.0 * z, 1.0), obs=batch.features[:, 0])
        if batch.num_pairs:
            weight = poutine.scale(scale=getattr(batch, scale))
            with pyro.plate("pairs", batch.num_pairs), weight:
                ends = batch.left, batch.right, batch.num_paired
                same = pyro.sample("same", SameCluster(z, *ends))
                guess = pyro.sample("guess", dist.Bernoulli(0.3), infer=ENUMERATE)
                answer(torch.where(guess > 0, 0.5, 0.1 + 0.8 * same), batch)

    guide = EnumeratedGuide(plain, lambda batch: None)
    said = "enumerates 'guess' in the plate of the answers.*'z', 'same': leave out 'guess'"
    with pytest.raises(ValueError, match=said):
        quiet_fit(plain, guide, crowd(), batch_size=None)


def test_sites_of_answers_take_one_weight_without_others_in_the_guide():
    def guessed(batch: Batch) -> None:
        right = pyro.sample("right", dist.Beta(2.0, 1.0))
        with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_weight):
            guess = pyro.sample("guess", dist.Bernoulli(0.3), infer=ENUMERATE)
            answer(torch.where(guess > 0, 0.5, right), batch)

    said = "'guess' with a different weight for every answer, .*: scale by batch.pair_scale"
    with pytest.raises(ValueError, match=said):
        quiet_fit(guessed, AutoDelta(poutine.block(guessed, hide=["guess"])), crowd())


@pytest.mark.parametrize("scale", ["pair_scale", None])
def test_pairs_that_weigh_the_same_need_no_weight_for_each(scale):
    def plain(batch: Batch, scale: str | None) -> None:
        mean = torch.tensor([-1.0, 1.0])
        with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
            z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
            pyro.sample("o", dist.Normal(mean[z], 1.0), obs=batch.features[:, 0])
        if batch.num_pairs:
            one = 1.0 if scale is None else getattr(batch, scale)
            with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=one):
                ends = batch.left, batch.right, batch.num_paired
                same = pyro.sample("same", SameCluster(z, *ends))
                answer(torch.where(same > 0.5, 0.9, 0.1), batch)

    def bound(scale: str | None) -> float:
        own = partial(plain, scale=scale)
        return BOUND.loss(own, EnumeratedGuide(own, lambda batch: None), batch)

    batch = full_batch(crowd())
    assert bound(scale) == pytest.approx(bound("pair_weight"), rel=1e-10)


def test_answers_without_labels_are_refused():
    """A model draws the labels, but q(z) has no messages without them."""
    labelled = full_batch(crowd(num_items=18))
    batch = dataclasses.replace(labelled, label=None)
    guide = EnumeratedGuide(model, globals_guide())
    expected = guide.infer(labelled.without_answers())
    with pytest.raises(ValueError, match="no labels, which the guide needs"):
        guide.infer(batch)
    found = guide.infer(batch.without_answers())
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=0)


def test_pairs_that_predictive_draws_agree_as_its_clusters_do():
    batch = full_batch(crowd(num_items=18))
    guide = EnumeratedGuide(model, globals_guide())
    drawn = Predictive(model, guide=guide, num_samples=20, return_sites=["z", "same"])(batch)
    z = drawn["z"].reshape(20, -1)
    agree = (z[:, batch.left] == z[:, batch.right]).double()
    torch.testing.assert_close(drawn["same"].reshape(20, -1), agree)


def test_what_a_handler_masks_is_not_used():
    """As what the distribution masks, in q(z) and in the likelihood of answers."""

    def by_handler(yes: torch.Tensor, batch: Batch) -> None:
        with poutine.mask(mask=batch.worker > 0):
            answer(yes, batch)

    def by_distribution(yes: torch.Tensor, batch: Batch) -> None:
        said = dist.Bernoulli(yes).mask(batch.worker > 0)
        pyro.sample("label", said, obs=batch.label)

    unclear = CrowdData(crowd(num_items=18).features / 10, crowd(num_items=18).pairs)
    one, other = (
        quiet_fit(m, EnumeratedGuide(m, globals_guide()), unclear, batch_size=None)
        for m in (partial(model, answer=answers) for answers in (by_handler, by_distribution))
    )
    np.testing.assert_allclose(one.probabilities, other.probabilities)
    np.testing.assert_allclose(*(r.to_arviz(1)["log_likelihood"]["answers"] for r in (one, other)))


def test_without_it_a_guide_lacks_the_agreement():
    guide = AutoDelta(poutine.block(model, hide=["z", "same"]), init_loc_fn=start)
    with pytest.raises(ValueError, match=r"site 'same': wrap the guide as guides.EnumeratedGuide"):
        quiet_fit(partial(model, scale=1.0), guide, crowd(num_items=18), batch_size=None)


def test_codes_of_clusters_agree_or_not():
    z = torch.tensor([0, 2, 2])
    site = SameCluster(z, torch.tensor([0, 1]), torch.tensor([1, 2]), 3)
    assert site.sample().tolist() == [0.0, 1.0]
    enumerated = SameCluster(z.unsqueeze(-1), torch.tensor([0]), torch.tensor([1]), 3)
    with pytest.raises(ValueError, match="z is enumerated"):
        enumerated.sample()


def test_probabilities_are_averaged_over_draws():
    """Of one mean with a wide posterior, p(z | o) at its middle is too sure."""

    def one(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_scale):
            z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
            pyro.sample("o", dist.Normal(mean * (2 * z - 1), 0.2), obs=batch.features[:, 0])

    def wide(batch):
        pyro.sample("mean", dist.Normal(0.5, 0.5))

    torch.manual_seed(0)
    batch = full_batch(CrowdData(torch.tensor([[0.5], [0.1]])))
    found = EnumeratedGuide(one, wide).infer(batch).assignments[:, 1].double()
    means = torch.linspace(-4, 5, 100_001).double()
    density = dist.Normal(0.5, 0.5).log_prob(means).exp()
    odds = [2 * o * means / 0.2**2 for o in (0.5, 0.1)]
    exact = [float((density * each.sigmoid()).sum() / density.sum()) for each in odds]
    assert found.tolist() == pytest.approx(exact, abs=0.15)
    assert not math.isclose(found[0], float(torch.tensor(2 * 0.25 / 0.04).sigmoid()), abs_tol=0.02)


def test_labels_of_another_type_are_named():
    own = partial(model, answer=whole_labels)
    with pytest.raises(ValueError, match=r"'label' cannot be .* torch.int64: .*batch.label as it"):
        quiet_fit(own, EnumeratedGuide(own, globals_guide()), crowd())


def whole_labels(yes: torch.Tensor, batch: Batch) -> None:
    pyro.sample("label", dist.Bernoulli(yes), obs=batch.label.long())
