"""Traffic patterns, one per file; see :mod:`lora_spec.traffic.patterns.registry`."""
