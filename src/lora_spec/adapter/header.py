"""The header of a safetensors file, parsed and checked by our own rules.

The reference reader takes the last of two tensors that bear one name; this one refuses them. It never builds
more than one entry at a time, so that a hostile header cannot cost many times its size in memory.

Source: the format section of the safetensors README, and the validation in its ``tensor.rs``.
"""

import json
import math
import re
import struct
from typing import Any, NamedTuple

from lora_spec.adapter.dtypes import BITS
from lora_spec.adapter.files import RegularFile
from lora_spec.adapter.limits import (
    MAX_HEADER_BYTES,
    MAX_METADATA_ENTRIES,
    MAX_NAME_CHARACTERS,
    MAX_NAME_DOTS,
    MAX_TENSORS,
)
from lora_spec.errors import AdapterError
from lora_spec.printing import printable
from lora_spec.strict_json import StrictJsonError, refuse_repeated_keys

_MAX_U64 = 2**64 - 1
# Bytes, not text: one wide character would make a text of them four times as large.
_SPACE = re.compile(rb"[ \t\n\r]*")
_ENTRY = re.compile(rb"\{[^{}]{0,4000}\}")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_FIELDS = {"dtype", "shape", "data_offsets"}
_MAX_STRING_BYTES = 4 * 2**20  # of metadata: trainers put whole logs there


