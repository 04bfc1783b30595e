"""Makes models: the target from its wheel, drafters by distillation, LoRA adapters from recipes.

Knows nothing of measurements, predictors or verdicts.
"""
