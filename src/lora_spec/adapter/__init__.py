"""Reads LoRA checkpoints safely and says what they are; knows nothing of models, engines or acceptance."""

from lora_spec.adapter.inspected import InspectedModule, Inspection
from lora_spec.adapter.inspection import inspect_adapter, open_adapter
from lora_spec.adapter.reading import Factors, iterate_factors

__all__ = ["Factors", "InspectedModule", "Inspection", "inspect_adapter", "iterate_factors", "open_adapter"]
