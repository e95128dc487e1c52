"""Likelihoods of answers at draws, against sums over both ends and Bayes."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta
from scipy.special import logsumexp

from pyro_crowdclust.diagnostics import arviz, check_workers, to_arviz
from pyro_crowdclust.diagnostics.answer_likelihood import left_out_answers
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.minibatches import AnswerPlate

from ..crowds import NUM_CLUSTERS, quiet_fit
from ..plain_mixtures import ENUMERATE, adam, normal_guide, two_clouds, with_answers
from .exports import one_chain

DIMENSION = {"features": "item", "answers": "answer"}


def test_answers_against_a_sum_over_both_ends(plain, tree):
    pairs, q = plain.data.pairs, plain.probabilities
    sensitivity, specificity = (
        one_chain(tree, "posterior", name) for name in ("sensitivity", "specificity")
    )
    found = one_chain(tree, "log_likelihood", "answers")
    for row in (0, 17, 40):
        i, j = plain.data.item_positions(pairs.iloc[row][["left", "right"]])
        worker, label = pairs.iloc[row]["worker"], pairs.iloc[row]["label"]
        alpha, beta = sensitivity[:, worker], specificity[:, worker]
        inverse = 0.0
        for k in range(NUM_CLUSTERS):
            for other in range(NUM_CLUSTERS):
                yes = alpha if k == other else 1 - beta
                inverse += q[i, k] * q[j, other] / (yes if label else 1 - yes)
        np.testing.assert_allclose(found[:, row], -np.log(inverse), rtol=1e-9)


def test_pages_of_answers_are_known():
    """Some pages are harder than others."""
    left, others = np.triu_indices(12, 1)
    page = np.arange(66) // 22
    pairs = {"left": left, "right": others, "worker": page, "label": [1, 0] * 33, "page": page}

    def of_pairs(right, batch):
        return right ** (1.0 + batch.page)

    model, data = partial(with_answers, of_pairs=of_pairs), two_clouds(12, pairs)
    result = quiet_fit(
        model, EnumeratedGuide(model, normal_guide(model, "z", "same")), data, batch_size=None
    )
    tree = to_arviz(result, 9)
    right = one_chain(tree, "posterior", "right")[:, None] ** (1.0 + page)
    same = result.same_cluster_probability(left, others)
    said = np.array(pairs["label"]) == 1
    if_same, if_different = np.where(said, [right, 1 - right], [1 - right, right])
    exact = -np.log(same / if_same + (1 - same) / if_different)
    np.testing.assert_allclose(one_chain(tree, "log_likelihood", "answers"), exact, rtol=1e-8)
    assert len(check_workers(result, 5)) == 3


class TestLatentsOfAnswers:
    """Every answer has an ease of its own, on which the share of right answers depends."""

    LEFT, OTHERS = np.triu_indices(12, 1)
    PAIRS = {"left": LEFT, "right": OTHERS, "worker": [0] * 66, "label": [1, 0] * 33}

    @staticmethod
    def by_length(batch):
        return pyro.plate("pairs", batch.num_pairs)

    def fitted(self, plate, create_plates=None, **options):
        def model(batch):
            pyro.sample("mean", dist.Normal(0.0, 1.0))
            with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
                z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
                location = torch.tensor([-2.0, 2.0]).double()
                pyro.sample("o", dist.Normal(location[z], 1.0), obs=batch.features[:, 0])
            if batch.num_pairs:
                with plate(batch):
                    ends = batch.left, batch.right, batch.num_paired
                    ease = pyro.sample("ease", dist.Normal(1.0, 1.0))
                    same = pyro.sample("same", SameCluster(z, *ends))
                    yes = dist.Bernoulli(logits=torch.where(same > 0.5, ease, -ease))
                    pyro.sample("label", yes, obs=batch.label)

        inner = AutoDelta(poutine.block(model, hide=["z", "same"]), create_plates=create_plates)
        guide = EnumeratedGuide(model, inner)
        options = {"epochs": 20, "optim": adam, "dtype": torch.float64} | options
        return quiet_fit(model, guide, two_clouds(12, self.PAIRS), **options)

    @pytest.mark.parametrize("batch_size", [None, 5])
    def test_are_drawn_by_position(self, batch_size):
        plate = partial(AnswerPlate, "pairs")
        result = self.fitted(plate, plate, batch_size=batch_size)
        tree = to_arviz(result, 3)
        assert list(tree["posterior"].data_vars) == ["mean"]
        ease = result.guide.of_globals.ease.detach().numpy()
        right = 1 / (1 + np.exp(-ease))
        same = result.same_cluster_probability(self.LEFT, self.OTHERS)
        said = np.array(self.PAIRS["label"]) == 1
        if_same, if_different = np.where(said, [right, 1 - right], [1 - right, right])
        exact = -np.log(same / if_same + (1 - same) / if_different)
        found = one_chain(tree, "log_likelihood", "answers")
        np.testing.assert_allclose(found, np.tile(exact, (3, 1)), rtol=1e-6)
        assert len(check_workers(result, 3)) == 1
        assert len(result.predict(torch.zeros(2, 1))) == 2

    def test_are_refused_in_another_plate(self):
        result = self.fitted(self.by_length, batch_size=None, epochs=1)
        for read in (to_arviz, check_workers):
            with pytest.raises(
                ValueError, match=r"value of 'ease' for every .*AnswerPlate\('pairs'"
            ):
                read(result, 3)
        tree = to_arviz(result, 3, log_likelihood=False)
        assert one_chain(tree, "posterior", "ease").shape == (3, 66)


def test_answers_may_hang_on_features_of_their_items():
    """Right the more seldom, the farther out the left item is: by the formula."""

    def of_pairs(right, batch):
        return right ** (1 + batch.features[batch.left, 0].abs())

    left, others = np.triu_indices(12, 1)
    pairs = {"left": left, "right": others, "worker": [0] * 66, "label": [1, 0] * 33}
    model, data = partial(with_answers, of_pairs=of_pairs), two_clouds(12, pairs)
    guide = EnumeratedGuide(model, normal_guide(model, "z", "same"))
    result = quiet_fit(model, guide, data, batch_size=None)
    tree = to_arviz(result, 9)
    away = np.abs(np.asarray(data.features)[left, 0])
    right = one_chain(tree, "posterior", "right")[:, None] ** (1 + away)
    same = result.same_cluster_probability(left, others)
    said = np.array(pairs["label"]) == 1
    if_same, if_different = np.where(said, [right, 1 - right], [1 - right, right])
    exact = -np.log(same / if_same + (1 - same) / if_different)
    np.testing.assert_allclose(one_chain(tree, "log_likelihood", "answers"), exact, rtol=1e-8)


def test_leaving_an_answer_out_by_bayes():
    # Prior of "same" 0.3, and one answer "yes": p(same | yes) back to p(yes).
    yes_if_same, yes_if_different = 0.9, 0.2
    evidence = 0.3 * yes_if_same + 0.7 * yes_if_different
    same = np.array([0.3 * yes_if_same / evidence])
    logs = [torch.tensor([[np.log(p)]]) for p in (yes_if_same, yes_if_different)]
    assert float(left_out_answers(*logs, same)) == pytest.approx(np.log(evidence))


@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "deep"])
def test_arviz_leaves_out_items_and_answers(fits, name):
    tree = to_arviz(fits[name], 200)
    for variable in ("features", "answers"):
        with warnings.catch_warnings():
            # A small sample: some tails are heavy, and ArviZ says so.
            warnings.filterwarnings("ignore", "Estimated shape parameter", UserWarning)
            loo = arviz().loo(tree, var_name=variable, pointwise=True)
        plain_mean = logsumexp(tree["log_likelihood"][variable].values[0], axis=0).sum()
        plain_mean -= tree["log_likelihood"].sizes[DIMENSION[variable]] * np.log(200)
        found = float(loo["elpd_loo"] if hasattr(loo, "elpd_loo") else loo.elpd)
        # What is left out is predicted worse than what was fitted, but not by much.
        assert plain_mean - 0.3 * abs(plain_mean) < found < plain_mean
