"""`python -m minrisk`"""

import sys

from minrisk.cli import main

sys.exit(main())
