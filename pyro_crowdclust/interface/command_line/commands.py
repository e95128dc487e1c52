"""The commands by their names, each of the options that the command line has parsed."""

from pyro_crowdclust.interface.command_line.after_fit import predict, report
from pyro_crowdclust.interface.command_line.ask import ask
from pyro_crowdclust.interface.command_line.demo import demo, simulate
from pyro_crowdclust.interface.command_line.fit import MODELS, fit

__all__ = ["MODELS", "ask", "demo", "fit", "predict", "report", "simulate"]
