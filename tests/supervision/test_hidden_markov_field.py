from __future__ import annotations

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
import torch
from pyro.infer import Trace_ELBO
from scipy.special import digamma

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.families import softmax_without_denormals
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import HiddenMarkovField
from pyro_crowdclust.supervision.field_coupling import FieldAssignment, pairwise_divergence

from ..crowds import quiet_fit
from ..problems import randomize

CLUSTERS, DIM = 3, 2
KNOWN = [0, 0, None, 1, 0, 1]
LINKS = {
    "must_link": {"left": [2], "right": [3]},
    "cannot_link": {"left": [5, 0], "right": [2, 1]},
}


def crowd(known=KNOWN, links=None, num_items: int = 6) -> CrowdData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the links contradict a label, on purpose
        return CrowdData(torch.randn(num_items, DIM) * 2, known=known, **(links or {}))


def some_divergence(clusters: int = CLUSTERS) -> torch.Tensor:
    half = torch.rand(clusters, clusters).triu(1)
    return half + half.mT


class FixedField(HiddenMarkovField):
    """A field whose potential is held fixed, under which the bound never falls."""

    def refresh(self, *_) -> None:
        pass


def some_field(
    clusters: int = CLUSTERS, kind: type[HiddenMarkovField] = FixedField, **options
) -> HiddenMarkovField:
    field = kind(clusters, 6, **{"strength": 0.7, **options})
    field.divergence.copy_(some_divergence(clusters))
    return field


def problem(data: CrowdData, **options) -> MessagePassingGuide:
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS, 0.8),
        GaussianComponents(CLUSTERS, DIM, degrees=3.2),
        Identity(),
        supervision=some_field(**options),
    )
    guide = MessagePassingGuide(model)
    randomize(guide)
    return guide


def pair_potentials(data: CrowdData, field: HiddenMarkovField) -> dict[tuple[int, int], np.ndarray]:
    """``lambda V`` of every neighbouring pair, pair by pair."""
    attraction = field.strength * field.divergence.numpy()
    off_diagonal = CLUSTERS * (CLUSTERS - 1)
    repulsion = np.eye(CLUSTERS) * attraction.sum() / off_diagonal
    found: dict[tuple[int, int], np.ndarray] = {}

    def add(n: int, m: int, potential: np.ndarray) -> None:
        key = (min(n, m), max(n, m))
        found[key] = found.get(key, np.zeros((CLUSTERS, CLUSTERS))) + potential

    known = [-1] * data.num_items if data.known is None else data.known.tolist()
    for n, m in itertools.combinations(range(data.num_items), 2):
        if known[n] < 0 or known[m] < 0:
            continue
        if known[n] == known[m]:
            add(n, m, attraction)
        elif field.repel_labels:
            add(n, m, repulsion)
    if data.links is not None:
        for n, m, must in zip(*(part.tolist() for part in vars(data.links).values()), strict=True):
            add(n, m, attraction if must else repulsion)
    return found


CASES = [
    {"known": KNOWN},
    {"known": KNOWN, "repel_labels": True},
    {"known": None, "links": LINKS},
    {"known": KNOWN, "links": LINKS, "repel_labels": True},
]


