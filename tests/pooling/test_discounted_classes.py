"""Workers who copy each other, and how much their answers count."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.data.soft_counts import states_given
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import average_annotator_models, cluster, infer_classes, infer_trait
from pyro_crowdclust.interface.class_labels import averaging
from pyro_crowdclust.interface.class_labels.copies import copy_discounts
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.models import MomResp
from pyro_crowdclust.pooling import (
    AveragedClasses,
    discount_copies,
    discounted_class_probabilities,
    weight_of_copies,
)
from pyro_crowdclust.pooling.discounted_classes import gain_by_features
from pyro_crowdclust.pooling.labels_together import LabelsTogether


def table(says: np.ndarray) -> pd.DataFrame:
    """Who said what, -1 for nothing; string ids."""
    item, worker = np.nonzero(says >= 0)
    names = [f"w{one}" for one in worker]
    return pd.DataFrame({"item": item, "worker": names, "label": says[item, worker]})


def crowd(
    seed: int, copied: float, share: float = 0.2, num_items: int = 500
) -> tuple[np.ndarray, CrowdData]:
    """Five workers who are right in .7 to .9; the second repeats the first in a share."""
    rng = np.random.default_rng(seed)
    truth = rng.random(num_items) < share
    says = truth[:, None] ^ (rng.random((num_items, 5)) > rng.uniform(0.7, 0.9, 5))
    says[:, 1] = np.where(rng.random(num_items) < copied, says[:, 0], says[:, 1])
    return truth.astype(int), CrowdData(None, labels=table(says.astype(int)))


def accuracy(frame: pd.DataFrame, truth: np.ndarray) -> float:
    return float((frame.to_numpy().argmax(1) == truth).mean())


def majority(data: CrowdData, truth: np.ndarray) -> float:
    votes = LabelsTogether(data).labels.votes().numpy()
    return float((votes.argmax(1) == truth).mean())


def unexplained_alone(answers: LabelsTogether, probabilities: np.ndarray) -> float:
    """D of classes near these, where every worker is a voice of its own."""
    alone = np.ones(answers.num_workers)
    return answers.unexplained(*answers.classes(probabilities, alone), alone)


def sparse_answers() -> CrowdData:
    """Four workers, three classes, a third of the answers missing."""
    rng = np.random.default_rng(5)
    truth = rng.integers(3, size=90)
    says = np.where(rng.random((90, 4)) < 0.7, truth[:, None], rng.integers(3, size=(90, 4)))
    says[:, 3] = np.where(rng.random(90) < 0.8, says[:, 2], says[:, 3])
    says[:, 1:][rng.random((90, 3)) < 0.3] = -1
    return CrowdData(None, labels=table(says))


def test_what_answers_are_worth_is_that_of_a_loop_over_pairs_of_answers():
    data = sparse_answers()
    answers = LabelsTogether(data)
    worker_weights = np.array([1.0, 0.9, 0.6, 0.5])
    q, rows = answers.classes(answers.majority(), worker_weights)
    says = np.full((4, 3, 3), 1 / 6) + np.eye(3) / 2
    for i, j, a in zip(answers.item, answers.worker, answers.label, strict=True):
        says[j, :, a] += q[i]
    says /= says.sum(-1, keepdims=True)
    given = list(zip(answers.item, answers.worker, answers.label, strict=True))
    rho, cost = np.zeros((4, 4)), 0.0
    for one, two in product(range(4), repeat=2):
        if one == two:
            continue
        pairs = [(i, a, b) for i, j, a in given for k, m, b in given if (i, j, m) == (k, one, two)]
        beyond = variance = own = others = 0.0
        for i, a, b in pairs:
            without = (
                q[i]
                / rows[one, :, a] ** worker_weights[one]
                / rows[two, :, b] ** worker_weights[two]
            )
            without = without / without.sum()
            agree = sum(without[k] * says[one, k] @ says[two, k] for k in range(3))
            beyond += (a == b) - agree
            variance += agree * (1 - agree)
            own += sum(without[k] * (1 - says[one, k] @ says[one, k]) for k in range(3))
            others += sum(without[k] * (1 - says[two, k] @ says[two, k]) for k in range(3))
        assert len(pairs) >= 30
        r = beyond / np.sqrt(own * others)
        rho[one, two] = np.clip(r * max(0, 1 - 2 * np.log(3) / (len(pairs) * r**2)), 0, 1)
        cost += np.clip(beyond / np.sqrt(variance), 0, 2.5) / 2
    assert rho[2, 3] > 0.3
    np.testing.assert_allclose(
        answers.worker_weights(q, rows, worker_weights), 1 / (1 + rho.sum(1))
    )
    assert answers.unexplained(q, rows, worker_weights) == pytest.approx(cost)


def test_classes_are_those_of_confusion_matrices_with_answers_that_count_in_part():
    """A fixed point: q from the rows, the rows from q, with a prior of 4 and 2 answers."""
    data = sparse_answers()
    found = discount_copies(data)
    labels = LabelsTogether(data).labels
    counts = np.full((4, 3, 3), 1.0) + 3 * np.eye(3)
    log_q = np.tile(np.log(found.probabilities.sum(0) + 1), (90, 1))
    for i, j, a in zip(labels.item, labels.worker, labels.label, strict=True):
        counts[j, :, a] += found.probabilities[i]
        log_q[i] += found.worker_weights[j] * np.log(found.rows[j, :, a])
    np.testing.assert_allclose(found.rows, counts / counts.sum(-1, keepdims=True), atol=1e-12)
    q = np.exp(log_q) / np.exp(log_q).sum(1, keepdims=True)
    np.testing.assert_allclose(found.probabilities, q, atol=0.02)
    item, worker, label = (np.array(one) for one in ([0, 3], [1, 2], [2, 0]))
    named = found.answer_probabilities(item, worker, label)
    np.testing.assert_array_equal(named, [found.rows[1, :, 2], found.rows[2, :, 0]])
    fitted = infer_classes(data, num_communities=[0], epochs=2)
    assert found.confusion.index.equals(fitted.confusion.index)
    assert found.class_probabilities.columns.equals(fitted.class_probabilities.columns)
    assert found.class_probabilities.index.equals(fitted.class_probabilities.index)


@pytest.mark.parametrize("num_copies", [2, 3])
def test_of_exact_copies_each_counts_its_part(num_copies):
    rng = np.random.default_rng(0)
    truth = rng.random(600) < 0.3
    says = (truth[:, None] ^ (rng.random((600, 8)) < 0.2)).astype(int)
    says[:, :num_copies] = says[:, :1]
    found = discount_copies(CrowdData(None, labels=table(says)))
    np.testing.assert_allclose(found.worker_weights[:num_copies], 1 / num_copies, atol=0.04)
    assert (found.worker_weights[num_copies:] > 0.9).all()


@pytest.mark.parametrize(("share", "seed"), [(0.05, 1), (0.2, 1)])
def test_one_of_five_who_copies_leads_nobody_astray(share, seed):
    """A model of workers who err independently is below the majority."""
    truth, data = crowd(seed, 0.85, share, num_items=1000)
    independent = infer_classes(data, num_communities=[0], epochs=20)
    votes = majority(data, truth)
    assert accuracy(independent.class_probabilities, truth) < votes - 0.02
    assert accuracy(discounted_class_probabilities(independent), truth) > votes + 0.01


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_workers_who_know_fewer_names_are_no_copies(seed):
    """Four of eight call two classes by one name: they agree as they do, given the true class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(6, size=300)
    says = np.tile(truth[:, None], 8)
    says[:, :4] -= says[:, :4] % 2
    says = np.where(rng.random((300, 8)) < 0.85, says, rng.integers(6, size=(300, 8)))
    answered = rng.random((300, 8)) < 0.6
    answered[:, 0] = True
    data = CrowdData(None, labels=table(np.where(answered, says, -1)))
    assert weight_of_copies(discount_copies(data), np.eye(6)[truth]) == 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_copies_nothing_changes(seed):
    truth, data = crowd(seed, 0.0)
    independent = infer_classes(data, num_communities=[0], epochs=20)
    found = discounted_class_probabilities(independent)
    frame = independent.class_probabilities
    assert accuracy(found, truth) >= accuracy(frame, truth)
    np.testing.assert_allclose(found, frame, atol=0.05)


