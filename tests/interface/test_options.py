"""Unknown arguments: named, with what was meant, before anything is fitted."""

import pytest

from pyro_crowdclust.interface import (
    average_annotator_models,
    classify,
    cluster,
    infer_classes,
)

CALLS = {
    "cluster": lambda **options: cluster(None, **options),
    "classify": lambda **options: classify([[0.0]], None, **options),
    "infer_classes": lambda **options: infer_classes(None, **options),
    "average_annotator_models": lambda **options: average_annotator_models(None, **options),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("epoch", "did you mean 'epochs'"),
        ("max_iter", "did you mean 'epochs'"),
        ("random_state", "did you mean 'seed'"),
        ("verbose", "did you mean 'progress'"),
        ("n_jobs", "a fit takes one process"),
    ],
)
def test_an_argument_that_there_is_not(call, name, hint):
    with pytest.raises(TypeError, match=rf"{call}\(\) has no argument '{name}'; {hint}"):
        CALLS[call](**{name: 3})


@pytest.mark.parametrize(
    ("call", "name", "hint"),
    [
        ("cluster", "k", "did you mean 'num_clusters'"),
        ("cluster", "num_start", "did you mean 'num_starts'"),
        ("cluster", "n_init", "did you mean 'num_starts'"),
        ("cluster", "labels", r"class labels by workers go to classify\(features, labels\)"),
        ("classify", "k", "the classes are those that workers named"),
        ("classify", "num_clusters", "the classes are those that workers named"),
        ("infer_classes", "n_clusters", "the classes are those that workers named"),
    ],
)
def test_an_argument_of_another_call(call, name, hint):
    with pytest.raises(TypeError, match=rf"{call}\(\) has no argument '{name}'; {hint}"):
        CALLS[call](**{name: 3})


def test_without_a_hint():
    with pytest.raises(TypeError, match=r"classify\(\) has no argument 'colour'$"):
        CALLS["classify"](colour="red")
