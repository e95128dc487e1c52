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
    from pyro_crowdclust.interface.answers_only.search import AnswersAlone, SearchTraining
    from pyro_crowdclust.interface.candidates.columns import components_for
    from pyro_crowdclust.interface.candidates.forms import Form
    from pyro_crowdclust.interface.choosing.choice import Choice, ChoosingTraining, choice_for
    from pyro_crowdclust.interface.choosing.explaining import ExplainingTraining
    from pyro_crowdclust.interface.choosing.rereading import (
        ReweightedTraining,
        with_feature_weight,
        with_workers_refitted,
    )
    from pyro_crowdclust.interface.class_labels.averaging import average_annotator_models
    from pyro_crowdclust.interface.class_labels.calibrating import CalibratedTraining
    from pyro_crowdclust.interface.class_labels.candidate_average import AveragedTraining
    from pyro_crowdclust.interface.class_labels.classification import classify
    from pyro_crowdclust.interface.class_labels.inference import infer_classes
    from pyro_crowdclust.interface.class_labels.trait import TrainingBesideTrait
    from pyro_crowdclust.interface.class_labels.trait_of_average import AveragedBesideTrait
    from pyro_crowdclust.interface.clustering import cluster, recipe_for
    from pyro_crowdclust.interface.command_line.advice import advice
    from pyro_crowdclust.interface.estimator import CrowdClusterer
    from pyro_crowdclust.interface.mixtures import mixture_for
    from pyro_crowdclust.interface.networks import DeepBernoulli, DeepNormal, Networks
    from pyro_crowdclust.interface.recipe import Recipe

__all__ = [
    "AnswersAlone",
    "AveragedBesideTrait",
    "AveragedTraining",
    "CalibratedTraining",
    "Choice",
    "ChoosingTraining",
    "CrowdClusterer",
    "DeepBernoulli",
    "DeepNormal",
    "ExplainingTraining",
    "Form",
    "Networks",
    "Recipe",
    "ReweightedTraining",
    "SearchTraining",
    "TrainingBesideTrait",
    "advice",
    "average_annotator_models",
    "choice_for",
    "classify",
    "cluster",
    "components_for",
    "infer_classes",
    "mixture_for",
    "recipe_for",
    "with_feature_weight",
    "with_workers_refitted",
]

# Names are loaded when they are first used, so that --help of the command line is fast.
_HOMES = {
    "AnswersAlone": "answers_only.search",
    "AveragedBesideTrait": "class_labels.trait_of_average",
    "AveragedTraining": "class_labels.candidate_average",
    "CalibratedTraining": "class_labels.calibrating",
    "Choice": "choosing.choice",
    "ChoosingTraining": "choosing.choice",
    "CrowdClusterer": "estimator",
    "DeepBernoulli": "networks",
    "DeepNormal": "networks",
    "ExplainingTraining": "choosing.explaining",
    "Form": "candidates.forms",
    "Networks": "networks",
    "Recipe": "recipe",
    "ReweightedTraining": "choosing.rereading",
    "SearchTraining": "answers_only.search",
    "TrainingBesideTrait": "class_labels.trait",
    "advice": "command_line.advice",
    "average_annotator_models": "class_labels.averaging",
    "choice_for": "choosing.choice",
    "classify": "class_labels.classification",
    "cluster": "clustering",
    "components_for": "candidates.columns",
    "infer_classes": "class_labels.inference",
    "mixture_for": "mixtures",
    "recipe_for": "clustering",
    "with_feature_weight": "choosing.rereading",
    "with_workers_refitted": "choosing.rereading",
}

__getattr__, __dir__ = loaded_late(__name__, _HOMES)
