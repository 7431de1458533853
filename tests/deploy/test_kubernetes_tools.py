"""deploy/helm by Helm, and deploy/kuberay by the schemas of the KubeRay operator: `make deploy-check`, which
gets both as Go modules.
"""

from __future__ import annotations

import copy
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from rendered_chart import CHART, KUBERNETES, RENDERED, VARIANTS, chart_digest

pytestmark = pytest.mark.deploy

KUBERAY = Path(__file__).parents[2] / "deploy" / "kuberay"
HELM, CRDS, REWRITE = "HEADRACE_HELM", "HEADRACE_KUBERAY_CRDS", "REWRITE"


def helm(*words: str) -> tuple[int, str]:
    """Exit code, and the output or the error."""
    if HELM not in os.environ:
        pytest.skip(f"{HELM} names no helm: run `make deploy-check`")
    done = subprocess.run(
        [os.environ[HELM], *words], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr if done.returncode else done.stdout


def rendered(*arguments: str) -> tuple[int, str]:
    namespace = ("--namespace", "data", "--kube-version", KUBERNETES)
    return helm("template", "log", str(CHART), *namespace, *arguments)


def test_chart_has_no_fault_of_helms_linter() -> None:
    code, text = helm("lint", "--strict", str(CHART))
    assert code == 0, text


@pytest.mark.parametrize("variant", VARIANTS)
def test_rendered_objects_are_helms(variant: str) -> None:
    """Those of `make test`; REWRITE=1 writes them."""
    code, text = rendered(*VARIANTS[variant])
    assert code == 0, text
    text = f"# {chart_digest()}\n{text}"
    file = RENDERED / f"{variant}.yaml"
    if os.environ.get(REWRITE):
        file.write_text(text)
    assert file.read_text() == text


@pytest.mark.parametrize(
    "value", ["controllers.replicas=2", "nodes.storage=much", "antiAffinity=none", "nodes.replica=4"]
)
def test_chart_refuses_values_outside_of_its_schema(value: str) -> None:
    code, text = rendered("--set", value)
    assert code != 0
    assert "values don't meet the specifications of the schema" in text


@cache
def schemas() -> dict[str, Any]:
    """The schema of each kind of the operator's release, as strict as `kubectl apply --validate=strict`."""
    if CRDS not in os.environ:
        pytest.skip(f"{CRDS} names no folder: run `make deploy-check`")
    found = {}
    for path in Path(os.environ[CRDS]).glob("*.yaml"):
        definition = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
        (version,) = (each for each in definition["versions"] if each["storage"])
        found[definition["names"]["kind"]] = strict(version["schema"]["openAPIV3Schema"])
    return found


def strict(schema: Any) -> Any:
    """An OpenAPI schema of Kubernetes as a JSON schema that refuses unknown fields."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(each) for name, each in schema.items() if name != "format"}
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get(
        "x-kubernetes-embedded-resource"
    )
    has_fields = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    if has_fields and not is_open:
        found.setdefault("additionalProperties", False)
    return found


def objects() -> list[Any]:
    texts = [(KUBERAY / name).read_text() for name in ("raycluster.yaml", "up.yaml")]
    found = [each for text in texts for each in yaml.safe_load_all(text) if each]
    return [each for each in found if each["apiVersion"] == "ray.io/v1"]


def faults(found: Any) -> list[str]:
    """What the schema of its kind says about an object."""
    schema = copy.deepcopy(schemas()[found["kind"]])
    schema["properties"]["metadata"] = {"type": "object"}  # its fields are those of every object
    return [each.message for each in jsonschema.Draft7Validator(schema).iter_errors(found)]


def test_objects_of_kuberay_have_the_schema_of_the_operator() -> None:
    assert [each["kind"] for each in objects()] == ["RayCluster", "RayJob"]
    assert [faults(each) for each in objects()] == [[], []]


def test_schema_of_the_operator_refuses_planted_mistakes() -> None:
    """A misspelled field of each level, a number as text, and a group without its template."""
    cluster, job = objects()
    for index, plant in enumerate(
        (
            lambda spec: spec.update(rayVersoin="2"),
            lambda spec: spec["headGroupSpec"].update(rayStartParms={}),
            lambda spec: spec["workerGroupSpecs"][0].update(minReplicas="1"),
            lambda spec: spec["workerGroupSpecs"][1].pop("template"),
            lambda spec: spec["workerGroupSpecs"][1]["template"]["spec"]["containers"][0].update(imge="x"),
        )
    ):
        planted = copy.deepcopy(cluster)
        plant(planted["spec"])
        assert len(faults(planted)) == 1, index
    job["spec"]["entrypiont"] = "x"
    assert len(faults(job)) == 1
