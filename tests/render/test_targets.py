"""Every target: what it writes is the plan, as that target's own tools read it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from numalign.kubelet.document import API_VERSION, KIND
from numalign.kubelet.effective import effective
from numalign.kubelet.flags import parse_flags
from numalign.machine import Machine
from numalign.plan import Plan, PlanWishes, make_plan
from numalign.quantity import Quantity
from numalign.render import fill
from numalign.render.targets import TARGETS, check_target, for_target, missing
from numalign.reserve import Wishes
from numalign.reserve_memory import MemoryWishes
from tests.conftest import Golden, Run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MachineOf = Callable[[str], Machine]
MACHINES = ("dgx-h100", "dgx-a100-nps4", "gb200-nvl")
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
FOLDER = Path(__file__).parent.parent.parent / "templates"

INSIDE: dict[str, Callable[[Any], Any]] = {
    # target -> the KubeletConfiguration in its document
    "kubelet": lambda document: document,
    "drop-in": lambda document: document,
    "kubeadm": lambda document: document,
    "k3s": lambda document: document,
    "rke2": lambda document: document,
    "cluster-api": lambda document: loaded(document["spec"]["template"]["spec"]["files"][0]["content"]),
    "eks-nodeadm": lambda document: document["spec"]["kubelet"]["config"],
    "karpenter": lambda document: loaded(document["spec"]["userData"])["spec"]["kubelet"]["config"],
    "talos": lambda document: document["machine"]["kubelet"]["extraConfig"],
    "openshift": lambda document: document["spec"]["kubeletConfig"],
    "microshift": lambda document: document["kubelet"],
    "ignition": lambda document: loaded(document["storage"]["files"][0]["contents"]["inline"]),
    "cloud-init": lambda document: loaded(document["write_files"][0]["content"]),
}
WITHIN = ("eks-nodeadm", "karpenter", "talos", "openshift", "microshift")
"""Those in which the fields stand without apiVersion and kind."""


def document(plan: Plan) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, **plan.configuration}


def loaded(text: str) -> Any:
    return YAML(typ="safe").load(text)


def written(target: str, machine: Machine, plan: Plan, minor: int = 36) -> str:
    row = TARGETS[target]
    return fill(
        row.template,
        machine,
        for_target(plan, row),
        target=row,
        minor=minor,
        reserved_count=sum(len(node.reserved) for node in plan.numa_nodes),
        exclusive=plan.exclusive_cpus,
        lost_options={name.partition(".")[2] for name in missing(plan, row)},
    )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("target", TARGETS)
def test_it_looks_like_this(target: str, machine: str, run: Run, tree: Callable[[str], Path], golden: Golden) -> None:
    done = run("render", "kubelet-config", "--target", target, "--root", tree(machine))
    refused = machine == "gb200-nvl" and target in ("aks", "gke", "openshift-performance-profile")
    assert done.returncode == int(refused)
    assert done.stdout == golden(f"{machine}.{target}", done.stdout)


@pytest.mark.parametrize("static_memory", [False, True])
@pytest.mark.parametrize("target", INSIDE)
def test_the_kubelet_reads_the_plan_out_of_it(target: str, static_memory: bool, machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    wishes = PlanWishes(static_memory=static_memory, options={"strict-cpu-reservation": "true"})
    plan = make_plan(machine, wishes)
    inside = dict(INSIDE[target](loaded(written(target, machine, plan))))
    wanted = document(plan)
    if target in WITHIN:
        wanted = dict(plan.configuration)
    if target in ("eks-nodeadm", "karpenter"):
        wanted = {"systemReservedCgroup": "", "kubeReservedCgroup": "", **wanted}
    if target == "talos" and static_memory:
        wanted["systemReserved"] = {"ephemeral-storage": "256Mi", "pid": "100", "memory": "1Gi"}
    assert inside == wanted
    assert list(inside) == list(wanted)


@pytest.mark.parametrize("options", [{}, {"distribute-cpus-across-numa": "true", "max-allowable-numa-nodes": "9"}])
@pytest.mark.parametrize("target", ["k3s", "rke2"])
def test_before_there_were_drop_ins_flags_say_the_same(
    target: str, options: dict[str, str], machine_of: MachineOf
) -> None:
    machine = machine_of("dgx-h100")
    plan = make_plan(machine, PlanWishes(static_memory=True, minor=31, options=options))
    flags = loaded(written(target, machine, plan, 31))["kubelet-arg+"]
    values = effective(None, {}, parse_flags(" ".join(f"'--{flag}'" for flag in flags)), 31).values
    wanted = effective(("f", json.dumps(document(plan)).encode()), {}, {}, 31).values
    assert {name: values[name] for name in plan.configuration} == {name: wanted[name] for name in plan.configuration}


def test_bottlerockets_settings_are_the_plan(machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    plan = make_plan(
        machine, PlanWishes(static_memory=True, policy="restricted", options={"max-allowable-numa-nodes": "9"})
    )
    settings = tomllib.loads(written("bottlerocket", machine, plan))["settings"]["kubernetes"]
    assert settings == {
        "cpu-manager-policy": "static",
        "cpu-manager-policy-options": ["full-pcpus-only"],
        "reserved-cpus": plan.configuration["reservedSystemCPUs"],
        "topology-manager-policy": "restricted",
        "topology-manager-scope": "container",
        "topology-manager-policy-options": {"max-allowable-numa-nodes": 9},
        "memory-manager-policy": "Static",
        "kube-reserved": plan.configuration["kubeReserved"],
        "system-reserved": plan.configuration["systemReserved"],
        "eviction-hard": plan.configuration["evictionHard"],
        "memory-manager-reserved-memory": {
            "0": {"enabled": True, "memory": "1295Mi"},
            "1": {"enabled": True, "memory": "1294Mi"},
        },
    }


def test_aks_and_gke_get_only_keys_that_they_take(machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    plan = make_plan(machine)
    assert json.loads(written("aks", machine, plan)) == {
        "cpuManagerPolicy": "static",
        "topologyManagerPolicy": "single-numa-node",
    }
    assert loaded(written("gke", machine, plan)) == {
        "kubeletConfig": {
            "cpuManagerPolicy": "static",
            "topologyManager": {"policy": "single-numa-node", "scope": "container"},
        }
    }


def test_a_performance_profile_has_every_cpu_once(machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    profile = loaded(written("openshift-performance-profile", machine, make_plan(machine)))
    cpu = profile["spec"]["cpu"]
    reserved, isolated = (machine.online_cpus.parse(cpu[name]) for name in ("reserved", "isolated"))
    assert reserved | isolated == machine.online_cpus
    assert not reserved & isolated
    snippet = json.loads(profile["metadata"]["annotations"]["kubeletconfig.experimental"])
    assert snippet == {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}, "topologyManagerScope": "container"}


def test_a_performance_profile_names_cpus_that_are_offline_or_in_no_numa_node(machine_of: MachineOf) -> None:
    machine = machine_of("cpus-without-node")
    profile = loaded(written("openshift-performance-profile", machine, make_plan(machine)))
    lists = {name: machine.online_cpus.parse(cpus) for name, cpus in profile["spec"]["cpu"].items()}
    assert lists.get("offlined", machine.offline_cpus) == machine.offline_cpus
    assert lists["reserved"] | lists["isolated"] == machine.online_cpus


def test_a_performance_profile_has_the_topology_options_in_its_annotation(machine_of: MachineOf) -> None:
    machine = machine_of("gb200-nvl")
    row, wishes = TARGETS["openshift-performance-profile"], PlanWishes(policy="best-effort")
    plan = make_plan(machine, wishes)
    assert not any(name.startswith("topologyManager") for name in check_target(plan, wishes, row))
    profile = loaded(written(row.name, machine, plan))
    snippet = json.loads(profile["metadata"]["annotations"]["kubeletconfig.experimental"])
    assert snippet["topologyManagerPolicyOptions"] == plan.configuration["topologyManagerPolicyOptions"]
    assert snippet["topologyManagerPolicyOptions"]["max-allowable-numa-nodes"] == "34"


@pytest.mark.parametrize(
    ("target", "wishes", "field"),
    [
        ("aks", PlanWishes(reserved=Wishes(count=4)), "reservedSystemCPUs"),
        ("gke", PlanWishes(options={"strict-cpu-reservation": "true"}), "strict-cpu-reservation"),
        ("aks", PlanWishes(scope="pod"), "topologyManagerScope"),
        ("aks", PlanWishes(static_memory=True), "memoryManagerPolicy"),
        ("gke", PlanWishes(static_memory=True, memory=MemoryWishes(kube=Quantity.parse("1Gi"))), "kubeReserved"),
        ("gke", PlanWishes(static_memory=True, memory=MemoryWishes(system=Quantity.parse("1Gi"))), "systemReserved"),
        ("bottlerocket", PlanWishes(policy="restricted", options={"align-by-socket": "true"}), "align-by-socket"),
        ("bottlerocket", PlanWishes(options={"strict-cpu-reservation": "true"}, minor=32), "featureGates"),
        ("openshift", PlanWishes(policy="restricted", options={"align-by-socket": "true"}), "featureGates"),
    ],
)
def test_what_was_asked_for_and_cannot_be_expressed_is_refused(
    target: str, wishes: PlanWishes, field: str, machine_of: MachineOf
) -> None:
    from numalign.errors import DoesNotHold

    with pytest.raises(DoesNotHold, match=field):
        check_target(make_plan(machine_of("dgx-h100"), wishes), wishes, TARGETS[target])


@pytest.mark.parametrize("target", ["aks", "gke"])
def test_nothing_is_written_on_which_the_kubelet_does_not_start(target: str, machine_of: MachineOf) -> None:
    from numalign.errors import DoesNotHold

    with pytest.raises(DoesNotHold, match="max-allowable-numa-nodes"):
        check_target(make_plan(machine_of("gb200-nvl")), PlanWishes(), TARGETS[target])


def test_what_a_target_does_itself_may_be_asked_for(machine_of: MachineOf) -> None:
    wishes = PlanWishes(scope="container")
    lost = check_target(make_plan(machine_of("dgx-h100"), wishes), wishes, TARGETS["aks"])
    assert set(lost) == {"cpuManagerPolicyOptions.full-pcpus-only", "reservedSystemCPUs"}


@pytest.mark.parametrize(
    ("wrong", "target"),
    [
        *(("eks", "eks-nodeadm"), ("EKS", "eks-nodeadm"), ("al2023", "eks-nodeadm"), ("dropin", "drop-in")),
        *(("openshift-kubeletconfig", "openshift"), ("openshift-performanceprofile", "openshift-performance-profile")),
        *(("gke-standard", "gke"), ("kubeadmin", "kubeadm"), ("rancher", "rke2"), ("butane", "ignition")),
    ],
)
def test_a_target_that_is_none_names_the_one_that_is_meant(
    wrong: str, target: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("render", "kubelet-config", "--target", wrong, "--root", tree("laptop"))
    assert (done.returncode, done.stderr.splitlines()[1:]) == (2, [f"          did you mean --target {target}?"])


@pytest.mark.parametrize(("minor", "place"), [("1.31", "config.yaml.d"), ("1.32", "agent/etc/kubelet.conf.d")])
@pytest.mark.parametrize("target", ["k3s", "rke2"])
def test_only_the_place_of_the_version_is_said(
    target: str, minor: str, place: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run(
        "render", "kubelet-config", "--target", target, "--kubernetes-version", minor, "--root", tree("dgx-h100")
    )
    said = {one for one in ("config.yaml.d", "agent/etc/kubelet.conf.d") if one in done.stdout}
    assert said == {place}


def test_a_target_that_aligns_memory_is_refused_on_too_many_numa_nodes(machine_of: MachineOf) -> None:
    from numalign.errors import DoesNotHold

    row = TARGETS["openshift-performance-profile"]
    with pytest.raises(DoesNotHold, match="on 34 NUMA nodes") as refused:
        check_target(make_plan(machine_of("gb200-nvl")), PlanWishes(), row)
    assert refused.value.hint == "--policy best-effort"


def test_what_is_lost_is_said(run: Run, tree: Callable[[str], Path]) -> None:
    done = run("render", "kubelet-config", "--target", "aks", "--root", tree("dgx-h100"))
    assert "warning  target-lacks  aks has no cpuManagerPolicyOptions.full-pcpus-only" in done.stderr
    assert "az aks nodepool add --kubelet-config" in done.stderr


def test_every_template_is_a_targets_or_a_commands_and_every_target_has_its_page() -> None:
    others = {"_head.j2", "pod.yaml.j2", "systemd-slice.conf.j2", "irqbalance.j2", "kernel-args.j2"}
    assert {path.name for path in FOLDER.glob("*.j2")} == {row.template for row in TARGETS.values()} | others
    page = (FOLDER.parent / "docs/targets.md").read_text()
    assert [name for name in TARGETS if f"`{name}`" not in page] == []


@pytest.mark.parametrize(("minor", "status"), [("1.27", 1), ("1.28", 0)])
def test_a_version_without_drop_ins_gets_none(minor: str, status: int, run: Run, tree: Callable[[str], Path]) -> None:
    words = ("--target", "drop-in", "--kubernetes-version", minor, "--root", tree("dgx-h100"))
    assert run("render", "kubelet-config", *words).returncode == status


def test_a_template_of_ones_own(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    words = ("render", "kubelet-config", "--root", tree("dgx-h100"), "--template", "own.j2")
    (tmp_path / "own.j2").write_text(f"# ours\n{HEADER}maxPods: 50\n{{{{ plan | fields }}}}\n")
    assert loaded(run(*words).stdout)["maxPods"] == 50
    for text, says in (
        ("{{ machine.__class__.__mro__ }}", "unsafe"),
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{{ cycler() }}", "the template fails"),
        ("a\n{% if %}", "own.j2:2: the template fails"),
        ("{% include '../../../etc/passwd' %}", "the template fails"),
        (
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n",
            "would not start",
        ),
        ("plain text", "does not load it"),
    ):
        (tmp_path / "own.j2").write_text(text)
        done = run(*words)
        assert (done.returncode, done.stdout) == (1, ""), text
        assert says in done.stderr


def test_karpenter_reckons_with_the_reserved_cpus_and_no_others(machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    for static_memory in (False, True):
        plan = make_plan(machine, PlanWishes(static_memory=static_memory))
        kubelet = loaded(written("karpenter", machine, plan))["spec"]["kubelet"]
        reserved = {"kubeReserved": {"cpu": "0"}, "systemReserved": {"cpu": "16"}}
        if static_memory:
            own = plan.configuration
            reserved = {field: {**amounts, **own[field]} for field, amounts in reserved.items()}
            reserved["evictionHard"] = own["evictionHard"]
        assert kubelet == reserved


@pytest.mark.parametrize(
    ("target", "words", "hint"),
    [
        ("aks", ("--reserved-cpu-count", "4", "--reserve-on", "0"), "--reserved-cpu-count and --reserve-on"),
        ("aks", ("--memory-manager", "static"), "--memory-manager static"),
        ("gke", ("--option", "full-pcpus-only=true"), "--option full-pcpus-only"),
        ("gke", ("--memory-manager", "static", "--system-reserved-memory", "2Gi"), "--system-reserved-memory"),
    ],
)
def test_what_a_target_cannot_express_is_refused_with_the_option_to_leave_out(
    target: str, words: tuple[str, ...], hint: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), "--target", target, *words)
    assert (done.returncode, done.stderr.splitlines()[1:]) == (
        1,
        [f"          leave out {hint}, or take another target"],
    )
