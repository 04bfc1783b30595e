"""Features are tested on folders that the adapter tests know how to write, and on hand-made calibration records."""

import sys
from pathlib import Path

for room in ("adapter", "foundation"):
    sys.path.append(str(Path(__file__).parent.parent / room))
