"""The part of YAML that a config needs, and nothing that reads otherwise than it looks or grows when read."""

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from lora_spec.printing import printable

_MAX_NODES = 20_000
"""Values in a file once its aliases are written out; the largest config has a tenth."""
_DECIMAL_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+|\.(inf|Inf|INF)|\.(nan|NaN|NAN))")


class StrictLoader(yaml.SafeLoader):
    """Safe YAML without tags, in which a key stands once, a number is decimal, and aliases cannot multiply.

    Anchors such as ``&recipe`` stay allowed; ``1e-3`` is the number that it looks like.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Return the document, refusing one that aliases make larger than any config or endless."""
        node = super().get_single_node()
        if node is not None:
            _check_size(node)
        return node

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """Return the next node, refusing a tag: it turns a value into something else than it looks."""
        event = self.peek_event()
        if getattr(event, "tag", None) is not None:
            raise ConstructorError(None, None, f"tag {event.tag!r} is not for configs; leave it out", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping whose keys are words, each there once."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                raise ConstructorError(None, None, "<< is not for configs; write the keys out", key_node.start_mark)
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in seen:
                text = printable(repr(key))
                raise ConstructorError(None, None, f"key {text} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_decimal_int(self, node: yaml.ScalarNode) -> int:
        """Return a whole number; ``010`` would be eight and ``1:30`` ninety."""
        return int(_decimal(node, _DECIMAL_INT))

    def construct_decimal_float(self, node: yaml.ScalarNode) -> float:
        """Return a number with a point or an exponent."""
        return float(_decimal(node, _DECIMAL_FLOAT).replace(".inf", "inf").replace(".nan", "nan"))


def _decimal(node: yaml.ScalarNode, form: re.Pattern[str]) -> str:
    if not form.fullmatch(node.value):
        text = printable(repr(node.value), 40)
        raise ConstructorError(
            None,
            None,
            f"{text} does not read as it looks; write a decimal number, or quotes around a text",
            node.start_mark,
        )
    return node.value.lower()


def _check_size(root: yaml.Node) -> None:
    """Refuse a document of too many values, counted with every alias written out, or one that holds itself."""
    sizes: dict[int, int] = {}
    unfinished: set[int] = set()

    def size_of(node: yaml.Node) -> int:
        if id(node) in unfinished:
            raise ConstructorError(None, None, "an alias holds itself", node.start_mark)
        if id(node) not in sizes:
            unfinished.add(id(node))
            sizes[id(node)] = 1 + sum(map(size_of, _children(node)))
            unfinished.remove(id(node))
        return sizes[id(node)]

    if size_of(root) > _MAX_NODES:
        raise ConstructorError(
            None, None, f"more than {_MAX_NODES} values once aliases are written out", root.start_mark
        )


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


StrictLoader.add_constructor("tag:yaml.org,2002:int", StrictLoader.construct_decimal_int)
StrictLoader.add_constructor("tag:yaml.org,2002:float", StrictLoader.construct_decimal_float)
# YAML 1.1 reads 1e-3 as text, since its float needs a dot and a signed exponent.
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)
