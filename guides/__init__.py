"""The posterior side: one file per guide."""

from pyro_crowdclust.guides.message_passing import MessagePassingGuide

__all__ = ["MessagePassingGuide"]
