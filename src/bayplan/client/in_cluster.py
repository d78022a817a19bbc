"""Who a program in a pod is: the pod's service account."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bayplan.client.credentials import Credentials, FileToken
from bayplan.client.errors import KubeconfigError
from bayplan.support.web.trust import trust

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where pods have what their service account is known by."""


def is_in_pod(environment: Mapping[str, str], account: Path = ACCOUNT) -> bool:
    """Whether this program runs in a pod that has a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (account / "token").exists()


def pod_credentials(environment: Mapping[str, str], account: Path = ACCOUNT) -> Credentials:
    """The credentials of the pod's service account, whose token is read again when it has changed. Raises KubeconfigError outside of pods."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("this program does not run in a pod: $KUBERNETES_SERVICE_HOST is not set")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        trust(tls, (account / "ca.crt").read_text())
    except (OSError, ssl.SSLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{account / 'ca.crt'}: {error}") from error
    return Credentials(
        f"https://{f'[{host}]' if ':' in host else host}:{port}", tls, source=FileToken(account / "token")
    )
