"""What a part must be to take part: the contracts of models, guides, annotators and all the rest.

A part needs no base class, only the verbs of its contract. The first contract of each kind is what
every such part has; those called ``Supports...`` are verbs that a part may have, each for something
that the library can do with it, and is asked for by ``isinstance``. Arrays have the shapes in the
signatures.
"""

from pyro_crowdclust.protocols.annotators import (
    ClassAnnotators,
    PairAnnotators,
    SupportsDraws,
    SupportsItems,
    SupportsStateDraws,
    SupportsStates,
    SupportsTrust,
    SupportsUnheard,
    SupportsVotes,
)
from pyro_crowdclust.protocols.components import ComponentPrior
from pyro_crowdclust.protocols.guides import (
    Coupling,
    MovableGuide,
    SupportsAnswerProbabilities,
    SupportsClassTable,
    SupportsConfusion,
    SupportsEpochs,
    SupportsInfer,
    SupportsItemLogLikelihood,
    SupportsMakeRoom,
    SupportsMixture,
    SupportsPartition,
    SupportsRateStatistics,
    SupportsSetRates,
    SupportsWorkers,
)
from pyro_crowdclust.protocols.models import (
    Guide,
    Model,
    SupportsCheck,
    SupportsDescribe,
    SupportsDiscreteValues,
    SupportsDrawnFeatures,
    SupportsFeaturesOf,
    SupportsGaps,
    SupportsLikeness,
    SupportsPriors,
    module_of,
    name_of,
    part_of,
    unwrapped,
)
from pyro_crowdclust.protocols.networks import (
    SupportsClustersCheck,
    SupportsDrawParameters,
    SupportsLearnPatterns,
    SupportsSetLinear,
    SupportsSizeCheck,
)
from pyro_crowdclust.protocols.results import FittedModel
from pyro_crowdclust.protocols.starts import (
    SiteStatistics,
    Start,
    SupportsStart,
    SupportsStartAt,
    SupportsStartAtPartition,
)
from pyro_crowdclust.protocols.training import Callback, SupportsState, TrainingRun

__all__ = [
    "Callback",
    "ClassAnnotators",
    "ComponentPrior",
    "Coupling",
    "FittedModel",
    "Guide",
    "Model",
    "MovableGuide",
    "PairAnnotators",
    "SiteStatistics",
    "Start",
    "SupportsAnswerProbabilities",
    "SupportsCheck",
    "SupportsClassTable",
    "SupportsClustersCheck",
    "SupportsConfusion",
    "SupportsDescribe",
    "SupportsDiscreteValues",
    "SupportsDrawParameters",
    "SupportsDrawnFeatures",
    "SupportsDraws",
    "SupportsEpochs",
    "SupportsFeaturesOf",
    "SupportsGaps",
    "SupportsInfer",
    "SupportsItemLogLikelihood",
    "SupportsItems",
    "SupportsLearnPatterns",
    "SupportsLikeness",
    "SupportsMakeRoom",
    "SupportsMixture",
    "SupportsPartition",
    "SupportsPriors",
    "SupportsRateStatistics",
    "SupportsSetLinear",
    "SupportsSetRates",
    "SupportsSizeCheck",
    "SupportsStart",
    "SupportsStartAt",
    "SupportsStartAtPartition",
    "SupportsState",
    "SupportsStateDraws",
    "SupportsStates",
    "SupportsTrust",
    "SupportsUnheard",
    "SupportsVotes",
    "SupportsWorkers",
    "TrainingRun",
    "module_of",
    "name_of",
    "part_of",
    "unwrapped",
]