@pytest.mark.parametrize("case", CASES)
def test_class_sums_are_the_pairs(case):
    data = crowd(case["known"], case.get("links"))
    field = some_field(repel_labels=case.get("repel_labels", False))
    coupling = field.coupling({}, full_batch(data))
    q = torch.rand(6, CLUSTERS).softmax(-1)
    total, heard = 0.0, np.zeros((6, CLUSTERS))
    for (n, m), potential in pair_potentials(data, field).items():
        total -= q[n].numpy() @ potential @ q[m].numpy()
        heard[n] -= potential @ q[m].numpy()
        heard[m] -= potential @ q[n].numpy()
    assert float(coupling.log_factor(q)) == pytest.approx(total)
    np.testing.assert_allclose(coupling.messages(q).numpy(), heard, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_gain_of_two_clusters_is_what_the_field_lacks_between_them(case):
    data = crowd(case["known"], case.get("links"))
    field, batch = some_field(repel_labels=case.get("repel_labels", False)), full_batch(data)
    q = torch.rand(6, CLUSTERS).double().softmax(-1)
    (evidence,) = field.owners_evidence(q, batch)
    gain = evidence.between
    apart = field.coupling({}, batch).log_factor(q)
    for first, second in itertools.combinations(range(CLUSTERS), 2):
        owners = torch.eye(CLUSTERS, dtype=torch.float64)
        owners[second] = owners[first]
        joined = field.coupling({"owners": owners}, batch).log_factor(q)
        assert float(gain[first, second]) == pytest.approx(float(joined - apart))


def local_terms(guide: MessagePassingGuide, batch) -> np.ndarray:
    """``E[log p(x_n | k)]``, with E[log pi_k] where an item has no neighbours."""
    weights, components = (guide.posteriors[name] for name in ("weights", "components"))
    alpha = weights.standard().concentration.numpy()
    log_weights = digamma(alpha) - digamma(alpha.sum())
    rows = []
    for x, free in zip(
        batch.features.numpy(), ~guide.model.supervision.has_neighbors(batch).numpy(), strict=True
    ):
        row = []
        for k, (m, kappa, scale, nu) in enumerate(
            zip(*(part.numpy() for part in components.standard()), strict=True)
        ):
            psi = sum(digamma((nu - i) / 2) for i in range(DIM)) + DIM * np.log(2)
            away = (x - m) @ np.linalg.solve(scale, x - m)
            value = psi - np.linalg.slogdet(scale)[1] - DIM / kappa - nu * away
            row.append((value - DIM * np.log(2 * np.pi)) / 2 + free * log_weights[k])
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("case", CASES)
def test_elbo_is_the_expectation_over_all_assignments(case):
    """``E_q[log p(x, z) - log q(z)]`` as a sum over all 3^6 z, with the pairs one by one."""
    data = crowd(case["known"], case.get("links"))
    guide = problem(data, repel_labels=case.get("repel_labels", False))
    batch = full_batch(data)
    local = local_terms(guide, batch)
    q = guide.infer(batch).assignments.numpy()
    potentials = pair_potentials(data, guide.model.supervision)
    bound = evidence = -np.inf
    terms, joints = [], []
    for z in itertools.product(range(CLUSTERS), repeat=6):
        log_joint = sum(local[n, k] for n, k in enumerate(z))
        log_joint -= sum(potential[z[n], z[m]] for (n, m), potential in potentials.items())
        probability = np.prod([q[n, k] for n, k in enumerate(z)])
        joints.append(log_joint)
        if probability > 0:
            terms.append(probability * (log_joint - np.log(probability)))
    bound, evidence = sum(terms), np.logaddexp.reduce(joints)
    divergence = sum(
        float(
            posterior.family.kl_divergence(
                posterior.natural_parameters.detach(), prior.natural_parameters
            ).sum()
        )
        for posterior, prior in zip(
            guide.posteriors.values(), guide.model.priors().values(), strict=True
        )
    )
    elbo = -Trace_ELBO(max_plate_nesting=1).loss(guide.model, guide, batch)
    assert elbo == pytest.approx(bound - divergence, rel=1e-9)
    # The normalizer Gamma(V) is left out on both sides; mean field is below the exact sum.
    assert bound < evidence + 1e-9


def test_assignments_are_a_fixed_point():
    """At the end eq. 2 holds for every item given the others."""
    data = crowd()
    guide = problem(data, rounds=500)
    batch = full_batch(data)
    q = guide.infer(batch).assignments
    heard = guide.model.supervision.coupling({}, batch).messages(q)
    logits = torch.as_tensor(local_terms(guide, batch)) + heard
    torch.testing.assert_close(q, logits.softmax(-1), atol=1e-4, rtol=0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("strength", [0.1, 3.0, 300.0])
def test_settling_never_lowers_the_bound(case, strength):
    data = crowd(case["known"], case.get("links"))
    field = some_field(strength=strength, repel_labels=case.get("repel_labels", False))
    coupling = field.coupling({}, full_batch(data))
    alone = torch.randn(len(coupling.rows), CLUSTERS)

    def bound(logits: torch.Tensor) -> float:
        q = softmax_without_denormals(logits)
        entropy = torch.where(q > 0, -q * logits.log_softmax(-1), 0.0).sum()
        return float((q * (alone + coupling.among(q) / 2)).sum() + entropy)

    logits = torch.zeros_like(alone)
    bounds = [bound(logits)]
    for _ in range(15):
        logits = coupling.settle(alone, logits, rounds=1)
        bounds.append(bound(logits))
    assert (np.diff(bounds) >= -1e-9 * abs(bounds[0])).all(), bounds
    assert bounds[-1] > bounds[0]


def test_the_potential_follows_the_posterior():
    guide = problem(crowd(), kind=HiddenMarkovField)
    field, components = guide.model.supervision, guide.posteriors["components"]
    for epoch in (0.0, 1.5):
        randomize(guide)
        guide.set_epoch(epoch)
        eta = components.natural_parameters.detach()
        assert torch.equal(field.divergence, pairwise_divergence(components.family, eta))
        torch.testing.assert_close(field.divergence, field.divergence.mT)


def test_what_the_field_remembers_moves_with_the_clusters():
    guide = problem(crowd())
    guide(full_batch(crowd()))
    remembered = guide.model.supervision.settled
    q = remembered.softmax(-1)
    emptied = guide.merge(0, 2)
    kept = 2 - emptied
    q[:, kept], q[:, emptied] = q[:, 0] + q[:, 2], 0
    torch.testing.assert_close(remembered.softmax(-1), q)
    guide.empty(kept)
    torch.testing.assert_close(remembered.softmax(-1), torch.eye(3)[1].expand(6, 3))


def test_only_steps_on_all_data_are_remembered():
    data = crowd()
    guide = problem(data)
    remembered = guide.model.supervision.settled
    generator = torch.Generator().manual_seed(0)
    guide.infer(full_batch(data))
    guide(next(iter(MinibatchSampler(data, batch_size=3, generator=generator))))
    assert remembered.isnan().all()
    guide(full_batch(data))
    found = guide.infer(full_batch(data)).assignments
    torch.testing.assert_close(remembered[full_batch(data).items].softmax(-1), found)


@pytest.mark.parametrize(
    ("known", "repel", "expected"),
    [
        ([0, 0, None, 1, 0, None], False, [0, 1, 4]),
        # The only one of its label, which others repel.
        ([0, 0, None, 1, 0, None], True, [0, 1, 3, 4]),
        ([0, None, None, None, None, None], True, []),
    ],
)
def test_items_without_neighbours_weigh_less(known, repel, expected):
    batch, field = full_batch(crowd(known)), some_field(unlabeled_weight=0.3, repel_labels=repel)
    batch = dataclasses.replace(batch, item_weight=torch.full((6,), 2.0))
    has = torch.isin(batch.items, torch.tensor(expected))
    assert torch.equal(field.has_neighbors(batch), has)
    assert torch.equal(field.item_weight(batch), torch.where(has, 2.0, 0.6))
    unknown = dataclasses.replace(batch, neighbors=None, known=None)
    assert field.item_weight(unknown) is batch.item_weight


def test_undamped_updates_would_fall():
    """Two items that cannot be together, and are alike, change places for ever."""
    data = crowd(None, {"cannot_link": {"left": [0], "right": [1]}})
    field = some_field(strength=30.0)
    coupling = field.coupling({}, full_batch(data))
    alone = torch.tensor([[0.3, 0.0, -9.0], [0.2, 0.0, -9.0]])
    q = alone.softmax(-1)
    for _ in range(20):
        q = (alone + coupling.among(q)).softmax(-1)
    assert float((q[0] * q[1]).sum()) > 0.99
    settled = coupling.settle(alone, alone, rounds=30).softmax(-1)
    assert float((settled[0] * settled[1]).sum()) < 0.01


def three_blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = np.arange(90) % 3
    return rng.normal(size=(90, 2)) + 4 * np.eye(3)[y, :2], y


@pytest.mark.parametrize("repel", [False, True])
def test_the_bound_never_falls_while_the_potential_stays(repel):
    x, y = three_blobs()
    field = FixedField(6, 90, 0.5, repel_labels=repel)
    field.divergence.copy_(9 * some_divergence(6))
    known = np.where(np.arange(90) < 45, y, -1)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(6),
        GaussianComponents(6, 2),
        Identity(),
        supervision=field,
    )
    result = quiet_fit(
        model,
        MessagePassingGuide(model),
        CrowdData(x, known=known),
        batch_size=None,
        step_size=1.0,
        epochs=15,
    )
    elbos = result.history["elbo"].to_numpy()
    assert (np.diff(elbos) > -1e-9 * abs(elbos[0])).all(), elbos
    assert elbos[-1] > elbos[0]


def test_labels_decide_the_clusters():
    """Blobs 1 and 2 carry one label, and become one cluster."""
    x, y = three_blobs()
    known = np.where(np.arange(90) < 60, np.minimum(y, 1), -1)
    partition = {}
    for strength in (0.0, 5.0):
        model = SemiCrowdsourcedMixture(
            DirichletWeights(3),
            GaussianComponents(3, 2),
            Identity(),
            supervision=HiddenMarkovField(3, 90, strength),
        )
        result = quiet_fit(
            model,
            MessagePassingGuide(model),
            CrowdData(x, known=known),
            batch_size=None,
            step_size=1.0,
            epochs=30,
        )
        partition[strength] = result.assignments
        # New items have no neighbours: features and weights alone.
        new = result.predict_proba(x[:4])
        np.testing.assert_allclose(new.sum(1), 1)
    together = partition[5.0][known == 1]
    assert (together == together[0]).all()
    apart = partition[0.0][known == 1]
    assert not (apart == apart[0]).all()


@pytest.mark.parametrize("case", CASES)
def test_pairs_of_minibatches_average_to_the_whole(case):
    data = crowd(case["known"], case.get("links"))
    field = some_field(repel_labels=case.get("repel_labels", False))
    q = torch.rand(6, CLUSTERS).softmax(-1)
    whole = full_batch(data)
    expected = float(field.coupling({}, whole).log_factor(q[whole.items]))
    sampler = MinibatchSampler(data, batch_size=3, generator=torch.Generator().manual_seed(0))
    seen: dict[tuple[int, ...], float] = {}
    while len(seen) < 20:  # the 3-subsets of 6 items, which are equally likely
        for batch in sampler:
            coupling = field.coupling({}, batch)
            factor = 0.0 if coupling is None else float(coupling.log_factor(q[batch.items]))
            seen[tuple(sorted(batch.items.tolist()))] = factor
    assert np.mean(list(seen.values())) == pytest.approx(expected)


def test_messages_of_a_minibatch_estimate_those_of_all():
    data = crowd()
    field = some_field()
    q = torch.rand(6, CLUSTERS).softmax(-1)
    whole = full_batch(data)
    expected = torch.zeros(6, CLUSTERS)
    expected[whole.items] = field.coupling({}, whole).messages(q[whole.items])
    sampler = MinibatchSampler(data, batch_size=3, generator=torch.Generator().manual_seed(0))
    heard: dict[tuple[int, ...], torch.Tensor] = {}
    while len(heard) < 20:
        for batch in sampler:
            mine = torch.full((6, CLUSTERS), torch.nan)
            mine[batch.items] = field.coupling({}, batch).messages(q[batch.items])
            heard[tuple(sorted(batch.items.tolist()))] = mine
    mean = torch.stack(list(heard.values())).nanmean(0)
    torch.testing.assert_close(mean, expected)


@pytest.mark.long
def test_simulated_assignments_follow_the_field():
    data = crowd([0, 0, None], num_items=3)
    field = some_field(strength=2.0)
    batch = full_batch(data)
    log_weights = torch.tensor([0.5, 0.3, 0.2]).log()
    draws = torch.stack(
        [field.assignment(log_weights, {}, batch).sample().argmax(-1) for _ in range(150)]
    )
    exact = (-2.0 * field.divergence).exp()
    exact = exact / exact.sum()
    together = float((draws[:, 0] == draws[:, 1]).double().mean())
    assert together == pytest.approx(float(exact.trace()), abs=0.12)
    site = field.assignment(log_weights, {}, batch)
    assert isinstance(site, FieldAssignment)
    expected = torch.stack([torch.zeros(3), torch.zeros(3), log_weights])
    torch.testing.assert_close(site.log_weights, expected)
    assert torch.equal(site.expand((2, 3)).log_weights, expected.expand(2, 3, 3))


def fit_field(data: CrowdData, field: HiddenMarkovField, **options):
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS), GaussianComponents(CLUSTERS, DIM), Identity(), supervision=field
    )
    return quiet_fit(model, MessagePassingGuide(model), data, epochs=1, **options)


