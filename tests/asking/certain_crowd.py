"""Workers whose rates are known, so that a choice of one of them does not depend on chance."""

from pyro_crowdclust.asking.crowd import Crowd


class CertainCrowd(Crowd):
    """A crowd in which every draw of the rates is their mean."""

    def drawn_rates(self, generator):
        return self.rates
