"""Plain Pyro models of class labels: what is read from them is what their formulas say."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import scipy.special
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoNormal

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.minibatches import Batch

K, WORKERS, ITEMS = 3, 4, 30
ENUMERATE = {"enumerate": "parallel"}


def plate_of_items(batch: Batch) -> pyro.plate:
    return pyro.plate("items", batch.num_items, subsample=batch.items)


def dawid_skene(batch: Batch) -> None:
    prevalence = pyro.sample("prevalence", dist.Dirichlet(torch.ones(K)))
    with pyro.plate("worker", WORKERS, dim=-2), pyro.plate("class", K, dim=-1):
        confusion = pyro.sample("confusion", dist.Dirichlet(1 + torch.eye(K)))
    with plate_of_items(batch):
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        if batch.class_labels is not None:
            worker, label, is_given = batch.class_labels.padded()
            with pyro.plate("places", len(label)), poutine.mask(mask=is_given):
                of_label = pyro.deterministic("of_label", confusion[worker, y], event_dim=1)
                pyro.sample("labels", dist.Categorical(of_label), obs=label)


def spammers(batch: Batch) -> None:
    """Every label is the class of its item, or a guess: MACE, with a site that says which."""
    prevalence = pyro.sample("prevalence", dist.Dirichlet(torch.ones(K)))
    with pyro.plate("worker", WORKERS):
        honest = pyro.sample("honest", dist.Beta(4.0, 2.0))
    with plate_of_items(batch):
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        if batch.class_labels is not None:
            worker, label, is_given = batch.class_labels.padded()
            with pyro.plate("places", len(label)), poutine.mask(mask=is_given):
                guess = dist.Bernoulli(1 - honest[worker])
                guesses = pyro.sample("guesses", guess, infer=ENUMERATE).unsqueeze(-1)
                shares = torch.where(guesses > 0, torch.ones(K) / K, 0.97 * torch.eye(K)[y] + 0.01)
                pyro.sample("labels", dist.Categorical(shares), obs=label)


def unclear_items(batch: Batch) -> None:
    """Of an item that is unclear all labels are guesses."""
    prevalence = pyro.sample("prevalence", dist.Dirichlet(torch.ones(K)))
    with plate_of_items(batch):
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        unclear = pyro.sample("unclear", dist.Bernoulli(0.2), infer=ENUMERATE).unsqueeze(-1)
        if batch.class_labels is not None:
            _, label, is_given = batch.class_labels.padded()
            shares = torch.where(unclear > 0, torch.ones(K) / K, 0.7 * torch.eye(K)[y] + 0.1)
            with pyro.plate("places", len(label)), poutine.mask(mask=is_given):
                wide = shares.expand(*torch.broadcast_shapes(shares.shape[:-1], label.shape), K)
                pyro.sample("labels", dist.Categorical(wide), obs=label)


def item_bias(batch: Batch) -> None:
    """Items of a class differ in how clear they are."""
    prevalence = pyro.sample("prevalence", dist.Dirichlet(torch.ones(K)))
    clear = pyro.sample("clear", dist.Normal(2.0, 0.2))
    with plate_of_items(batch):
        away = pyro.sample("away", dist.Normal(0.0, 1.0))
        y = pyro.sample("y", dist.Categorical(prevalence), infer=ENUMERATE)
        if batch.class_labels is not None:
            worker, label, is_given = batch.class_labels.padded()
            scores = (clear + away).unsqueeze(-1) * torch.eye(K)[y]
            with pyro.plate("places", len(label)), poutine.mask(mask=is_given):
                wide = scores.expand(*torch.broadcast_shapes(y.shape, worker.shape), K)
                pyro.sample("labels", dist.Categorical(logits=wide), obs=label)


def crowd() -> tuple[CrowdData, np.ndarray]:
    """Workers who are right four times of five; some items have one label, others four."""
    rng = np.random.default_rng(0)
    truth = rng.integers(K, size=ITEMS)
    rows = [(i, j) for i in range(ITEMS) for j in range(1 + i % WORKERS)]
    labels = [truth[i] if rng.random() < 0.8 else rng.integers(K) for i, _ in rows]
    frame = pd.DataFrame(rows, columns=["item", "worker"]).assign(label=labels)
    return CrowdData(None, labels=frame), truth


def fitted(model, epochs: int = 60, hide: tuple[str, ...] = ("y",)) -> Fitted:
    guide = AutoNormal(
        poutine.block(model, hide=[*hide]),
        init_scale=0.1,
        create_plates=plate_of_items,
        init_loc_fn=start,
    )
    optim = partial(torch.optim.Adam, lr=0.05)
    return fit(model, guide, crowd()[0], epochs=epochs, batch_size=10, optim=optim, progress=False)


@pytest.fixture(scope="module")
def guessing() -> Fitted:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    result = fitted(spammers, hide=("y", "guesses"))
    torch.set_default_dtype(before)
    return result


def joint_of_guesses(honest: np.ndarray, prevalence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log p of each item's class and labels, and of each label by class, guesses summed out."""
    given = crowd()[0].labels
    right = honest[given["worker"]][:, None]
    own = 0.97 * np.eye(K)[given["label"]] + 0.01
    alone = np.log(right * own + (1 - right) / K)
    joint = np.tile(np.log(prevalence), (ITEMS, 1))
    np.add.at(joint, given["item"].to_numpy(), alone)
    return joint, alone


