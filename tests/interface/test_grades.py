"""A table and graded answers, from one call to what is read, asked and saved."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import GradedAnswers, check_annotators
from pyro_crowdclust.annotators.channels import channels_of
from pyro_crowdclust.asking import Pages, Pairs, suggest
from pyro_crowdclust.asking.crowd import Crowd
from pyro_crowdclust.asking.information import channel_information
from pyro_crowdclust.asking.worker_counts import best_reading
from pyro_crowdclust.asking.worker_rates import GradeRates
from pyro_crowdclust.diagnostics import check_workers, to_arviz
from pyro_crowdclust.diagnostics.predictive import replicated_answers
from pyro_crowdclust.interface import CrowdClusterer, advice, choice_for, cluster
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.interface.command_line.fit_folder import read_data
from pyro_crowdclust.interface.command_line.portraits import pairs_in_dispute
from pyro_crowdclust.interface.holding_out.splits import split
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.simulation import simulate_grades

GRADES = ["far", "near", "alike", "same"]
KINDS = np.arange(90) % 3
PARTS = {"components": GaussianComponents, "num_clusters": 5}


def features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(90, 2)) + 3.0 * np.eye(3)[KINDS, :2]


def judgements() -> pd.DataFrame:
    """Of four people, the second of whom is strict, and the last of whom sees nothing."""
    cuts = np.array([[-1.0, 0.0, 1.0]] * 4) + np.array([[0.0], [1.0], [0.0], [0.0]])
    sharpness = [3.5, 3.5, 2.0, 0.0]
    frame = simulate_grades(
        KINDS, sharpness, cuts, doubt=0.25, pairs_per_worker=90, items=range(60), seed=0
    )
    names = frame["label"].map(dict(enumerate(GRADES, 1)))
    return frame.assign(label=names, page=np.arange(len(frame)) // 30)


@pytest.fixture(scope="module")
def result():
    pairs = judgements().drop(columns="page")
    return cluster(features(), pairs, grades=GRADES, **PARTS, progress=False)


def test_clusters_and_what_the_grades_of_each_worker_mean(result):
    assert clustering_accuracy(KINDS[:60], result.assignments[:60]) > 0.93
    workers = result.workers
    names = [*GRADES, "unsure"]
    for site in ("if_same", "if_different"):
        np.testing.assert_allclose(workers[[f"{site}_{name}" for name in names]].sum(axis=1), 1)
    # The strict one calls fewer pairs the same, and far more.
    assert workers["if_same_same"][1] < workers["if_same_same"][0] - 0.2
    assert workers["if_same_near"][1] > workers["if_same_near"][0]
    assert workers["weight"].idxmin() == 3
    assert "sensitivity" not in workers


@pytest.mark.long
def test_a_choice_of_the_model_hears_grades():
    choice = choice_for(CrowdData(features(), judgements(), grades=GRADES))
    kinds = "full Gaussians", "regression"
    forms = [one for one in choice.forms if one.kind in kinds and one.features == "columns"]
    some = dataclasses.replace(choice, forms=forms, sizes=[3], first_size=3)
    result = some.fit(num_starts=1, progress=False)
    assert clustering_accuracy(KINDS[:60], result.assignments[:60]) > 0.93
    assert result.chosen.held_out > result.chosen.chance


def test_held_out_grades_are_as_likely_as_a_mixture_of_both_rows(result):
    one = split(result.data, 0.25, torch.Generator().manual_seed(0))
    found, workers = one.log_probability(result), result.workers
    pairs = result.data.pairs
    held = torch.isin(pairs_key(result.data.answers), pairs_key(one.held_out))
    assert held.sum() == len(found) > 30
    for row in (0, 5, 20):
        left, right, worker = (
            int(getattr(one.held_out, name)[row]) for name in ("left", "right", "worker")
        )
        said = pairs.query(f"left == {left} and right == {right} and worker == {worker}")["label"]
        name = said.iloc[0] if isinstance(said.iloc[0], str) else "unsure"
        same = result.same_cluster_probability(left, right)
        likely = same * workers.loc[worker, f"if_same_{name}"]
        likely += (1 - same) * workers.loc[worker, f"if_different_{name}"]
        assert found[row] == pytest.approx(np.log(likely))
    parts = one.data.answers, one.held_out
    place = [(part.label.nan_to_num(nan=4 / 3) * 3).round().long() for part in parts]
    shares = torch.bincount(place[0], minlength=5) + 1.0
    counts = 4 * (shares / shares.sum()).expand(result.data.num_workers, 5).clone()
    for worker, label in zip(parts[0].worker, place[0], strict=True):
        counts[worker, label] += 1
    expected = (counts / counts.sum(1, keepdim=True)).log()[parts[1].worker, place[1]]
    assert one.chance == pytest.approx(float(expected.mean()))
    assert one.chance < found.mean()


def pairs_key(answers) -> torch.Tensor:
    return (answers.left * 1000 + answers.right) * 1000 + answers.worker


def test_questions_are_worth_what_all_grades_tell(result):
    found = suggest(result, Pairs(), count=6, exploration=0.0)
    assert found.frame["gain"].min() > 0
    generator = np.random.default_rng(0)
    crowd = Crowd.of(result, [0, 3, "new"], None, None)
    channels = crowd.pair_channels(3)
    assert channels.shape == (3, 2, 5)
    ours = channels_of(result.guide.workers()).mean
    np.testing.assert_allclose(channels[:2], ours[[0, 3]])
    np.testing.assert_allclose(channels[2], ours.mean(0))
    drawn = GradeRates(np.repeat(crowd.rates.counts[:1], 3000, axis=0)).draw(generator)
    table = result.workers.loc[0]
    deviations = [table[f"if_same_{name}_sd"] for name in [*GRADES, "unsure"]]
    np.testing.assert_allclose(drawn.std(0)[1], deviations, rtol=0.1)
    even = np.full((1, 2), 0.5)
    told = [channel_information(even, channel)[0] for channel in channels]
    # What is read as yes or no tells less, and somebody who sees nothing tells next to nothing.
    different, same = (channels[0] * best_reading(channels[:1])[0]).sum(-1)
    cut = channel_information(even, np.array([[different, 1 - different], [1 - same, same]]))[0]
    assert told[0] > cut > told[1]
    assert crowd.reliability(3)[0] == pytest.approx(
        np.sqrt(np.abs(channels[0, 0] - channels[0, 1]).sum() / 2)
    )
    with pytest.raises(ValueError, match="workers of this fit grade pairs"):
        suggest(result, Pages(6), count=1)


def test_more_grades_of_somebody_new(result):
    more = judgements().query("page == 0").drop(columns="page").assign(worker=9)
    updated = result.update(more)
    assert updated.data.num_workers == 5
    assert updated.data.grade_ids.tolist() == GRADES
    assert updated.workers.loc[9, "if_same_same"] > updated.workers.loc[9, "if_same_far"]


def test_saved_and_loaded(result, tmp_path):
    result.save(tmp_path / "result.safetensors")
    loaded = load(tmp_path / "result.safetensors")
    pd.testing.assert_frame_equal(loaded.workers, result.workers)
    assert loaded.data.pairs.equals(result.data.pairs)


def test_a_page_on_which_a_worker_was_always_unsure_is_not_the_worst(result):
    told = judgements()
    silent = told.query("page == 0").assign(label=None, page=99)

    def worst(pairs: pd.DataFrame) -> pd.Series:
        data = CrowdData(features(), pairs, grades=GRADES)
        return check_workers(dataclasses.replace(result, data=data), num_draws=20)["worst_page"]

    (worker,) = silent["worker"].unique()
    assert worst(told)[worker] > 0.5
    np.testing.assert_allclose(worst(pd.concat([told, silent])), worst(told), atol=0.1)


def test_checks_and_draws_are_of_grades(result):
    checks = check_workers(result, num_draws=60)
    told = judgements().groupby("worker")["label"]
    np.testing.assert_allclose(checks["unsure"], 1 - told.count() / told.size())
    level = judgements()["label"].map({name: place / 3 for place, name in enumerate(GRADES)})
    np.testing.assert_allclose(checks["said_same"], level.groupby(judgements()["worker"]).mean())
    assert checks.filter(regex="_p$").to_numpy().min() > 0.01
    tree = to_arviz(result, num_draws=30)
    assert tree["posterior"]["if_same"].coords["grade"].to_numpy().tolist() == [*GRADES, "unsure"]
    answers = tree["observed_data"]["answers"].to_numpy()
    assert np.bincount(answers)[4] == judgements()["label"].isna().sum()
    drawn = tree["posterior_predictive"]["answers"].to_numpy()
    assert drawn.min() >= 0
    assert drawn.max() == 4
    assert abs((drawn == 4).mean() - (answers == 4).mean()) < 0.03
    assert np.isfinite(tree["log_likelihood"]["answers"]).all()


def test_drawn_anew_they_have_their_shares():
    shares = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]], dtype=torch.float64)
    rows = shares.log().unsqueeze(-1).expand(2, 4, 20_000)
    for place, same in enumerate((1.0, 0.0)):
        drawn = replicated_answers(torch.full((1, 20_000), same), rows[:1], rows[1:])
        found = torch.bincount(drawn.flatten(), minlength=4) / 20_000
        torch.testing.assert_close(found, shares[place], atol=0.015, rtol=0)


def test_disputes_and_advice_take_grades(result):
    table = pairs_in_dispute(result)
    assert (table[["say same", "say different"]].to_numpy() >= 0).all()
    assert not table.isna().any(axis=None)
    assert isinstance(advice(result), list)


def test_grades_in_the_wrong_order_are_told_as_grades():
    pairs = judgements().drop(columns="page").head(90)
    told = {"grades": GRADES[::-1], "known": KINDS, **PARTS, "progress": False}
    (sentence,) = [one for one in advice(cluster(features(), pairs, **told)) if "opposite" in one]
    assert 'check that grades go from "different" to "same" in grades=' in sentence


def test_the_estimator_takes_them():
    clusterer = CrowdClusterer(5, components=GaussianComponents, n_init=1, random_state=0)
    clusterer.fit(features(), pairs=judgements(), grades=GRADES)
    assert "if_same_unsure" in clusterer.workers_


def test_probabilities_of_same(tmp_path):
    levels = {name: place / 3 for place, name in enumerate(GRADES)}
    pairs = judgements().assign(label=judgements()["label"].map(levels))
    result = cluster(features(), pairs, grades=4, **PARTS, progress=False)
    assert "if_same_0.333333" in result.workers
    again = result.update(pairs.head(5).assign(page=50))
    assert again.data.num_pairs == len(pairs) + 5


def test_labels_none_of_which_is_a_grade_are_a_mistake():
    with pytest.raises(ValueError, match=r"not among the grades \[1, 2\]"):
        CrowdData(features(), judgements(), grades=[1, 2])


def test_grades_of_looks_are_for_answers_alone():
    data = CrowdData(features(), judgements(), grades=GRADES)
    with pytest.raises(ValueError, match="need what a pair looks like"):
        check_annotators(GradedAnswers(4, 4), data)


def test_grades_in_a_table_with_empty_cells_are_those_that_are_named(tmp_path):
    """pandas writes 2.0 for a grade 2 in a column in which somebody cannot tell."""
    graded = simulate_grades([0, 0, 1, 1], [9.0], [[-2.0, 2.0]], pairs_per_worker=6, seed=0)
    graded.loc[0, "label"] = np.nan
    graded.to_csv(tmp_path / "answers.csv", index=False)
    files = dict.fromkeys(("placements", "known", "must_link", "cannot_link", "answers"))
    data = read_data(files | {"pairs": tmp_path / "answers.csv"}, None, {}, ["1", "2", "3"])
    assert data.grade_ids.tolist() == ["1", "2", "3"]
    np.testing.assert_array_equal(data.answers.label, (graded["label"] - 1) / 2)


@pytest.mark.long
def test_from_files_and_back(tmp_path, capsys):
    pd.DataFrame(features(), columns=["a", "b"]).to_csv(tmp_path / "items.csv", index_label="item")
    judgements().to_csv(tmp_path / "answers.csv", index=False)
    words = ["--features", str(tmp_path / "items.csv"), "--pairs", str(tmp_path / "answers.csv")]
    short = ["--model", "gaussian", "--clusters", "5", "--starts", "1", "--epochs", "15", "--quiet"]
    out = str(tmp_path / "fit")
    assert main(["fit", *words, "--grades", *GRADES, "--out", out, *short]) == 0
    workers = pd.read_csv(tmp_path / "fit" / "workers.csv", index_col="worker")
    assert workers["if_same_same"][0] > 0.3
    assert main(["report", out]) == 0
    ask = ["ask", out, "--pairs", "4", "--quiet", "--out", str(tmp_path / "ask")]
    assert main(ask) == 0
    capsys.readouterr()
    assert main([*ask[:-1], str(tmp_path / "studio"), "--format", "label-studio"]) == 1
    assert "grades, which --format label-studio does not support" in capsys.readouterr().err
    only = ["fit", *words[:2], "--grades", "1", "2", "--out", str(tmp_path / "none"), *short]
    assert main(only) == 1
    assert "--grades are labels of pairs, but there are no pairs" in capsys.readouterr().err