def test_workers_who_err_about_the_same_hard_items_are_no_copies():
    """What the trait explains is no reason to discount anybody."""
    rng = np.random.default_rng(0)
    truth = rng.random(400) < 0.15
    looks = np.where(truth, 2.0, -2.3) + 1.3 * rng.normal(size=400)
    says = rng.random((400, 5)) < expit(2 * looks[:, None] + 1 - rng.normal(size=5))
    data = CrowdData(None, labels=table(says.astype(int)))
    trait = infer_trait(data, share=0.15, epochs=60)
    answers = LabelsTogether(data)
    log_shares, rows = trait.model.annotators.at_points(trait.guide.posteriors)
    np.testing.assert_allclose(rows.sum(-1), 1)
    points = states_given(answers.matrix, log_shares, np.log(rows))
    values = {name: posterior.mean() for name, posterior in trait.guide.posteriors.items()}
    classes = points @ trait.model.annotators.sides(values).numpy()
    np.testing.assert_allclose(classes, trait.probabilities, atol=0.05)
    discounted = discount_copies(data)
    independent = unexplained_alone(answers, trait.probabilities)
    assert answers.unexplained(points, rows, np.ones(5), rows) < independent - 1
    vars(discounted)["unexplained"] = independent - 1
    assert weight_of_copies(discounted, trait.probabilities) == pytest.approx(np.tanh(1))
    assert weight_of_copies(discounted, trait.probabilities, trait) == 0
    assert discounted_class_probabilities(trait).equals(trait.class_probabilities)


