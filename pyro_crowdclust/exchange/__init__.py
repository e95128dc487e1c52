"""Export of questions to annotation tools, and import of the answers.

A format is an object with the methods of ``Format``: ``tasks`` converts a table of questions to the
input of a tool, ``answers`` converts the export of the tool to the tables that ``CrowdData`` takes.
``write_tasks`` and ``read_answers`` do the same with files.
"""

from pyro_crowdclust.exchange.argilla import Argilla
from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers
from pyro_crowdclust.exchange.crowd_kit import CrowdKit
from pyro_crowdclust.exchange.dedupe import Dedupe
from pyro_crowdclust.exchange.formats import FORMATS, Format, read_answers, write_tasks
from pyro_crowdclust.exchange.html_page import HtmlPage
from pyro_crowdclust.exchange.items import ShownItems, picture_frame
from pyro_crowdclust.exchange.label_studio import LabelStudio
from pyro_crowdclust.exchange.plain_csv import PlainCsv
from pyro_crowdclust.exchange.prodigy import Prodigy

__all__ = [
    "FORMATS",
    "Argilla",
    "CrowdAnswers",
    "CrowdKit",
    "Dedupe",
    "Format",
    "HtmlPage",
    "LabelStudio",
    "PlainCsv",
    "Prodigy",
    "ShownItems",
    "picture_frame",
    "read_answers",
    "write_tasks",
]
