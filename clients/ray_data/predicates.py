"""Converts Ray's expressions to filters where possible. Pure: it matches class names."""

from __future__ import annotations

from typing import Any

from ..pipeline.filters import Filters

_OPERATORS = {"EQ": "=", "GT": ">", "GE": ">=", "LT": "<", "LE": "<=", "IN": "in"}
_TURNED = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}

Condition = tuple[str, str, Any]


def filters_of(expression: Any) -> Filters | None:
    """A whole expression as filters: comparisons of partition, offset and timestamp with values, joined by
    `&`. None for any other expression."""
    conditions = _conditions(expression)
    if conditions is None or any(_is_no_moment(*each) for each in conditions):
        return None
    try:
        return Filters.of(conditions)
    except (TypeError, ValueError):
        return None


def _conditions(expression: Any) -> list[Condition] | None:
    operator = getattr(getattr(expression, "op", None), "name", None)
    left, right = getattr(expression, "left", None), getattr(expression, "right", None)
    if operator == "AND":
        one, other = _conditions(left), _conditions(right)
        return None if one is None or other is None else one + other
    sign = _OPERATORS.get(str(operator))
    if sign is None:
        return None
    if _is_column(left) and _is_value(right):
        return [(left.name, sign, right.value)]  # type: ignore[union-attr]
    if _is_value(left) and _is_column(right) and sign in _TURNED:
        return [(right.name, _TURNED[sign], left.value)]  # type: ignore[union-attr]
    return None


def _is_no_moment(column: str, _sign: str, value: Any) -> bool:
    """Filters accept numbers as ms, which Ray's own comparison would not."""
    values = value if isinstance(value, list | tuple | set) else [value]
    return column == "timestamp" and any(getattr(each, "tzinfo", None) is None for each in values)


def _is_column(expression: Any) -> bool:
    return type(expression).__name__ == "ColumnExpr"


def _is_value(expression: Any) -> bool:
    return type(expression).__name__ == "LiteralExpr"
