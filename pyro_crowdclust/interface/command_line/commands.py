"""The commands by name, each a function of the parsed options."""

from pyro_crowdclust.interface.command_line.after_fit import predict, report
from pyro_crowdclust.interface.command_line.ask import ask
from pyro_crowdclust.interface.command_line.demo import demo, simulate
from pyro_crowdclust.interface.command_line.fit import fit
from pyro_crowdclust.interface.command_line.models import MODELS

__all__ = ["MODELS", "ask", "demo", "fit", "predict", "report", "simulate"]
