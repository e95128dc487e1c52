"""Files that name arguments which are constants now."""

from __future__ import annotations

import pytest

from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.files.former import _FORMER, _MOVED, present_name
from pyro_crowdclust.files.parts import part_class
from pyro_crowdclust.starts import TrustingStart


@pytest.mark.parametrize("name", _FORMER)
def test_former_arguments_are_of_parts_that_lack_them(name):
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        part_class(name)(**_FORMER[name])


@pytest.mark.parametrize("name", _MOVED)
def test_parts_that_moved_are_found_where_they_are(name):
    assert part_class(present_name(name)).__name__ == name.partition(":")[2]


def test_a_part_with_a_former_argument_is_built():
    described = describe(TrustingStart(), {})
    described["$part"]["arguments"]["trust"] = {"$tuple": [6.0, 2.0]}
    assert build(described, {}) == TrustingStart()
    described["$part"]["arguments"]["trust"] = {"$tuple": [9.0, 2.0]}
    with pytest.raises(ValueError, match=r"trust=\(9.0, 2.0\), which is always \(6.0, 2.0\)"):
        build(described, {})