def start(site: dict) -> torch.Tensor:
    if site["name"] == "confusion":
        return (torch.ones(WORKERS, K, K) + 3 * torch.eye(K)) / (K + 3)
    return site["fn"].mean


@pytest.fixture(scope="module")
def plain() -> Fitted:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    result = fitted(dawid_skene)
    torch.set_default_dtype(before)
    return result


def test_classes_are_found(plain):
    data, truth = crowd()
    assert (plain.assignments == truth).mean() > 0.8
    assert plain.class_probabilities.columns.tolist() == [0, 1, 2]
    np.testing.assert_allclose(plain.probabilities.sum(1), 1.0)


def test_the_likelihood_is_the_sum_over_classes(plain):
    tree, (data, _) = plain.to_arviz(7), crowd()
    posterior = tree["posterior"]
    assert posterior["confusion"].dims[2:4] == ("worker", "class")
    assert posterior["prevalence"].dims[2:] == ("class",)
    confusion, prevalence = posterior["confusion"].values[0], posterior["prevalence"].values[0]
    given, of_items, of_labels = data.labels, [], []
    for draw in range(7):
        joint = np.tile(np.log(prevalence[draw]), (ITEMS, 1))
        alone = np.log(confusion[draw][given["worker"], :, given["label"]])
        np.add.at(joint, given["item"].to_numpy(), alone)
        total = scipy.special.logsumexp(joint, 1)
        of_items.append(total)
        item = given["item"].to_numpy()
        of_labels.append(total[item] - scipy.special.logsumexp(joint[item] - alone, 1))
    likelihood = tree["log_likelihood"]
    np.testing.assert_allclose(likelihood["items"].values[0], of_items, rtol=1e-10)
    np.testing.assert_allclose(likelihood["labels"].values[0], of_labels, rtol=1e-8, atol=1e-10)
    assert set(np.unique(tree["posterior_predictive"]["labels"])) <= set(range(K))


def test_sites_of_every_label_are_summed_out_of_it(guessing):
    tree, given = guessing.to_arviz(7), crowd()[0].labels
    posterior, likelihood = tree["posterior"], tree["log_likelihood"]
    item = given["item"].to_numpy()
    for draw in range(7):
        theta = [posterior[name].values[0, draw] for name in ("honest", "prevalence")]
        joint, alone = joint_of_guesses(*theta)
        total = scipy.special.logsumexp(joint, 1)
        without = scipy.special.logsumexp(joint[item] - alone, 1)
        np.testing.assert_allclose(likelihood["items"].values[0, draw], total, rtol=1e-10)
        np.testing.assert_allclose(
            likelihood["labels"].values[0, draw], total[item] - without, rtol=1e-8, atol=1e-10
        )
    assert set(np.unique(tree["posterior_predictive"]["labels"])) <= set(range(K))


def test_several_sites_of_an_item_are_summed_out():
    """Which of their values go together is not told, so that labels are not drawn anew."""
    tree = fitted(unclear_items, 2, hide=("y", "unclear")).to_arviz(3)
    given, likelihood = crowd()[0].labels, tree["log_likelihood"]
    assert "posterior_predictive" not in tree.groups()
    item, own = given["item"].to_numpy(), np.log(0.7 * np.eye(K)[given["label"]] + 0.1)
    alone = np.stack([own, np.full_like(own, -np.log(K))], 1)  # by whether the item is unclear
    for draw in range(3):
        prevalence = tree["posterior"]["prevalence"].values[0, draw]
        joint = np.tile(np.log([[0.8], [0.2]]) + np.log(prevalence), (ITEMS, 1, 1))
        np.add.at(joint, item, alone)
        total = scipy.special.logsumexp(joint, (1, 2))
        without = scipy.special.logsumexp(joint[item] - alone, (1, 2))
        np.testing.assert_allclose(likelihood["items"].values[0, draw], total, rtol=1e-5)
        found = likelihood["labels"].values[0, draw]
        np.testing.assert_allclose(found, total[item] - without, rtol=1e-4)


