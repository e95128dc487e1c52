"""The commands by name, each a function of the parsed options that returns the exit code."""

from argparse import Namespace
from collections.abc import Callable

from pyro_crowdclust.interface.command_line.after_fit import predict, report
from pyro_crowdclust.interface.command_line.ask import ask
from pyro_crowdclust.interface.command_line.demo import demo, simulate
from pyro_crowdclust.interface.command_line.fit import fit

COMMANDS: dict[str, Callable[[Namespace], int]] = {
    "fit": fit,
    "ask": ask,
    "predict": predict,
    "report": report,
    "simulate": simulate,
    "demo": demo,
}
