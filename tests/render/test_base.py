"""--base, --diff and --check: a document that is there keeps all that is not the plan's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from numalign.render.reasons import own_lines
from tests.conftest import Run

Tree = Callable[[str], Path]

BASE = """\
# our kubelet
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDNS:
    - 10.96.0.10   # coredns
authentication: {anonymous: {enabled: false}}
kubeReserved:
  cpu: "2"
  memory: 3Gi # measured
cpuManagerPolicy: 'none'
evictionHard:
  memory.available: 5%
  nodefs.available: "10%"
reservedMemory:
    - {numaNode: 0, limits: {memory: 1Gi}}
# what follows is old
maxPods: 50
# the end
"""


EXCLUSIVE = "# containers of Guaranteed pods that ask for whole CPUs get exclusive ones\n"


def plain(text: str) -> str:
    """The text without the reasons that stand as comments at its left margin."""
    lines, comments = [], []
    for line in [*text.splitlines(keepends=True), ""]:
        if line.startswith("#"):
            comments.append(line.rstrip("\n"))
            continue
        first, end = own_lines(comments) or (0, 0)
        lines += [f"{comment}\n" for comment in comments[:first] + comments[end:]] + [line]
        comments = []
    return "".join(lines)


def render(run: Run, tree: Tree, *words: str | Path) -> tuple[int, str, str]:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), *words)
    return done.returncode, done.stdout, done.stderr


def test_what_is_not_the_plans_stays_as_it_is(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    status, text, _ = render(run, tree, "--base", "base.yaml", "--memory-manager", "static")
    assert status == 0
    lines = text.splitlines()
    for line in BASE.splitlines():
        changed = ("cpuManagerPolicy:", "  memory.available:", "    - {numaNode: 0")
        assert line in lines or line.startswith(changed)
    document = YAML(typ="safe").load(text)
    assert document["kubeReserved"] == {"cpu": "2", "memory": "3Gi"}
    assert document["evictionHard"] == {"memory.available": "100Mi", "nodefs.available": "10%"}
    assert document["reservedMemory"] == [
        {"numaNode": 0, "limits": {"memory": "2098Mi"}},
        {"numaNode": 1, "limits": {"memory": "2098Mi"}},
    ]
    (tmp_path / "merged.yaml").write_text(text)
    verified = run("verify", "--config", "merged.yaml", "--root", tree("dgx-h100"))
    assert verified.returncode == 0, verified.stdout


def test_merging_twice_changes_nothing_more(run: Run, tree: Tree, tmp_path: Path) -> None:
    target = tmp_path / "kubelet.yaml"
    target.write_text(BASE)
    words = ("--base", target, "--memory-manager", "static")
    assert render(run, tree, *words, "--out", target)[0] == 0
    once, when = target.read_bytes(), target.stat()
    assert render(run, tree, *words, "--out", target)[0] == 0
    assert (target.read_bytes(), target.stat().st_ino, target.stat().st_mtime_ns) == (
        once,
        when.st_ino,
        when.st_mtime_ns,
    )
    assert render(run, tree, *words, "--check") == (0, "", "")


def test_comments_behind_the_memory_stay_at_the_end_too(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE.replace("# what follows is old\nmaxPods: 50\n", ""))
    status, text, _ = render(run, tree, "--base", "base.yaml", "--memory-manager", "static")
    assert (status, text.count("# the end\n")) == (0, 1)


def test_json_stays_json_and_line_ends_stay(run: Run, tree: Tree, tmp_path: Path) -> None:
    header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (tmp_path / "base.json").write_text(json.dumps({**header, "maxPods": 50}, indent=4) + "\n")
    text = render(run, tree, "--base", "base.json")[1]
    assert json.loads(text)["maxPods"] == 50
    assert text.startswith('{\n    "apiVersion"')
    (tmp_path / "dos.yaml").write_bytes(BASE.replace("\n", "\r\n").encode())
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), "--base", "dos.yaml", "--out", "out.yaml")
    assert done.returncode == 0
    data = (tmp_path / "out.yaml").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n")
    assert b"\r\r" not in data
    assert render(run, tree, "--base", "out.yaml", "--check") == (0, "", "")


def test_diff_shows_and_check_says_and_neither_writes(run: Run, tree: Tree, tmp_path: Path) -> None:
    target = tmp_path / "kubelet.yaml"
    target.write_text(BASE)
    status, text, _ = render(run, tree, "--base", target, "--diff")
    assert status == 0
    assert f"-cpuManagerPolicy: 'none'\n+{EXCLUSIVE}+cpuManagerPolicy: 'static'\n" in text
    status, text, told = render(run, tree, "--base", target, "--check")
    assert (status, text) == (1, "")
    assert told.startswith(
        f"differs  {target} is not what numalign writes; --diff shows how\nchanged  cpuManagerPolicy:"
    )
    assert render(run, tree, "--base", target, "--check", "--diff")[0] == 1
    assert target.read_text() == BASE
    assert render(run, tree, "--out", tmp_path / "new.yaml", "--check")[0] == 1
    assert not (tmp_path / "new.yaml").exists()
    assert render(run, tree, "--out", tmp_path / "new.yaml")[0] == 0
    assert render(run, tree, "--out", tmp_path / "new.yaml", "--check", "--diff") == (0, "", "")


@pytest.mark.parametrize(
    ("text", "words", "status", "says"),
    [
        ("a: 1\n", (), 3, "base.yaml: the kubelet does not load it"),
        (BASE + "memorySwap: {swapBehavior: Always}\n", (), 3, "base.yaml: the kubelet would not start on the result"),
        (BASE + "maxPods: 1\nmaxPods: 2\n", (), 3, "base.yaml:19: maxPods stands there a second time"),
        (BASE, ("--option", "distribute-cpus-across-pods=true"), 2, "no kubelet has such an option"),
        (
            BASE + "systemReservedCgroup: /system\nenforceNodeAllocatable: [pods, system-reserved]\n",
            (),
            3,
            "write enforceNodeAllocatable: [pods] and take systemReservedCgroup out\n",
        ),
        (BASE, ("--target", "talos"), 2, "--base is for a KubeletConfiguration"),
        (BASE, ("--template", "base.yaml"), 2, "--base is for a KubeletConfiguration"),
    ],
)
def test_what_cannot_be_merged_is_refused(
    text: str, words: tuple[str, ...], status: int, says: str, run: Run, tree: Tree, tmp_path: Path
) -> None:
    (tmp_path / "base.yaml").write_text(text)
    for more in ((), ("--check",), ("--diff",)):
        found, printed, told = render(run, tree, "--base", "base.yaml", *words, *more)
        assert (found, printed) == (status, "")
        assert says in told


def test_there_has_to_be_a_file_to_compare_with(run: Run, tree: Tree) -> None:
    assert render(run, tree, "--check")[0] == 2


HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = ("--memory-manager", "static")


def merged(run: Run, tree: Tree, folder: Path, text: str, *words: str) -> tuple[str, str]:
    """The document that comes of a text, and what was said to standard error."""
    (folder / "given.yaml").write_bytes(text.encode())
    done = run(
        "render", "kubelet-config", "--root", tree("dgx-h100"), "--base", "given.yaml", "--out", "m.yaml", *words
    )
    assert done.returncode == 0, done.stderr
    return (folder / "m.yaml").read_bytes().decode(), done.stderr


def test_other_wishes_replace_numaligns_comments_and_leave_a_persons(run: Run, tree: Tree, tmp_path: Path) -> None:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), *STATIC, "--reserved-cpu-count", "8")
    own = done.stdout.replace("reservedSystemCPUs", "# ask ops first\nreservedSystemCPUs")
    own = own.replace("# each container", "# our scope\n# each container")
    wishes = (*STATIC, "--reserved-cpu-count", "16", "--scope", "pod", "--policy", "restricted")
    afresh = run("render", "kubelet-config", "--root", tree("dgx-h100"), *wishes).stdout
    afresh = afresh.replace("reservedSystemCPUs", "# ask ops first\nreservedSystemCPUs")
    afresh = afresh.replace("# all of a pod", "# our scope\n# all of a pod")
    assert merged(run, tree, tmp_path, own, *wishes)[0] == afresh


def test_a_persons_words_after_numaligns_stay(run: Run, tree: Tree, tmp_path: Path) -> None:
    text = HEAD + "# all of a pod is aligned together\n# which is what we want\ntopologyManagerScope: pod # really\n"
    now, _ = merged(run, tree, tmp_path, text)
    lines = (
        "# each container is aligned for itself\n# which is what we want\ntopologyManagerScope: container # really\n"
    )
    assert lines in now


@pytest.mark.parametrize(
    ("kept", "changed", "words"),
    [
        # 4 blanks, lists not indented, and a line that is too long for some
        ("clusterDNS:\n- 10.96.0.10\nx509:\n    a:\n        - 1\n        -   2\n", "", ()),
        ("authentication: {anonymous: {enabled: false},\n    webhook: {enabled: true}}\n", "", ()),
        ("maxPods:   50\t# tab\n\n\n# two lines above\nregisterNode :  true\n", "", ()),
        ("clusterDomain: >-\n  cluster.\n\n", "", ()),
        ("clusterDomain: \"a\\\n  b\"\nstaticPodPath: 'a''b'\n", "", ()),
        ("", "kubeReserved:\n    cpu: '1'\n    memory: 1Gi", STATIC),
        ("", "kubeReserved: {cpu: '1', memory: 1Gi}", STATIC),
    ],
)
def test_what_does_not_change_stays_byte_for_byte(
    kept: str, changed: str, words: tuple[str, ...], run: Run, tree: Tree, tmp_path: Path
) -> None:
    now, _ = merged(run, tree, tmp_path, HEAD + kept + changed, *words)
    assert now.startswith(HEAD + kept + changed)


def test_new_lines_are_indented_as_the_document_is(run: Run, tree: Tree, tmp_path: Path) -> None:
    text = HEAD + "kubeReserved:\n    cpu: '1'\n# for pods\nclusterDNS:\n- 10.96.0.10\n"
    now, _ = merged(run, tree, tmp_path, text, *STATIC)
    reason = "    # as EKS reckons for 110 pods: 255Mi and 11Mi a pod\n"
    assert "    cpu: '1'\n    memory: \"1465Mi\"\n# for pods\n" in now.replace(reason, "")
    assert (
        "\ncpuManagerPolicyOptions:\n    # exclusive CPUs come as whole cores: no two containers share one\n    full"
        in now
    )
    assert "\nreservedMemory:\n- numaNode: 0\n" in now


def test_json_is_changed_in_place(run: Run, tree: Tree, tmp_path: Path) -> None:
    kind = '{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"'
    text = kind + ',\n  "clusterDNS":[ "1" ],"evictionHard":{}}'
    now, _ = merged(run, tree, tmp_path, text, *STATIC)
    assert now.startswith(text.replace("{}}", '{"memory.available":"100Mi"},'))
    assert json.loads(now)["reservedMemory"][1] == {"numaNode": 1, "limits": {"memory": "1294Mi"}}
    text = json.dumps({**json.loads(kind + "}"), "kubeReserved": {"cpu": "1"}, "featureGates": {}}, indent="\t")
    now, _ = merged(run, tree, tmp_path, text, *STATIC)
    assert now.startswith(text.replace('"1"', '"1",\n\t\t"memory": "1465Mi"')[:-2] + ",\n\t")
    assert now == json.dumps(json.loads(now), indent="\t")
    dos, _ = merged(run, tree, tmp_path, text.replace("\n", "\r\n"), *STATIC)
    assert dos == now.replace("\n", "\r\n")


def test_comments_in_reserved_memory_stay(run: Run, tree: Tree, tmp_path: Path) -> None:
    text = HEAD + (
        "reservedMemory: # all\n- numaNode: 5 # gone\n  # why\n  limits: {memory: 1Gi}\n"
        "- limits: # of node 0\n      memory: 1Gi # much\n# what follows\nmaxPods: 1\n"
    )
    now, _ = merged(run, tree, tmp_path, text, *STATIC)
    assert now.startswith(
        HEAD + "reservedMemory: # all\n# gone\n# why\n- limits: # of node 0\n      memory: 1295Mi # much\n"
        '- numaNode: 1\n  limits: {"memory": "1294Mi"}\n# what follows\nmaxPods: 1\n'
    )
    flow = HEAD + "reservedMemory: [\n  {numaNode: 5, limits: {memory: 1Gi}}, # five\n]\n"
    now, _ = merged(run, tree, tmp_path, flow, *STATIC)
    assert plain(now).startswith(HEAD + "# five\nreservedMemory: [{numaNode: 0, limits: {memory: ")


@pytest.mark.parametrize(
    "text",
    [
        "kubeReserved: {memory: 1500M}\nsystemReserved: {memory: '1073741824'}\n",
        "kubeReserved: {memory: 1024Mi}\nsystemReserved: {memory: 1048576Ki}\nevictionHard: {memory.available: 9Mi}\n",
        (
            "kubeReserved: {memory: 1024Mi}\nsystemReserved: {memory: 1Gi}\nevictionHard: {memory.available: 0.5Gi}\n"
            "reservedMemory:\n- {numaNode: 1, limits: {memory: 2Gi}}\n- {numaNode: 0, limits: {memory: 524288Ki}}\n"
        ),
        "reservedSystemCPUs: 0,1,2,3,56-59,112-115,168-170,171\ncpuManagerPolicyOptions: {full-pcpus-only: 'T'}\n",
    ],
)
def test_what_says_the_same_stays(text: str, run: Run, tree: Tree, tmp_path: Path) -> None:
    now, told = merged(run, tree, tmp_path, HEAD + text, *STATIC)
    assert now.startswith(HEAD + text)
    assert told == ""


def test_setting_a_value_breaks_its_alias(run: Run, tree: Tree, tmp_path: Path) -> None:
    text = HEAD + (
        "cpuManagerPolicy: &p none\ntopologyManagerPolicy: *p\n"
        "kubeReserved: &kr\n  memory: 2Gi\nsystemReserved: *kr # as\n"
        "evictionSoft: &s {memory.available: &t 5%}\nevictionSoftGracePeriod: {memory.available: 1m}\n"
        "evictionHard:\n  <<: *s\nevictionMinimumReclaim: {memory.available: *t}\n"
    )
    expected = text.replace("&p none", "static").replace("*p", "single-numa-node")
    expected = expected.replace("<<: *s\n", '<<: *s\n  memory.available: "100Mi"\n')
    now, _ = merged(run, tree, tmp_path, text, *STATIC, "--system-reserved-memory", "3Gi")
    assert plain(now).startswith(expected.replace("*kr", '{memory: "3Gi"}'))
    now, _ = merged(run, tree, tmp_path, text, *STATIC, "--kube-reserved-memory", "1Gi")
    assert (
        plain(now)
        .replace("  # as asked for\n", "")
        .startswith(expected.replace("2Gi", "1Gi").replace("*kr", '{memory: "2Gi"}'))
    )


def test_each_value_that_changes_is_told(run: Run, tree: Tree, tmp_path: Path) -> None:
    text = HEAD + "topologyManagerScope: pod\nevictionHard: {memory.available: 5%}\nkubeReservedCgroup: /kube\n"
    now, told = merged(run, tree, tmp_path, text, *STATIC)
    assert told == (
        "changed  topologyManagerScope: pod -> container (each container is aligned for itself)\n"
        'changed  evictionHard.memory.available: "5%" -> "100Mi" (an amount: a share moves with MemTotal)\n'
        'changed  kubeReservedCgroup: "/kube" -> "" (nothing is enforced on it, and the kubelet refuses it beside '
        "reservedSystemCPUs)\n"
    )
    assert 'kubeReservedCgroup: ""\n' in now
    (tmp_path / "base.yaml").write_text(text)
    assert render(run, tree, "--base", "base.yaml", *STATIC, "--diff")[2] == ""


@pytest.mark.parametrize(
    ("option", "left_out"),
    [
        ("distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"),
        ("distribute-cpus-across-cores", "full-pcpus-only"),
    ],
)
def test_automatic_options_give_way_to_those_of_the_document(
    option: str, left_out: str, run: Run, tree: Tree, tmp_path: Path
) -> None:
    (tmp_path / "base.yaml").write_text(HEAD + f"cpuManagerPolicyOptions:\n  {option}: 'true'\n")
    done = run("render", "kubelet-config", "--root", tree("dgx-a100-nps4"), "--base", "base.yaml")
    assert done.returncode == 0, done.stderr
    chosen = YAML(typ="safe").load(done.stdout)["cpuManagerPolicyOptions"]
    assert chosen[option] == "true"
    assert left_out not in chosen


def test_standard_output_is_no_file_to_compare_with(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    assert render(run, tree, "--base", "base.yaml", "--out", "-", "--check")[0] == 1
    assert render(run, tree, "--out", "-", "--check")[0] == 2


def test_options_asked_for_turn_off_those_that_they_exclude(run: Run, tree: Tree, tmp_path: Path) -> None:
    own = run("render", "kubelet-config", "--root", tree("dgx-h100")).stdout
    now, told = merged(run, tree, tmp_path, own, "--option", "distribute-cpus-across-cores=true")
    reason = "distribute-cpus-across-cores excludes it"
    assert f'changed  cpuManagerPolicyOptions.full-pcpus-only: "true" -> "false" ({reason})\n' in told
    assert (
        f'  # {reason}\n  full-pcpus-only: "false"\n  # as asked for\n  distribute-cpus-across-cores: "true"\n' in now
    )
    assert "no two containers share one" not in now


def test_a_limit_that_is_too_low_is_raised(run: Run, tree: Tree, tmp_path: Path) -> None:
    limits = {}
    for limit in ("16", "99"):
        (tmp_path / "base.yaml").write_text(
            HEAD + f"topologyManagerPolicyOptions: {{max-allowable-numa-nodes: '{limit}'}}\n"
        )
        done = run("render", "kubelet-config", "--root", tree("gb200-nvl"), "--base", "base.yaml")
        limits[limit] = YAML(typ="safe").load(done.stdout)["topologyManagerPolicyOptions"]["max-allowable-numa-nodes"]
    assert limits == {"16": "34", "99": "99"}


@pytest.mark.parametrize(
    ("text", "comes"),
    [
        # an entry and a field are new at one place, and the list is not indented
        (
            "reservedMemory:\n- numaNode: 0\n",
            'reservedMemory:\n- numaNode: 0\n  limits: {memory: "1295Mi"}\n- numaNode: 1\n',
        ),
        # a NUMA node that has two entries
        ("reservedMemory: # a\n- &n {limits: {memory: 1Gi}} # b\n- *n\n", "# b\nreservedMemory: # a\n  [{limits: "),
        ("kubeReserved:\n  cpu: |-\n    1\n\nmaxPods: 1\n", "kubeReserved:\n  cpu: |-\n    1\n\n  memory: "),
    ],
)
def test_blocks_grow_where_they_end(text: str, comes: str, run: Run, tree: Tree, tmp_path: Path) -> None:
    now, _ = merged(run, tree, tmp_path, HEAD + text, *STATIC)
    assert plain(now).startswith(HEAD + comes)


def test_what_cannot_be_changed_in_place_is_said(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(HEAD + "clusterDomain: |\n  a")
    status, _, told = render(run, tree, "--base", "base.yaml")
    assert status == 3
    assert told.startswith("numalign: base.yaml: it is written in a way that cannot be changed in place\n")
    assert "set by hand: cpuManagerPolicy, cpuManagerPolicyOptions, reservedSystemCPUs" in told


def test_a_value_that_changes_has_its_reason_unless_a_comment_is_there(run: Run, tree: Tree, tmp_path: Path) -> None:
    text = HEAD + (
        "kubeReserved:\n    cpu: '1'\n    memory: 2Gi\n"
        "# ours\ntopologyManagerPolicy: none\ntopologyManagerScope: pod # of trainers\ncpuManagerPolicy: none\n"
        "evictionHard: {memory.available: 1Gi}\nsystemReservedCgroup: /system\n"
    )
    words = ("--memory-manager", "static", "--kube-reserved-memory", "1Gi")
    now, _ = merged(run, tree, tmp_path, text, *words)
    assert now.startswith(
        HEAD + "kubeReserved:\n    cpu: '1'\n    # as asked for\n    memory: 1Gi\n"
        "# ours\ntopologyManagerPolicy: single-numa-node\ntopologyManagerScope: container # of trainers\n"
        f"{EXCLUSIVE}cpuManagerPolicy: static\nevictionHard: {{memory.available: 1Gi}}\n"
        "# nothing is enforced on it, and the kubelet refuses it beside reservedSystemCPUs\n"
        'systemReservedCgroup: ""\n'
    )
    assert merged(run, tree, tmp_path, now, *words) == (now, "")
    now, _ = merged(run, tree, tmp_path, now, "--memory-manager", "static", "--policy", "restricted")
    assert "# ours\ntopologyManagerPolicy: restricted\n" in now


@pytest.mark.parametrize("text", ["|-\n  none\n\n", ">2-  # one\n  none\n", "|\n none", '"no\\\n ne"\n'])
def test_values_that_go_over_lines_are_changed_in_place(text: str, run: Run, tree: Tree, tmp_path: Path) -> None:
    body = HEAD + "memoryManagerPolicy: None\ntopologyManagerPolicy: "
    (tmp_path / "base.yaml").write_text(body + text)
    status, now, _ = render(run, tree, "--base", "base.yaml")
    assert (status, YAML(typ="safe").load(now)["topologyManagerPolicy"]) == (0, "single-numa-node")
    assert ("# one" in now) == ("# one" in text)
    assert now.startswith(body.rpartition("topology")[0])


def test_in_json_what_is_new_is_told_with_its_reason(run: Run, tree: Tree, tmp_path: Path) -> None:
    text = json.dumps({**YAML(typ="safe").load(HEAD), "topologyManagerScope": "pod", "cpuManagerPolicy": "static"})
    (tmp_path / "base.json").write_text(text)
    status, now, told = render(run, tree, "--base", "base.json", "--reserved-cores-per-numa", "1")
    assert (status, json.loads(now)["cpuManagerPolicyOptions"]) == (0, {"full-pcpus-only": "true"})
    assert told == (
        'added    cpuManagerPolicyOptions.full-pcpus-only: "true" '
        "(exclusive CPUs come as whole cores: no two containers share one)\n"
        'added    reservedSystemCPUs: "0,56,112,168" '
        "(kept from exclusive use: 4 of 224 CPUs (1 core on each NUMA node as asked for, siblings included); "
        "left for exclusive use: 110 on each of NUMA nodes 0-1)\n"
        "added    topologyManagerPolicy: single-numa-node "
        "(a container's CPUs and devices come from one NUMA node, or it is refused; "
        "a container can have at most 4 of the 8 GPUs)\n"
        "changed  topologyManagerScope: pod -> container (each container is aligned for itself)\n"
    )
    assert render(run, tree, "--base", "base.json", "--reserved-cores-per-numa", "1", "--diff")[2] == told


def test_what_is_no_text_is_not_shown(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x7fELF\0\x1b[31m")
    status, text, _ = render(run, tree, "--out", "image", "--diff", "--check")
    assert (status, text) == (1, "Binary file image differs from what numalign writes\n")
