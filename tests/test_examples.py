"""Every example and benchmark runs with tiny arguments and ends with its figures as JSON."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_crowdclust.interface.candidates.forms import DIAGONAL, FULL, REGRESSION

from .short_searches import EARLY_SETTLED, shorten, try_forms

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("PYRO_CROWDCLUST_DATA", ROOT.parent / "shared" / "data"))

# Script: tiny arguments, and the keys of the JSON object. "{tmp}" is a folder of the test's own.
SCRIPTS: dict[str, tuple[list[str], set[str]]] = {
    "examples/minimal.py": (
        [],
        {"accuracy_without", "accuracy_with", "unasked_without", "unasked_with"},
    ),
    "examples/digits_crowd.py": (
        ["--epochs", "1", "--clusters", "10", "--hidden", "8", "--figures", "{tmp}"],
        {
            *("nmi_with", "nmi_without", "accuracy_with", "accuracy_without"),
            *("lowest_weight_workers", "true_bad_workers"),
        },
    ),
    "examples/gallery.py": (
        [
            *("--epochs", "1", "--restarts", "2", "--clusters", "10", "--hidden", "8"),
            *("--dim", "2", "--items", "360", "--draws", "20", "--figures", "{tmp}"),
        ],
        {
            *("pictures", "kilobytes", "loo_per_item", "loo_per_answer"),
            "worst_rhat_weights",
        },
    ),
    "examples/mnist_crowd.py": (
        [
            *("--data", str(DATA), "--items", "256", "--epochs", "1"),
            *("--hidden", "8", "--clusters", "10", "--dim", "2"),
            *("--start", "k-means", "--neighbor-steps", "2", "--partition-steps", "20"),
            *("--variant", "amortized", "--teaching-steps", "40", "--fit-steps", "2"),
            *("--width", "8", "--views", "2"),
        ],
        {
            *("test_accuracy", "test_nmi", "test_ami", "clusters_in_use"),
            *("mean_sensitivity", "mean_specificity", "processor_minutes"),
            "seconds_per_epoch",
        },
    ),
    "examples/dp_dlgmm_mnist.py": (
        [
            *("--data", str(DATA), "--items", "300", "--epochs", "1", "--hidden", "8"),
            *("--width", "8", "--dim", "4", "--channels", "2", "--draws", "2"),
            *("--labels", "0", "--neighbor-steps", "25", "--figures", "{tmp}"),
            *("--partition-steps", "25"),
        ],
        {
            *("test_error", "test_error_importance_weights"),
            *("test_nmi", "test_nmi_importance_weights"),
            *("clusters_in_use", "processor_minutes"),
        },
    ),
    "examples/dp_dlgmm_cifar10.py": (
        [
            *("--data", str(DATA), "--items", "300", "--epochs", "1", "--hidden", "8"),
            *("--width", "8", "--dim", "4", "--channels", "2", "--draws", "2"),
            *("--patterns", "8", "--steps", "4", "--test-items", "50"),
        ],
        {
            *("test_error", "test_error_importance_weights"),
            *("test_nmi", "test_nmi_importance_weights"),
            *("calibration_error", "calibration_error_importance_weights"),
            *("clusters_in_use", "processor_minutes"),
        },
    ),
    "benchmarks/any_table.py": (
        [
            *("--tables", "two", "--crowds", "pairs", "--seeds", "1"),
            *("--items", "40"),
        ],
        {
            *("share_at_or_above_best", "mean_gap", "worst_gap", "share_not_below_without_answers"),
            *("item_ece", "median_seconds", "cells", "unseen"),
        },
    ),
    "benchmarks/tables_as_they_are.py": (
        ["--tables", "iris", "--cells", "known", "--items", "30"],
        {
            *("cells", "share_at_or_above_baseline", "mean_gap", "worst_gap", "median_seconds"),
            *("mean_gap_by_cell", "tables_that_settings_were_chosen_on"),
        },
    ),
    "benchmarks/dp_dlgmm_step.py": (
        ["--steps", "1", "--items", "300", "--clusters", "3"],
        {
            *("milliseconds", "ratio", "megabytes", "vae_milliseconds", "vae_megabytes"),
            *("milliseconds_per_cluster", "ratio_per_cluster", "megabytes_per_cluster"),
        },
    ),
    "examples/pinwheel.py": (
        [
            *("--seeds", "1", "--epochs", "1", "--scdc-epochs", "1", "--starts", "1"),
            *("--figure", "{tmp}/panels.png"),
        ],
        {
            *("accuracy", "nmi", "clusters_in_use"),
            *("scdc_accuracy", "scdc_nmi", "scdc_clusters_in_use"),
            *("without_accuracy", "without_nmi", "without_clusters_in_use"),
        },
    ),
    "examples/cifar10_crowd.py": (
        [
            *("--data", str(DATA), "--items", "60", "--epochs", "1", "--width", "2"),
            *("--dim", "3", "--patterns", "4", "--fit-steps", "1", "--test-items", "30"),
            *("--classifier", "pool", "--steps", "4", "--partition-steps", "10"),
        ],
        {
            *("test_accuracy", "test_nmi", "test_ami", "test_ari", "test_clusters_in_use"),
            *("train_accuracy", "train_nmi", "seconds_per_epoch", "processor_minutes"),
        },
    ),
    "examples/faces_crowd.py": (
        [
            *("--data", str(DATA), "--seeds", "1", "--answers", "200", "--starts", "1"),
            *("--epochs", "2", "--styles", "3"),
        ],
        {"all", "subset", "workers"},
    ),
    "examples/annotation_models.py": (
        [
            *("--data", str(DATA), "--sets", "bluebird", "--epochs", "20", "--draws", "20"),
            *("--models", "multinomial", "hierarchical Dawid-Skene"),
        ],
        {"gaussian_mixture", "bluebird"},
    ),
    "examples/crowd_labels.py": (
        [
            *("--data", str(DATA), "--sets", "bluebird", "--epochs", "2", "--draws", "6"),
            *("--methods", "MajorityVote"),
        ],
        {"bluebird"},
    ),
    "examples/momresp_logresp.py": (
        [
            *("--data", str(DATA), "--figures", "{tmp}", "--sizes", "30", "--seeds", "1"),
            *("--items", "300", "--epochs", "2", "--dim", "4", "--words", "60"),
            *("--folds", "2"),
        ],
        {"news20", "sentiment_text", "labelme"},
    ),
    "examples/judges.py": (
        [
            *("--data", str(DATA), "--sets", "wdc", "--epochs", "3"),
            *("--panels", "1", "--sizes", "3", "--soft", "1", "--copies", "1", "--methods"),
        ],
        {"wdc", "soft", "copies"},
    ),
    "examples/classify.py": (
        ["--tables", "wine", "--seeds", "1", "--epochs", "6", "--folds", "2"],
        {"wine"},
    ),
    "examples/lapses.py": (["--lapses", "0.35", "--seeds", "1", "--clusters", "8"], {"0.35"}),
    "examples/graded_answers.py": (
        ["--tables", "wine", "--seeds", "1", "--answers", "100", "--clusters", "6"],
        {"wine"},
    ),
    "examples/pairs_as_classes.py": (
        ["--data", str(DATA), "--epochs", "2", "--draws", "2"],
        {
            *("f1", "majority_vote_f1", "dawid_skene_f1"),
            *("specificity_error", "specificity_correlation"),
        },
    ),
    "examples/pages.py": (
        [
            *("--data", str(DATA), "--variant", "plain", "--dim", "10", "--items", "200"),
            *("--epochs", "8", "--clusters", "14", "--held-out", "5"),
        ],
        {"placements", "pairs", "lumped_pages"},
    ),
    "examples/ask_next.py": (
        [
            *("--rounds", "4", "--items", "200", "--components", "12", "--size", "10"),
            *("--figures", "{tmp}"),
        ],
        {
            *("accuracy_ours", "accuracy_random", "pages_of_guesser", "stop_after_round"),
            "seconds_per_round",
        },
    ),
    "benchmarks/asking.py": (
        [
            *("--cases", "digits_pages", "--items", "120", "--components", "10", "--rounds", "1"),
            *("--feature-weight", "0.1"),
        ],
        {"digits_pages"},
    ),
    "examples/scenes.py": (
        ["--data", str(DATA), "--pages", "10", "--epochs", "4"],
        {"ours", "pairs", "spectral"},
    ),
    "examples/pair_votes.py": (
        ["--data", str(DATA), "--sets", "allsports", "--epochs", "3"],
        {"allsports"},
    ),
    "examples/records.py": (
        [
            *("--data", str(DATA), "--sets", "candidates", "--panels", "1", "--things", "45"),
            *("--asked", "120", "--epochs", "2"),
        ],
        {"candidates"},
    ),
    "benchmarks/calibration.py": (
        ["--datasets", "1", "--rows", "pairs"],
        {"pairs", "worst_coverage", "worst_wrong_above_99"},
    ),
    "benchmarks/combinations.py": (
        ["--guides", "two-way"],
        {
            *("cells", "refused", "failed", "moves", "kept"),
            "largest_error_of_a_judged_move",
        },
    ),
    "benchmarks/posteriors.py": (
        ["--warmup", "60", "--samples", "80", "--fits", "4"],
        {
            *("nuts_mean_distance", "nuts_sd_ratio_lowest", "nuts_sd_ratio_highest"),
            *("nuts_seconds", "coverage_pairs", "kolmogorov_pairs", "kolmogorov_pairs_95"),
            *("coverage_pages", "rates"),
        },
    ),
    "benchmarks/dawid_skene.py": (
        ["--items", "2000", "--iterations", "2"],
        {
            *("ratio_iteration", "ratio_total", "over_floor", "accuracy"),
            *("iteration_seconds", "floor_seconds", "total_seconds"),
        },
    ),
    "examples/uci_semisupervised.py": (
        [
            *("--data", str(DATA), "--runs", "1", "--sweeps", "2"),
            *("--sets", "iris", "glass", "--fractions", "0", "0.2"),
        ],
        {"iris", "glass", "unlabeled", "mean", "mean_unlabeled", "peers"},
    ),
    "examples/four_gaussians.py": (
        ["--sweeps", "2", "--figure", "{tmp}/panels.png"],
        {"row_T4", "row_T10", "view_horizontal", "view_vertical"},
    ),
    "examples/text_mixture.py": (
        [
            *("--data", str(DATA), "--sets", "w1000"),
            *("--posts", "400", "--share", "0.1", "--sweeps", "2"),
        ],
        {"w1000"},
    ),
    "benchmarks/mixture_sweep.py": (
        [*("--items", "300", "600", "--clusters", "12", "--sweeps", "2", "--rounds", "1")],
        {
            *("ratio_60000", "ratio_200000", "ratio_60000_float32"),
            *("over_floor", "over_floor_float32", "slope_n", "slope_t", "labels_cost"),
            "memory_ratio",
        },
    ),
    "benchmarks/distributed.py": (
        [
            *("--items", "300", "--hidden", "8", "--batch-size", "100", "--answers", "300"),
            *("--epochs", "2"),
        ],
        {"max_parameter_difference", "speedup_2", "seconds_1", "seconds_2"},
    ),
    "benchmarks/out_of_core.py": (
        ["--items", "500", "2000", "--folder", "."],
        {
            *("peak_mb_1e6", "peak_mb_1e7", "throughput_ratio"),
            *("epoch_seconds_1e7", "write_seconds_1e7", "peak_mb_array_1e6"),
        },
    ),
    "benchmarks/scaling.py": (
        [
            *("--clusters", "5", "10", "--dims", "2", "3", "--workers", "5", "10"),
            *("--answers", "300", "600", "--items", "400", "800", "--steps", "1"),
            *("--figure", "{tmp}/curves.png"),
        ],
        {
            *("slope_clusters", "slope_dimensions", "slope_workers", "slope_answers"),
            *("slope_items", "slope_prepare_workers", "slope_prepare_answers"),
            *("slope_prepare_items", "k200_over_k50", "curves"),
        },
    ),
    "benchmarks/house.py": (
        ["--skip-types"],
        {
            *("modules_in_root", "public_paths", "fit_parameters", "import_cycles"),
            *("type_errors", "lines_of_code", "public_names"),
        },
    ),
    "benchmarks/gpu.py": (
        [
            *("--device", "cpu", "--steps", "1", "--items", "300", "--hidden", "8"),
            *("--no-compile", "--cpu-share", "10"),
        ],
        {"bayes", "scdc", "floor", "over_floor"},
    ),
    "benchmarks/step.py": (
        ["--steps", "1", "--items", "300", "--hidden", "8"],
        {
            *("ratio", "milliseconds", "floor_milliseconds"),
            *("ratio_1_thread", "ratio_2_threads"),
            *("scdc_over_bayes", "scdc_rows_per_item"),
            *("scdc_at_start_over_bayes", "scdc_drawn_over_bayes"),
        },
    ),
}
# What a script must reach at its tiny size: (figure, at least, at most). Figures are reached
# through dictionaries by "/", and all numbers of a list count. Half of what lies between the
# measured value and that of chance is left for other machines.
INF = math.inf
REACHES: dict[str, list[tuple[str, float, float]]] = {
    "examples/annotation_models.py": [
        ("gaussian_mixture/accuracy", 0.98, 1.0),
        ("bluebird/hierarchical Dawid-Skene/accuracy", 0.85, 1.0),
    ],
    "examples/judges.py": [
        *(("wdc/ours_with_features", 0.6, 1.0), ("soft/ours/f1", 0.75, 1.0)),
        *(("soft/ours/log_loss", 0.0, 0.2), ("copies/independent_families/f1", 0.8, 1.0)),
    ],
    "examples/ask_next.py": [("accuracy_ours", 0.6, 1.0)],
    "examples/classify.py": [("wine/labelled", 0.85, 1.0), ("wine/others", 0.8, 1.0)],
    "examples/lapses.py": [
        *(("0.35/with_pages/nmi", 0.85, 1.0), ("0.35/with_pages/rate_error", 0.0, 0.05)),
    ],
    "examples/graded_answers.py": [
        *(("wine/grades/nmi", 0.85, 1.0), ("wine/grades/grades", 0.7, 1.3)),
    ],
    "examples/pair_votes.py": [
        *(("allsports/ours", 0.99, 1.0), ("allsports/held_out_log_loss", 0.2, 0.32)),
    ],
    "examples/records.py": [("candidates/features", 0.6, 1.0)],
    "examples/pages.py": [("placements/accuracy", 0.8, 1.0)],
    "examples/scenes.py": [("ours/nmi", 0.35, 1.0), ("ours/other_folder", 0.8, 1.0)],
    "benchmarks/calibration.py": [
        ("worst_coverage", 0.75, 1.0),
        ("worst_wrong_above_99", 0.0, 0.02),
    ],
    "examples/minimal.py": [
        *(("accuracy_with", 0.88, 1.0), ("accuracy_without", 0.7, 1.0)),
        ("unasked_with", 0.8, 1.0),
    ],
    "examples/digits_crowd.py": [("nmi_with", 0.65, 1.0), ("accuracy_with", 0.55, 1.0)],
    "examples/gallery.py": [
        *(("pictures", 11, 11), ("kilobytes", 100, INF), ("loo_per_item", -35.0, -20.0)),
        ("worst_rhat_weights", 0.9, INF),
    ],
    # Clusters of k-means, as the second network has learned them of few images.
    "examples/mnist_crowd.py": [("test_accuracy", 0.25, 1.0), ("mean_specificity", 0.4, 1.0)],
    "examples/dp_dlgmm_mnist.py": [("test_error", 0.0, 0.82), ("test_nmi", 0.08, 1.0)],
    "examples/dp_dlgmm_cifar10.py": [("test_error", 0.0, 0.84)],
    "examples/pinwheel.py": [
        *(("accuracy", 0.75, 1.0), ("nmi", 0.8, 1.0), ("scdc_accuracy", 0.8, 1.0)),
        *(("without_accuracy", 0.55, 1.0), ("without_nmi", 0.65, 1.0)),
    ],
    "examples/cifar10_crowd.py": [("test_accuracy", 0.08, 1.0)],
    "examples/faces_crowd.py": [
        *(("all/200/ours_nmi", 0.04, 1.0), ("subset/200/ours_nmi", 0.25, 1.0)),
        ("subset/200/best_peer_nmi", 0.4, 1.0),
    ],
    "examples/crowd_labels.py": [("bluebird/ours", 0.78, 1.0), ("bluebird/log_loss", 0.0, 0.65)],
    "examples/momresp_logresp.py": [
        *(("news20/momresp", 0.5, 1.0), ("sentiment_text/momresp_train", 0.85, 1.0)),
        *(("labelme/momresp_train", 0.84, 1.0), ("labelme/momresp_test", 0.83, 1.0)),
    ],
    "examples/pairs_as_classes.py": [
        *(("f1", 0.63, 1.0), ("majority_vote_f1", 0.58, 0.6)),
        *(("specificity_error", 0.0, 0.06), ("specificity_correlation", 0.95, 1.0)),
    ],
    "examples/uci_semisupervised.py": [
        *(("iris/0.2", 0.93, 1.0), ("glass/0.2", 0.5, 1.0)),
        ("peers/LabelSpreading/iris/0.2", 0.9, 1.0),
    ],
    "examples/four_gaussians.py": [
        *(("row_T4/table/accuracy", 0.95, 1.0), ("row_T10/field/accuracy", 0.95, 1.0)),
        *(("row_T10/none/accuracy", 0.3, 0.7), ("view_vertical/table/accuracy", 0.95, 1.0)),
    ],
    "examples/text_mixture.py": [("w1000/ours", 0.0, 0.22), ("w1000/ours_test", 0.0, 0.27)],
    "benchmarks/combinations.py": [
        *(("cells", 30, 30), ("refused", 24, 24), ("failed", 0, 0), ("kept", 1, 18)),
        ("largest_error_of_a_judged_move", 0.0, 1e-6),
    ],
    "benchmarks/posteriors.py": [
        *(("nuts_mean_distance", 0.0, 0.5), ("nuts_sd_ratio_lowest", 0.6, 1.0)),
        *(("nuts_sd_ratio_highest", 0.9, 1.4), ("coverage_pairs", 0.75, 1.0)),
        ("kolmogorov_pairs", 0.0, 0.25),
    ],
    "benchmarks/dawid_skene.py": [("accuracy", 0.95, 1.0)],
    "benchmarks/distributed.py": [("max_parameter_difference", 0.0, 1e-9)],
}
# Of a choice of the model.
KINDS = FULL, DIAGONAL, REGRESSION
# Files that a script reads and that are not part of the project.
NEEDS = {
    "examples/mnist_crowd.py": ["mnist.npz", "mnist_crowd_annotations.npz"],
    "examples/pages.py": ["mnist.npz", "mnist_crowd_annotations.npz"],
    "examples/cifar10_crowd.py": [
        *("cifar10_train_1.npz", "cifar10_train_2.npz", "cifar10_test_first1000.npz"),
        "cifar10n_labels.npz",
    ],
    "examples/faces_crowd.py": ["cmu_faces_quarter.npz"],
    "examples/annotation_models.py": ["crowd_labels_bluebird.npz"],
    "examples/crowd_labels.py": ["crowd_labels_bluebird.npz"],
    "examples/dp_dlgmm_mnist.py": ["mnist.npz"],
    "examples/dp_dlgmm_cifar10.py": [
        *("cifar10_train_1.npz", "cifar10_train_2.npz", "cifar10_test_first1000.npz"),
    ],
    "examples/momresp_logresp.py": [
        *("news20_w100.npz", "crowd_labels_sentiment_text.npz", "crowd_labels_labelme.npz"),
    ],
    "examples/judges.py": ["judges_wdc.npz"],
    "examples/pair_votes.py": ["pairs_allsports.npz"],
    "examples/pairs_as_classes.py": ["pairs_product.npz"],
    "examples/uci_semisupervised.py": ["uci_glass.npz"],
    "examples/text_mixture.py": ["news20_w1000.npz"],
}


def runnable() -> set[str]:
    """Every example, and every benchmark that has a main to call with arguments."""
    found = {f"examples/{file.name}" for file in (ROOT / "examples").glob("*.py")}
    for file in (ROOT / "benchmarks").glob("*.py"):
        if "\ndef main(arguments" in file.read_text(encoding="utf-8"):
            found.add(f"benchmarks/{file.name}")
    return found


def load_main(script: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Any]:
    """Import a script by its path, as running it would, and return its main."""
    path = ROOT / script
    name = path.stem  # by which processes that it starts find it, too
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(path.parent))
    spec.loader.exec_module(module)
    return module.main


def test_every_script_is_in_the_table():
    assert runnable() == set(SCRIPTS)
    # Benchmarks of time alone have nothing to reach.
    assert {script for script in SCRIPTS if script.startswith("examples/")} <= set(REACHES)


def numbers(value: Any) -> list[float]:
    """All numbers in a JSON value; null stands for what could not be measured here."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [part for one in value for part in numbers(one)]
    return [] if value is None or isinstance(value, str) else [value]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=pytest.mark.long) if script.startswith("benchmarks/") else script
        for script in SCRIPTS
    ],
)
def test_script(script, monkeypatch, capsys, tmp_path):
    missing = [name for name in NEEDS.get(script, []) if not (DATA / name).exists()]
    if missing:
        pytest.skip(f"{script} reads {missing}, which {DATA} does not hold")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)  # that of a script's own process
    # Choices and draws of partitions have tests of their own; here they try little.
    shorten(monkeypatch)
    monkeypatch.setattr("pyro_crowdclust.guides.ClassLabelGuide", EARLY_SETTLED)
    # Of few pages that many say which items are the same for sure.
    monkeypatch.setattr("pyro_crowdclust.interface.said_alone._PAGE_CHAINS", 12)
    try_forms(monkeypatch, lambda form: form.features == "columns" and form.kind in KINDS)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    if script == "benchmarks/dp_dlgmm_step.py":  # of own processes are the figures of others
        monkeypatch.setattr("memory.in_own_process", lambda work, *given: work(*given))
    arguments, keys = SCRIPTS[script]
    returned = load_main(script, monkeypatch)([part.format(tmp=tmp_path) for part in arguments])
    figures = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert set(figures) == keys
    assert set(returned) == keys
    # What the machine did not allow to measure is null.
    measured = [value for value in figures.values() if value is not None]
    assert all(math.isfinite(number) for value in measured for number in numbers(value))
    for path, least, most in REACHES.get(script, []):
        value = figures
        for key in path.split("/"):
            value = value[key]
        assert all(least <= number <= most for number in numbers(value)), (path, value)
    if any("{tmp}" in argument for argument in arguments):
        pictures = list(tmp_path.glob("*.png"))
        assert pictures
        assert all(picture.stat().st_size > 1000 for picture in pictures)


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "others"),
    [
        ("examples/cifar10_crowd.py", []),
        ("examples/mnist_crowd.py", ["--variant", "bayes", "--teaching-steps", "0"]),
    ],
)
def test_nobody_needs_to_be_asked(script, others, monkeypatch, tmp_path):
    if not all((DATA / name).exists() for name in NEEDS[script]):
        pytest.skip(f"{DATA} does not hold all of {NEEDS[script]}")
    torch.set_default_dtype(torch.float32)
    arguments = [part.format(tmp=tmp_path) for part in SCRIPTS[script][0]]
    figures = load_main(script, monkeypatch)([*arguments, *others, "--answers", "no"])
    assert 0.1 < figures["test_accuracy"] < 1


@pytest.mark.long
def test_judges_who_err_together_are_worth_more_than_their_votes(monkeypatch):
    if not (DATA / "judges_wdc.npz").exists():
        pytest.skip(f"{DATA} holds no judges_wdc.npz")
    main = load_main("examples/judges.py", monkeypatch)
    found = main(["--data", str(DATA), "--sets", "wdc", "--panels", "0", "--methods"])["wdc"]
    assert found["ours"] > found["majority"] + 0.02
    assert found["ours_with_features"] > found["ours"] + 0.008
    assert found["log_loss"]["ours"] < 0.25
    assert max(found["effective_judges"].values()) < 6
