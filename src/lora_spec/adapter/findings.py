"""What a reader found, in the order of severity, each kind told once with the places where it holds."""

from typing import Any

from lora_spec.adapter.codes import CODES, SEVERITY, STATUS_OF_LETTER
from lora_spec.errors import AdapterError
from lora_spec.printing import printable

_PLACES_SHOWN = 3
_KINDS_SHOWN = 3


class Findings:
    """Collects codes with their places; turns them into a status and one message."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, list[str]]] = {}

    def add(self, code: str, where: str, what: str) -> None:
        """Record that ``what`` (safe text of ours) holds at ``where`` (any text: a file, tensor or field)."""
        if code not in CODES:
            raise ValueError(f"{code} is not in the vocabulary")
        self._places.setdefault(code, {}).setdefault(what, []).append(where)

    def add_error(self, error: AdapterError) -> None:
        """Record an error under each of its codes; its message is already safe to print."""
        for code in error.codes:
            self.add(code, "", str(error))

    def extend(self, other: "Findings") -> None:
        """Take over all that another collection holds."""
        for code, kinds in other._places.items():
            for what, places in kinds.items():
                for where in places:
                    self.add(code, where, what)

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the codes, errors first, then abstentions, then notes."""
        return tuple(sorted(self._places, key=lambda code: SEVERITY[code[0]]))

    @property
    def status(self) -> str:
        """Return ``error``, ``abstain`` or ``ok``: the worst letter decides."""
        return STATUS_OF_LETTER[self.codes[0][0]] if self._places else "ok"

    @property
    def has_errors(self) -> bool:
        """Tell whether any code makes the adapter unusable."""
        return self.status == "error"

    def places(self, code: str) -> list[str]:
        """Return where a code holds, as recorded."""
        return [where for places in self._places.get(code, {}).values() for where in places]

    def count(self, code: str) -> int:
        """Return how many places a code holds at."""
        return len(self.places(code))

    def message(self) -> str:
        """Return one line that names the places at fault, the worst first."""
        told: set[str] = set()
        parts = []
        for code in self.codes:
            text = self._tell(code)
            if text not in told:
                parts.append(text)
                told.add(text)
        return "; ".join(parts)

    def to_list(self) -> list[dict[str, Any]]:
        """Return every code with its meaning, count and text, as plain JSON data."""
        return [
            {"code": code, "meaning": CODES[code], "count": self.count(code), "text": self._tell(code)}
            for code in self.codes
        ]

    def _tell(self, code: str) -> str:
        kinds = self._places[code]
        shown = [_tell_kind(what, places) for what, places in list(kinds.items())[:_KINDS_SHOWN]]
        if len(kinds) > _KINDS_SHOWN:
            shown.append(f"and {len(kinds) - _KINDS_SHOWN} more like it")
        return "; ".join(shown)


def _tell_kind(what: str, places: list[str]) -> str:
    named = [printable(where) for where in places[:_PLACES_SHOWN] if where]
    if not named:
        return what
    rest = len(places) - len(named)
    tail = f" and {rest} more" if rest > 0 else ""
    return f"{', '.join(named)}{tail}: {what}"
