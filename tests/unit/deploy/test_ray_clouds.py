"""deploy/ray: what Ray's own validation accepts, with the settings of ray_cluster.yaml."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CLOUDS = ("aws", "gcp")
# As `ray up` before it connects to a cloud: defaults are filled in, then Ray's schema and rules are checked.
CHECK = """
import json, sys
from ray.autoscaler._private.util import prepare_config, validate_config
found = {}
for name, config in json.load(sys.stdin).items():
    try:
        config = prepare_config(config)
        validate_config(config)
        found[name] = {"config": config}
    except Exception as error:
        found[name] = {"error": str(error)}
print(json.dumps(found))
"""

# Of a config and its second type of machines.
MISTAKES: dict[str, Callable[[Any, Any], object]] = {
    "misspelled key": lambda config, _: config.update(max_worker=2),
    "misspelled key of a type": lambda _, kind: kind.update(min_wrkers=1),
    "misspelled user": lambda config, _: config["auth"].update(ssh_usr="ubuntu"),
    "unknown provider": lambda config, _: config["provider"].update(type="awz"),
    "unknown head": lambda config, _: config.update(head_node_type="headrace_9"),
    "text as a number": lambda config, _: config.update(max_workers="two"),
    "resources as text": lambda _, kind: kind.update(resources="headrace-disk-2"),
    "type without machines": lambda _, kind: kind.pop("node_config"),
    "fewer than there must be": lambda _, kind: kind.update(min_workers=5),
}


def loaded(cloud: str) -> Any:
    return yaml.safe_load((ROOT / "deploy" / "ray" / f"{cloud}.yaml").read_text())


@pytest.fixture(scope="module")
def validated() -> Any:
    """Ray's judgement of both files, and of each with planted mistakes."""
    configs = {name: loaded(name) for name in CLOUDS}
    for name in CLOUDS:
        for mistake, plant in MISTAKES.items():
            planted = loaded(name)
            plant(planted, planted["available_node_types"]["headrace_2"])
            configs[f"{name}: {mistake}"] = planted
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK],
        input=json.dumps(configs),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("cloud", CLOUDS)
def test_ray_accepts_the_file_and_keeps_three_machines(cloud: str, validated: Any) -> None:
    """A worker for each disk, neither fewer nor more."""
    assert "config" in validated[cloud], validated[cloud]
    config = validated[cloud]["config"]
    types = dict(config["available_node_types"])
    head = types.pop(config["head_node_type"])
    assert head["resources"].keys() >= {"headrace-disk-0", "headrace-disk-1"}
    assert [(each["min_workers"], each["max_workers"]) for each in types.values()] == [(1, 1), (1, 1)]
    disks = {name for each in types.values() for name in each["resources"] if name.startswith("headrace-")}
    assert disks == {"headrace-disk-2", "headrace-disk-3"}
    assert config["max_workers"] == 2


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_ray_refuses_a_planted_mistake(cloud: str, mistake: str, validated: Any) -> None:
    assert "error" in validated[f"{cloud}: {mistake}"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_keys_of_the_provider_are_those_of_the_schema(cloud: str) -> None:
    """Ray accepts others, such as a misspelled region, and ignores them."""
    found = find_spec("ray")
    assert found is not None
    assert found.origin is not None
    schema = json.loads((Path(found.origin).parent / "autoscaler" / "ray-schema.json").read_text())
    assert loaded(cloud)["provider"].keys() <= schema["properties"]["provider"]["properties"].keys()


def test_ray_runs_with_the_settings_of_ray_cluster_yaml() -> None:
    """Variables of `ray start`, equal on all machines; the rest differs by the disk."""
    own = yaml.safe_load((ROOT / "ray_cluster.yaml").read_text())
    starts = ("head_start_ray_commands", "worker_start_ray_commands")
    for key in starts:
        wanted = {word for word in own[key][1].split() if word.startswith("RAY_")}
        for cloud in CLOUDS:
            words = loaded(cloud)[key][1].split()
            assert {word for word in words if word.startswith("RAY_")} == wanted
            assert "--data-dir /srv/headrace/data" in loaded(cloud)["head_start_ray_commands"][2]
    aws, gcp = map(loaded, CLOUDS)
    for key in (*starts, "file_mounts", "initialization_commands"):
        assert aws[key] == gcp[key]
