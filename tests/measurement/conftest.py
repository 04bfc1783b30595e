import sys
from pathlib import Path

import pytest

from lora_spec.engines import AdapterRef, open_engine
from lora_spec.measurement import Prompt

sys.path.append(str(Path(__file__).parent.parent / "foundation"))  # hand-made calibration records

ACCEPTANCE = {None: 0.7, "json": 0.3}


@pytest.fixture
def adapter():
    return AdapterRef("json", "nowhere", 8)


@pytest.fixture
def prompts():
    return [Prompt(f"p{i}", (11, 12, 13, 20 + i)) for i in range(40)]


@pytest.fixture
def make_engine():
    def make(**options):
        return open_engine("fake", acceptance=ACCEPTANCE, **options)

    return make
