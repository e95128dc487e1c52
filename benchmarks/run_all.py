"""``make bench``: run the benchmarks and write their figures to ``docs/results.md``.

python benchmarks/run_all.py
"""

from __future__ import annotations

from report import Experiment, Figure, table, write_section

STEP = Experiment(
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
        Figure(
            "the same, 2 threads",
            "at most 1.4",
            lambda figures: (
                "not measured: the cores were not free"
                if figures["ratio_2_threads"] is None
                else f"{figures['ratio_2_threads']:.2f}"
            ),
        ),
        Figure(
            "SCDC epoch over BayesSCDC epoch, exact sum over z, K = 50",
            "at most 4 (Luo et al.: 12.3)",
            lambda figures: f"{figures['scdc_over_bayes']:.1f}",
        ),
    ],
)

if __name__ == "__main__":
    write_section("bench", table([STEP]))
