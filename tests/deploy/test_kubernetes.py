"""The manifests are ones that Kubernetes takes, and agree with each other and with Shunter."""

from __future__ import annotations

import copy
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from deploy.settings_files import DEPLOY, loaded
from shunter.gateway.http.openapi import OPERATIONS
from shunter.model.allowed_hosts import allowed_hosts
from shunter.settings import Settings
from shunter.store.mongo.connection import public_name

FOLDER = DEPLOY / "kubernetes"
VERSION = "1.37"

Manifest = dict[str, Any]


def documents() -> list[Manifest]:
    return [
        one
        for path in sorted(FOLDER.glob("*.yaml"))
        for one in yaml.load_all(path.read_text(), yaml.CSafeLoader)
    ]


ALL = documents()


def of_kind(*kinds: str) -> list[Manifest]:
    return [one for one in ALL if one["kind"] in kinds]


def named(kind: str, name: str) -> Manifest:
    [found] = [one for one in of_kind(kind) if one["metadata"]["name"] == name]
    return found


def label(manifest: Manifest) -> str:
    return f"{manifest['kind']}-{manifest.get('metadata', {}).get('name', '')}"


BY_SCHEMA = [one for one in ALL if one["kind"] not in ("Kustomization", "ScaledObject")]
WORKLOADS = of_kind("StatefulSet", "Deployment")


def pod_of(workload: Manifest) -> Manifest:
    return dict(workload["spec"]["template"]["spec"])


def containers() -> Iterator[tuple[Manifest, Manifest]]:
    for workload in WORKLOADS:
        pod = pod_of(workload)
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            yield workload, container


