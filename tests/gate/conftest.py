"""Lets this room's tests use the hand-made calibration records of another."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "foundation"))
