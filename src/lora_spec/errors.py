"""The one tree of errors. Only the command line turns them into exit codes.

LoraSpecError
├── AdapterError       an adapter folder cannot be read safely or means nothing (carries its codes)
├── ConfigError        a config file, key or value is wrong
├── ResultError        a result file is missing, truncated, of another kind or schema
│   └── EvidenceError  ... is sound but of an evidence class that this reader must not use
├── EngineError        an engine refused, died, or cannot do what was asked
├── MeasurementError   a measurement contradicts itself and must not be averaged away
├── TrainingError      an adapter or a drafter could not be trained or assembled
│   └── TrainingInputError  ... because of what was given, which makes it a ConfigError too
├── PredictorError     an exported predictor is broken or does not fit the features
└── PolicyError        a policy file names what the engine does not have

A message says what is wrong, where (path, key, value) and what to do.
"""

from collections.abc import Sequence


class LoraSpecError(Exception):
    """Root of all errors that a user can cause or mend."""


class AdapterError(LoraSpecError):
    """An adapter cannot be used; ``codes`` are those of the inspection contract (``E_...``)."""

    def __init__(self, message: str, *, codes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.codes = tuple(codes)


class ConfigError(LoraSpecError):
    """A config file, key or value is wrong."""


class ResultError(LoraSpecError):
    """A result file is missing, truncated, of another kind or of another schema."""


class EvidenceError(ResultError):
    """A result is sound but of an evidence class that must not be used here."""


class EngineError(LoraSpecError):
    """An engine refused, died, or cannot do what was asked."""


class MeasurementError(LoraSpecError):
    """A measurement contradicts itself."""


class TrainingError(LoraSpecError):
    """An adapter or a drafter could not be trained or assembled."""


class TrainingInputError(TrainingError, ConfigError):
    """A row, a domain or a file given to a training names what is not there or cannot be: nothing was run."""


class PredictorError(LoraSpecError):
    """An exported predictor is broken or does not fit the features."""


class PolicyError(LoraSpecError):
    """A policy file names what the engine does not have."""
