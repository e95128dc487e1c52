"""``python -m pyro_crowdclust.interface`` runs the command line."""

import sys

from pyro_crowdclust.interface.command_line import main

if __name__ == "__main__":
    sys.exit(main())
