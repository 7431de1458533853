"""The statements of parsed Python files, without a visit of expressions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Fields of a statement, a handler or a case that have statements, handlers or cases.
BODIES = ("body", "orelse", "handlers", "finalbody", "cases")


def statements(tree: ast.AST, *, with_types: bool = True) -> Iterator[ast.AST]:
    """`tree` and all statements below it, in any order; without `with_types` not the bodies of
    `if TYPE_CHECKING`. Ten times faster than `ast.walk`, which visits expressions, too."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        fields = BODIES if with_types or not is_for_types(node) else ("orelse",)
        for field in fields:
            todo += getattr(node, field, ())


def is_for_types(node: ast.AST) -> bool:
    """Whether the statement is an `if TYPE_CHECKING`."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
