# mypy: disable-error-code="var-annotated"
"""The templates as Python, made by numalign.render.precompile: not to be changed by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numalign.render.filters import attribute, fields, flags, note, out, quoted

__all__ = ["DIGEST", "TEMPLATES"]


def t__head(given: Mapping[str, Any]) -> Iterator[str]:
    yield '# '
    yield out(attribute(given['target'], 'title'))
    yield ' for '
    yield out((attribute(given['machine'], 'name') or 'this machine'))
    yield ', made by numalign '
    yield out(given['version'])
    yield '\n# '
    yield out(given['headline'])
    yield '\n'
    yield out(note(''.join(map(str, ('To apply it: ', attribute(given['target'], 'apply'),)))))
    yield '\n'


def t_aks_json(given: Mapping[str, Any]) -> Iterator[str]:
    yield '{\n  "cpuManagerPolicy": '
    yield out(quoted(attribute(given['configuration'], 'cpuManagerPolicy')))
    yield ',\n  "topologyManagerPolicy": '
    yield out(quoted(attribute(given['configuration'], 'topologyManagerPolicy')))
    yield '\n}\n'


def t_bottlerocket_toml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield '[settings.kubernetes]\n'
    yield out(note(attribute(given['plan'], 'reason')('cpuManagerPolicy')))
    yield '\ncpu-manager-policy = '
    yield out(quoted(attribute(given['configuration'], 'cpuManagerPolicy')))
    yield '\n'
    own_listed = []
    for (own_name, own_value,) in attribute(attribute(given['configuration'], 'cpuManagerPolicyOptions'), 'items')():
        if not ((own_value == 'true') and (own_name not in given['lost_options'])):
            continue
        own__ = attribute(own_listed, 'append')(own_name)
    yield 'cpu-manager-policy-options = '
    yield out(quoted(own_listed))
    yield '\n'
    yield out(note(attribute(given['plan'], 'reason')('reservedSystemCPUs')))
    yield '\nreserved-cpus = '
    yield out(quoted(attribute(given['configuration'], 'reservedSystemCPUs')))
    yield '\n'
    yield out(note(attribute(given['plan'], 'reason')('topologyManagerPolicy')))
    yield '\ntopology-manager-policy = '
    yield out(quoted(attribute(given['configuration'], 'topologyManagerPolicy')))
    yield '\ntopology-manager-scope = '
    yield out(quoted(attribute(given['configuration'], 'topologyManagerScope')))
    yield '\n'
    if ('memoryManagerPolicy' in given['configuration']):
        yield 'memory-manager-policy = "Static"\n'
    if ('topologyManagerPolicyOptions' in given['configuration']):
        yield '\n[settings.kubernetes.topology-manager-policy-options]\n'
        for (own_name, own_value,) in attribute(attribute(given['configuration'], 'topologyManagerPolicyOptions'), 'items')():
            yield out(own_name)
            yield ' = '
            yield out(own_value)
            yield '\n'
    for (own_field, own_table,) in (('kubeReserved', 'kube-reserved',), ('systemReserved', 'system-reserved',), ('evictionHard', 'eviction-hard',),):
        if not (own_field in given['configuration']):
            continue
        yield '\n[settings.kubernetes.'
        yield out(own_table)
        yield ']\n'
        for (own_name, own_amount,) in attribute(given['configuration'][own_field], 'items')():
            yield out(quoted(own_name))
            yield ' = '
            yield out(quoted(own_amount))
            yield '\n'
    for own_entry in attribute(given['configuration'], 'get')('reservedMemory', []):
        yield '\n[settings.kubernetes.memory-manager-reserved-memory.'
        yield out(attribute(own_entry, 'numaNode'))
        yield ']\nenabled = true\nmemory = '
        yield out(quoted(attribute(attribute(own_entry, 'limits'), 'memory')))
        yield '\n'


def t_cloud_init_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield '#cloud-config\n'
    yield from t__head(given)
    yield 'write_files:\n  - path: /etc/kubernetes/kubelet.conf.d/60-numalign.conf\n    permissions: "0644"\n    content: |\n      apiVersion: kubelet.config.k8s.io/v1beta1\n      kind: KubeletConfiguration\n      '
    yield out(fields(given['plan'], 6))
    yield '\n  - path: /etc/systemd/system/kubelet.service.d/60-numalign.conf\n    permissions: "0644"\n    content: |\n      [Service]\n      # kubeadm\'s unit passes it on; where another does not, its ExecStart has to name --config-dir\n      Environment=KUBELET_EXTRA_ARGS=--config-dir=/etc/kubernetes/kubelet.conf.d\nruncmd:\n  # before any pod runs: a kubelet does not start on the state of another configuration\n  - [rm, -f, /var/lib/kubelet/cpu_manager_state, /var/lib/kubelet/memory_manager_state]\n  - [systemctl, daemon-reload]\n  - [systemctl, restart, kubelet]\n'


def t_cluster_api_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfigTemplate\nmetadata:\n  name: gpu\nspec:\n  template:\n    spec:\n      files:\n        - path: /etc/kubernetes/patches/kubeletconfiguration0+strategic.yaml\n          owner: root:root\n          permissions: "0644"\n          content: |\n            apiVersion: kubelet.config.k8s.io/v1beta1\n            kind: KubeletConfiguration\n            '
    yield out(fields(given['plan'], 12))
    yield '\n      joinConfiguration:\n        patches:\n          directory: /etc/kubernetes/patches\n'


def t_eks_nodeadm_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      # nodeadm sets both, and with either the kubelet refuses to start on reservedSystemCPUs\n      systemReservedCgroup: ""\n      kubeReservedCgroup: ""\n      '
    yield out(fields(given['plan'], 6))
    yield '\n'


def t_gke_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'kubeletConfig:\n  '
    yield out(note(attribute(given['plan'], 'reason')('cpuManagerPolicy'), 2))
    yield '\n  cpuManagerPolicy: '
    yield out(attribute(given['configuration'], 'cpuManagerPolicy'))
    yield '\n  topologyManager:\n    '
    yield out(note(attribute(given['plan'], 'reason')('topologyManagerPolicy'), 4))
    yield '\n    policy: '
    yield out(attribute(given['configuration'], 'topologyManagerPolicy'))
    yield '\n    scope: '
    yield out(attribute(given['configuration'], 'topologyManagerScope'))
    yield '\n'
    if ('memoryManagerPolicy' in given['configuration']):
        yield '  memoryManager:\n    policy: '
        yield out(attribute(given['configuration'], 'memoryManagerPolicy'))
        yield '\n'


def t_ignition_bu(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'variant: flatcar\nversion: 1.1.0\nstorage:\n  files:\n    - path: /etc/kubernetes/kubelet.conf.d/60-numalign.conf\n      mode: 0644\n      contents:\n        inline: |\n          apiVersion: kubelet.config.k8s.io/v1beta1\n          kind: KubeletConfiguration\n          '
    yield out(fields(given['plan'], 10))
    yield "\nsystemd:\n  units:\n    - name: kubelet.service\n      dropins:\n        - name: 60-numalign.conf\n          contents: |\n            [Service]\n            # kubeadm's unit passes it on; where another does not, its ExecStart has to name --config-dir\n            Environment=KUBELET_EXTRA_ARGS=--config-dir=/etc/kubernetes/kubelet.conf.d\n"


def t_irqbalance(given: Mapping[str, Any]) -> Iterator[str]:
    yield '# Made by numalign '
    yield out(given['version'])
    yield ' for '
    yield out((attribute(given['machine'], 'name') or 'this machine'))
    yield "\n# Save it in /etc/default/irqbalance (Debian, Ubuntu) or /etc/sysconfig/irqbalance, then: systemctl restart irqbalance\n# CPUs that can be exclusive get no interrupts; those of a device's own queues that are managed by the kernel stay.\nIRQBALANCE_BANNED_CPULIST="
    yield out(given['exclusive'])
    yield '\n'


def t_k3s_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    if (given['minor'] >= 32):
        yield 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n'
        yield out(fields(given['plan']))
        yield '\n'
    else:
        yield '# kubelet-arg+ adds to the arguments of the other files instead of replacing them\nkubelet-arg+:\n'
        for own_flag in flags(given['plan']):
            yield '  - '
            yield out(quoted(own_flag))
            yield '\n'


def t_karpenter_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: gpu\nspec:\n  amiSelectorTerms:\n    - alias: al2023@latest\n  kubelet:\n    # Karpenter reckons what a node can hold from these, and knows nothing of the user data\n    systemReserved:\n      cpu: '
    yield out(quoted(str(given['reserved_count'])))
    yield '\n'
    for (own_name, own_amount,) in attribute(attribute(given['configuration'], 'get')('systemReserved', {}), 'items')():
        yield '      '
        yield out(own_name)
        yield ': '
        yield out(quoted(own_amount))
        yield '\n'
    yield '    # else it adds what it reckons for kubeReserved itself, beside which no pods with all other CPUs fit\n    kubeReserved:\n      cpu: "0"\n'
    for (own_name, own_amount,) in attribute(attribute(given['configuration'], 'get')('kubeReserved', {}), 'items')():
        yield '      '
        yield out(own_name)
        yield ': '
        yield out(quoted(own_amount))
        yield '\n'
    if ('evictionHard' in given['configuration']):
        yield '    evictionHard:\n'
        for (own_name, own_amount,) in attribute(attribute(given['configuration'], 'evictionHard'), 'items')():
            yield '      '
            yield out(own_name)
            yield ': '
            yield out(quoted(own_amount))
            yield '\n'
    yield '  userData: |\n    apiVersion: node.eks.aws/v1alpha1\n    kind: NodeConfig\n    spec:\n      kubelet:\n        config:\n          # nodeadm sets both, and with either the kubelet refuses to start on reservedSystemCPUs\n          systemReservedCgroup: ""\n          kubeReservedCgroup: ""\n          '
    yield out(fields(given['plan'], 10))
    yield '\n'


def t_kernel_args(given: Mapping[str, Any]) -> Iterator[str]:
    yield out(given['arguments'])
    yield '\n'


def t_kubeadm_config_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    own_api = ('kubeadm.k8s.io/v1beta4' if (given['minor'] >= 31) else 'kubeadm.k8s.io/v1beta3')
    yield 'apiVersion: '
    yield out(own_api)
    yield '\nkind: InitConfiguration\npatches:\n  directory: /etc/kubernetes/patches\n---\napiVersion: '
    yield out(own_api)
    yield '\nkind: JoinConfiguration\n# discovery: as kubeadm token create --print-join-command says it\npatches:\n  directory: /etc/kubernetes/patches\n'
    if (given['minor'] >= 31):
        yield '---\napiVersion: '
        yield out(own_api)
        yield '\nkind: UpgradeConfiguration\nnode:\n  patches:\n    directory: /etc/kubernetes/patches\n'


def t_kubelet_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n'
    yield out(fields(given['plan']))
    yield '\n'


def t_microshift_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'kubelet:\n  '
    yield out(fields(given['plan'], 2))
    yield '\n'


def t_openshift_performance_profile_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'apiVersion: performance.openshift.io/v2\nkind: PerformanceProfile\nmetadata:\n  name: gpu\n  annotations:\n    # what the profile has no field for\n'
    own_snippet = {}
    for own_field in ('cpuManagerPolicyOptions', 'topologyManagerScope', 'topologyManagerPolicyOptions',):
        if not (own_field in given['configuration']):
            continue
        own__ = attribute(own_snippet, 'update')({own_field: given['configuration'][own_field]})
    yield '    kubeletconfig.experimental: '
    yield out(quoted(quoted(own_snippet)))
    yield '\nspec:\n  cpu:\n    '
    yield out(note(attribute(given['plan'], 'reason')('reservedSystemCPUs'), 4))
    yield '\n    reserved: '
    yield out(quoted(attribute(given['configuration'], 'reservedSystemCPUs')))
    yield '\n    # with the reserved ones all that are online: the operator wants each in one of the two\n    isolated: '
    yield out(quoted(str((attribute(given['machine'], 'online_cpus') - attribute(given['plan'], 'reserved_cpus')))))
    yield '\n'
    if attribute(given['machine'], 'offline_cpus'):
        yield '    offlined: '
        yield out(quoted(str(attribute(given['machine'], 'offline_cpus'))))
        yield '\n'
    yield '  numa:\n    '
    yield out(note(attribute(given['plan'], 'reason')('topologyManagerPolicy'), 4))
    yield '\n    topologyPolicy: '
    yield out(attribute(given['configuration'], 'topologyManagerPolicy'))
    yield '\n  nodeSelector:\n    node-role.kubernetes.io/gpu: ""\n'


def t_openshift_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata:\n  name: numalign-gpu\nspec:\n  machineConfigPoolSelector:\n    matchLabels:\n      pools.operator.machineconfiguration.openshift.io/gpu: ""\n  kubeletConfig:\n    '
    yield out(fields(given['plan'], 4))
    yield '\n'


def t_pod_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield '# A Guaranteed pod for '
    yield out((attribute(given['machine'], 'name') or 'this machine'))
    yield ', made by numalign '
    yield out(given['version'])
    yield '\n'
    yield out(note(given['note']))
    yield '\napiVersion: v1\nkind: Pod\nmetadata:\n  name: '
    yield out(given['name'])
    yield '\nspec:\n  restartPolicy: Never\n  containers:\n    - name: main\n      image: '
    yield out(quoted(given['image']))
    yield '\n      resources:\n        # requests are the limits: the pod is Guaranteed, and its CPUs are exclusive\n        limits:\n          cpu: '
    yield out(quoted(str(given['cpus'])))
    yield '\n          memory: '
    yield out(quoted(given['memory']))
    yield '\n'
    for (own_resource, own_number,) in attribute(given['devices'], 'items')():
        yield '          '
        yield out(own_resource)
        yield ': '
        yield out(own_number)
        yield '\n'


def t_systemd_slice_conf(given: Mapping[str, Any]) -> Iterator[str]:
    yield '# Made by numalign '
    yield out(given['version'])
    yield ' for '
    yield out((attribute(given['machine'], 'name') or 'this machine'))
    yield '\n# Save it as /etc/systemd/system/system.slice.d/60-numalign.conf and user.slice.d/60-numalign.conf beside it (and for\n# init.scope with [Scope] instead of [Slice]), then: systemctl daemon-reload. It needs cgroup v2. The kubelet and the\n# container runtime run in system.slice; pods do not. CPUAffinity= of the manager is not set: containers could inherit it.\n'
    yield out(note(attribute(given['plan'], 'reason')('reservedSystemCPUs')))
    yield '\n[Slice]\nAllowedCPUs='
    yield out(attribute(given['configuration'], 'reservedSystemCPUs'))
    yield '\n'


def t_talos_yaml(given: Mapping[str, Any]) -> Iterator[str]:
    yield from t__head(given)
    yield 'machine:\n  kubelet:\n    extraConfig:\n      '
    yield out(fields(given['plan'], 6))
    yield '\n'


DIGEST = 801327395
TEMPLATES = {
    '_head.j2': t__head,
    'aks.json.j2': t_aks_json,
    'bottlerocket.toml.j2': t_bottlerocket_toml,
    'cloud-init.yaml.j2': t_cloud_init_yaml,
    'cluster-api.yaml.j2': t_cluster_api_yaml,
    'eks-nodeadm.yaml.j2': t_eks_nodeadm_yaml,
    'gke.yaml.j2': t_gke_yaml,
    'ignition.bu.j2': t_ignition_bu,
    'irqbalance.j2': t_irqbalance,
    'k3s.yaml.j2': t_k3s_yaml,
    'karpenter.yaml.j2': t_karpenter_yaml,
    'kernel-args.j2': t_kernel_args,
    'kubeadm-config.yaml.j2': t_kubeadm_config_yaml,
    'kubelet.yaml.j2': t_kubelet_yaml,
    'microshift.yaml.j2': t_microshift_yaml,
    'openshift-performance-profile.yaml.j2': t_openshift_performance_profile_yaml,
    'openshift.yaml.j2': t_openshift_yaml,
    'pod.yaml.j2': t_pod_yaml,
    'systemd-slice.conf.j2': t_systemd_slice_conf,
    'talos.yaml.j2': t_talos_yaml,
}
