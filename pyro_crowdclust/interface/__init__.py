"""User interface: single calls, a scikit-learn estimator and the command line.

It rests on the engine, the models and the guides.

>>> from pyro_crowdclust.interface import (
...     CrowdClusterer,
...     cluster,
...     infer_classes,
...     mixture_for,
... )
"""

from typing import TYPE_CHECKING

from pyro_crowdclust._lazy import loaded_late

if TYPE_CHECKING:
    from pyro_crowdclust.interface.advising.advice import advice
    from pyro_crowdclust.interface.answers_alone.partition_search import AnswersAlone
    from pyro_crowdclust.interface.candidates.columns import components_for
    from pyro_crowdclust.interface.candidates.forms import Form
    from pyro_crowdclust.interface.choosing.choice import Choice, choice_for
    from pyro_crowdclust.interface.choosing.rereading import (
        with_feature_weight,
        with_workers_refitted,
    )
    from pyro_crowdclust.interface.class_labels.averaging import average_annotator_models
    from pyro_crowdclust.interface.class_labels.classification import classify
    from pyro_crowdclust.interface.class_labels.infer_classes import infer_classes
    from pyro_crowdclust.interface.class_labels.trait import infer_trait
    from pyro_crowdclust.interface.clustering import cluster, recipe_for
    from pyro_crowdclust.interface.estimator import CrowdClusterer
    from pyro_crowdclust.interface.mixtures import mixture_for
    from pyro_crowdclust.interface.networks import DeepBernoulli, DeepNormal, Networks
    from pyro_crowdclust.interface.recipe import Recipe

__all__ = [
    "AnswersAlone",
    "Choice",
    "CrowdClusterer",
    "DeepBernoulli",
    "DeepNormal",
    "Form",
    "Networks",
    "Recipe",
    "advice",
    "average_annotator_models",
    "choice_for",
    "classify",
    "cluster",
    "components_for",
    "infer_classes",
    "infer_trait",
    "mixture_for",
    "recipe_for",
    "with_feature_weight",
    "with_workers_refitted",
]

# Steps of updates, which nobody calls but files of results name (``files.parts``).
FOR_FILES = [
    "AverageWithOneRate",
    "AverageWithTrait",
    "Calibrate",
    "ChooseAgain",
    "ExplainAnswers",
    "KeptPrior",
    "RateWorkers",
    "ReadAtWeight",
    "SearchTraining",
    "TrainMembers",
]

# Names are loaded when they are first used, so that --help of the command line is fast.
_HOMES = {
    "AnswersAlone": "answers_alone.partition_search",
    "TrainMembers": "class_labels.candidate_average",
    "Calibrate": "class_labels.calibrating",
    "Choice": "choosing.choice",
    "ChooseAgain": "choosing.choice",
    "CrowdClusterer": "estimator",
    "DeepBernoulli": "networks",
    "DeepNormal": "networks",
    "ExplainAnswers": "choosing.explaining",
    "Form": "candidates.forms",
    "KeptPrior": "answers_alone.kept_prior",
    "Networks": "networks",
    "Recipe": "recipe",
    "RateWorkers": "choosing.rereading",
    "ReadAtWeight": "choosing.rereading",
    "SearchTraining": "answers_alone.partition_search",
    "AverageWithOneRate": "class_labels.one_rate",
    "AverageWithTrait": "class_labels.trait",
    "advice": "advising.advice",
    "average_annotator_models": "class_labels.averaging",
    "choice_for": "choosing.choice",
    "classify": "class_labels.classification",
    "cluster": "clustering",
    "components_for": "candidates.columns",
    "infer_classes": "class_labels.infer_classes",
    "infer_trait": "class_labels.trait",
    "mixture_for": "mixtures",
    "recipe_for": "clustering",
    "with_feature_weight": "choosing.rereading",
    "with_workers_refitted": "choosing.rereading",
}

__getattr__, __dir__ = loaded_late(__name__, _HOMES)
