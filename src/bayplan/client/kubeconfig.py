"""Reading kubeconfig files: who reaches which server in a context, and how.

Several files count as one: of entries with the same name, and of current contexts, the first one wins. What an entry names by a relative path lies beside the
file that has the entry. What cannot be obeyed is an error rather than left out, since requests would be made as somebody else.
Source of the behaviour: Kubernetes' `client-go/tools/clientcmd`.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from bayplan.client.credentials import Credentials, FileToken, TokenSource
from bayplan.client.errors import KubeconfigError
from bayplan.client.exec_credentials import ExecPlugin, ServerInfo
from bayplan.support.system.private_files import temporary_private_file
from bayplan.support.web.trust import trust

_SAID_BY_PYYAML: Final = (ValueError, AttributeError, RecursionError)
"""Of numbers and dates that are none, and of what is nested thousands of times."""


class _Entry(NamedTuple):
    """A cluster, user or context."""

    file: Path
    """Which one it stands in."""
    values: dict[str, Any]

    def path(self, name: str) -> Path | None:
        """The file that a value names; None if there is no such value."""
        value = self.values.get(name)
        return self.file.parent / str(value) if value else None

    def content(self, name: str) -> bytes | None:
        """The value of `NAME-data` (base64), or the content of the file that `NAME` names. Raises KubeconfigError."""
        if self.values.get(f"{name}-data"):
            try:
                return base64.b64decode(self.values[f"{name}-data"], validate=True)
            except (TypeError, ValueError) as error:
                raise KubeconfigError(f"{self.file}: {name}-data: not valid base64: {error}") from error
        file = self.path(name)
        if file is None:
            return None
        try:
            return file.read_bytes()
        except OSError as error:
            raise KubeconfigError(f"{self.file}: {name}: {file}: {error.strerror or error}") from error


def default_paths(environment: Mapping[str, str]) -> list[Path]:
    """The kubeconfigs that are meant if none is named: those of `$KUBECONFIG`, or kubectl's own."""
    listed = [Path(one) for one in environment.get("KUBECONFIG", "").split(os.pathsep) if one]
    return listed or [Path.home() / ".kube" / "config"]


def load(path: Path | Sequence[Path], context: str = "") -> Credentials:
    """The credentials of a context (the current one, if none is named) of a file, or of several, of which those count that exist. Raises KubeconfigError."""
    files = _read([path] if isinstance(path, Path) else [one for one in path if one.exists()] or list(path)[:1])
    first = next(iter(files))
    name = context or next((one["current-context"] for one in files.values() if one.get("current-context")), "")
    if not name:
        raise KubeconfigError(f"{first}: no current-context; name one with --context")
    chosen = _named(files, "contexts", name, "context").values
    cluster = _named(files, "clusters", chosen.get("cluster", ""), "cluster")
    user = _named(files, "users", chosen["user"], "user") if chosen.get("user") else _Entry(first, {})
    return _credentials(cluster, user, chosen.get("cluster", ""))


