"""Guides under Pyro's handlers are trained as they are without them."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest
import torch
from pyro import poutine

from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.protocols import SupportsInfer, unwrapped

from ..crowds import classifier_pair, crowd, quiet_fit
from ..registries import PAIRS_OF_MODEL_AND_GUIDE
from ..same_fits import parameters

SLOW = {"pair regression"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in SLOW else [])
        for name in PAIRS_OF_MODEL_AND_GUIDE
    ],
)
def test_every_guide_under_a_handler_that_does_nothing_equals_itself(name):
    def predict(trainer):
        if isinstance(unwrapped(trainer.guide), SupportsInfer) and data.features is not None:
            predicted.append(trainer.predict_proba(data.features))

    model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[name]()
    fits, predictions = [], []
    for one in (guide, poutine.scale(guide, scale=1.0)):
        predicted: list[torch.Tensor] = []
        fits.append(quiet_fit(model, one, data, callbacks=[predict]))
        predictions.append(predicted)
    plain, handled = fits
    # The scale is a factor of another number, so that sums are rounded differently.
    close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9, equal_nan=True)
    close(parameters(handled.model, unwrapped(handled.guide)), parameters(plain.model, plain.guide))
    histories = [result.history.drop(columns="seconds") for result in fits]
    pd.testing.assert_frame_equal(*histories, rtol=1e-9)
    close(predictions[1], predictions[0])


def test_a_guide_under_a_handler_anneals():
    seen: list[float] = []
    model, guide = classifier_pair()
    annealed = MessagePassingGuide(
        model,
        guide.recognition,
        recognition_term=RecognitionTerm(lambda epoch: (seen.append(epoch), 0.5**epoch)[1]),
    )
    quiet_fit(model, poutine.scale(annealed, scale=1.0), crowd(), epochs=3)
    assert max(seen) > 2
