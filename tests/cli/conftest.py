"""The command line is tested on folders that the adapter tests know how to write."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "adapter"))