def test_three_good_workers_beside_three_who_always_say_the_same_are_no_copies():
    rng = np.random.default_rng(0)
    truth = rng.random(500) < 0.3
    says = (truth[:, None] ^ (rng.random((500, 6)) > rng.uniform(0.75, 0.9, 6))).astype(int)
    says[:, :3] = rng.random((500, 3)) < 0.1
    data = CrowdData(None, labels=table(says))
    truth_table = np.stack([~truth, truth], 1) * 0.8 + 0.1
    discounted = discount_copies(data)
    assert weight_of_copies(discounted, truth_table) == 0
    assert unexplained_alone(discounted.answers, truth_table) < 8


def test_workers_who_never_say_something_else_copy_nobody():
    """All others agree with them as often as they say that, and they with each other always."""
    truth, data = crowd(0, 0.0)
    labels = data.class_labels
    says = np.full((500, 7), -1)
    says[labels.item, labels.worker] = labels.label
    says[:, 5:] = 0
    found = discount_copies(CrowdData(None, labels=table(says)))
    assert found.worker_weights[5:].tolist() == [1, 1]
    assert (found.worker_weights[:5] > 0.9).all()


def test_the_average_of_models_discounts_copies(monkeypatch):
    truth, data = crowd(1, 0.85)

    def average_of_one(data: CrowdData, *_, **__) -> AveragedClasses:
        fitted = infer_classes(data, num_communities=[0], epochs=20)
        return AveragedClasses([fitted], [1.0], np.ones(1))

    monkeypatch.setattr(averaging, "average_classes", average_of_one)
    average = average_annotator_models(data)
    assert [type(member).__name__ for member in average.members] == ["Fitted", "DiscountedClasses"]
    assert average.weights.sum() == pytest.approx(1)
    assert average.weights[-1] > 0.6
    assert accuracy(average.class_probabilities, truth) > majority(data, truth) + 0.01
    np.testing.assert_allclose(average.confusion["mean"].groupby(["worker", "class"]).sum(), 1)


def test_features_tell_a_copy_from_a_second_good_worker():
    """Two agree beyond their errors: one voice, or right where three others err as one."""
    rng = np.random.default_rng(4)
    truth = rng.integers(2, size=600)
    one = truth ^ (rng.random(600) < 0.3)
    copy = np.where(rng.random(600) < 0.9, one, truth)
    others = truth[:, None] ^ (rng.random((600, 3)) < 0.3)
    data = CrowdData(None, labels=table(np.column_stack([one, copy, others])))
    sure = 0.5 + 0.4 * np.eye(2)[truth] - 0.4 * np.eye(2)[1 - truth]
    found = discount_copies(data, sure)
    assert found.worker_weights[:2] == pytest.approx(0.55, abs=0.1)
    assert found.worker_weights[2:] == pytest.approx(1, abs=0.1)
    assert gain_by_features(found, np.eye(2)[one], sure) > 3
    swapped = discount_copies(data, sure[:, ::-1])
    assert accuracy(swapped.class_probabilities, truth) < accuracy(found.class_probabilities, truth)


