"""From a YAML file to a checked model: the only place where YAML is parsed and pydantic's errors are reworded."""

import re
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from lora_spec.config.fields import ConfigModel
from lora_spec.errors import ConfigError

Model = TypeVar("Model", bound=ConfigModel)
_MAX_PROBLEMS = 3
_MAX_SHOWN_CHARACTERS = 80


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML in which a key may stand only once, and ``1e-3`` is the number that it looks like."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads 1e-3 as text, since its float needs a dot and a signed exponent.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml_mapping(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises
    ------
    ConfigError
        The file is missing, not UTF-8, not YAML, holds a key twice, or holds something else than a mapping.
    """
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except FileNotFoundError as err:
        raise ConfigError(f"{path}: no such config file; copy the one of another tier and change it") from err
    except OSError as err:
        raise ConfigError(f"{path}: cannot be read ({err.strerror}); check that it is a readable file") from err
    except (UnicodeDecodeError, RecursionError) as err:
        raise ConfigError(f"{path}: not a UTF-8 YAML text; save it as plain UTF-8") from err
    except yaml.MarkedYAMLError as err:
        line = f" line {err.problem_mark.line + 1}" if err.problem_mark else ""
        raise ConfigError(f"{path}:{line} {err.problem}; correct the YAML there") from err
    except (yaml.YAMLError, ValueError) as err:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(err).split())}); correct the text") from err
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise ConfigError(
            f"{path}: holds {found} where a mapping of keys to values is needed; write 'key: value' lines"
        )
    return data


def _key_path(location: tuple[int | str, ...], data: Any, *, is_missing: bool) -> str:
    """Return ``adapters[2].rank`` for a location, leaving out the tags that pydantic adds for unions."""
    path = ""
    for depth, part in enumerate(location):
        is_last_and_missing = is_missing and depth == len(location) - 1
        if isinstance(data, dict) and (part in data or is_last_and_missing):
            path += f".{part}"
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int):
            path += f"[{part}]"
            data = data[part]
    return path.lstrip(".")


def _describe(error: dict[str, Any], data: dict[str, Any]) -> str:
    kind = error["type"]
    path = _key_path(error["loc"], data, is_missing=kind == "missing")
    if kind == "unknown_key":
        full = f"{path}.{error['ctx']['key']}".lstrip(".")
        return f"{full}: unknown key; {error['msg']}"
    if kind == "missing":
        return f"{path}: missing; this key is required"
    rule = error["msg"].removeprefix("Value error, ")
    rule = f"{rule[0].lower()}{rule[1:]}".replace("tuple", "list").replace(" after validation", "")
    where = f"{path}: " if path else ""
    # A rule between keys names its values itself; the whole block would hide them.
    if kind == "value_error" and isinstance(error["input"], dict):
        return where + rule
    shown = repr(error["input"])
    if len(shown) > _MAX_SHOWN_CHARACTERS:
        shown = f"{shown[: _MAX_SHOWN_CHARACTERS - 3]}..."
    return f"{where}got {shown}; {rule}"


def reword_validation_error(path: Path, data: dict[str, Any], err: ValidationError) -> ConfigError:
    """Return one line that names the file, the key, the value and what is allowed, for the first few problems."""
    problems = [_describe(error, data) for error in err.errors(include_url=False)]
    text = " | also: ".join(problems[:_MAX_PROBLEMS])
    rest = len(problems) - _MAX_PROBLEMS
    return ConfigError(f"{path}: {text}" + (f" | and {rest} more" if rest > 0 else ""))


def read_config(path: Path, model: type[Model]) -> Model:
    """Read one config file and check it against its model.

    Raises
    ------
    ConfigError
        The file cannot be read, or a key or value is wrong: named with file, key path, value and what is allowed.
    """
    data = read_yaml_mapping(path)
    try:
        return model.model_validate(data)
    except ValidationError as err:
        raise reword_validation_error(path, data, err) from err
