"""Links as answers that are nearly always right: the likelihood, the bound, and what they teach."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from pyro import poutine

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.distributions.pairs import components_together
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import CertainLinks, ClassTable, HiddenMarkovField

from ..crowds import quiet_fit

CLUSTERS, ITEMS = 3, 5
MUST, CANNOT = ([0, 1], [1, 4]), ([2, 0], [3, 2])
LINKS = {
    name: {"left": one, "right": two}
    for name, (one, two) in (("must_link", MUST), ("cannot_link", CANNOT))
}


def data_with(known=None) -> CrowdData:
    return CrowdData(torch.randn(ITEMS, 2), known=known, **LINKS)


def log_likelihood(z, error: float) -> float:
    """``log p(links | z)``, link by link."""
    right = [z[i] == z[j] for i, j in zip(*MUST, strict=True)]
    right += [z[i] != z[j] for i, j in zip(*CANNOT, strict=True)]
    return sum(math.log(1 - error if one else error) for one in right)


@pytest.mark.parametrize("error", [0.01, 0.3])
def test_every_link_has_its_likelihood(error):
    links, batch = CertainLinks(CLUSTERS, error), full_batch(data_with())
    for z in itertools.product(range(CLUSTERS), repeat=ITEMS):
        one_hot = torch.eye(CLUSTERS)[torch.tensor(z)].double()
        with poutine.trace() as tracer:
            links.joint_sites(one_hot, {}, batch)
        found = float(tracer.trace.nodes["links"]["fn"].log_prob(torch.empty(0)))
        assert found == pytest.approx(log_likelihood(z, error))


def test_links_are_of_the_clusters_that_own_the_components():
    """In expectation over owners and assignments that are independent."""
    generator = torch.Generator().manual_seed(0)
    owners = torch.randn(CLUSTERS, CLUSTERS, generator=generator).double().softmax(1)
    q = torch.randn(ITEMS, CLUSTERS, generator=generator).double().softmax(1)
    links, batch = CertainLinks(CLUSTERS, 0.1), full_batch(data_with())
    with poutine.trace() as tracer:
        links.joint_sites(q[batch.items], {"owners": owners}, batch)
    expected = 0.0
    together = components_together(owners)
    for (left, right), must in ((MUST, True), (CANNOT, False)):
        for i, j in zip(left, right, strict=True):
            same = float(q[i] @ together @ q[j])
            said = same if must else 1 - same
            expected += said * math.log(0.9) + (1 - said) * math.log(0.1)
    found = tracer.trace.nodes["links"]["fn"].log_prob(torch.empty(0))
    assert float(found) == pytest.approx(expected)


def test_links_of_minibatches_average_to_the_whole():
    links, data = CertainLinks(CLUSTERS, 0.1), data_with()
    q = torch.rand(ITEMS, CLUSTERS).softmax(-1).double()

    def said(batch) -> float:
        with poutine.trace() as tracer:
            links.joint_sites(q[batch.items], {}, batch)
        site = tracer.trace.nodes.get("links")
        return 0.0 if site is None else float(site["fn"].log_prob(torch.empty(0)))

    sampler = MinibatchSampler(data, batch_size=3, generator=torch.Generator().manual_seed(0))
    seen: dict[tuple[int, ...], float] = {}
    while len(seen) < 10:  # the 3-subsets of 5 items, which are equally likely
        for batch in sampler:
            if len(batch.items) == 3:
                seen[tuple(sorted(batch.items.tolist()))] = said(batch)
    assert np.mean(list(seen.values())) == pytest.approx(said(full_batch(data)))


@pytest.mark.parametrize("known", [None, [0, None, 1, None, None]])
def test_the_bound_is_no_higher_than_the_evidence(known):
    """All that is unknown is summed out: assignments one by one, parameters in closed form."""
    data = data_with(known)
    supervision = CertainLinks.of(data, CLUSTERS, error=0.1)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS), GaussianComponents(CLUSTERS, 2), Identity(), None, supervision
    )
    elbo = quiet_fit(model, MessagePassingGuide(model), data, epochs=30, step_size=1.0).elbo
    priors = {name: prior.natural_parameters for name, prior in model.priors().items()}
    families = {name: prior.family for name, prior in model.priors().items()}

    def gained(name: str, counts: torch.Tensor) -> float:
        normalizer = families[name].log_normalizer
        return float((normalizer(priors[name] + counts) - normalizer(priors[name])).sum())

    observed = model.components.family.observation_statistics(
        model.components.observe(data.features.double(), False)
    )
    terms = []
    for z in itertools.product(range(CLUSTERS), repeat=ITEMS):
        one_hot = torch.eye(CLUSTERS)[torch.tensor(z)].double()
        log_joint = gained("weights", one_hot.sum(0)) + gained("components", one_hot.mT @ observed)
        log_joint += log_likelihood(z, 0.1) - ITEMS * math.log(2 * math.pi)
        for name, counts in supervision.expected_counts(one_hot, data.known).items():
            log_joint += gained(name, counts)
        terms.append(log_joint)
    evidence = float(np.logaddexp.reduce(terms))
    assert evidence - 6 < elbo <= evidence


@pytest.mark.long
def test_a_partition_is_taught_by_links_alone():
    """Four clouds in a row, of which every other one is of a kind."""
    rng = np.random.default_rng(0)
    cloud = rng.integers(4, size=200)
    features = 6.0 * cloud[:, None] * [1, 0] + rng.normal(size=(200, 2))
    left = rng.integers(200, size=60)
    right = (left + rng.integers(1, 200, size=60)) % 200
    same = cloud[left] % 2 == cloud[right] % 2
    links = {
        name: {"left": left[of], "right": right[of]}
        for name, of in (("must_link", same), ("cannot_link", ~same))
    }
    choice = choice_for(CrowdData(features, **links))
    few = dataclasses.replace(choice, forms=choice.forms[:2], sizes=[8], first_size=8)
    result = few.fit(num_starts=1, progress=False)
    assert isinstance(result.model.supervision, CertainLinks)
    assert clustering_accuracy(cloud % 2, result.assignments) >= 0.99
    assert int((result.clusters["assigned_items"] > 0).sum()) == 2


def test_a_fit_is_saved_and_loaded(tmp_path):
    data = data_with([0, None, 1, None, None])
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS),
        GaussianComponents(CLUSTERS, 2),
        Identity(),
        supervision=CertainLinks.of(data, CLUSTERS),
        ownership=Ownership(CLUSTERS),
    )
    result = quiet_fit(model, MessagePassingGuide(model), data, epochs=3)
    result.save(tmp_path / "fit")
    found = load(tmp_path / "fit")
    np.testing.assert_allclose(found.probabilities, result.probabilities)


@pytest.mark.parametrize("error", [0, 0.5])
def test_an_error_is_a_rate(error):
    with pytest.raises(ValueError, match=r"must be between 0 and 1/2"):
        CertainLinks(2, error)


def test_data_must_have_what_is_used():
    with pytest.raises(ValueError, match=r"no links: pass CrowdData"):
        CertainLinks(2).check(CrowdData(torch.zeros(3, 2)))
    with pytest.raises(ValueError, match=r"known labels in addition to links"):
        CertainLinks(2).check(data_with(["a", None, "b", None, None]))
    with pytest.raises(ValueError, match="the class table has 1"):
        CertainLinks(2, labels=ClassTable(1, 1)).check(data_with(["a", None, "b", None, None]))


def test_what_cannot_use_all_links_is_refused():
    pairs = {"left": [0], "right": [1], "worker": ["a"], "label": [1]}
    data = CrowdData(torch.randn(ITEMS, 2), pairs, **LINKS)
    batch = next(iter(MinibatchSampler(data, batch_size=2, generator=torch.Generator())))
    with pytest.raises(ValueError, match="answers and links are not possible"):
        CertainLinks(2).coupling({}, batch)


def test_an_enumerated_z_is_refused():
    with pytest.raises(ValueError, match="enumerated"):
        CertainLinks(2).joint_sites(torch.zeros(2, ITEMS, 2), {}, full_batch(data_with()))


def never(*_, **__) -> None:
    raise AssertionError("training began")


@pytest.mark.parametrize(
    ("known", "must_link", "of"),
    [
        (None, [(4, 9)], CertainLinks.of),
        (None, [(4, 9)], HiddenMarkovField.of),
        ({4: "a", 9: "a"}, None, HiddenMarkovField.of),
    ],
)
def test_minibatches_that_would_be_refused_sometimes_are_refused_before_training(
    known, must_link, of
):
    """Most of them hold neither of the two items that are tied."""
    pairs = {"left": [0, 1], "right": [2, 3], "worker": ["a", "a"], "label": [1, 1]}
    labels = None if known is None else [known.get(item) for item in range(200)]
    data = CrowdData(torch.randn(200, 2), pairs, known=labels, must_link=must_link)
    parts = DirichletWeights(2), GaussianComponents(2, 2), Identity(), TwoCoin(1)
    model = SemiCrowdsourcedMixture(*parts, of(data, 2))
    guide = MessagePassingGuide(model)
    with pytest.raises(ValueError, match=r"answers and .* are not possible.*batch_size=None"):
        quiet_fit(model, guide, data, initialize=never, trainer=never)
    for options in ({"batch_size": None}, {"batch_size": 200}):
        assert len(quiet_fit(model, guide, data, **options).history) == 2
    with_answers = CrowdData(
        torch.randn(200, 2), {**pairs, "right": [4, 9]}, known=labels, must_link=must_link
    )
    assert len(quiet_fit(model, guide, with_answers).history) == 2
