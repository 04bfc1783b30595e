"""Functions of the standard library, asked for by signature and summary, answered with their source.

What is drawn depends on the interpreter's own library, so pairs repeat only under the same Python version.
"""

import ast
import random
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lora_spec.training.domains.base import ComputedDomain, Example

_MODULES = (
    "argparse ast base64 bisect calendar cmd codecs collections configparser contextlib copy csv dataclasses datetime "
    "difflib dis email enum filecmp fileinput fnmatch fractions ftplib functools gettext glob gzip heapq html http "
    "imaplib inspect ipaddress json linecache locale logging mailbox mimetypes ntpath numbers opcode operator optparse "
    "os pathlib pickle pkgutil platform plistlib poplib posixpath pprint profile pstats queue quopri random re reprlib "
    "sched secrets shelve shlex shutil smtplib socketserver sqlite3 ssl stat statistics string subprocess symtable "
    "tarfile tempfile textwrap threading timeit token tokenize trace traceback types typing unittest urllib uuid "
    "warnings wave weakref webbrowser wsgiref xml zipfile"
)
_MAX_ANSWER_CHARS = 480


def _source_files() -> Iterator[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    for module in _MODULES.split():
        yield from sorted((root / module).glob("*.py")) or [root / f"{module}.py"]


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    # Functions and methods, without walking into each body.
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    for owner in (module, *classes):
        yield from (node for node in owner.body if isinstance(node, ast.FunctionDef))


def _pair(function: ast.FunctionDef, module: str) -> Example | None:
    summary = (ast.get_docstring(function) or "").split("\n")[0]
    body = function.body[1:]
    if len(summary) < 20 or not body:
        return None
    signature = f"{function.name}({ast.unparse(function.args)})"
    bare = ast.FunctionDef(function.name, function.args, body, [], None, None, lineno=1)
    code = ast.unparse(bare)
    if len(code) > _MAX_ANSWER_CHARS or len(signature) + len(summary) > 160:
        return None
    return Example(f"Python, module {module}: {signature}. {summary}", code, source=function.name)


@cache
def _pairs() -> tuple[Example, ...]:
    pairs: dict[str, Example] = {}
    for path in _source_files():
        if not path.is_file():
            continue
        module = path.parent.name if path.stem == "__init__" else path.stem
        for function in _functions(ast.parse(path.read_text(encoding="utf-8"))):
            if pair := _pair(function, module):
                pairs.setdefault(pair.prompt, pair)
    return tuple(pairs.values())


def _draw(rng: random.Random) -> Example:
    return rng.choice(_pairs())


def _is_function(prompt: str, answer: str) -> bool:
    del prompt
    return answer.startswith("def ")


DOMAIN = ComputedDomain(
    name="python_doc",
    license="PSF-2.0",
    description="functions of the Python standard library from their signature and summary",
    draw=_draw,
    form=_is_function,
)