def test_classes_are_averaged_over_draws_with_guesses_summed_out(guessing):
    posterior = guessing.to_arviz(500, log_likelihood=False)["posterior"]
    honest, prevalence = (posterior[name].values[0] for name in ("honest", "prevalence"))
    joint = np.stack(
        [joint_of_guesses(*theta)[0] for theta in zip(honest, prevalence, strict=True)]
    )
    expected = scipy.special.softmax(joint, -1).mean(0)
    np.testing.assert_allclose(guessing.probabilities, expected, atol=0.05)


@pytest.mark.long
def test_local_latents_are_integrated_by_draws():
    result, (data, _) = fitted(item_bias, 80), crowd()
    tree = result.to_arviz(5, latent_draws=2000)
    assert "labels" not in tree["log_likelihood"]
    posterior = tree["posterior"]
    away = np.linspace(-6, 6, 2001)
    normal = np.exp(-(away**2) / 2) / np.sqrt(2 * np.pi) * (away[1] - away[0])
    item, label = data.labels["item"].to_numpy(), data.labels["label"].to_numpy()
    for draw in range(5):
        clear = posterior["clear"].values[0, draw]
        prevalence = posterior["prevalence"].values[0, draw]
        scores = (clear + away)[:, None, None] * np.eye(K)
        log_rows = scores - scipy.special.logsumexp(scores, -1, keepdims=True)
        for i in range(0, ITEMS, 7):
            given = log_rows[:, :, label[item == i]].sum(-1)
            expected = np.log((normal[:, None] * np.exp(given) * prevalence).sum())
            found = tree["log_likelihood"]["items"].values[0, draw, i]
            assert found == pytest.approx(expected, abs=0.05)


def test_minibatches_are_scaled_to_all_data(plain):
    data, _ = crowd()
    from pyro_crowdclust.minibatches import MinibatchSampler, full_batch

    sampler = MinibatchSampler(data, batch_size=10, generator=torch.Generator().manual_seed(0))
    with plain.inside():
        whole = plain.elbo_of(full_batch(data))
        parts = [plain.elbo_of(batch) for batch in sampler]
    # One draw of theta serves every evaluation, so that parts average to the whole.
    assert np.mean(parts) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("dim", [-2, -1])
def test_columns_in_a_plate_of_their_own_with_a_parameter_inside(dim):
    """In the inner or the outer plate; what is read is what sums over all values of z give."""
    x = torch.randn(ITEMS, 2) + 4 * (torch.arange(ITEMS) % 2).unsqueeze(1)

    def model(batch: Batch) -> None:
        location = pyro.sample("location", dist.Normal(torch.tensor([0.0, 4.0]), 1.0).to_event(1))
        with pyro.plate("items", batch.num_items, subsample=batch.items, dim=dim):
            scale = pyro.param("scale", torch.tensor(2.0), constraint=dist.constraints.positive)
            z = pyro.sample("z", dist.Categorical(torch.tensor([0.3, 0.7])), infer=ENUMERATE)
            with pyro.plate("columns", 2, dim=-3 - dim):
                o = batch.features if dim == -2 else batch.features.mT
                pyro.sample("o", dist.Normal(location[z], scale), obs=o)

    guide = AutoDelta(poutine.block(model, hide=["z"]))
    options = {"dtype": torch.float64, "batch_size": 10, "progress": False}
    result = fit(model, guide, CrowdData(x), epochs=2, **options)
    scale = result.parameter_store["params"]["scale"].detach().exp()
    assert scale != 2
    means = result.guide.median()["location"].reshape(2, 1, 1)
    joint = dist.Normal(means, scale).log_prob(x).sum(-1) + torch.tensor([[0.3], [0.7]]).log()
    np.testing.assert_allclose(result.probabilities, joint.softmax(0).mT, atol=1e-10)
    np.testing.assert_allclose(result.predict_proba(x), joint.softmax(0).mT, atol=1e-10)
    read = result.to_arviz(2)["log_likelihood"]["features"][0]
    np.testing.assert_allclose(read, joint.logsumexp(0).expand(2, -1), atol=1e-10)
