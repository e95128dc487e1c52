"""``make bench``: run the benchmarks and write their figures to ``docs/results``.

python benchmarks/run_all.py             # all of them
python benchmarks/run_all.py step
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from report import Experiment, Figure, measure


def on_threads(key: str) -> Callable[[dict[str, Any]], str]:
    """A ratio, or why there is none."""

    def text(figures: dict[str, Any]) -> str:
        if figures[key] is None:
            return "not measured: the cores were not free"
        return f"{figures[key]:.2f}"

    return text


STEP = Experiment(
    "step",
    ["benchmarks/step.py", "--threads", "1", "--steps", "200"],
    [
        Figure(
            "BayesSCDC step over bare networks, 1 thread",
            "at most 1.4",
            lambda figures: (
                f"{figures['ratio']:.2f} ({figures['milliseconds']:.1f} ms over "
                f"{figures['floor_milliseconds']:.1f} ms)"
            ),
        ),
        Figure("the same, 2 threads", "", on_threads("ratio_2_threads")),
        Figure(
            "SCDC step over BayesSCDC step, K = 50, exact sum over z, after an epoch",
            "at most 4 (Luo et al.: 12.3)",
            lambda figures: (
                f"{figures['scdc_over_bayes']:.1f} ({figures['scdc_rows_per_item']:.1f} "
                "of 50 values an item)"
            ),
        ),
        Figure(
            "the same at the start, when all 50 values are needed",
            "",
            lambda figures: f"{figures['scdc_at_start_over_bayes']:.1f}",
        ),
        Figure(
            "the same with 4 values summed and one drawn for the rest",
            "",
            lambda figures: f"{figures['scdc_drawn_over_bayes']:.1f}",
        ),
    ],
)


def times(key: str) -> Callable[[dict[str, Any]], str]:
    """A ratio, or why there is none."""

    def text(figures: dict[str, Any]) -> str:
        return "crowd-kit is not installed" if figures[key] is None else f"{figures[key]:.2f}"

    return text


DAWID_SKENE = Experiment(
    "dawid_skene",
    ["benchmarks/dawid_skene.py", "--memory"],
    [
        Figure(
            "Dawid-Skene, 1,000,000 answers: crowd-kit's iteration over ours",
            "at least 8",
            times("ratio_iteration"),
        ),
        Figure(
            "the same, from the data frame to a tolerance of 1e-5",
            "at least 4",
            times("ratio_total"),
        ),
        Figure(
            "our iteration over two sparse products and a softmax",
            "",
            lambda figures: (
                f"{figures['over_floor']:.2f} ({1e3 * figures['iteration_seconds']:.0f} ms over "
                f"{1e3 * figures['floor_seconds']:.0f} ms)"
            ),
        ),
        Figure(
            "bytes that an answer adds to the peak, up to 2 and up to 4 million answers",
            "the same (linear)",
            lambda figures: (
                f"{figures['bytes_per_answer']:.0f}, {figures['bytes_per_answer_beyond']:.0f}"
            ),
        ),
    ],
)

SWEEP = Experiment(
    "sweep",
    ["benchmarks/mixture_sweep.py", "--threads", "1"],
    [
        Figure(
            "sweep of a Gaussian mixture, N = 60,000: scikit-learn's seconds over ours",
            "at least 5",
            lambda figures: f"{figures['ratio_60000']:.1f}",
        ),
        Figure(
            "the same, N = 200,000", "at least 5", lambda figures: f"{figures['ratio_200000']:.1f}"
        ),
        Figure(
            "the same, N = 60,000, ours in float32",
            "at least 10",
            lambda figures: f"{figures['ratio_60000_float32']:.1f}",
        ),
        Figure(
            "sweep over its floor, float64",
            "at most 1.4",
            lambda figures: f"{figures['over_floor']:.2f}",
        ),
        Figure(
            "the same, float32",
            "",
            lambda figures: f"{figures['over_floor_float32']:.2f}",
        ),
        Figure(
            "exponent of N and of T in a sweep's seconds",
            "1 (linear)",
            lambda figures: f"{figures['slope_n']:.2f} and {figures['slope_t']:.2f}",
        ),
        Figure(
            "labels on half of the items over none",
            "at most 1.10",
            lambda figures: f"{figures['labels_cost']:.2f}",
        ),
        Figure(
            "peak memory over scikit-learn's",
            "at most 1",
            lambda figures: f"{figures['memory_ratio']:.2f}",
        ),
    ],
)

DISTRIBUTED = Experiment(
    "distributed",
    ["benchmarks/distributed.py"],
    [
        Figure(
            "largest difference of a parameter, two processes against one, float64",
            "at most 1e-10",
            lambda figures: f"{figures['max_parameter_difference']:.1e}",
        ),
        Figure(
            "speed-up of two processes, 1,500 items and 5,000 answers a step",
            "",
            lambda figures: (
                "not measured: the cores were not free"
                if figures["speedup_2"] is None
                else f"{figures['speedup_2']:.2f} ({1e3 * figures['seconds_1']:.0f} ms over "
                f"{1e3 * figures['seconds_2']:.0f} ms)"
            ),
        ),
    ],
)

OUT_OF_CORE = Experiment(
    "out_of_core",
    ["benchmarks/out_of_core.py"],
    [
        Figure(
            "peak memory of a fit, 1,000,000 items of 64 float32 on disk (256 MB)",
            "",
            lambda figures: f"{figures['peak_mb_1e6']:.0f} MB",
        ),
        Figure(
            "the same, 10,000,000 items (2.56 GB)",
            "does not grow",
            lambda figures: f"{figures['peak_mb_1e7']:.0f} MB",
        ),
        Figure(
            "items per second of an epoch from an array over those from disk, 1,000,000 items",
            "at most 1.5",
            lambda figures: f"{figures['throughput_ratio']:.2f}",
        ),
        Figure(
            "10,000,000 items: seconds of an epoch, and of writing the cluster of each",
            "",
            lambda figures: (
                f"{figures['epoch_seconds_1e7']:.0f} and {figures['write_seconds_1e7']:.0f}"
            ),
        ),
    ],
)


def by_clusters(key: str, floor: str, unit: str) -> Callable[[dict[str, Any]], str]:
    """One number for every T, and that of the VAE."""
    return lambda figures: (
        ", ".join(f"{value:g} {unit} (T = {size})" for size, value in figures[key].items())
        + f"; VAE {figures[floor]:.1f} {unit}"
    )


DEEP_STEP = Experiment(
    "dp_dlgmm_step",
    ["benchmarks/dp_dlgmm_step.py", "--threads", "1", "--steps", "5"],
    [
        Figure(
            f"{what} of the deep mixture, {decoder}",
            "",
            by_clusters(f"{key}{suffix}", f"vae_{key}", unit),
        )
        for decoder, suffix in (("shared decoder", ""), ("a decoder per cluster", "_per_cluster"))
        for what, key, unit in (("step", "milliseconds", "ms"), ("peak memory", "megabytes", "MB"))
    ],
)

SCALING = Experiment(
    "scaling",
    ["benchmarks/scaling.py", "--figure", "docs/images/scaling.png"],
    [
        Figure(
            "BayesSCDC step, K = 200 over K = 50, MNIST shapes",
            "at most 1.5",
            lambda figures: f"{figures['k200_over_k50']:.2f}",
        ),
        *(
            Figure(
                f"exponent of {name} in the seconds of a step, {sizes}",
                "",
                lambda figures, name=name: f"{figures[f'slope_{name}']:z.2f}",
            )
            for name, sizes in {
                "clusters": "10 to 400, MNIST shapes",
                "dimensions": "2 to 32, MNIST shapes",
                "workers": "10 to 100,000",
                "answers": "10,000 and more",
                "items": "10,000 and more",
            }.items()
        ),
        *(
            Figure(
                f"exponent of {name} in what is done once",
                "",
                lambda figures, name=name: f"{figures[f'slope_prepare_{name}']:z.2f}",
            )
            for name in ("answers", "items")
        ),
    ],
)

if __name__ == "__main__":
    measure([STEP, SWEEP, DAWID_SKENE, DISTRIBUTED, OUT_OF_CORE, SCALING, DEEP_STEP])
