"""A metric that nobody sets is a lie to whoever looks at it: it is zero for ever, and all seems well."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.observability import metrics
from reconciler.observability.metrics import TABLE, Metric

ROOT = Path(__file__).parents[2]
DEFINED = ROOT / "reconciler" / "observability" / "metrics.py"
CONSTANTS = {name: row for name, row in vars(metrics).items() if isinstance(row, Metric)}
#: The verbs of `Meters`, and a local name that one of them may be given.
WRITES = {"add": "counter", "set": "gauge", "set_": "gauge", "observe": "histogram"}


def written(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Give (constant, kind of meter) of every call that writes to `metrics.<CONSTANT>`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        verb = node.func.attr if isinstance(node.func, ast.Attribute) else None
        verb = node.func.id if isinstance(node.func, ast.Name) else verb
        first = node.args[0]
        is_metric = isinstance(first, ast.Attribute) and isinstance(first.value, ast.Name)
        if verb in WRITES and is_metric and first.value.id == "metrics":
            yield first.attr, WRITES[verb]


WRITTEN = {
    found
    for path in sorted((ROOT / "reconciler").rglob("*.py"))
    if path != DEFINED
    for found in written(ast.parse(path.read_text()))
}


def test_every_row_of_the_table_has_a_name_of_its_own():
    assert sorted(row.name for row in CONSTANTS.values()) == sorted(row.name for row in TABLE)


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_a_metric_is_written_somewhere_in_the_product(name):
    assert (name, CONSTANTS[name].kind) in WRITTEN
