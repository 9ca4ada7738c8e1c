"""``python -m pybayesridge``."""

import sys

from pybayesridge.cli import main

sys.exit(main())
