"""Credential plugins of kubeconfigs (`users[].user.exec`): programs that give a token or a client certificate.

They are run when the first request needs them, and again when what they gave has expired or a server did not take it.
Source of the behaviour: Kubernetes' `client-go/plugin/pkg/client/auth/exec` and `pkg/apis/clientauthentication/v1`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from bayplan.client.errors import KubeconfigError, TransportError
from bayplan.support.clock import SystemClock
from bayplan.support.system.private_files import temporary_private_file
from bayplan.support.system.programs import output_of
from bayplan.support.timestamps import parse_rfc3339

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_SECONDS: Final = 60.0
"""How long a program may take."""
_EARLY: Final = 10.0
"""How long before its end a credential is not used any more."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a program is told of the server if it asks (`provideClusterInfo`)."""

    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes | None = None
    proxy_url: str = ""
    config: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As `spec.cluster` of an ExecCredential."""
        authority = self.certificate_authority_data
        found = {
            "server": self.server,
            "tls-server-name": self.tls_server_name,
            "insecure-skip-tls-verify": self.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(authority).decode() if authority else "",
            "proxy-url": self.proxy_url,
            "config": self.config,
        }
        return {key: value for key, value in found.items() if value}


class ExecPlugin:
    """A `TokenSource`: a program. A client certificate that it gives is put into the TLS context."""

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        *,
        api_version: str,
        where: Path,
        hint: str,
        is_interactive: bool,
        tls: ssl.SSLContext | None,
    ) -> None:
        """environment: all of the program's. where: the file that names it, for messages. hint: how to install it. is_interactive: whether it may read from
        standard input."""
        self._command, self._environment = command, dict(environment)
        self._api_version, self._where, self._hint, self._tls = api_version, where, hint, tls
        self._is_interactive = is_interactive
        self._clock = SystemClock()
        self._found: _Status | None = None
        self._until = 0.0
        self._lock = asyncio.Lock()

    @classmethod
    def of(cls, settings: Mapping[str, Any], where: Path, server: ServerInfo, tls: ssl.SSLContext | None) -> Self:
        """What a kubeconfig says. Raises KubeconfigError."""
        api_version, command = settings.get("apiVersion", ""), settings.get("command", "")
        if api_version not in _VERSIONS:
            raise KubeconfigError(f"{where}: exec.apiVersion: {api_version!r} is not one of {', '.join(_VERSIONS)}")
        if not isinstance(command, str) or not command:
            raise KubeconfigError(f"{where}: exec.command: the name of a program is needed")
        is_terminal = sys.stdin.isatty()
        if settings.get("interactiveMode") == "Always" and not is_terminal:
            raise KubeconfigError(f"{where}: exec: {command} needs a terminal (interactiveMode: Always)")
        is_interactive = is_terminal and settings.get("interactiveMode") != "Never"
        spec: dict[str, Any] = {"interactive": is_interactive}
        if settings.get("provideClusterInfo"):
            spec["cluster"] = server.to_dict()
        info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": spec}
        given = {one["name"]: str(one.get("value", "")) for one in settings.get("env") or ()}
        environment = {**os.environ, **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        program = str(where.parent / command) if "/" in command else command  # a path is relative to the file
        return cls(
            [program, *map(str, settings.get("args") or ())],
            environment,
            api_version=api_version,
            where=where,
            hint=str(settings.get("installHint") or "").strip(),
            is_interactive=is_interactive,
            tls=tls,
        )

    async def token(self) -> str:
        """See TokenSource."""
        async with self._lock:
            if self._found is None or self._clock.now() >= self._until:
                self._take(await self._run())
            assert self._found is not None
            return self._found.token

    def refuse(self, token: str) -> None:
        """See TokenSource."""
        if self._found is not None and self._found.token == token:
            self._until = 0.0

    async def _run(self) -> _Status:
        """What the program gives. Raises TransportError."""
        name = self._command[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=None if self._is_interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"\n{self._hint}" if self._hint else ""
            raise TransportError(f"{self._where}: exec: {name}: {error.strerror or error}{hint}") from error
        try:
            output, _ = await output_of(process, _SECONDS)
        except TimeoutError as error:
            raise TransportError(f"{self._where}: exec: {name}: no answer after {_SECONDS:.0f} s") from error
        if process.returncode:
            raise TransportError(f"{self._where}: exec: {name}: exit code {process.returncode}")
        return self._read(output)

    def _read(self, output: bytes) -> _Status:
        name = self._command[0]
        try:
            found = msgspec.json.decode(output, type=_Credential)
        except msgspec.DecodeError:
            # Not chained: the text may hold credentials.
            raise TransportError(f"{self._where}: exec: {name}: its output is no ExecCredential") from None
        if (found.kind, found.api_version) != ("ExecCredential", self._api_version):
            told = f"{found.kind or 'nothing'} of {found.api_version or 'no version'}"
            raise TransportError(
                f"{self._where}: exec: {name}: expected an ExecCredential of {self._api_version}, found {told}"
            )
        status = found.status
        if status is None or not (status.token or status.client_certificate_data):
            raise TransportError(f"{self._where}: exec: {name}: its ExecCredential has neither token nor certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise TransportError(f"{self._where}: exec: {name}: a certificate and its key go together")
        return status

    def _take(self, status: _Status) -> None:
        """Use what was given from now on. Raises TransportError."""
        expires = status.expiration_timestamp
        try:
            self._until = parse_rfc3339(expires) - _EARLY if expires else float("inf")
            if status.client_certificate_data and self._tls is not None:
                # The ssl module reads certificates from files only.
                pair = f"{status.client_certificate_data}\n{status.client_key_data}"
                with temporary_private_file(pair.encode()) as file:
                    self._tls.load_cert_chain(file)
        except (ValueError, ssl.SSLError) as error:
            raise TransportError(f"{self._where}: exec: {self._command[0]}: {error}") from error
        self._found = status
