"""deploy/kuberay and deploy/helm: schemas of Kubernetes, and config files that the servers accept.

`make deploy-check` also checks them with helm and with the types of the KubeRay operator.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from headrace.services.server.config_file import CONTROLLER, NODE, server_file

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "headrace"
KUBERAY = ROOT / "deploy" / "kuberay"
VERSION, KUBERNETES = "1.33", "1.33.0"


def helm() -> str:
    """The program, of the path or of `make deploy-check`."""
    found = os.environ.get("HEADRACE_HELM") or shutil.which("helm")
    if found is None:
        pytest.skip("no helm: `make deploy-check` installs it")
    return found


def template(*arguments: str) -> tuple[int, str]:
    command = [
        helm(),
        "template",
        "log",
        str(CHART),
        "--namespace",
        "data",
        "--kube-version",
        KUBERNETES,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout if not done.returncode else done.stderr


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


@pytest.mark.parametrize("arguments", [(), ("--set", "antiAffinity=hard,controllers.replicas=1")])
def test_chart_renders_objects_that_kubernetes_and_the_servers_accept(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """Every object has a valid schema; the config files in it, with the arguments of the pods, start
    servers."""
    code, text = template(*arguments)
    assert code == 0, text
    found = documents(text)
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
    count = 1 if arguments else 3
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
    "value", ["controllers.replicas=2", "nodes.storage=much", "antiAffinity=none", "nodes.replica=4"]
)
def test_chart_refuses_values_outside_of_its_schema(value: str) -> None:
    code, text = template("--set", value)
    assert code != 0
    assert "values don't meet the specifications of the schema" in text
