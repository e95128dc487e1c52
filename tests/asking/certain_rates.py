"""Workers whose rates are known, so that a choice of one of them does not depend on chance."""

from pyro_crowdclust.asking.worker_rates import LabelRates, PairRates, PlacementRates


class CertainPairRates(PairRates):
    """Every draw is the mean."""

    def draw(self, generator):
        return self.mean()


class CertainPlacementRates(PlacementRates):
    """Every draw is the mean."""

    def draw(self, generator):
        return self.mean()


class CertainLabelRates(LabelRates):
    """Every draw is the mean."""

    def draw(self, generator):
        return self.mean()
