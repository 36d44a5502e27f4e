"""Builders take ``discount=`` or ``criterion=``, and exactly one of them."""

import numpy as np
import pytest

import tessella as ts

STAGES = [ts.Pay(lambda x, action: 1.0 * x - action)]
P = np.eye(2)[None]
r = np.array([[1.0], [2.0]])

BUILDERS = {
    "staged": lambda **of: ts.MDP.staged({"x": range(3)}, range(2), stages=STAGES, **of),
    "from_arrays": lambda **of: ts.MDP.from_arrays(P, r, **of),
    "from_pairs": lambda **of: ts.MDP.from_pairs([0, 1], [0, 0], np.eye(2), [1.0, 2.0], **of),
    "from_step": lambda **of: ts.MDP.from_step(
        lambda x, action: ({"x": x}, 1.0 * x), {"x": range(3)}, range(2), **of
    ),
}


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)
def test_a_criterion_is_given_by_its_own_name(builder):
    assert builder(discount=0.9).criterion == ts.Discounted(0.9)
    assert builder(criterion=ts.Discounted(0.9)).criterion == ts.Discounted(0.9)
    assert builder(criterion=ts.Average()).criterion == ts.Average()


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)
def test_a_model_has_a_discount_or_another_criterion_not_both_and_not_neither(builder):
    with pytest.raises(ts.ModelError, match=r"not both; got discount=0\.9 and criterion=Average"):
        builder(discount=0.9, criterion=ts.Average())
    with pytest.raises(ts.ModelError, match=r"needs a discount such as 0\.95"):
        builder()


@pytest.mark.parametrize("given", ["average", ts.Average])
def test_what_is_no_criterion_is_named_as_one(given):
    with pytest.raises(ts.ModelError, match=r"criterion must be a criterion such as Average\(\)"):
        BUILDERS["staged"](criterion=given)
