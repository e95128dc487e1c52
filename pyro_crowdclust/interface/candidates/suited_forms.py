"""Which forms suit the features of some data, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.about_data import feature_shape, is_of_features_alone
from pyro_crowdclust.interface.candidates.atoms import atoms_of, beside_atoms
from pyro_crowdclust.interface.candidates.coordinates import (
    columns_as_numbers,
    filled,
    in_central_units,
    is_real,
    near_landmarks,
    power_transformed,
    standardized,
    with_categories,
    without_redundant,
)
from pyro_crowdclust.interface.candidates.counts import counts_as_numbers, has_counts, look_normal
from pyro_crowdclust.interface.candidates.deviating import (
    deviation_bounds,
    within,
    without_deviating,
)
from pyro_crowdclust.interface.candidates.directions import (
    beyond_one_gaussian,
    in_common_units,
    in_many_columns,
    lengths_differ,
    named,
    projected,
)
from pyro_crowdclust.interface.candidates.forms import (
    DIAGONAL,
    DIAGONAL_HEAVY,
    FULL,
    HEAVY,
    INDEPENDENT,
    MAX_FULL,
    MAX_ITEMS,
    PROCESSES,
    REGRESSION,
    Form,
    MakeCoordinates,
    ToCompare,
)
from pyro_crowdclust.interface.candidates.recipes import (
    diagonal,
    full,
    mixture_recipe,
    regression_recipe,
)
from pyro_crowdclust.interface.recipe import Recipe

# Degrees of freedom of heavy tails. It suits tails with 1.5 to 5 degrees: 2 and 4 find the same
# clusters on most tables.
TAILS = 3.0
# With more second moments than this, over the items of a trial, full covariances with heavy tails
# take much longer than the other candidates: 20 columns of 2,000 items, 37 of 569.
MAX_HEAVY = 800_000
# Number of landmarks of a regression.
_LANDMARKS = 50
STANDARDIZED = partial(without_redundant, standardized)
POWERS = partial(without_redundant, power_transformed)
# Coordinates by their names.
COORDINATES: dict[str, MakeCoordinates] = {"columns": standardized, "powers": power_transformed}


def forms_for(data: CrowdData) -> tuple[Form, ...]:
    """The forms that suit the size and the kinds of the features, and the answers, if any.

    Up to 50 columns get mixtures on the columns; if all are real and without gaps, and there are
    more than 12, also on a few directions. More than 50 real columns get mixtures on directions,
    with columns of other kinds in addition. Counts are tried both as counts and as numbers; with
    many columns, as what suits them better. Numbers far from all others of their column count as
    missing, or, if there are many columns, are clipped.
    """
    return _within_bounds(data, _forms)


def regressions_for(data: CrowdData) -> tuple[Form, ...]:
    """The regressions among the forms, whether or not there are answers."""
    return _within_bounds(data, _regressions_of)


def _within_bounds(
    data: CrowdData, make: Callable[[CrowdData], tuple[Form, ...]]
) -> tuple[Form, ...]:
    """Forms made for the data without the numbers that deviate."""
    bounds = None if _are_many(counts_as_numbers(data)) else deviation_bounds(data)
    if bounds is None:
        return make(data)
    forms = make(without_deviating(data, *bounds))
    return tuple(
        replace(form, make_coordinates=partial(within, form.make_coordinates, bounds))
        for form in forms
    )


def _forms(data: CrowdData) -> tuple[Form, ...]:
    """The forms for data without deviating numbers."""
    numbers = counts_as_numbers(data)
    are_many = _are_many(numbers)
    equal_length = _of_equal_length(numbers)
    regressions = _regressions_of(data) if data.has_answers else ()
    if not has_counts(data):
        return _mixtures(data, equal_length) + regressions
    as_numbers_too = not are_many or look_normal(data)
    as_counts = not (are_many and as_numbers_too)
    forms = _mixtures(data, _of_equal_length(data)) if as_counts else ()
    of_numbers = _mixtures(numbers, equal_length) if as_numbers_too else ()
    return forms + tuple(map(_of_numbers, of_numbers)) + regressions


def _regressions_of(data: CrowdData) -> tuple[Form, ...]:
    """Regressions on the columns, with counts as numbers."""
    numbers = counts_as_numbers(data)
    found = _regressions(numbers, _of_equal_length(numbers))
    return tuple(map(_of_numbers, found)) if has_counts(data) else found


def _are_many(data: CrowdData) -> bool:
    """Whether mixtures of the real columns are on directions."""
    return int(is_real(data).sum()) > MAX_FULL


def _of_equal_length(data: CrowdData) -> bool:
    """Whether directions are computed from rows scaled to equal length."""
    return _are_many(data) and lengths_differ(data)


def _of_numbers(form: Form) -> Form:
    """The form for data with counts as numbers."""
    return replace(
        form,
        features=f"{form.features}, counts as numbers",
        make_coordinates=partial(_coordinates_of_numbers, form.make_coordinates),
        make=partial(_recipe_of_numbers, form.make),
    )


def _coordinates_of_numbers(make_coordinates: MakeCoordinates, data: CrowdData) -> Identity:
    return make_coordinates(counts_as_numbers(data))


def _recipe_of_numbers(
    make: Callable[[CrowdData, int, Identity], Recipe],
    data: CrowdData,
    num_components: int,
    emission: Identity,
) -> Recipe:
    return make(counts_as_numbers(data), num_components, emission)


def _mixtures(data: CrowdData, equal_length: bool) -> tuple[Form, ...]:
    """Mixtures on the columns or on directions, perhaps of rows scaled to equal length."""
    if _are_many(data):
        return _on_directions(data, equal_length)
    atoms = atoms_of(data)
    forms = _on_columns(data, _coordinates(atoms), atoms)
    return forms + (_on_few_directions(data, atoms) if bool(is_real(data).all()) else ())


def _coordinates(atoms: Float[Tensor, " feature"]) -> dict[str, MakeCoordinates]:
    return {name: partial(beside_atoms, make, atoms) for name, make in COORDINATES.items()}


def _on_columns(
    data: CrowdData, coordinates: Mapping[str, MakeCoordinates], atoms: Float[Tensor, " feature"]
) -> tuple[Form, ...]:
    """Components on the columns themselves."""
    of_full, of_diagonal = partial(mixture_recipe, full), partial(mixture_recipe, diagonal)
    real = is_real(data)
    if not bool(real.any()):
        return (Form("columns", INDEPENDENT, coordinates["columns"], of_diagonal),)
    kinds = {DIAGONAL: of_diagonal}
    # Columns with atoms have no covariances.
    if 1 < int((real & atoms.isnan()).sum()) <= MAX_FULL:
        kinds = {FULL: of_full, DIAGONAL: of_diagonal}
    forms = [
        Form(name, kind, make_coordinates, make)
        for name, make_coordinates in coordinates.items()
        for kind, make in kinds.items()
    ]
    # Only real numbers can have heavy tails.
    if bool(real.all()) and bool(atoms.isnan().all()):
        heavy_diagonal = partial(mixture_recipe, partial(diagonal, tails=TAILS))
        tails = {DIAGONAL: (DIAGONAL_HEAVY, heavy_diagonal)}
        # Powers draw outliers in; columns get units that outliers do not affect.
        central: dict[str, MakeCoordinates] = {
            "columns": partial(without_redundant, in_central_units)
        }
        num_items = MAX_ITEMS
        if is_of_features_alone(data):
            # With answers, a cluster may own several components, which have heavy tails together.
            central["powers"] = coordinates["powers"]
            num_items = min(data.num_items, MAX_ITEMS)
        if FULL in kinds and num_items * len(real) ** 2 <= MAX_HEAVY:
            tails[FULL] = HEAVY, partial(mixture_recipe, partial(full, tails=TAILS))
        forms += [
            Form(name, kind, make_coordinates, make, heavier_than=without)
            for name, make_coordinates in central.items()
            for without, (kind, make) in tails.items()
        ]
    return tuple(forms)


def _on_few_directions(data: CrowdData, atoms: Float[Tensor, " feature"]) -> tuple[Form, ...]:
    """Components on a few directions, in addition to those on the columns themselves."""
    # Atoms and missing numbers have no density, so that the ELBO could not be compared.
    if len(atoms) <= 12 or not bool(atoms.isnan().all()) or data.has_gaps:
        return ()
    directed = {"8 directions": STANDARDIZED, "8 directions of powers": POWERS}
    return tuple(
        Form(name, FULL, partial(_directions, make_coordinates, 8), partial(mixture_recipe, full))
        for name, make_coordinates in directed.items()
    )


def _on_directions(data: CrowdData, equal_length: bool) -> tuple[Form, ...]:
    """Components on directions of the real columns, with columns of other kinds as they are."""
    dim = int(is_real(data).sum())
    common = partial(in_many_columns, in_common_units, equal_length)
    own = partial(in_many_columns, standardized, equal_length)
    directed: dict[str, MakeCoordinates] = {
        f"{number} directions, common units": partial(_directions, common, number)
        for number in (10, 20, 40)
        if number < min(dim, data.num_items)
    }
    directed["20 directions"] = partial(_directions, own, min(20, data.num_items - 1))
    make, compare = partial(mixture_recipe, full), cast(ToCompare, beyond_one_gaussian)
    return tuple(
        Form(named(name, equal_length), FULL, coordinates, make, to_compare=compare, epochs=200)
        for name, coordinates in directed.items()
    )


def _regressions(data: CrowdData, equal_length: bool) -> tuple[Form, ...]:
    are_real = bool(is_real(data).all())
    equal_length = equal_length and are_real
    coordinates: dict[str, MakeCoordinates] = {"columns": columns_as_numbers}
    dim = with_categories(Identity(), data).latent_size(int(np.prod(feature_shape(data))))
    if dim > MAX_FULL:
        most = min(dim, data.num_items) - 1
        few, many = min(20, most), min(40, most)
        inner: MakeCoordinates = (
            partial(in_many_columns, standardized, equal_length) if are_real else columns_as_numbers
        )
        # Where nuisance has the first directions, classes may lie behind them.
        coordinates = {
            named(f"{number} directions, own units", equal_length): partial(
                _directions, inner, number, whiten=True
            )
            for number in ((few, many) if are_real else (few,))
        }
        if are_real:
            inner = partial(in_many_columns, in_common_units, equal_length)
            in_one_unit = partial(_directions, inner, many)
            coordinates = {
                named(f"{many} directions, common units", equal_length): in_one_unit
            } | coordinates
    elif are_real:
        found = _coordinates(atoms_of(data))
        coordinates = {name: partial(filled, make) for name, make in found.items()}
    kinds = [(name, REGRESSION, make_coordinates) for name, make_coordinates in coordinates.items()]
    # Distances between untransformed columns depend on a few large numbers.
    if "powers" in coordinates:
        kinds += [
            ("powers", kind, partial(_near, coordinates["powers"], width))
            for kind, width in PROCESSES.items()
        ]
    return tuple(
        Form(name, kind, make_coordinates, regression_recipe, of_features=False)
        for name, kind, make_coordinates in kinds
    )


def _near(inner: MakeCoordinates, width: float, data: CrowdData) -> Identity:
    return near_landmarks(data, inner(data), _LANDMARKS, width)


def _directions(
    inner: MakeCoordinates, number: int, data: CrowdData, whiten: bool = False
) -> Identity:
    return projected(data, inner(data), number, whiten)
