"""deploy/kuberay and deploy/helm: schemas of Kubernetes, and config files that the servers accept.

The objects of the chart are those in the folder `rendered`, which Helm made of the chart as it is:
`make deploy-check` compares them with Helm's, and writes them with REWRITE=1.
"""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from headrace.services.server.config_file import CONTROLLER, NODE, server_file
from rendered_chart import CHART, RENDERED, VARIANTS, chart_digest

ROOT = Path(__file__).parents[3]
KUBERAY = ROOT / "deploy" / "kuberay"
VERSION = "1.33"


def documents(text: str) -> list[Any]:
    return [each for each in yaml.safe_load_all(text) if each]


def validated(found: Any) -> None:
    """Errors: kubernetes_validate.ValidationError for a core object that Kubernetes refuses."""
    kubernetes_validate.validate(found, VERSION, strict=True)


def pod_arguments(spec: Any, role: str, folder: Path) -> dict[str, str]:
    """The -X pairs of the server in the first pod, as its shell passes them to `headrace`."""
    (folder / "headrace").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (folder / "headrace").chmod(0o755)
    (container,) = spec["template"]["spec"]["containers"]
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "POD_NAME": f"log-headrace-{role}-0"}
    command = [*container["command"], *container["args"]]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    words = done.stdout.splitlines()
    assert words[:4] == ["server", role, "--config", f"/etc/headrace/{role}.properties"]
    return dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "-X")


def as_pod(template: Any) -> Any:
    """The template of a pod as a pod, which has a schema also where the object around it has none."""
    metadata = {**template.get("metadata", {}), "name": "pod"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def test_pods_and_claims_of_the_ray_cluster_have_valid_schemas() -> None:
    """Every group has a claim of its own, and the settings of Ray are equal in all pods."""
    *claims, cluster = documents((KUBERAY / "raycluster.yaml").read_text())
    for claim in claims:
        validated(claim)
    groups = cluster["spec"]["workerGroupSpecs"]
    templates = [cluster["spec"]["headGroupSpec"]["template"], *(group["template"] for group in groups)]
    used, settings = [], []
    for each in templates:
        validated(as_pod(each))
        used += [volume["persistentVolumeClaim"]["claimName"] for volume in each["spec"]["volumes"]]
        settings.append(each["spec"]["containers"][0]["env"])
    assert sorted(used) == sorted(claim["metadata"]["name"] for claim in claims)
    assert all(each == settings[0] for each in settings)
    resources = [json.loads(json.loads(group["rayStartParams"]["resources"])) for group in groups]
    assert [sorted(each) for each in resources] == [
        ["headrace-disk-0", "headrace-disk-1"],
        ["headrace-disk-2"],
        ["headrace-disk-3"],
    ]
    assert {(group["minReplicas"], group["maxReplicas"]) for group in groups} == {(1, 1)}
    (job,) = documents((KUBERAY / "up.yaml").read_text())
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert f"--machines {1 + len(groups)} --nodes {len(groups)}" in job["spec"]["entrypoint"]


def test_schema_refuses_a_planted_mistake() -> None:
    """A field that a container does not have."""
    *_, cluster = documents((KUBERAY / "raycluster.yaml").read_text())
    pod = as_pod(cluster["spec"]["headGroupSpec"]["template"])
    pod["spec"]["containers"][0]["imge"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        validated(pod)


def test_rendered_objects_are_of_the_chart_as_it_is() -> None:
    """`make deploy-check REWRITE=1` renders them again."""
    found = {name: (RENDERED / f"{name}.yaml").read_text().splitlines()[0] for name in VARIANTS}
    assert found == dict.fromkeys(VARIANTS, f"# {chart_digest()}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_chart_renders_objects_that_kubernetes_and_the_servers_accept(variant: str, tmp_path: Path) -> None:
    """Every object has a valid schema; the config files in it, with the arguments of the pods, start
    servers."""
    found = documents((RENDERED / f"{variant}.yaml").read_text())
    for each in found:
        validated(each)
    kinds = sorted(each["kind"] for each in found)
    assert kinds == ["ConfigMap", *["PodDisruptionBudget"] * 2, *["Service"] * 2, *["StatefulSet"] * 2]
    (config,) = (each["data"] for each in found if each["kind"] == "ConfigMap")
    sets = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "StatefulSet"}
    services = {each["metadata"]["name"] for each in found if each["kind"] == "Service"}
    controller, node = (
        server_file(
            role, config[f"{role}.properties"], pod_arguments(sets[f"log-headrace-{role}"], role, tmp_path)
        )
        for role in (CONTROLLER, NODE)
    )
    count = 3 if variant == "default" else 1
    assert (len(node.controllers), len(controller.controllers)) == (count, count - 1)
    assert (node.name, controller.name) == ("node-1", "controller-100")
    assert node.config.to_mapping()["advertised.listeners"] == (
        "PLAINTEXT://log-headrace-node-0.log-headrace-node:9092",
    )
    assert sets.keys() == services == {each["serviceName"] for each in sets.values()}
    hosts = {host.partition(".")[0].rpartition("-")[0] for host, _ in node.controllers}
    assert hosts <= sets.keys()
    has_format = "initContainers" in sets["log-headrace-controller"]["template"]["spec"]
    assert has_format == (count > 1), "a single controller begins a quorum by itself"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("controllers.replicas", 2),
        ("nodes.storage", "much"),
        ("antiAffinity", "none"),
        ("nodes.replica", 4),
        ("ports.kafka", "9092"),
        ("image.repository", ""),
    ],
)
def test_schema_of_the_values_refuses_others(path: str, value: object) -> None:
    """Helm checks values with this schema before it renders; the values of the chart are accepted."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(values, schema)
    changed = copy.deepcopy(values)
    *folders, last = path.split(".")
    place = changed
    for name in folders:
        place = place[name]
    place[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, schema)