@pytest.mark.parametrize("manifest", BY_SCHEMA, ids=label)
def test_a_manifest_keeps_to_the_schema(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_a_manifest_with_a_misspelt_field_is_refused() -> None:
    broken = copy.deepcopy(named("StatefulSet", "shunter-dispatcher"))
    broken["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSION, strict=True)


def test_all_files_are_in_the_kustomization_save_the_secrets() -> None:
    [kustomization] = of_kind("Kustomization")
    files = {path.name for path in FOLDER.glob("*.yaml")}

    assert set(kustomization["resources"]) == files - {"kustomization.yaml", "secrets.example.yaml"}


def test_the_autoscaler_has_what_keda_asks_for_and_leaves_replicas_to_it() -> None:
    [scaled] = of_kind("ScaledObject")
    [trigger] = scaled["spec"]["triggers"]
    target = named("Deployment", scaled["spec"]["scaleTargetRef"]["name"])

    assert scaled["apiVersion"] == "keda.sh/v1alpha1"
    assert 0 <= scaled["spec"]["minReplicaCount"] < scaled["spec"]["maxReplicaCount"]
    assert trigger["type"] == "prometheus"
    assert all(
        isinstance(trigger["metadata"][key], str) for key in ("serverAddress", "query", "threshold")
    )
    assert "shunter_queue_length" in trigger["metadata"]["query"]  # test_monitoring tries it
    assert "replicas" not in target["spec"]


@pytest.mark.parametrize(("workload", "container"), list(containers()), ids=lambda x: x.get("name"))
def test_a_container_has_no_rights_and_bounds(workload: Manifest, container: Manifest) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    pod = pod_of(workload)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]


def test_whatever_is_mounted_or_named_is_there() -> None:
    for workload, container in containers():
        pod = pod_of(workload)
        volumes = {one["name"] for one in pod["volumes"]}
        volumes |= {
            one["metadata"]["name"] for one in workload["spec"].get("volumeClaimTemplates", ())
        }
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes
        for volume in pod["volumes"]:
            if "configMap" in volume:
                named("ConfigMap", volume["configMap"]["name"])
            if "secret" in volume:
                secret = named("Secret", volume["secret"]["secretName"])
                wanted = {item["key"] for item in volume["secret"].get("items", ())}
                assert wanted <= set(secret["stringData"])
        for variable in container.get("env", ()):
            if source := variable.get("valueFrom"):
                reference = source["secretKeyRef"]
                assert reference["key"] in named("Secret", reference["name"])["stringData"]


def test_services_budgets_and_policies_choose_pods_that_there_are() -> None:
    pods = {tuple(one["spec"]["template"]["metadata"]["labels"].items()): one for one in WORKLOADS}
    for service in of_kind("Service"):
        pod = pod_of(pods[tuple(service["spec"]["selector"].items())])
        offered = {port["containerPort"] for one in pod["containers"] for port in one["ports"]}
        assert {port["port"] for port in service["spec"]["ports"]} <= offered
    for budget in of_kind("PodDisruptionBudget"):
        assert tuple(budget["spec"]["selector"]["matchLabels"].items()) in pods
    for policy in of_kind("NetworkPolicy"):
        chosen = policy["spec"]["podSelector"].get("matchLabels")
        assert not chosen or tuple(chosen.items()) in pods
    for workload in WORKLOADS:
        assert workload["spec"]["selector"]["matchLabels"] == dict(
            workload["spec"]["template"]["metadata"]["labels"]
        )


def test_ports_that_policies_open_are_named_by_the_pods_behind_them() -> None:
    ports = {
        (workload["metadata"]["name"], port["name"])
        for workload in WORKLOADS
        for container in pod_of(workload)["containers"]
        for port in container.get("ports", ())
    }
    for policy in of_kind("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", ()):
            for port in rule["ports"]:
                assert (policy["metadata"]["name"], port["port"]) in ports
        for rule in policy["spec"].get("egress", ()):
            for target in rule["to"]:
                app = target.get("podSelector", {}).get("matchLabels", {}).get("app")
                if app:
                    assert {(app, port["port"]) for port in rule["ports"]} <= ports


@pytest.mark.parametrize("name", ["shunter-dispatcher", "shunter-worker"])
def test_the_settings_are_taken_and_agree_with_the_manifests(name: str, tmp_path: Path) -> None:
    text = named("ConfigMap", name)["data"]["shunter.toml"]
    kind = "StatefulSet" if name == "shunter-dispatcher" else "Deployment"
    [container] = pod_of(named(kind, name))["containers"]
    environ = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    settings = loaded(text, environ, tmp_path)

    if name == "shunter-worker":
        replicas = named("StatefulSet", "shunter-dispatcher")["spec"]["replicas"]
        assert list(settings.worker_dispatchers) == [
            f"tcp://shunter-dispatcher-{n}.shunter-dispatcher.shunter.svc:5561"
            for n in range(replicas)
        ]
        slots = settings.worker.max_jobs * settings.worker.max_child_megabytes
        assert container["resources"]["limits"]["memory"] == "1Gi"
        assert slots + 100 < 1024
    else:
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert settings.zmq.frontend.endswith(f":{ports['clients']}")
        assert settings.zmq.backend.endswith(f":{ports['workers']}")
        assert settings.http.port == ports["https"]
        _check_probes(container, settings)


def _check_probes(container: Manifest, settings: Settings) -> None:
    served = {operation.path for operation in OPERATIONS}
    known = allowed_hosts(settings.http.allowed_hosts)
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[kind]["httpGet"]
        [host] = [one["value"] for one in asked["httpHeaders"] if one["name"] == "Host"]
        assert asked["path"] in served
        assert asked["scheme"] == "HTTPS"
        assert known.has(host)
    assert known.has("shunter-dispatcher-0.shunter-dispatcher.shunter.svc")
    assert not known.has("shunter.example.com")


def test_a_pod_has_the_time_to_leave_in_good_order() -> None:
    worker = Settings().worker
    needed = worker.grace_seconds + 2 * worker.kill_grace_seconds + Settings().lease.kill_within

    assert pod_of(named("Deployment", "shunter-worker"))["terminationGracePeriodSeconds"] > needed


def test_the_url_of_the_store_is_one_and_names_every_member() -> None:
    url = named("Secret", "shunter-store")["stringData"]["url"]
    members = named("StatefulSet", "mongodb")["spec"]["replicas"]
    options = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    hosts = [f"mongodb-{n}.mongodb.shunter.svc:27017" for n in range(members)]

    assert public_name(url.replace("&tlsCAFile=/etc/shunter/store/ca.pem", "")) == (
        f"mongodb://{','.join(hosts)}/shunter"
    )
    assert options["tls"] == "true"
    mounts = pod_of(named("StatefulSet", "shunter-dispatcher"))["containers"][0]["volumeMounts"]
    assert {
        "name": "store",
        "mountPath": str(Path(options["tlsCAFile"]).parent),
        "readOnly": True,
    } in mounts


def test_the_app_of_the_example_is_one_and_its_types_scale() -> None:
    names: dict[str, Any] = {}
    exec(named("ConfigMap", "shunter-worker")["data"]["tasks.py"], names)
    [trigger] = of_kind("ScaledObject")[0]["spec"]["triggers"]

    types = "|".join(handler.type for handler in names["app"].handlers())
    assert f'type=~"{types}"' in trigger["metadata"]["query"]
