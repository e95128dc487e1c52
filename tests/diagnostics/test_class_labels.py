"""What the export says of class labels, against sums over classes written out in numpy."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from scipy.special import log_softmax, logsumexp

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import ClassStates, ConfusionMatrices, ItemTrait
from pyro_crowdclust.diagnostics import arviz, pareto_k, to_arviz
from pyro_crowdclust.diagnostics.class_labels import label_draws
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.mixture import MultinomialComponents, SoftmaxRegression
from pyro_crowdclust.models import DawidSkene, LatentTrait, LogResp, MomResp

from ..crowds import crowd, plain_pair, quiet_fit
from ..models.test_dawid_skene import ANNOTATORS, NUM_WORKERS

CLASSES = ("bee", "fly", "wasp")
WORKERS = ("ann", "ben", "cem")
NUM_ITEMS, DRAWS, MANY, WORDS = 25, 40, 300, 4
# The last item was shown to nobody.
SHOWN = NUM_ITEMS - 1


def labelled(num_classes: int, features: bool = True, seed: int = 0) -> CrowdData:
    """Items with counts of words that depend on the class, and two or three labels each."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(num_classes, size=NUM_ITEMS)
    rows = [
        (f"photo {i}", WORKERS[j], CLASSES[k if rng.random() < 0.8 else rng.integers(num_classes)])
        for i, k in enumerate(truth[:SHOWN])
        for j in rng.permutation(NUM_WORKERS)[: rng.integers(2, 4)]
    ]
    table = pd.DataFrame(rows, columns=["item", "worker", "label"], index=range(7, 7 + len(rows)))
    words = rng.multinomial(6, (1 + 4 * np.eye(num_classes, WORDS))[truth] / (WORDS + 4))
    ids = [f"photo {i}" for i in range(NUM_ITEMS)]
    return CrowdData(
        words.astype(float) if features else None,
        labels=table,
        classes=CLASSES[:num_classes],
        item_ids=ids,
    )


def trained(model, data: CrowdData, **options) -> Fitted:
    options = {"batch_size": None, "step_size": 1.0, "epochs": 8, "progress": False} | options
    return fit(model, ClassLabelGuide(model), data, **options)


MODELS = {
    **{name: lambda k, make=make: DawidSkene(make(k)) for name, make in ANNOTATORS.items()},
    "momresp": lambda k: MomResp(MultinomialComponents(k, WORDS), ConfusionMatrices(3, k)),
    "logresp": lambda k: LogResp(SoftmaxRegression(k, WORDS), ConfusionMatrices(3, k)),
}


@pytest.fixture(scope="module", params=MODELS)
def exported(request):
    """The name of a model, its fit and the export."""
    num_classes = 2 if request.param == "two_coin" else 3
    data = labelled(num_classes)
    result = trained(MODELS[request.param](num_classes), data)
    return request.param, result, to_arviz(result, DRAWS)


@pytest.fixture(scope="module")
def many(exported):
    """More draws of the same fit."""
    return to_arviz(exported[1], MANY)


def of_chain(tree, group: str, name: str) -> np.ndarray:
    return tree[group][name].values[0]


def log_classes(name: str, tree, features: np.ndarray) -> np.ndarray:
    """log p(y, x) of every item, ``[draw, item, class]``."""
    if name == "logresp":
        slopes = of_chain(tree, "posterior", "coefficients")
        scores = np.einsum("dkf,nf->dnk", slopes, features)
        return log_softmax(scores + of_chain(tree, "posterior", "intercept")[:, None], axis=-1)
    log_weights = np.log(of_chain(tree, "posterior", "weights"))[:, None, :]
    joint = np.repeat(log_weights, len(features), axis=1)
    if name == "momresp":
        shares = of_chain(tree, "posterior", "component")
        words = scipy.stats.multinomial(6, shares)
        joint = joint + np.stack([words.logpmf(row) for row in features], axis=1)
    return joint


def joint_of(name: str, result: Fitted, tree, skip: int | None = None) -> np.ndarray:
    """log p(y, x, a) of every item; ``skip`` is a row of the labels to leave out."""
    data = result.data
    joint = log_classes(name, tree, data.features)
    confusion = np.log(of_chain(tree, "posterior", "confusion"))
    for row, (item, worker, label) in enumerate(
        zip(*(getattr(data.class_labels, part).tolist() for part in ("item", "worker", "label")),
            strict=True)
    ):  # fmt: skip
        if row != skip:
            joint[:, item] += confusion[:, worker, :, label]
    return joint


