"""Policies of the stress runs, one per file; see :mod:`lora_spec.stress.policies.registry`."""