def _read(paths: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    files = {}
    for path in paths:
        try:
            config = yaml.safe_load(path.read_text())
        except OSError as error:
            raise KubeconfigError(f"{path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise KubeconfigError(f"{path}: not text: {error}") from error
        except (yaml.YAMLError, *_SAID_BY_PYYAML) as error:
            raise KubeconfigError(f"{path}: not valid YAML: {error}") from error
        if not isinstance(config, dict):
            raise KubeconfigError(f"{path}: not a kubeconfig: expected a mapping")
        for section in ("clusters", "contexts", "users"):
            if not isinstance(config.get(section) or [], list):
                raise KubeconfigError(f"{path}: {section}: expected a list")
        files[path] = config
    return files


def _named(files: dict[Path, dict[str, Any]], section: str, name: str, member: str) -> _Entry:
    for path, config in files.items():
        for row in config.get(section) or ():
            if not isinstance(row, dict) or row.get("name") != name:
                continue
            if isinstance(row.get(member), dict):
                return _Entry(path, row[member])
            if row.get(member) is None and section == "users":  # one that has no credentials
                return _Entry(path, {})
    raise KubeconfigError(f"{', '.join(map(str, files))}: {section}: there is no entry named {name!r}")


def _credentials(cluster: _Entry, user: _Entry, name: str) -> Credentials:
    server = cluster.values.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"{cluster.file}: clusters[{name}].cluster.server: expected an http or https URL, found {server!r}"
        )
    if user.values.get("auth-provider"):
        raise KubeconfigError(
            f"{user.file}: auth-provider: kubectl has done without these since 1.26; use a credential plugin (exec)"
        )
    tls = _tls(cluster, user) if server.startswith("https://") else None
    token, source = _token(cluster, user, server, tls)
    return Credentials(
        server,
        tls,
        token,
        source,
        headers=(*_password(user), *_impersonation(user)),
        tls_server_name=str(cluster.values.get("tls-server-name") or ""),
        proxy=str(cluster.values.get("proxy-url") or ""),
    )


def _tls(cluster: _Entry, user: _Entry) -> ssl.SSLContext:
    authority = cluster.content("certificate-authority")
    try:
        if authority:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trust(context, authority.decode())
        else:
            context = ssl.create_default_context()
        if cluster.values.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = user.content("client-certificate"), user.content("client-key")
        if certificate and key:
            # The ssl module reads certificates from files only.
            with temporary_private_file(certificate + b"\n" + key) as file:
                context.load_cert_chain(file)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{user.file}: the certificates cannot be used: {error}") from error
    return context


def _token(cluster: _Entry, user: _Entry, server: str, tls: ssl.SSLContext | None) -> tuple[str, TokenSource | None]:
    """A token, or who has it."""
    file = user.path("tokenFile")
    if file is not None:
        return "", FileToken(file)
    if user.values.get("token"):
        return str(user.values["token"]), None
    settings = user.values.get("exec")
    if not isinstance(settings, dict):
        return "", None
    told = ServerInfo(
        server=server,
        tls_server_name=str(cluster.values.get("tls-server-name") or ""),
        insecure_skip_tls_verify=bool(cluster.values.get("insecure-skip-tls-verify")),
        certificate_authority_data=cluster.content("certificate-authority"),
        proxy_url=str(cluster.values.get("proxy-url") or ""),
        config=_exec_config(cluster),
    )
    return "", ExecPlugin.of(settings, user.file, told, tls)


def _exec_config(cluster: _Entry) -> Any:
    """What a cluster has to say to credential plugins."""
    for one in cluster.values.get("extensions") or ():
        if isinstance(one, dict) and one.get("name") == "client.authentication.k8s.io/exec":
            return one.get("extension")
    return None


def _password(user: _Entry) -> tuple[tuple[str, str], ...]:
    name = user.values.get("username")
    if not name:
        return ()
    pair = f"{name}:{user.values.get('password') or ''}"
    return (("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"),)


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    """The headers by which requests are made as somebody else."""
    values = user.values
    name, uid, groups, extra = (values.get(one) for one in ("as", "as-uid", "as-groups", "as-user-extra"))
    if not name:
        if uid or groups or extra:
            raise KubeconfigError(f"{user.file}: as-uid, as-groups and as-user-extra need as")
        return ()
    if not isinstance(groups or [], list) or not isinstance(extra or {}, dict):
        raise KubeconfigError(f"{user.file}: expected a list in as-groups and a mapping in as-user-extra")
    found = [("Impersonate-User", str(name))]
    found += [("Impersonate-Uid", str(uid))] if uid else []
    found += [("Impersonate-Group", str(one)) for one in groups or ()]
    found += [(f"Impersonate-Extra-{key}", str(one)) for key, all_of in (extra or {}).items() for one in all_of]
    return tuple(found)