def test_names_dimensions_and_ids(exported):
    name, result, tree = exported
    posterior = tree["posterior"]
    assert posterior["confusion"].dims[2:] == ("worker", "class", "label")
    classes = list(CLASSES[: result.data.num_classes])
    assert posterior["class"].values.tolist() == posterior["label"].values.tolist() == classes
    assert posterior["worker"].values.tolist() == list(WORKERS)
    np.testing.assert_allclose(posterior["confusion"].sum("label"), 1)
    own = {
        "confusion": {"weights": ("class",)},
        "one_coin": {"weights": ("class",), "accuracy": ("worker",)},
        "two_coin": {
            "weights": ("class",),
            "sensitivity": ("worker",),
            "specificity": ("worker",),
        },
        "community": {
            "weights": ("class",),
            "communities": ("community_number",),
            "community": ("worker", "community_number"),
        },
        "sources": {
            "weights": ("class",),
            "sources": ("worker", "source"),
            "habit": ("worker", "label"),
        },
        "momresp": {"weights": ("class",), "component": ("class", "dim")},
        "logresp": {"coefficients": ("class", "feature"), "intercept": ("class",)},
    }
    found = {n: v.dims[2:] for n, v in posterior.data_vars.items() if n != "confusion"}
    if name == "momresp":
        assert found.pop("component")[0] == "class"
        own["momresp"].pop("component")
    assert found == own[name]


def test_matrices_are_those_of_the_summary(exported):
    _, result, _ = exported
    tree = to_arviz(result, 2000, log_likelihood=False)
    drawn = of_chain(tree, "posterior", "confusion")
    of_q = result.guide.confusion()
    np.testing.assert_allclose(drawn.mean(0), of_q.mean, atol=0.02)
    np.testing.assert_allclose(drawn.std(0), of_q.sd, atol=0.02)


def test_data_by_the_users_ids(exported):
    _, result, tree = exported
    labels, constant = result.data.labels, tree["constant_data"]
    assert constant["item_of_label"].values.tolist() == labels["item"].tolist()
    assert constant["worker_of_label"].values.tolist() == labels["worker"].tolist()
    assert constant["class_answer"].values.tolist() == labels.index.tolist()
    given = tree["observed_data"]["labels"].values
    assert [CLASSES[code] for code in given] == labels["label"].tolist()
    assert constant["probabilities"].dims == ("chain", "item", "class")
    np.testing.assert_allclose(constant["probabilities"][0], result.class_probabilities)


def test_items_with_all_their_labels(exported):
    name, result, tree = exported
    expected = logsumexp(joint_of(name, result, tree), axis=-1)
    likelihood = tree["log_likelihood"]
    assert likelihood["labelled_item"].values.tolist() == list(result.data.item_ids[:SHOWN])
    np.testing.assert_allclose(likelihood["items"][0], expected[:, :SHOWN], atol=1e-8)
    if name == "momresp":
        alone = logsumexp(log_classes(name, tree, result.data.features), axis=-1)
        np.testing.assert_allclose(likelihood["features"][0], alone, atol=1e-8)
    else:
        assert "features" not in likelihood  # it does not say what features look like


def test_labels_left_out_in_turn(exported):
    name, result, tree = exported
    every = logsumexp(joint_of(name, result, tree), axis=-1)
    found = of_chain(tree, "log_likelihood", "labels")
    for row in (0, 11, result.data.num_labels - 1):
        item = int(result.data.class_labels.item[row])
        without = logsumexp(joint_of(name, result, tree, skip=row), axis=-1)
        np.testing.assert_allclose(found[:, row], (every - without)[:, item], atol=1e-8)


def test_replicated_labels_follow_class_and_worker(exported, many):
    name, result, _ = exported
    posterior = np.exp(log_softmax(joint_of(name, result, many), axis=-1))
    confusion = of_chain(many, "posterior", "confusion")
    drawn = of_chain(many, "posterior_predictive", "labels")
    given = result.data.class_labels
    item, worker = given.item.numpy(), given.worker.numpy()
    shares = np.einsum("dak,dakl->al", posterior[:, item], confusion[:, worker]) / MANY
    counts = np.stack([(drawn == label).mean(0) for label in range(shares.shape[1])], axis=1)
    deviation = (counts - shares) / np.sqrt(shares * (1 - shares) / MANY)
    assert np.abs(deviation).max() < 5
    assert np.sqrt((deviation**2).mean()) < 1.3


