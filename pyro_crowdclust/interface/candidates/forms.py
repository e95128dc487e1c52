"""Ways to model the features, any of which a choice may try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import annotators_on_pages
from pyro_crowdclust.callbacks import LearnedPrior, NearbyOwners, OwnershipMoves
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide, PairRegressionGuide
from pyro_crowdclust.interface.candidates.atoms import MOST_COLUMNS, atoms_of, beside_atoms
from pyro_crowdclust.interface.candidates.columns import components_for
from pyro_crowdclust.interface.candidates.coordinates import (
    as_numbers,
    beyond_one_gaussian,
    filled,
    in_central_units,
    in_common_units,
    in_units_of_features,
    is_real,
    power_transformed,
    projected,
    sample_of,
    standardized,
    telling,
    with_categories,
)
from pyro_crowdclust.interface.candidates.rounding import unrounded
from pyro_crowdclust.interface.recipe import (
    FULL_BATCH_NUMBERS,
    Recipe,
    feature_shape,
    is_supervised,
    supervision_of,
    takes_all,
)
from pyro_crowdclust.mixture import (
    Components,
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    HurdleGaussianComponents,
    Ownership,
    SoftmaxRegression,
)
from pyro_crowdclust.models import PairRegression, SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import Callback
from pyro_crowdclust.starts import TrustingStart
from pyro_crowdclust.training import RobbinsMonro, Stopping
from pyro_crowdclust.transforms import NoCoordinates, WithAtoms

# Candidates run on at most so many items.
MOST_ITEMS = 2000
# Full covariances of more features than this have more numbers than tables have items.
MOST_FULL = MOST_COLUMNS
# Degrees of freedom of heavy tails: right or nearly for 1.5 to 5, as 2 and 4 find the same clusters
# on most tables.
TAILS = 3.0
# Of more second moments than this, in the items that candidates see, full covariances with heavy
# tails take too long beside the others: 20 columns of 2,000 items, 37 of 569.
MOST_HEAVY = 800_000
# Where a learned prior begins: components are expected to have a fifth of the data's variance, so
# that they neither all fall into one nor keep single items.
FIRST_SCALE = 0.2
# How much scores of a regression are expected to deviate; 2 is from one in ten to nine in ten.
_SCORES = 2.0
MINIBATCHES: dict[str, Any] = {
    "epochs": 20,
    "batch_size": 1024,
    "stopping": Stopping(tolerance=1e-3),
    "step_size": RobbinsMonro(0.5, delay=20.0),
}
# What candidates are, in words.
FULL, DIAGONAL, REGRESSION = "full Gaussians", "diagonal Gaussians", "regression"
HEAVY, DIAGONAL_HEAVY = "full Student's t", "diagonal Student's t"
INDEPENDENT = "independent columns"
# What makes coordinates of data, and coordinates by what they are in words.
Place = Callable[[CrowdData], Identity]
ToCompare = Callable[[Identity, Tensor], float]
STANDARDIZED, POWERS = partial(telling, standardized), partial(telling, power_transformed)
PLACES: dict[str, Place] = {"columns": standardized, "powers": power_transformed}


def full(num_components: int, dim: int, tails: float | None = None) -> GaussianComponents:
    """Full covariances around a common one; how near to it they are is learned."""
    degrees = dim + 2.0
    return GaussianComponents(
        num_components,
        dim,
        concentration=0.05,
        scale=FIRST_SCALE * degrees,
        degrees=degrees,
        tails=tails,
    )


def diagonal(
    num_components: int, dim: int, tails: float | None = None
) -> DiagonalGaussianComponents:
    """Independent features inside a component."""
    return DiagonalGaussianComponents(
        num_components, dim, concentration=0.05, scale=FIRST_SCALE * 3.0, degrees=3.0, tails=tails
    )


def hurdle(num_components: int, dim: int) -> HurdleGaussianComponents:
    """Independent features that have an atom."""
    return HurdleGaussianComponents(
        num_components, dim, concentration=0.05, scale=FIRST_SCALE * 3.0, degrees=3.0
    )


@dataclass(frozen=True)
class Form:
    """How the features are modelled, but for the number of components.

    Attributes
    ----------
    features
        What the components are on, in words.
    kind
        What they are, in words.
    emission
        Makes the coordinates from the data.
    make
        Makes the recipe from the data, the number of components, and the coordinates.
    of_features
        Whether it has a density of the features, so that its ELBO can be compared with those of
        others. What has none is told apart by answers alone.
    to_compare
        What to add to the ELBO of the coordinates, in nats an item, so that it can be compared:
        from the coordinates and the features of the fit, ``spread_over_steps``.
    heavier_than
        The kind that this one is with heavy tails. It is tried if that does best: whether columns
        depend on each other inside a cluster is no matter of tails. None of those without.
    """

    features: str
    kind: str
    emission: Place
    make: Callable[[CrowdData, int, Identity], Recipe]
    of_features: bool = True
    to_compare: ToCompare = in_units_of_features
    heavier_than: str | None = None

    def recipe(
        self, data: CrowdData, num_components: int, emission: Identity | None = None
    ) -> Recipe:
        """The model with so many components, its guide and the options of ``fit``.

        ``emission`` is what the form makes of the data, where that is known.
        """
        emission = self.emission(data) if emission is None else emission
        return self.make(data, num_components, emission)


# Which components are one cluster. A smaller first share of own clusters, .5, joins more where
# answers say little: it was sure of two clusters of glass.
OWNERS_LEARNED: tuple[Callback, ...] = (NearbyOwners(own=0.8, strength=5.0), OwnershipMoves())


def mixture_recipe(
    components: Callable[[int, int], Components],
    data: CrowdData,
    num_components: int,
    emission: Identity,
) -> Recipe:
    """A mixture with priors that are learned; with answers or links clusters own components."""
    num_features = int(np.prod(feature_shape(data)))
    # Directions are real numbers, whatever the columns are that they are of.
    if not emission.mixes_features:
        own = emission.own_features(num_features)
        components = components_for(data, components, hurdle, own)
    made = components(num_components, emission.latent_size(num_features))
    owns = (data.has_answers or data.links is not None) and num_components > 1
    annotators = annotators_on_pages(data) if data.has_answers else None
    supervision = supervision_of(data, num_components)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(num_components),
        made,
        emission,
        annotators,
        supervision,
        sum_out_assignments=None if annotators or supervision.couples_items else torch.float64,
        ownership=Ownership(num_components) if owns else None,
    )
    options: dict[str, Any] = {"epochs": 100, "dtype": torch.float64}
    options["stopping"] = Stopping(tolerance=1e-4)
    options |= {"batch_size": None, "step_size": 1.0} if takes_all(data, model) else MINIBATCHES
    options["callbacks"] = [LearnedPrior()]
    options["callbacks"] += OWNERS_LEARNED if owns else ()
    options["initialize"] = TrustingStart()
    return Recipe(model, MessagePassingGuide(model), spread_over_steps(data, emission), options)


def spread_over_steps(data: CrowdData, emission: Identity) -> CrowdData:
    """What mixtures on these coordinates are fitted to: rounded numbers spread over their step.

    Atoms stay where they are. An ELBO is one of these numbers, and so must be all that it is
    compared by.
    """
    return unrounded(data, emission.atoms if isinstance(emission, WithAtoms) else None)


def regression_recipe(data: CrowdData, num_clusters: int, emission: Identity) -> Recipe:
    """Clusters regressed on the coordinates; its guide starts at what the answers say.

    Scores are expected to deviate by ``_SCORES`` over the items, in whatever units the coordinates
    are: with weights of deviation s they do so by ``s sqrt(sum_f var x_f)``.
    """
    points = emission.latent(sample_of(data))
    spread = float(points.var(0, correction=0).sum().sqrt())
    regression = SoftmaxRegression(
        num_clusters, points.shape[1], scale=_SCORES / spread if spread > 0 else None
    )
    return _told_by_answers(data, regression, emission)


def answers_recipe(data: CrowdData, num_clusters: int, emission: Identity) -> Recipe:
    """Clusters that the answers make; other items are what these are as often as these are it."""
    return _told_by_answers(data, SoftmaxRegression(num_clusters, 0, scale=1.0), emission)


def _told_by_answers(data: CrowdData, regression: SoftmaxRegression, emission: Identity) -> Recipe:
    supervision = supervision_of(data, regression.num_classes)
    model = PairRegression(regression, annotators_on_pages(data), emission, supervision)
    options = {
        "epochs": 60,
        "stopping": Stopping(tolerance=1e-3),
        "dtype": torch.float64,
        "batch_size": None,
        "step_size": 0.5,
    }
    size = regression.num_classes * regression.num_features
    if len(data.annotated_items) * size > FULL_BATCH_NUMBERS and not supervision.couples_items:
        options |= MINIBATCHES
    guide = PairRegressionGuide(model, num_items=data.num_items)
    return Recipe(model, guide, data, options)


# What features say has no part in it.
ANSWERS = Form(
    "nothing", REGRESSION, lambda data: NoCoordinates(), answers_recipe, of_features=False
)


def forms_for(data: CrowdData) -> tuple[Form, ...]:
    """The forms that suit features of this size and kind, and answers, if there are any.

    Columns of other kinds than real numbers, and rows with gaps, have mixtures on the columns.
    """
    atoms = atoms_of(data)
    places = {name: partial(beside_atoms, place, atoms) for name, place in PLACES.items()}
    is_plain = bool(is_real(data).all()) and not data.has_gaps
    forms = _mixtures(data, places, atoms) if is_plain else _on_columns(data, places, atoms)
    if not data.has_answers:
        return forms
    whole: dict[str, Place] = {"columns": as_numbers}
    if is_plain:
        whole = {name: partial(filled, place) for name, place in places.items()}
    return forms + _regressions(data, whole, is_plain)


def _on_columns(
    data: CrowdData, places: Mapping[str, Place], atoms: Float[Tensor, " feature"]
) -> tuple[Form, ...]:
    """Components on the columns themselves."""
    of_full, of_diagonal = partial(mixture_recipe, full), partial(mixture_recipe, diagonal)
    real = is_real(data)
    if not bool(real.any()):
        return (Form("columns", INDEPENDENT, places["columns"], of_diagonal),)
    kinds = {DIAGONAL: of_diagonal}
    # Columns with atoms have no covariances.
    if 1 < int((real & atoms.isnan()).sum()) <= MOST_FULL:
        kinds = {FULL: of_full, DIAGONAL: of_diagonal}
    forms = [
        Form(place, kind, emission, make)
        for place, emission in places.items()
        for kind, make in kinds.items()
    ]
    # Heavy tails are of real numbers alone.
    if bool(real.all()) and bool(atoms.isnan().all()):
        heavy_diagonal = partial(mixture_recipe, partial(diagonal, tails=TAILS))
        tails = {DIAGONAL: (DIAGONAL_HEAVY, heavy_diagonal)}
        # Powers draw outliers in; columns get units that these do not widen.
        central: dict[str, Place] = {"columns": partial(telling, in_central_units)}
        num_items = MOST_ITEMS
        if not data.has_answers and not is_supervised(data):
            # With answers a cluster may own several components, which are heavy tails as well.
            central["powers"] = places["powers"]
            num_items = min(data.num_items, MOST_ITEMS)
        if FULL in kinds and num_items * len(real) ** 2 <= MOST_HEAVY:
            tails[FULL] = HEAVY, partial(mixture_recipe, partial(full, tails=TAILS))
        forms += [
            Form(place, kind, emission, make, heavier_than=without)
            for place, emission in central.items()
            for without, (kind, make) in tails.items()
        ]
    return tuple(forms)


def _mixtures(
    data: CrowdData, places: Mapping[str, Place], atoms: Float[Tensor, " feature"]
) -> tuple[Form, ...]:
    dim = int(np.prod(feature_shape(data)))
    of_full = partial(mixture_recipe, full)
    if dim <= MOST_FULL:
        forms = [*_on_columns(data, places, atoms)]
        # An atom has no density, and the ELBO of one could not be compared.
        if dim > 12 and bool(atoms.isnan().all()):
            directed = {"8 directions": STANDARDIZED, "8 directions of powers": POWERS}
            for name, place in directed.items():
                forms.append(Form(name, FULL, partial(_directions, place, 8), of_full))
        return tuple(forms)
    numbers = [number for number in (10, 20, 40) if number < min(dim, data.num_items)]
    directed = {
        f"{number} directions, common units": partial(_directions, in_common_units, number)
        for number in numbers
    }
    directed["20 directions"] = partial(_directions, standardized, min(20, data.num_items - 1))
    return tuple(
        Form(name, FULL, place, of_full, to_compare=beyond_one_gaussian)
        for name, place in directed.items()
    )


def _regressions(
    data: CrowdData, places: Mapping[str, Place], have_common_units: bool
) -> tuple[Form, ...]:
    dim = with_categories(Identity(), data).latent_size(int(np.prod(feature_shape(data))))
    if dim > MOST_FULL:
        most = min(dim, data.num_items) - 1
        own, common = min(20, most), min(40, most)
        whitened = partial(_directions, as_numbers, own, whiten=True)
        places = {f"{own} directions, own units": whitened}
        if have_common_units:
            alike = partial(_directions, partial(filled, in_common_units), common)
            places = {f"{common} directions, common units": alike} | places
    return tuple(
        Form(name, REGRESSION, emission, regression_recipe, of_features=False)
        for name, emission in places.items()
    )


def _directions(inner: Place, number: int, data: CrowdData, whiten: bool = False) -> Identity:
    return projected(data, inner(data), number, whiten)
