# SPDX-License-Identifier: Apache-2.0
"""The manifest in the documentation, against the schema of Kubernetes: strictly, so that no field is misspelled."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "howto" / "cluster.md").read_text()
(MANIFEST,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_manifest_for_kubernetes_keeps_to_the_schema() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    resources = list(yaml.safe_load_all(MANIFEST))
    assert [one["kind"] for one in resources] == ["Deployment", "Service"]
    for resource in resources:
        validate.validate(resource, validate.latest_version(), strict=True)


def test_the_service_leads_to_the_server() -> None:
    yaml = pytest.importorskip("yaml")
    deployment, service = yaml.safe_load_all(MANIFEST)
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["spec"]["volumes"]}
