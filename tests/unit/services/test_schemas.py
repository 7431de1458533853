"""The JSON schemas of commands: each command with -o json has one, and tests validate what they print."""

import json

import jsonschema
import pytest
from command_line import CommandLine, checked, commands
from headrace.services.cli.schema import _Notation, schema_of
from headrace.services.cli.schema_table import TABLE


def test_every_command_with_json_has_a_schema() -> None:
    """A new command: add its output to services/cli/schema_table.py."""
    printing = {name for name, command in commands() if any(each.name == "form" for each in command.params)}
    assert printing == set(TABLE), "services/cli/schema_table.py has the commands with -o json"


@pytest.mark.parametrize("name", TABLE)
def test_schemas_are_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(name))


@pytest.mark.parametrize("text", ["", "[str", "{a str}", "{a: str", "text", "str str", "{a: str;}"])
def test_wrong_notation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ends too early|unexpected|in place of|no type|not the notation"):
        _Notation(text).schema()


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("[{a: int, b?: str?}]", [[], [{"a": 1}], [{"a": 1, "b": None}]], [{}, [{}], [{"a": 1, "c": 2}]]),
        ("{a: num, ...}", [{"a": 1.5, "x": []}], [{"x": 1}]),
        ("{*: [bool]}", [{}, {"x": [True]}], [{"x": True}]),
        ("str | {a: any}", ["x", {"a": None}], [1, {}]),
    ],
)
def test_notation(text: str, good: list[object], bad: list[object]) -> None:
    schema = _Notation(text).schema()
    for value in good:
        jsonschema.validate(value, schema)
    for value in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, schema)


def test_outputs_of_tests_are_validated() -> None:
    """`CommandLine` fails for a key that the schema does not have."""
    row = {"topic": "t", "partitions": 1, "id": "00"}
    checked(("topic", "list", "-o", "json"), json.dumps([row]))
    with pytest.raises(jsonschema.ValidationError):
        checked(("topic", "list", "-o", "json"), json.dumps([{**row, "colour": "red"}]))
    with pytest.raises(jsonschema.ValidationError):
        checked(("-b", "h:1", "topic", "list", "-o", "jsonl"), json.dumps({"topic": "t"}) + "\n")


def test_command_prints_a_schema(command_line: CommandLine) -> None:
    code, out, _ = command_line("schema", "topic", "list")
    assert code == 0
    assert json.loads(out)["items"]["required"] == ["topic", "partitions", "id"]
    assert command_line("schema")[1].splitlines() == list(TABLE)
    assert command_line("schema", "topic", "delete")[0] == 3
