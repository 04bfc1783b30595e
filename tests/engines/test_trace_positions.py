"""Which positions of the base's texts are traced."""

import pytest

from lora_spec.engines.trace import TraceSettings, choose_positions
from lora_spec.errors import EngineError


def test_positions_are_spread_over_all_texts_and_drawn_by_seed():
    settings = TraceSettings(64, 10, 1, 1, seed=0)
    chosen = choose_positions([5, 5, 1, 5], settings)
    assert chosen == choose_positions([5, 5, 1, 5], settings)
    assert sorted(map(len, chosen)) == [1, 3, 3, 3]
    assert all(len(set(part)) == len(part) and max(part) < 5 for part in chosen)
    with pytest.raises(EngineError, match="16 output positions, 17"):
        choose_positions([5, 5, 1, 5], TraceSettings(64, 17, 1, 1, seed=0))