@pytest.mark.parametrize("has_features", [False, True])
def test_the_majority_is_of_workers_who_are_equally_good(has_features):
    """``q(k) prop. p_i(k) (r (K - 1) / (1 - r))^n_ik``, r the share of the votes that is right."""
    data = sparse_answers()
    prior = np.random.default_rng(2).dirichlet(np.ones(3), data.num_items)
    answers = LabelsTogether(data, prior if has_features else None)
    q, votes = answers.majority(), answers.labels.votes().numpy()
    right = ((q * votes).sum() + 4) / (votes.sum() + 6)
    expected = (prior if has_features else 1.0) * (2 * right / (1 - right)) ** votes
    np.testing.assert_allclose(q, expected / expected.sum(1, keepdims=True), atol=1e-6)


def test_of_independent_workers_features_say_as_much():
    rng = np.random.default_rng(5)
    truth = rng.integers(2, size=600)
    says = truth[:, None] ^ (rng.random((600, 5)) < [0.3, 0.3, 0.3, 0.02, 0.02])
    data = CrowdData(None, labels=table(says.astype(int)))
    sure = 0.5 + 0.3 * np.eye(2)[truth] - 0.3 * np.eye(2)[1 - truth]
    found = discount_copies(data, sure)
    assert gain_by_features(found, np.eye(2)[truth], sure) < 1


def test_what_features_gain_is_a_ratio_of_their_densities():
    data = sparse_answers()
    by_features = np.random.default_rng(1).dirichlet(np.ones(3), data.num_items)
    found = discount_copies(data, by_features)
    answers, alone = found.answers, np.ones(4)
    start = np.full((data.num_items, 3), 1 / 3)
    expected = 0.0
    readings = [
        (found.probabilities, found.rows, found.worker_weights, 1),
        (*answers.classes(start, alone), alone, -1),
    ]
    for q, rows, worker_weights, sign in readings:
        shares = (q.sum(0) + 1) / (len(q) + 3)
        for item in np.unique(answers.item):
            named = shares.copy()
            for row in np.flatnonzero(answers.item == item):
                worker = answers.worker[row]
                named *= rows[worker, :, answers.label[row]] ** worker_weights[worker]
            expected += sign * np.log(by_features[item] / shares @ named / named.sum())
    assert gain_by_features(found, start, by_features) == pytest.approx(expected, abs=1e-9)


def test_features_stand_in_place_of_the_shares():
    data = sparse_answers()
    shares = np.random.default_rng(0).dirichlet(np.ones(3), data.num_items)
    answers, worker_weights = LabelsTogether(data, shares), np.array([0.5, 1.0, 0.7, 1.0])
    q, rows = answers.classes(answers.majority(), worker_weights)
    before = answers.rows(q)
    expected = np.log(shares)
    labels = answers.labels
    for item, worker, label in zip(labels.item, labels.worker, labels.label, strict=True):
        expected[item] += worker_weights[worker] * np.log(before[worker, :, label])
    expected = np.exp(expected - expected.max(1, keepdims=True))
    np.testing.assert_allclose(q, expected / expected.sum(1, keepdims=True), atol=0.01)


def test_what_has_no_class_labels_is_refused_in_words():
    frame = table(np.eye(3, dtype=int))
    with pytest.raises(ValueError, match="data is a DataFrame, but must be a CrowdData: wrap"):
        discount_copies(frame)
    pairs = pd.DataFrame({"left": [0, 1], "right": [1, 2], "worker": ["a", "b"], "label": [0, 1]})
    with pytest.raises(ValueError, match="no class labels: pass .*; to classify pairs as items"):
        discount_copies(CrowdData(None, pairs=pairs))
    alone = cluster(None, pairs=pairs, epochs=1, progress=False)
    with pytest.raises(ValueError, match="there are no class labels"):
        discounted_class_probabilities(alone)
    with pytest.raises(ValueError, match="result is DataFrame, but must be a fit"):
        discounted_class_probabilities(frame)