def test_a_label_of_one_item():
    data = crowd([0, 0, 1, None, None, None])
    with pytest.warns(UserWarning, match="only one item has the label 1 .item 2; 1 such"):
        fit_field(data, HiddenMarkovField.of(data, CLUSTERS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_field(data, HiddenMarkovField.of(data, CLUSTERS, repel_labels=True))


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (None, "neither known labels nor links"),
        ([0, 1, 2, 3, 0, 1], "labels have 4 classes, but there are 3 clusters"),
    ],
)
def test_data_that_do_not_fit(known, message):
    with pytest.raises(ValueError, match=message):
        fit_field(crowd(known), HiddenMarkovField(CLUSTERS, 6))


def test_data_of_another_size():
    with pytest.raises(ValueError, match="6 items, but the field has 5: use Hidden"):
        fit_field(crowd(), HiddenMarkovField(CLUSTERS, 5))


@pytest.mark.parametrize("options", [{"strength": -1.0}, {"rounds": 0}])
def test_bad_arguments(options):
    with pytest.raises(ValueError, match="strength is .* they must be at least 0 and 1"):
        HiddenMarkovField(3, 6, **options)


def test_enumerated_assignments():
    field = some_field()
    with pytest.raises(ValueError, match="z is enumerated, under which items cannot be coupled"):
        field.joint_sites(torch.zeros(3, 1, 3), {}, full_batch(crowd()))


def test_labels_that_nobody_carries_are_no_neighbours():
    links = {"must_link": {"left": [2], "right": [3]}}
    data = crowd([None] * 6, links)
    batch = full_batch(data)
    assert batch.items[some_field().has_neighbors(batch)].tolist() == [2, 3]


def test_minibatches_with_answers():
    pairs = {"left": [0], "right": [1], "worker": ["a"], "label": [1]}
    data = CrowdData(torch.randn(6, 2), pairs, known=KNOWN)
    generator = torch.Generator().manual_seed(0)
    batch = next(iter(MinibatchSampler(data, batch_size=2, generator=generator)))
    with pytest.raises(ValueError, match="minibatches with both workers' answers and a hidden M"):
        some_field().coupling({}, batch)
    everything = some_field().coupling({}, full_batch(data))
    assert everything.num_items == 6
