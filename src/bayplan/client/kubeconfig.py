"""Kubeconfig files: reading the credentials of a context, and writing a new file."""

from __future__ import annotations

import base64
import ssl
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bayplan.client.errors import KubeconfigError
from bayplan.client.http import Credentials
from bayplan.support.private_files import temporary_private_file
from bayplan.support.trust import trust


def load(path: Path, context: str = "") -> Credentials:
    """The credentials of a context (the current one, if none is named). Raises KubeconfigError."""
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path}: not a kubeconfig: expected a mapping")
    name = context or config.get("current-context") or ""
    if not name:
        raise KubeconfigError(f"{path}: no current-context; name one with --context")
    chosen = _named(path, config, "contexts", name, "context")
    cluster = _named(path, config, "clusters", chosen.get("cluster", ""), "cluster")
    user = _named(path, config, "users", chosen["user"], "user") if chosen.get("user") else {}
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"{path}: clusters[{chosen.get('cluster')}].cluster.server: expected an http or https URL, found {server!r}"
        )
    tls = _tls(path, cluster, user) if server.startswith("https://") else None
    token_file = path.parent / str(user["tokenFile"]) if user.get("tokenFile") else None
    return Credentials(server, tls, "" if token_file is not None else _token(path, user), token_file)


def _named(path: Path, config: dict[str, Any], section: str, name: str, member: str) -> dict[str, Any]:
    for row in config.get(section) or ():
        if isinstance(row, dict) and row.get("name") == name and isinstance(row.get(member), dict):
            found: dict[str, Any] = row[member]
            return found
    raise KubeconfigError(f"{path}: {section}: there is no entry named {name!r}")


def _bytes(path: Path, row: dict[str, Any], name: str) -> bytes | None:
    """The value of `NAME-data` (base64), or the content of the file that `NAME` names."""
    if row.get(f"{name}-data"):
        try:
            return base64.b64decode(row[f"{name}-data"], validate=True)
        except ValueError as error:
            raise KubeconfigError(f"{path}: {name}-data: not valid base64: {error}") from error
    if row.get(name):
        file = path.parent / row[name]
        try:
            data: bytes = file.read_bytes()
            return data
        except OSError as error:
            raise KubeconfigError(f"{path}: {name}: {file}: {error.strerror or error}") from error
    return None


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _bytes(path, cluster, "certificate-authority")
    try:
        if authority:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trust(context, authority.decode())
        else:
            context = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _bytes(path, user, "client-certificate"), _bytes(path, user, "client-key")
        if certificate and key:
            # The ssl module reads certificates from files only.
            with temporary_private_file(certificate + b"\n" + key) as file:
                context.load_cert_chain(file)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: the certificates cannot be used: {error}") from error
    return context


def _token(path: Path, user: dict[str, Any]) -> str:
    if user.get("token"):
        return str(user["token"])
    if isinstance(user.get("exec"), dict):
        return _exec_token(path, user["exec"])
    return ""


class _ExecStatus(msgspec.Struct):
    token: str = ""


class _ExecCredential(msgspec.Struct):
    status: _ExecStatus


def _exec_token(path: Path, settings: dict[str, Any]) -> str:
    """Run a credential plugin (ExecCredential) and take its token."""
    command = [settings.get("command", ""), *(settings.get("args") or ())]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        token: str = msgspec.json.decode(done.stdout, type=_ExecCredential).status.token
        return token
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise KubeconfigError(f"{path}: exec: {command[0]} gave no credential: {error}") from error


def render(server: str, authority: bytes, token: str, *, name: str = "bayplan") -> str:
    """A kubeconfig with one context for a bearer token."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    context = {"cluster": name, "user": name, "namespace": "default"}
    mark = {"extensions": [{"name": MARK, "extension": {"writtenBy": "bayplan"}}]}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {**cluster, **mark}}],
        "users": [{"name": name, "user": {"token": token, **mark}}],
        "contexts": [{"name": name, "context": {**context, **mark}}],
    }
    # Written out each time: an alias of YAML would puzzle who edits the file.
    return str(yaml.dump(config, Dumper=_WithoutAliases, sort_keys=False))


class _WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def is_own(text: str, authority: bytes | None) -> bool:
    """Whether everything in a kubeconfig was written by `render`, so that it may be overwritten. An empty file may be.

    Every cluster, user and context must have the mark. Files of versions before the mark have exactly one of each, named
    bayplan, and are known by the authority (PEM) of the cluster that they are for.
    """
    if not text.strip():
        return True
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    if not isinstance(config, dict) or config.get("kind") != "Config":
        return False
    return all(
        _are_marked(config.get(section), member) for section, member in _SECTIONS.items()
    ) or _is_of_older_version(config, authority)


MARK = "bayplan.dev/kubeconfig"
"""Name of the extension that marks what Bayplan wrote in a kubeconfig; kubectl keeps extensions."""
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


def _entry(row: Any, member: str) -> Any:
    return row.get(member) if isinstance(row, dict) else None


def _are_marked(rows: Any, member: str) -> bool:
    return isinstance(rows, list) and bool(rows) and all(_is_marked(_entry(row, member)) for row in rows)


def _is_marked(entry: Any) -> bool:
    extensions = entry.get("extensions") if isinstance(entry, dict) else None
    return isinstance(extensions, list) and any(isinstance(one, dict) and one.get("name") == MARK for one in extensions)


def _is_of_older_version(config: dict[str, Any], authority: bytes | None) -> bool:
    if authority is None:
        return False
    sections = [config.get(section) for section in _SECTIONS]
    if not all(isinstance(rows, list) and len(rows) == 1 for rows in sections):
        return False
    if not all(isinstance(rows[0], dict) and rows[0].get("name") == "bayplan" for rows in sections if rows):
        return False
    cluster = _entry(config["clusters"][0], "cluster")
    data = base64.b64encode(authority).decode()
    return isinstance(cluster, dict) and cluster.get("certificate-authority-data") == data
