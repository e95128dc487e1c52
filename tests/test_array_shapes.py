"""The suite compares arrays with the shapes in the signatures of the library."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.distributions.pairs import agreement

ONE, TWO = torch.zeros(1).long(), torch.zeros(2).long()


# The second time as well: calls are counted anew in every test.
@pytest.mark.parametrize("time", [1, 2])
def test_dimensions_of_one_name_agree(time):
    assert agreement(torch.eye(3), TWO, TWO).tolist() == [1.0, 1.0]
    with pytest.raises(TypeCheckError, match="parameter 'right'"):
        agreement(torch.eye(3), TWO, ONE)
    for _ in range(100):
        agreement(torch.eye(3), TWO, TWO)


def test_kinds_of_numbers_are_checked():
    SameCluster(torch.eye(3), TWO, TWO, 3)
    with pytest.raises(TypeCheckError, match="parameter 'left'"):
        SameCluster(torch.eye(3), TWO.double(), TWO, 3)


def test_unions_are_checked():
    SameCluster(TWO, TWO, TWO, 2)
    with pytest.raises(TypeCheckError, match="parameter 'assignments'"):
        SameCluster("three", TWO, TWO, 3)


def test_functions_without_arrays_are_let_through():
    from pyro_crowdclust.annotators import SortedPages

    with pytest.raises(ValueError, match="habits are"):
        SortedPages(2, habits=(0, 1, 1))