class TensorEntry(NamedTuple):
    """One tensor as the header describes it; ``start`` and ``end`` are byte offsets in the file ``file``."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    file: int = 0

    @property
    def num_elements(self) -> int:
        """Return the product of the shape; 1 for a scalar."""
        return math.prod(self.shape)


class HeaderError(AdapterError):
    """The header is wrong; one of the codes is ``E_HEADER`` unless a more exact one exists."""


def read_header(file: RegularFile, index: int = 0, *, others: int = 0, other_bytes: int = 0) -> list[TensorEntry]:
    """Return the entries of a safetensors file, in header order, with offsets checked against the file's size.

    ``others`` and ``other_bytes`` are the tensors and header bytes of the adapter's other files: limits hold for all.

    Raises
    ------
    HeaderError
        With ``E_HEADER``, ``E_DUPLICATE_KEY``, ``E_OFFSETS`` or ``E_TRUNCATED``.
    """
    name = printable(file.name)
    try:
        length = _header_length(file, MAX_HEADER_BYTES - other_bytes)
        entries = _parse(file.read_at(8, length), MAX_TENSORS - others)
    except StrictJsonError as err:
        codes = ["E_DUPLICATE_KEY", "E_HEADER"] if "twice" in str(err) else ["E_HEADER"]
        raise HeaderError(f"{name}: the header is not valid: {err}; export the adapter again", codes=codes) from err
    _check_layout(name, entries, file.size - 8 - length)
    shift = 8 + length
    return [entry._replace(start=entry.start + shift, end=entry.end + shift, file=index) for entry in entries]


def looks_like_safetensors(head: bytes) -> bool:
    """Tell whether the first nine bytes can begin a safetensors file: a possible length, then a brace."""
    return len(head) >= 9 and head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] <= MAX_HEADER_BYTES


def header_bytes(file: RegularFile) -> int:
    """Return the length that a file gives to its header."""
    return struct.unpack("<Q", file.read_at(0, 8))[0]


def _header_length(file: RegularFile, most: int) -> int:
    name = printable(file.name)
    if file.size < 8:
        raise HeaderError(
            f"{name}: {file.size} bytes are too few for a safetensors file; download it again",
            codes=["E_HEADER", "E_TRUNCATED"],
        )
    length = header_bytes(file)
    if length > most:
        raise HeaderError(
            f"{name}: asks for a header of {length} bytes, more than any adapter needs "
            f"({MAX_HEADER_BYTES} in all); this is no safetensors file, or a hostile one",
            codes=["E_HEADER"],
        )
    if length > file.size - 8:
        raise HeaderError(
            f"{name}: asks for a header of {length} bytes but holds only {file.size - 8} more; download it again",
            codes=["E_HEADER", "E_TRUNCATED"],
        )
    return length


def _parse(raw: bytearray, most: int) -> list[TensorEntry]:
    if not raw.startswith(b"{"):
        raise StrictJsonError("it does not start with a brace")
    entries: dict[str, TensorEntry] = {}
    has_metadata = False
    at = _skip(raw, 1)
    if raw[at : at + 1] == b"}":
        return _finish(raw, at + 1, entries)
    while True:
        name, at = _string(raw, at)
        at = _skip(raw, _expect(raw, at, b":"))
        if name == "__metadata__":
            if has_metadata:
                raise StrictJsonError("__metadata__ stands twice")
            has_metadata, at = True, _skip_metadata(raw, at)
        else:
            if name in entries:
                raise HeaderError(
                    f"tensor {printable(name)} stands twice in the header; readers differ on which one counts, "
                    "so export the adapter again",
                    codes=["E_DUPLICATE_KEY"],
                )
            if len(entries) >= most:
                raise StrictJsonError(f"more than {MAX_TENSORS} tensors")
            _refuse_long(name)
            entries[name], at = _entry(name, raw, at)
        at = _skip(raw, at)
        if raw[at : at + 1] == b"}":
            return _finish(raw, at + 1, entries)
        at = _skip(raw, _expect(raw, at, b","))


def _refuse_long(name: str) -> None:
    # What is done with a name may take the square of its length; no model nests its modules so deep.
    if len(name) > MAX_NAME_CHARACTERS or name.count(".") > MAX_NAME_DOTS:
        raise StrictJsonError(
            f"tensor {printable(name)}: a name of {len(name)} characters and {name.count('.')} dots, "
            f"where {MAX_NAME_CHARACTERS} and {MAX_NAME_DOTS} are the most"
        )


def _finish(raw: bytearray, at: int, entries: dict[str, TensorEntry]) -> list[TensorEntry]:
    if _skip(raw, at) != len(raw):
        raise StrictJsonError(f"text after its end at byte {at}")
    return list(entries.values())


def _skip(raw: bytearray, at: int) -> int:
    return _SPACE.match(raw, at).end()


def _expect(raw: bytearray, at: int, mark: bytes) -> int:
    at = _skip(raw, at)
    if raw[at : at + 1] != mark:
        raise StrictJsonError(f"{mark.decode()!r} is missing at byte {at}")
    return at + 1


def _string(raw: bytearray, at: int) -> tuple[str, int]:
    if raw[at : at + 1] != b'"':
        raise StrictJsonError(f"a name is missing at byte {at}")
    found = _STRING.match(raw, at, at + _MAX_STRING_BYTES)
    if not found:
        raise StrictJsonError(f"the string at byte {at} has no end, or is longer than {_MAX_STRING_BYTES} bytes")
    value = _decode(found.group(), at)
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise StrictJsonError("a name holds half a character")
    return value, found.end()


def _decode(token: bytes, at: int) -> str:
    try:
        text = token.decode("utf-8")
        return text[1:-1] if "\\" not in text and text.isprintable() else json.loads(text)
    except UnicodeDecodeError as err:
        raise StrictJsonError(f"not UTF-8 text at byte {at + err.start}") from err
    except json.JSONDecodeError as err:
        raise StrictJsonError(f"{err.msg} in the string at byte {at}") from err


def _skip_metadata(raw: bytearray, at: int) -> int:
    """Pass over the object of texts; its keys must differ, its values are never used."""
    at = _skip(raw, _expect(raw, at, b"{"))
    seen: set[str] = set()
    if raw[at : at + 1] == b"}":
        return at + 1
    while True:
        key, at = _string(raw, at)
        if key in seen:
            raise StrictJsonError("a key of __metadata__ stands twice")
        seen.add(key)
        if len(seen) > MAX_METADATA_ENTRIES:
            raise StrictJsonError(f"more than {MAX_METADATA_ENTRIES} entries of __metadata__")
        _, at = _string(raw, _skip(raw, _expect(raw, at, b":")))
        at = _skip(raw, at)
        if raw[at : at + 1] == b"}":
            return at + 1
        at = _skip(raw, _expect(raw, at, b","))


def _entry(name: str, raw: bytearray, at: int) -> tuple[TensorEntry, int]:
    found = _ENTRY.match(raw, at)
    if not found:
        raise StrictJsonError(f"tensor {printable(name)} has no description")
    try:
        fields = _ENTRY_DECODER.decode(found.group().decode("utf-8"))
    except StrictJsonError as err:
        raise StrictJsonError(f"tensor {printable(name)}: {err}") from err
    except UnicodeDecodeError as err:
        raise StrictJsonError(f"tensor {printable(name)}: not UTF-8 text") from err
    except (json.JSONDecodeError, RecursionError) as err:
        raise StrictJsonError(f"tensor {printable(name)}: not JSON") from err
    return _checked(name, fields), found.end()


def _size(digits: str) -> int:
    if digits[0] == "-" or len(digits) > 20 or int(digits) > _MAX_U64:
        raise StrictJsonError(f"{digits[:24]} is no size")
    return int(digits)


def _refuse_number(word: str) -> None:
    raise StrictJsonError(f"{word[:24]} is no size")


# One decoder for all entries: json.loads with hooks would make one for each.
_NUMBERS = {"parse_int": _size, "parse_float": _refuse_number, "parse_constant": _refuse_number}
_ENTRY_DECODER = json.JSONDecoder(object_pairs_hook=refuse_repeated_keys, **_NUMBERS)


def _checked(name: str, fields: dict[str, Any]) -> TensorEntry:
    if fault := _fault(fields):
        raise StrictJsonError(f"tensor {printable(name)}: {fault}")
    start, end = fields["data_offsets"]
    entry = TensorEntry(name, fields["dtype"], tuple(fields["shape"]), start, end)
    if _bits(entry) > _MAX_U64:
        raise StrictJsonError(f"tensor {printable(name)}: the shape is larger than any file")
    return entry


def _fault(fields: dict[str, Any]) -> str:
    if fields.keys() != _FIELDS:
        return "the fields must be dtype, shape and data_offsets"
    dtype, offsets = fields["dtype"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        return f"{printable(dtype, 40)!a} is not a type name of the format"
    if not _is_sizes(fields["shape"]):
        return "the shape is no list of sizes"
    if not _is_sizes(offsets) or len(offsets) != 2:
        return "data_offsets are not two byte positions"
    return ""


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _bits(entry: TensorEntry) -> int:
    # Stop early: a shape of thousands of large sizes would make a number of thousands of digits.
    total = BITS[entry.dtype]
    if 0 in entry.shape:
        return 0
    for size in entry.shape:
        total *= size
        if total > _MAX_U64:
            break
    return total


def _check_layout(file_name: str, entries: list[TensorEntry], data_size: int) -> None:
    for entry in entries:
        if entry.start > entry.end or 8 * (entry.end - entry.start) != _bits(entry):
            raise _misplaced(file_name, entry, f"{entry.start} to {entry.end} do not fit its shape and type")
    expected = 0
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.end)):
        if entry.start != expected:
            fault = "overlap those of another tensor" if entry.start < expected else "leave a hole before them"
            raise _misplaced(file_name, entry, fault)
        expected = entry.end
    if expected > data_size:
        what = f"the file ends {expected - data_size} bytes before its data do; download it again"
        raise HeaderError(f"{file_name}: {what}", codes=["E_TRUNCATED"])
    if expected < data_size:
        what = f"{data_size - expected} bytes follow the last tensor; export the adapter again"
        raise HeaderError(f"{file_name}: {what}", codes=["E_OFFSETS"])


def _misplaced(file_name: str, entry: TensorEntry, fault: str) -> HeaderError:
    what = f"tensor {printable(entry.name)}: data_offsets {fault}; export the adapter again"
    return HeaderError(f"{file_name}: {what}", codes=["E_OFFSETS"])
