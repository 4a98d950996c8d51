"""`python -m sojourn` is the command `sojourn`."""

import sys

from sojourn.cli import main

sys.exit(main())
