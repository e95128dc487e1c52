"""Every example and benchmark: tiny arguments, what it reads, and what it must reach with them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

INF = math.inf


@dataclass(frozen=True)
class Script:
    """How a script is tried.

    Attributes
    ----------
    arguments
        Tiny ones, as in a shell; ``{tmp}`` is a folder of the test's own, ``{data}`` that of the
        public data.
    keys
        Of the JSON object in the last line.
    reads
        Files of ``{data}``, which are not part of the project.
    reaches
        Least and most of figures, reached through dictionaries by "/"; all numbers of a list count.
        Half of what lies between the measured value and that of chance is left for other machines.
    """

    arguments: str
    keys: str
    reads: str = ""
    reaches: dict[str, tuple[float, float]] = field(default_factory=dict)


SCRIPTS = {
    "examples/minimal.py": Script(
        "",
        "accuracy_with accuracy_without unasked_with unasked_without",
        reaches={
            "accuracy_with": (0.88, 1.0),
            "accuracy_without": (0.7, 1.0),
            "unasked_with": (0.8, 1.0),
        },
    ),
    "examples/digits_crowd.py": Script(
        "--epochs 1 --clusters 10 --hidden 8 --figures {tmp}",
        (
            "accuracy_with accuracy_without lowest_weight_workers nmi_with nmi_without "
            "true_bad_workers"
        ),
        reaches={"nmi_with": (0.65, 1.0), "accuracy_with": (0.55, 1.0)},
    ),
    "examples/gallery.py": Script(
        (
            "--epochs 1 --restarts 2 --clusters 10 --hidden 8 --dim 2 --items 360 --draws 40 "
            "--figures {tmp}"
        ),
        "kilobytes loo_per_answer loo_per_item pictures worst_rhat_weights",
        reaches={
            "pictures": (11, 11),
            "kilobytes": (100, INF),
            "loo_per_item": (-35.0, -20.0),
            "worst_rhat_weights": (0.9, INF),
        },
    ),
    # Clusters of k-means, as the second network has learned them of few images.
    "examples/mnist_crowd.py": Script(
        (
            "--data {data} --items 256 --epochs 1 --hidden 8 --clusters 10 --dim 2 --start "
            "k-means --neighbor-steps 2 --partition-steps 20 --variant amortized --teaching-steps "
            "40 --fit-steps 2 --width 8 --views 2"
        ),
        (
            "clusters_in_use mean_sensitivity mean_specificity processor_minutes "
            "seconds_per_epoch test_accuracy test_ami test_nmi"
        ),
        reads="mnist.npz mnist_crowd_annotations.npz",
        reaches={"test_accuracy": (0.25, 1.0), "mean_specificity": (0.4, 1.0)},
    ),
    "examples/dp_dlgmm_mnist.py": Script(
        (
            "--data {data} --items 300 --epochs 1 --hidden 8 --width 8 --dim 4 --channels 2 "
            "--draws 2 --labels 0 --neighbor-steps 25 --figures {tmp} --partition-steps 25"
        ),
        (
            "clusters_in_use processor_minutes test_error test_error_importance_weights test_nmi "
            "test_nmi_importance_weights"
        ),
        reads="mnist.npz",
        reaches={"test_error": (0.0, 0.82), "test_nmi": (0.08, 1.0)},
    ),
    "examples/dp_dlgmm_cifar10.py": Script(
        (
            "--data {data} --items 300 --epochs 1 --hidden 8 --width 8 --dim 4 --channels 2 "
            "--draws 2 --patterns 8 --steps 4 --test-items 50"
        ),
        (
            "calibration_error calibration_error_importance_weights clusters_in_use "
            "processor_minutes test_error test_error_importance_weights test_nmi "
            "test_nmi_importance_weights"
        ),
        reads="cifar10_train_1.npz cifar10_train_2.npz cifar10_test_first1000.npz",
        reaches={"test_error": (0.0, 0.84)},
    ),
    "benchmarks/any_table.py": Script(
        "--tables two --crowds pairs --seeds 1 --items 40",
        (
            "cells item_ece mean_gap median_seconds pair_log_loss share_at_or_above_best "
            "share_not_below_without_answers unseen worst_gap"
        ),
    ),
    "benchmarks/tables_as_they_are.py": Script(
        "--tables iris --cells known --items 30",
        (
            "cells mean_gap mean_gap_by_cell median_seconds share_at_or_above_baseline "
            "tables_that_settings_were_chosen_on worst_gap"
        ),
    ),
    "benchmarks/dp_dlgmm_step.py": Script(
        "--steps 1 --items 300 --clusters 3",
        (
            "megabytes megabytes_per_cluster milliseconds milliseconds_per_cluster ratio "
            "ratio_per_cluster vae_megabytes vae_milliseconds"
        ),
    ),
    "examples/pinwheel.py": Script(
        "--seeds 1 --epochs 1 --scdc-epochs 1 --starts 1 --figure {tmp}/panels.png",
        (
            "accuracy clusters_in_use nmi scdc_accuracy scdc_clusters_in_use scdc_nmi "
            "without_accuracy without_clusters_in_use without_nmi"
        ),
        reaches={
            "accuracy": (0.75, 1.0),
            "nmi": (0.8, 1.0),
            "scdc_accuracy": (0.8, 1.0),
            "without_accuracy": (0.55, 1.0),
            "without_nmi": (0.65, 1.0),
        },
    ),
    "examples/cifar10_crowd.py": Script(
        (
            "--data {data} --items 60 --epochs 1 --width 2 --dim 3 --patterns 4 --fit-steps 1 "
            "--test-items 30 --classifier pool --steps 4 --partition-steps 10"
        ),
        (
            "processor_minutes seconds_per_epoch test_accuracy test_ami test_ari "
            "test_clusters_in_use test_nmi train_accuracy train_nmi"
        ),
        reads=(
            "cifar10_train_1.npz cifar10_train_2.npz cifar10_test_first1000.npz cifar10n_labels.npz"
        ),
        reaches={"test_accuracy": (0.08, 1.0)},
    ),
    "examples/faces_crowd.py": Script(
        "--data {data} --seeds 1 --answers 200 --starts 1 --epochs 2 --styles 3",
        "all subset workers",
        reads="cmu_faces_quarter.npz",
        reaches={
            "all/200/ours_nmi": (0.04, 1.0),
            "subset/200/ours_nmi": (0.25, 1.0),
            "subset/200/best_peer_nmi": (0.4, 1.0),
        },
    ),
    "examples/annotation_models.py": Script(
        (
            "--data {data} --sets bluebird --epochs 20 --draws 40 --models multinomial "
            "'hierarchical Dawid-Skene'"
        ),
        "bluebird gaussian_mixture",
        reads="crowd_labels_bluebird.npz",
        reaches={
            "gaussian_mixture/accuracy": (0.98, 1.0),
            "bluebird/hierarchical Dawid-Skene/accuracy": (0.85, 1.0),
        },
    ),
    "examples/crowd_labels.py": Script(
        "--data {data} --sets bluebird --epochs 2 --draws 6 --methods MajorityVote",
        "bluebird",
        reads="crowd_labels_bluebird.npz",
        reaches={"bluebird/ours": (0.78, 1.0), "bluebird/log_loss": (0.0, 0.65)},
    ),
    "examples/momresp_logresp.py": Script(
        (
            "--data {data} --figures {tmp} --sizes 30 --seeds 1 --items 300 --epochs 2 --dim 4 "
            "--words 60 --folds 2"
        ),
        "labelme news20 sentiment_text",
        reads="news20_w100.npz crowd_labels_sentiment_text.npz crowd_labels_labelme.npz",
        reaches={
            "news20/momresp": (0.5, 1.0),
            "sentiment_text/momresp_train": (0.85, 1.0),
            "labelme/momresp_train": (0.84, 1.0),
            "labelme/momresp_test": (0.83, 1.0),
        },
    ),
    "examples/judges.py": Script(
        "--data {data} --sets wdc --epochs 3 --panels 1 --sizes 3 --soft 1 --copies 1 --methods",
        "copies soft wdc",
        reads="judges_wdc.npz",
        reaches={
            "wdc/ours_with_features": (0.6, 1.0),
            "soft/ours/f1": (0.75, 1.0),
            "soft/ours/log_loss": (0.0, 0.2),
            "copies/independent_families/f1": (0.8, 1.0),
        },
    ),
    "examples/classify.py": Script(
        "--tables wine --seeds 1 --epochs 8 --folds 2 --copies 1 --misled 0.6 --known 25",
        "wine",
        reaches={"wine/labelled": (0.0, 0.4), "wine/others_trusting": (0.85, 1.0)},
    ),
    "examples/lapses.py": Script(
        "--lapses 0.35 --seeds 1 --clusters 8",
        "0.35",
        reaches={"0.35/with_pages/nmi": (0.85, 1.0), "0.35/with_pages/rate_error": (0.0, 0.05)},
    ),
    "examples/graded_answers.py": Script(
        "--tables wine --seeds 1 --answers 100 --clusters 6",
        "wine",
        reaches={"wine/grades/nmi": (0.85, 1.0), "wine/grades/grades": (0.7, 1.3)},
    ),
    "examples/pairs_as_classes.py": Script(
        "--data {data} --epochs 2 --draws 2",
        "dawid_skene_f1 f1 majority_vote_f1 specificity_correlation specificity_error",
        reads="pairs_product.npz",
        reaches={
            "f1": (0.63, 1.0),
            "majority_vote_f1": (0.58, 0.6),
            "specificity_error": (0.0, 0.07),
            "specificity_correlation": (0.95, 1.0),
        },
    ),
    "examples/pages.py": Script(
        "--data {data} --variant plain --dim 10 --items 200 --epochs 8 --clusters 14 --held-out 5",
        "lumped_pages pairs placements",
        reads="mnist.npz mnist_crowd_annotations.npz",
        reaches={"placements/accuracy": (0.8, 1.0)},
    ),
    "examples/ask_next.py": Script(
        "--seeds 2 --rounds 4 --items 200 --components 12 --size 10 --figures {tmp}",
        "accuracy_ours accuracy_random pages_of_guesser seconds_per_round stop_after_round",
        reaches={"accuracy_ours": (0.6, 1.0)},
    ),
    "benchmarks/asking.py": Script(
        "--cases digits_pages --items 120 --components 10 --rounds 1 --feature-weight 0.1",
        "digits_pages",
    ),
    "examples/scenes.py": Script(
        "--data {data} --pages 10 --epochs 4",
        "ours pairs spectral",
        reads="partitions_scenes.npz",
        reaches={"ours/nmi": (0.35, 1.0), "ours/other_folder": (0.8, 1.0)},
    ),
    "examples/pair_votes.py": Script(
        "--data {data} --sets allsports --epochs 3",
        "allsports",
        reads="pairs_allsports.npz",
        reaches={"allsports/ours": (0.99, 1.0), "allsports/held_out_log_loss": (0.2, 0.32)},
    ),
    "examples/records.py": Script(
        "--data {data} --sets candidates --panels 1 --things 45 --asked 120 --epochs 2",
        "candidates",
        reaches={"candidates/features": (0.6, 1.0)},
    ),
    "benchmarks/calibration.py": Script(
        "--datasets 1 --rows pairs",
        "pairs worst_coverage worst_wrong_above_99",
        reaches={"worst_coverage": (0.75, 1.0), "worst_wrong_above_99": (0.0, 0.02)},
    ),
    "benchmarks/combinations.py": Script(
        "--guides two-way",
        "cells failed kept largest_error_of_a_judged_move moves refused",
        reaches={
            "cells": (30, 30),
            "refused": (24, 24),
            "failed": (0, 0),
            "kept": (1, 18),
            "largest_error_of_a_judged_move": (0.0, 1e-06),
        },
    ),
    "benchmarks/posteriors.py": Script(
        "--warmup 60 --samples 80 --fits 4",
        (
            "coverage_pages coverage_pairs kolmogorov_pairs kolmogorov_pairs_95 "
            "nuts_mean_distance nuts_sd_ratio_highest nuts_sd_ratio_lowest nuts_seconds rates"
        ),
        reaches={
            "nuts_mean_distance": (0.0, 0.5),
            "nuts_sd_ratio_lowest": (0.6, 1.0),
            "nuts_sd_ratio_highest": (0.9, 1.4),
            "coverage_pairs": (0.75, 1.0),
            "kolmogorov_pairs": (0.0, 0.25),
        },
    ),
    "benchmarks/dawid_skene.py": Script(
        "--items 2000 --iterations 2",
        (
            "accuracy floor_seconds iteration_seconds over_floor ratio_iteration ratio_total "
            "total_seconds"
        ),
        reaches={"accuracy": (0.95, 1.0)},
    ),
    "examples/uci_semisupervised.py": Script(
        "--data {data} --runs 1 --sweeps 2 --sets iris glass --fractions 0 0.2",
        "glass iris mean mean_unlabeled peers unlabeled",
        reads="uci_glass.npz",
        reaches={
            "iris/0.2": (0.93, 1.0),
            "glass/0.2": (0.5, 1.0),
            "peers/LabelSpreading/iris/0.2": (0.9, 1.0),
        },
    ),
    "examples/four_gaussians.py": Script(
        "--sweeps 2 --figure {tmp}/panels.png",
        "row_T10 row_T4 view_horizontal view_vertical",
        reaches={
            "row_T4/table/accuracy": (0.95, 1.0),
            "row_T10/field/accuracy": (0.95, 1.0),
            "row_T10/none/accuracy": (0.3, 0.7),
            "view_vertical/table/accuracy": (0.95, 1.0),
        },
    ),
    "examples/text_mixture.py": Script(
        "--data {data} --sets w1000 --posts 400 --share 0.1 --sweeps 2",
        "w1000",
        reads="news20_w1000.npz",
        reaches={"w1000/ours": (0.0, 0.22), "w1000/ours_test": (0.0, 0.27)},
    ),
    "benchmarks/mixture_sweep.py": Script(
        "--items 300 600 --clusters 12 --sweeps 2 --rounds 1",
        (
            "labels_cost memory_ratio over_floor over_floor_float32 ratio_200000 ratio_60000 "
            "ratio_60000_float32 slope_n slope_t"
        ),
    ),
    "benchmarks/distributed.py": Script(
        "--items 300 --hidden 8 --batch-size 100 --answers 300 --epochs 2",
        "max_parameter_difference seconds_1 seconds_2 speedup_2",
        reaches={"max_parameter_difference": (0.0, 1e-09)},
    ),
    "benchmarks/out_of_core.py": Script(
        "--items 500 2000 --folder .",
        (
            "epoch_seconds_1e7 peak_mb_1e6 peak_mb_1e7 peak_mb_array_1e6 throughput_ratio "
            "write_seconds_1e7"
        ),
    ),
    "benchmarks/scaling.py": Script(
        (
            "--clusters 5 10 --dims 2 3 --workers 5 10 --answers 300 600 --items 400 800 --steps "
            "1 --figure {tmp}/curves.png"
        ),
        (
            "curves k200_over_k50 slope_answers slope_clusters slope_dimensions slope_items "
            "slope_prepare_answers slope_prepare_items slope_prepare_workers slope_workers"
        ),
    ),
    "benchmarks/gpu.py": Script(
        "--device cpu --steps 1 --items 300 --hidden 8 --no-compile --cpu-share 10",
        "bayes floor over_floor scdc",
    ),
    "benchmarks/step.py": Script(
        "--steps 1 --items 300 --hidden 8",
        (
            "floor_milliseconds milliseconds ratio ratio_1_thread ratio_2_threads "
            "scdc_at_start_over_bayes scdc_drawn_over_bayes scdc_over_bayes scdc_rows_per_item"
        ),
    ),
}
