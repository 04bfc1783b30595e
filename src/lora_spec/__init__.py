"""Decide how speculative decoding should be deployed for each new LoRA adapter."""

__version__ = "0.1.0"
