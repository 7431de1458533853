"""The metrics that an expression of Prometheus names."""

import re

FUNCTIONS = {"histogram_quantile", "predict_linear", "min_over_time", "max_over_time", "label_replace"}


def metrics_in(expression: str) -> set[str]:
    """Their names, without those of labels and functions."""
    without = re.sub(r'\{[^}]*\}|"[^"]*"|\[[^\]]*\]', " ", expression)
    without = re.sub(r"\b(by|on|group_right|group_left|without)\s*(\([^)]*\))?", " ", without)
    found = set(re.findall(r"[a-z_:][a-z0-9_:]*", without))
    return {name for name in found if "_" in name and name not in FUNCTIONS}
