"""What the running kubelet says of its configuration, asked through the API server: /configz.

Source: pkg/kubelet/server (server.go: configz), the API server's node proxy.
"""

from __future__ import annotations

import os
from urllib.parse import quote

from numalign.errors import CannotRead

__all__ = ["read_configz"]

_DEADLINE = 10.0
_MAX_BYTES = 4 << 20


def read_configz(kubeconfig: str, node: str) -> bytes | str:
    """The kubelet's answer (JSON: `{"kubeletconfig": {…}}`), or in a sentence why there is none.

    Raises CannotRead where the kubeconfig itself cannot be used.
    """
    if not os.path.isfile(kubeconfig):
        raise CannotRead(f"--kubeconfig {kubeconfig}: there is no such file")
    try:
        from kubernetes import config as loader
        from urllib3.exceptions import HTTPError
    except ImportError as error:
        raise CannotRead(
            "--kubeconfig needs the official client of the API server", hint="pip install 'numalign[kubeconfig]'"
        ) from error
    try:
        client = loader.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever an untrusted file brings its loader to
        said = str(error).splitlines() or [type(error).__name__]
        raise CannotRead(f"--kubeconfig {kubeconfig}: {said[0][:200]}", hint="kubectl config view shows it") from error
    place = f"{client.configuration.host}/api/v1/nodes/{quote(node, safe='')}/proxy/configz"
    headers = {
        row["key"]: row["value"] for row in client.configuration.auth_settings().values() if row["in"] == "header"
    }
    try:
        answer = client.rest_client.pool_manager.request(
            "GET", place, headers=headers, timeout=_DEADLINE, retries=False, preload_content=False
        )
        data: bytes = answer.read(_MAX_BYTES)
    except (HTTPError, OSError) as error:
        return f"the API server does not answer: {str(error)[:200]}"
    if answer.status != 200:
        return f"the API server answers {answer.status} {answer.reason}"
    return data
