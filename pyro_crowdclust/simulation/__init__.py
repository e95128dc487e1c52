"""Simulated data with a known truth: the Pinwheel, and crowds that answer about known classes.

Crowds that answer about pairs come as a data frame with one answer per row: ``left`` and ``right``
are positions of two different items (``left < right``), ``worker`` is a number from 0, ``label`` is
1 for "same" and 0 for "different", or a grade, and ``page``, where there are pages, is the number
of the task in which the answer was given.
"""

from pyro_crowdclust.simulation.grades import simulate_grades
from pyro_crowdclust.simulation.points import pinwheel
from pyro_crowdclust.simulation.rates import two_coin_rates
from pyro_crowdclust.simulation.simulated_pages import (
    simulate_pages,
    simulate_partitions,
    simulate_placements,
)
from pyro_crowdclust.simulation.simulated_pairs import simulate_pairs

__all__ = [
    "pinwheel",
    "simulate_grades",
    "simulate_pages",
    "simulate_pairs",
    "simulate_partitions",
    "simulate_placements",
    "two_coin_rates",
]
