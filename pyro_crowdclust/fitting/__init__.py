"""``fit(model, guide, data)``: training of any Pyro model and guide on crowdsourced data."""

from pyro_crowdclust.fitting.call import TrainingOptions, fit
from pyro_crowdclust.training.chosen_options import adam

__all__ = ["TrainingOptions", "adam", "fit"]