def test_workers_without_common_items_are_taken_as_they_are():
    says = np.full((40, 3), -1)
    says[:20, 0] = says[20:, 1] = says[::2, 2] = 1
    says[5:9] = np.where(says[5:9] == 1, 0, -1)
    found = discount_copies(CrowdData(None, labels=table(says)))
    assert (found.worker_weights == 1).all()
    assert found.unexplained == 0


@pytest.mark.parametrize("num_constant", [0, 1])
def test_three_workers_who_do_not_always_say_the_same_are_too_few_to_tell_copies_by(num_constant):
    """Independent workers have seven rates for the seven free frequencies of eight triples."""
    times = {(0, 0, 0): 1145, (1, 0, 0): 979, (1, 0, 1): 345, (1, 1, 1): 3, (1, 1, 0): 1}
    says = np.repeat(np.array([*times]), [*times.values()], axis=0)
    says = np.hstack([says, np.zeros((len(says), num_constant), dtype=int)])
    discounted = discount_copies(CrowdData(None, labels=table(says)))
    votes = says[:, :3].mean(1)
    votes = np.column_stack([1 - votes, votes])
    assert discounted.unexplained < unexplained_alone(discounted.answers, votes)
    assert weight_of_copies(discounted, votes) == 0


def test_copies_are_told_from_others_by_what_is_known_for_sure():
    """Four copies of a voice outvote four good workers, which no answer tells."""
    rng = np.random.default_rng(0)
    truth = (rng.random(400) < 0.5).astype(int)
    voice = truth ^ (rng.random(400) < 0.35)
    copies = voice[:, None] ^ (rng.random((400, 4)) < 0.03)
    says = np.hstack([copies, truth[:, None] ^ (rng.random((400, 4)) < 0.25)]).astype(int)
    sure = pd.DataFrame({"item": range(40), "worker": "expert", "label": truth[:40]})
    data = CrowdData(None, labels=pd.concat([table(says), sure]))
    result = infer_classes(data, [1], trusted=["expert"])
    found = discounted_class_probabilities(result)
    assert accuracy(result.class_probabilities, truth) < 0.8
    assert accuracy(found, truth) > 0.85
    # What is known stays so.
    assert found.to_numpy()[range(40), truth[:40]].min() > 0.999
    worker_weights = copy_discounts(result)
    assert worker_weights is not None
    assert max(worker_weights[1:5]) < 0.35  # by their names, of which "expert" is the first
    assert worker_weights[0] == 1.0


def test_of_workers_who_are_all_trusted_none_is_a_copy():
    said = pd.DataFrame({"item": range(60), "worker": "expert", "label": np.arange(60) % 2})
    data = CrowdData(None, labels=pd.concat([said, said.assign(worker="other")]))
    result = infer_classes(data, [0], trusted=["expert", "other"])
    found = discounted_class_probabilities(result)
    assert found.equals(result.class_probabilities)


def test_features_of_a_fit_say_of_discounted_classes_what_they_say(tmp_path):
    """Items without labels had the shares of the classes, and others were doubted."""
    rng = np.random.default_rng(0)
    truth = (rng.random(400) < 0.5).astype(int)
    features = rng.normal(size=(400, 2)) + 3 * truth[:, None]
    voice = truth[:200] ^ (rng.random(200) < 0.35)
    copies = voice[:, None] ^ (rng.random((200, 3)) < 0.03)
    says = np.hstack([copies, truth[:200, None] ^ (rng.random((200, 5)) < 0.2)]).astype(int)
    data = CrowdData(features, labels=table(says))
    model = MomResp(GaussianComponents(2, 2), ConfusionMatrices(8, 2))
    options = {"batch_size": None, "step_size": 1.0, "epochs": 60, "progress": False}
    result = fit(model, ClassLabelGuide(model), data, **options)
    assert weight_of_copies(discount_copies(data), np.asarray(result.probabilities)) > 0.5
    found = discounted_class_probabilities(result)
    assert accuracy(found[200:], truth[200:]) > 0.95
    assert accuracy(found[:200], truth[:200]) > 0.95
    result.save(tmp_path / "fit")
    with pytest.raises(ValueError, match=r"a file has no features.*load\(path, data=data\)"):
        discounted_class_probabilities(load(tmp_path / "fit"))
    again = discounted_class_probabilities(load(tmp_path / "fit", data=data))
    pd.testing.assert_frame_equal(again, found)