def test_one_item_has_one_class_in_all_its_replicas():
    """Workers who never err repeat the class of the item, whatever it is."""
    data = labelled(3, features=False)
    result = trained(DawidSkene(ConfusionMatrices(3, 3)), data)
    rows = torch.full((3, 3, 3), 0.01)
    rows.diagonal(dim1=1, dim2=2).fill_(1e5)
    result.guide.posteriors["confusion"].set_natural_parameters(rows.flatten(0, 1))
    drawn = of_chain(to_arviz(result, 50), "posterior_predictive", "labels")
    items = data.class_labels.item.numpy()
    of_each = [drawn[:, items == i] for i in np.unique(items)]
    assert all((labels == labels[:, :1]).all() for labels in of_each)
    assert len(np.unique(drawn)) == 3


def test_arviz_leaves_out_items_and_labels(many):
    for variable in ("items", "labels"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Estimated shape parameter", UserWarning)
            loo = arviz().loo(many, var_name=variable)
        found = float(loo["elpd_loo"] if hasattr(loo, "elpd_loo") else loo.elpd)
        fitted = logsumexp(of_chain(many, "log_likelihood", variable), axis=0) - np.log(MANY)
        assert 1.5 * fitted.sum() < found < fitted.sum()


def test_weights_of_importance(exported):
    _, result, _ = exported
    found = pareto_k(result, 40)
    assert np.isfinite(found.k)
    assert "confusion" in found.sites or len(found.sites) > 1


@pytest.mark.long
def test_classes_keep_their_places_in_chains():
    """Classes have ids: a fit that names them otherwise is not put right, but shows."""
    data = labelled(3, features=False)
    first = trained(DawidSkene(ConfusionMatrices(3, 3)), data)
    second = trained(DawidSkene(ConfusionMatrices(3, 3)), data, seed=1)
    tree = to_arviz([first, second], 200)
    np.testing.assert_array_equal(
        tree["constant_data"]["probabilities"], [first.probabilities, second.probabilities]
    )
    rhat = arviz().rhat(tree, var_names=["confusion"])["confusion"]
    assert float(rhat.max()) < 1.1


def test_labels_that_the_model_does_not_use():
    data = crowd()
    labels = {"item": [3, 4], "worker": [0, 2], "label": ["x", "y"]}
    both = CrowdData(data.features, data.pairs, labels=labels)
    tree = to_arviz(quiet_fit(*plain_pair(), both, epochs=1), 5)
    assert sorted(tree["log_likelihood"].data_vars) == ["answers", "features"]


@pytest.mark.parametrize(
    "make", [lambda: DawidSkene(ClassStates(3, 2)), lambda: LatentTrait(ItemTrait(3))]
)
def test_a_label_of_an_item_that_may_be_hard_is_left_out_with_all_that_it_says_of_it(make):
    """Of easy and hard items, or a trait, the sum over these and not over classes alone."""
    model = make()
    result = trained(model, labelled(2, features=False), step_size=0.5)
    labels = result.data.class_labels
    with result.inside():
        draws = global_draws(result, 2)
        found = label_draws(result, draws, labels.labelled_items, torch.arange(len(labels)))
    for draw in range(2):
        values = {name: value.numpy() for name, value in draws.at(draw).items()}
        said = model.annotators.log_answers(draws.at(draw)).numpy()[labels.worker, labels.label]
        of_states = values["trait"] if "trait" in values else values["states"].ravel()
        if "states" in values:
            of_states = of_states + values["weights"].repeat(values["states"].shape[1])
        for row, item in enumerate(labels.item.tolist()):
            own = (labels.item == item).numpy()
            others = own & (np.arange(len(own)) != row)
            whole, without = (logsumexp(of_states + said[part].sum(0)) for part in (own, others))
            assert found.of_labels[draw, row] == pytest.approx(whole - without)


def test_features_that_count_less_do_so_where_labels_are_left_out():
    components, weight = MultinomialComponents(2, WORDS), 0.1
    model = MomResp(components, ConfusionMatrices(3, 2), feature_weight=weight)
    result = trained(model, labelled(2))
    labels, words = result.data.class_labels, result.data.features
    with result.inside():
        draws = global_draws(result, 1)
        found = label_draws(result, draws, labels.labelled_items, torch.arange(len(labels)))
    values = draws.at(0)
    shares = values["components"].exp().numpy()
    joint = scipy.stats.multinomial(6, shares).logpmf(words[:, None]) * weight
    joint = joint + values["weights"].numpy()
    said = model.annotators.log_answers(values).numpy()[labels.worker, labels.label]
    without = -said
    np.add.at(joint, labels.item, said)
    expected = logsumexp(joint, 1)[labels.item] - logsumexp(joint[labels.item] + without, 1)
    np.testing.assert_allclose(found.of_labels[0], expected)
    np.testing.assert_allclose(found.of_items[0], logsumexp(joint, 1)[labels.labelled_items])
