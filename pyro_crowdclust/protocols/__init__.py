"""Contracts (protocols) of models, guides, annotators, networks, starts and callbacks.

These parts need no base class, only the methods of their contract. Components, weights, emissions,
supervision and moves derive from a base class instead, which has their methods and defaults
(``Components``, ``Weights``, ``Emission``, ``Supervision``, ``StructuralMoves``), and families from
``ExponentialFamily``.

The first contract in each file is required of every such part. Contracts called ``Supports...``
are optional; each enables a feature of the library, which checks for it by ``isinstance``. Here are
those that several files ask for; one that a single file asks for is in that file. Their members
must therefore be methods and properties of a class, which ``isinstance`` finds in any version of
Python, and not submodules or buffers of a module. Arrays have the shapes in the signatures.
"""

from pyro_crowdclust.protocols.annotators import (
    Annotators,
    ClassAnnotators,
    LookAnnotators,
    PairAnnotators,
    SupportsDraws,
    SupportsItems,
    SupportsLapses,
    SupportsOutcomes,
    SupportsStates,
    SupportsTrait,
    SupportsTrustedWorkers,
    SupportsWithTrust,
)
from pyro_crowdclust.protocols.answers import (
    AnswerCoupling,
    AnswerSites,
    OwnersEvidence,
    Rates,
    SupportsSites,
    WorkerSites,
)
from pyro_crowdclust.protocols.guides import (
    Coupling,
    MovableGuide,
    SupportsConfusion,
    SupportsFeatureWeight,
    SupportsInfer,
    SupportsMixture,
    SupportsPartition,
    SupportsRateStatistics,
    SupportsWorkers,
)
from pyro_crowdclust.protocols.models import (
    Guide,
    Model,
    SupportsCheck,
    SupportsFeaturesOf,
    module_of,
    modules_of,
    name_of,
    part_of,
    posteriors_of,
    roots_of,
    unwrapped,
)
from pyro_crowdclust.protocols.networks import (
    SupportsDrawParameters,
    SupportsSizeCheck,
)
from pyro_crowdclust.protocols.results import FittedModel
from pyro_crowdclust.protocols.starts import (
    SiteStatistics,
    Start,
)
from pyro_crowdclust.protocols.training import SupportsState

__all__ = [
    "Annotators",
    "AnswerCoupling",
    "AnswerSites",
    "ClassAnnotators",
    "Coupling",
    "FittedModel",
    "Guide",
    "LookAnnotators",
    "Model",
    "MovableGuide",
    "OwnersEvidence",
    "PairAnnotators",
    "Rates",
    "SiteStatistics",
    "Start",
    "SupportsCheck",
    "SupportsConfusion",
    "SupportsDrawParameters",
    "SupportsDraws",
    "SupportsFeatureWeight",
    "SupportsFeaturesOf",
    "SupportsInfer",
    "SupportsItems",
    "SupportsLapses",
    "SupportsMixture",
    "SupportsOutcomes",
    "SupportsPartition",
    "SupportsRateStatistics",
    "SupportsSites",
    "SupportsSizeCheck",
    "SupportsState",
    "SupportsStates",
    "SupportsTrait",
    "SupportsTrustedWorkers",
    "SupportsWithTrust",
    "SupportsWorkers",
    "WorkerSites",
    "module_of",
    "modules_of",
    "name_of",
    "part_of",
    "posteriors_of",
    "roots_of",
    "unwrapped",
]
