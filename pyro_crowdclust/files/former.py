"""Names and arguments that parts of the library once had, and that files may still have."""

from __future__ import annotations

from typing import Any

# Parts that are in another room now.
_MOVED = {
    f"pyro_crowdclust.inference:{view}": f"pyro_crowdclust.networks:{view}"
    for view in ("RandomAffine", "RandomPhoto", "ViewOrItself")
}
# By the name of a part in files: its former arguments, with the values that are constants now.
_FORMER: dict[str, dict[str, Any]] = {
    "pyro_crowdclust.annotators:SortedPages": {"overlap": 0.01},
    "pyro_crowdclust.minibatches:AnswerSampling": {"blocks": None},
    "pyro_crowdclust.networks:AmortizedRecognition": {"initial_scale": 0.2},
    "pyro_crowdclust.networks:ClusterRecognition": {"initial_scale": 0.2},
    "pyro_crowdclust.networks:GaussianRecognition": {"initial_precision": 20.0},
    "pyro_crowdclust.starts:PrincipalComponentStart": {"latent_scale": 2.0},
    "pyro_crowdclust.starts:RidgeTeaching": {"num_patches": 40_000},
    "pyro_crowdclust.starts:TrustingStart": {"trust": (6.0, 2.0)},
}


def present_name(name: str) -> str:
    """The name that a part has now.

    Examples
    --------
    >>> present_name("pyro_crowdclust.inference:RandomAffine")
    'pyro_crowdclust.networks:RandomAffine'
    """
    return _MOVED.get(name, name)


def without_former(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a part that it still has.

    Raises
    ------
    ValueError
        If a former one has another value than the part has now.

    Examples
    --------
    >>> without_former("pyro_crowdclust.starts:RidgeTeaching", {"num_patches": 40_000})
    {}
    """
    former = _FORMER.get(name, {})
    for argument, value in former.items():
        if arguments.get(argument, value) != value:
            raise ValueError(
                f"{name} has {argument}={arguments[argument]!r}, which is always {value!r} in this "
                "version"
            )
    return {argument: value for argument, value in arguments.items() if argument not in former}
