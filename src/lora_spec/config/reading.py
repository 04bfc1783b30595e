"""From a YAML file to a checked model: the only place where YAML is parsed and pydantic's errors are reworded."""

import reprlib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from lora_spec.config.fields import ConfigModel
from lora_spec.config.strict_yaml import StrictLoader
from lora_spec.errors import ConfigError
from lora_spec.printing import printable

Model = TypeVar("Model", bound=ConfigModel)
_MAX_PROBLEMS = 3
_MAX_SHOWN_CHARACTERS = 80
_MAX_RULE_CHARACTERS = 400
_MAX_FILE_BYTES = 2**20
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxlong, _BRIEF.maxother = 3, _MAX_SHOWN_CHARACTERS, 60, 60


def shown(value: Any) -> str:
    """Return a value as an error shows it: short however large it is, and safe for a terminal."""
    return printable(_BRIEF.repr(value), _MAX_SHOWN_CHARACTERS)


def read_yaml_mapping(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises
    ------
    ConfigError
        The file is missing, not UTF-8, not YAML of the plain kind that :class:`StrictLoader` takes, or holds something
        else than a mapping.
    """
    text = _text_of(path)
    try:
        data = yaml.load(text, Loader=StrictLoader)
    except RecursionError as err:
        raise ConfigError(f"{path}: nested too deep to be a config; write it flat") from err
    except yaml.MarkedYAMLError as err:
        line = f" line {err.problem_mark.line + 1}" if err.problem_mark else ""
        raise ConfigError(f"{path}:{line} {printable(err.problem)}; correct the YAML there") from err
    except (yaml.YAMLError, ValueError) as err:
        raise ConfigError(f"{path}: not YAML ({printable(' '.join(str(err).split()))}); correct the text") from err
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise ConfigError(
            f"{path}: holds {found} where a mapping of keys to values is needed; write 'key: value' lines"
        )
    return data


def _text_of(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: cannot be read (not a plain file); put the config file itself there")
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {_MAX_FILE_BYTES} bytes, which no config is; check the path")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as err:
        raise ConfigError(f"{path}: no such config file; copy the one of another tier and change it") from err
    except OSError as err:
        raise ConfigError(f"{path}: cannot be read ({err.strerror}); check that it is a readable file") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path}: not a UTF-8 YAML text; save it as plain UTF-8") from err


def _key_path(location: tuple[int | str, ...], data: Any, *, is_missing: bool) -> str:
    """Return ``adapters[2].rank`` for a location, leaving out the tags that pydantic adds for unions."""
    path = ""
    for depth, part in enumerate(location):
        is_last_and_missing = is_missing and depth == len(location) - 1
        if isinstance(data, dict) and (part in data or is_last_and_missing):
            path += f".{printable(part)}"
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
    rule = printable(error["msg"].removeprefix("Value error, "), _MAX_RULE_CHARACTERS)
    rule = f"{rule[0].lower()}{rule[1:]}".replace("tuple", "list").replace(" after validation", "")
    where = f"{path}: " if path else ""
    # A rule between keys names its values itself; the whole block would hide them.
    if kind == "value_error" and isinstance(error["input"], dict):
        return where + rule
    return f"{where}got {shown(error['input'])}; {rule}"


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
