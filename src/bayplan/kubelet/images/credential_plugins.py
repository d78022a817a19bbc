"""Credentials from programs on the node: plugins that a CredentialProviderConfig names.

Source: https://kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider/. A plugin gets a CredentialProviderRequest on its input and answers with a
CredentialProviderResponse; answers are cached by image, registry or for all, as they say.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import yaml

from bayplan.api.types import core_v1
from bayplan.kubelet.images.keyring import AccountSource, Keyring, matches
from bayplan.kubelet.runtime.types import Credentials
from bayplan.support.clock import Clock
from bayplan.support.durations import go_seconds
from bayplan.support.system.programs import output_of

logger = logging.getLogger(__name__)

_GROUP = "credentialprovider.kubelet.k8s.io"
_VERSIONS = tuple(f"{_GROUP}/{version}" for version in ("v1", "v1alpha1", "v1beta1"))
_CONFIG_VERSIONS = tuple(f"kubelet.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_LIMIT = 60.0
"""Seconds that a plugin may take."""
_FOR_ALL = "<global>"
_SUFFIXES = (".json", ".yaml", ".yml")


class CredentialProviderConfigError(ValueError):
    """The configuration of credential providers cannot be used; the message names file and field."""


@dataclass(frozen=True, slots=True)
class TokenAttributes:
    """A plugin that is given a token of the pod's service account (`tokenAttributes`): for which audience; whether pods without an account are passed over;
    the account's annotations that it must have and may have; whether its answers hold for the token alone (cacheType Token) or for the account."""

    audience: str
    requires_account: bool
    required_annotations: tuple[str, ...] = ()
    optional_annotations: tuple[str, ...] = ()
    caches_by_token: bool = False


class AccountTokens(Protocol):
    """Where service accounts and their tokens come from."""

    async def account(self, namespace: str, name: str) -> core_v1.ServiceAccount:
        """A service account. Raises LookupError with the reason."""

    async def token(self, pod: core_v1.Pod, audience: str) -> str:
        """A token of the pod's service account, bound to the pod. Raises LookupError with the reason."""


@dataclass(frozen=True, slots=True)
class _Identity:
    """As which account a plugin is asked; `annotations` are those that it is told."""

    source: AccountSource | None = None
    token: str = ""
    annotations: tuple[tuple[str, str], ...] = ()

    def key(self, caches_by_token: bool) -> str:
        """Equal for what may share an answer."""
        return repr((self.source, self.annotations, self.token if caches_by_token else "")) if self.source else ""


@dataclass(frozen=True, slots=True)
class Provider:
    """One plugin. `cache_seconds` holds where its answers do not say."""

    name: str
    match_images: tuple[str, ...]
    cache_seconds: float
    api_version: str
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    tokens: TokenAttributes | None = None


class _Auth(msgspec.Struct):
    username: str = ""
    password: str = ""


class _Response(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    cache_key_type: str
    cache_duration: str | None = None
    auth: dict[str, _Auth] = {}


def read_config(path: Path) -> tuple[Provider, ...]:
    """The plugins of a file, or of the files of a directory in the order of their names. Raises CredentialProviderConfigError."""
    try:
        files = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES) if path.is_dir() else [path]
        documents = [(file, yaml.safe_load(file.read_text())) for file in files]
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise CredentialProviderConfigError(f"{path}: {error}") from error
    if not documents:
        raise CredentialProviderConfigError(f"{path}: no configuration files in this directory")
    providers: dict[str, Provider] = {}
    for file, document in documents:
        for provider in _providers(file, document):
            if provider.name in providers:
                raise CredentialProviderConfigError(f"{file}: duplicate provider name {provider.name!r}")
            providers[provider.name] = provider
    return tuple(providers.values())


def _providers(file: Path, document: object) -> list[Provider]:
    if not isinstance(document, dict) or document.get("kind") != "CredentialProviderConfig":
        raise CredentialProviderConfigError(f"{file}: expected kind CredentialProviderConfig")
    if document.get("apiVersion") not in _CONFIG_VERSIONS:
        raise CredentialProviderConfigError(f"{file}: apiVersion: expected one of {', '.join(_CONFIG_VERSIONS)}")
    rows = document.get("providers")
    if not isinstance(rows, list) or not rows:
        raise CredentialProviderConfigError(f"{file}: providers: at least 1 item in plugins is required")
    return [_provider(f"{file}: providers[{number}]", row) for number, row in enumerate(rows)]


def _provider(where: str, row: object) -> Provider:
    if not isinstance(row, dict):
        raise CredentialProviderConfigError(f"{where}: expected a mapping")
    name = row.get("name")
    if not isinstance(name, str) or not name or "/" in name or " " in name or name in (".", ".."):
        raise CredentialProviderConfigError(f"{where}.name: expected the name of a program, found {name!r}")
    if row.get("apiVersion") not in _VERSIONS:
        raise CredentialProviderConfigError(f"{where}.apiVersion: supported are {', '.join(_VERSIONS)}")
    images = row.get("matchImages")
    if not isinstance(images, list) or not images or not all(isinstance(each, str) for each in images):
        raise CredentialProviderConfigError(f"{where}.matchImages: at least 1 item in matchImages is required")
    try:
        cache_seconds = go_seconds(str(row["defaultCacheDuration"]))
    except (KeyError, ValueError) as error:
        raise CredentialProviderConfigError(f"{where}.defaultCacheDuration: expected a duration such as 10m") from error
    environment = {str(each["name"]): str(each["value"]) for each in row.get("env") or ()}
    args = tuple(str(each) for each in row.get("args") or ())
    tokens = _token_attributes(f"{where}.tokenAttributes", row.get("tokenAttributes"), row["apiVersion"])
    return Provider(name, tuple(images), cache_seconds, row["apiVersion"], args, environment, tokens)


def _token_attributes(where: str, row: object, api_version: str) -> TokenAttributes | None:
    if row is None:
        return None
    if not isinstance(row, dict):
        raise CredentialProviderConfigError(f"{where}: expected a mapping")
    if api_version != _VERSIONS[0]:
        raise CredentialProviderConfigError(f"{where}: is only supported for {_VERSIONS[0]} API version")
    audience, requires = row.get("serviceAccountTokenAudience"), row.get("requireServiceAccount")
    required = tuple(str(each) for each in row.get("requiredServiceAccountAnnotationKeys") or ())
    optional = tuple(str(each) for each in row.get("optionalServiceAccountAnnotationKeys") or ())
    if not isinstance(audience, str) or not audience:
        raise CredentialProviderConfigError(f"{where}.serviceAccountTokenAudience: is required")
    if not isinstance(requires, bool):
        raise CredentialProviderConfigError(f"{where}.requireServiceAccount: is required")
    if required and not requires:
        text = "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set"
        raise CredentialProviderConfigError(f"{where}: {text}")
    if set(required) & set(optional):
        raise CredentialProviderConfigError(f"{where}: annotation keys cannot be both required and optional")
    if row.get("cacheType") not in ("ServiceAccount", "Token"):
        raise CredentialProviderConfigError(f"{where}.cacheType: supported are ServiceAccount, Token")
    return TokenAttributes(audience, requires, required, optional, row["cacheType"] == "Token")


class CredentialPlugins:
    """The plugins of a node. directory: where the programs are. Raises CredentialProviderConfigError if one is not there."""

    def __init__(
        self, providers: Sequence[Provider], directory: Path, clock: Clock, accounts: AccountTokens | None = None
    ) -> None:
        """accounts: for plugins that are given tokens; None where there are none."""
        for provider in providers:
            if not os.access(directory / provider.name, os.X_OK):
                raise CredentialProviderConfigError(
                    f"plugin binary executable {directory / provider.name} did not exist"
                )
        self._providers = providers
        self._directory = directory
        self._clock = clock
        self.accounts = accounts
        self._cache: dict[tuple[str, str, str], tuple[float, Keyring]] = {}
        self._running: dict[tuple[str, str, str], asyncio.Task[Keyring]] = {}

    async def keyrings(self, repository: str, pod: core_v1.Pod | None = None) -> list[Keyring]:
        """What the plugins for this image say, to a pod. A plugin that fails is logged and has none."""
        wanted = [each for each in self._providers if any(matches(one, repository) for one in each.match_images)]
        return list(await asyncio.gather(*(self._ask(each, repository, pod) for each in wanted)))

    async def _identity(self, provider: Provider, pod: core_v1.Pod | None) -> _Identity | None:
        """As which account to ask a plugin; None for not at all. Raises LookupError."""
        wanted = provider.tokens
        if wanted is None:
            return _Identity()
        name = pod.spec.service_account_name if pod is not None else ""
        if pod is None or not name:
            return None if wanted.requires_account else _Identity()
        if self.accounts is None:
            raise LookupError("this kubelet has no service accounts")
        account = await self.accounts.account(pod.metadata.namespace, name)
        annotations = account.metadata.annotations
        if any(key not in annotations for key in wanted.required_annotations):
            return None  # which is how workloads choose whether they take part
        keys = (*wanted.required_annotations, *wanted.optional_annotations)
        told = tuple(sorted((key, annotations[key]) for key in keys if key in annotations))
        source = AccountSource(account.metadata.uid, pod.metadata.namespace, name)
        return _Identity(source, await self.accounts.token(pod, wanted.audience), told)

    async def _ask(self, provider: Provider, image: str, pod: core_v1.Pod | None) -> Keyring:
        try:
            identity = await self._identity(provider, pod)
        except LookupError as error:
            logger.error("credential provider %s is not asked for %s: %s", provider.name, image, error)
            return Keyring()
        if identity is None:
            return Keyring()
        who = identity.key(provider.tokens is not None and provider.tokens.caches_by_token)
        now = self._clock.monotonic()
        self._cache = {key: entry for key, entry in self._cache.items() if entry[0] > now}
        for key in (image, image.partition("/")[0], _FOR_ALL):
            cached = self._cache.get((provider.name, key, who))
            if cached is not None:
                return cached[1]
        running = self._running.get((provider.name, image, who))
        if running is None:
            running = asyncio.create_task(
                self._run(provider, image, identity, who), name=f"credential provider {provider.name}"
            )
            self._running[provider.name, image, who] = running
            running.add_done_callback(lambda _: self._running.pop((provider.name, image, who), None))
        return await asyncio.shield(running)

    async def _run(self, provider: Provider, image: str, identity: _Identity, who: str) -> Keyring:
        try:
            response = await self._response(provider, image, identity)
        except (OSError, TimeoutError, ValueError) as error:
            logger.error("credential provider %s gives nothing for %s: %s", provider.name, image, error)
            return Keyring()
        keyring = Keyring()
        config = {key: Credentials(auth.username, auth.password) for key, auth in response.auth.items()}
        keyring.add(config, identity.source)
        given = response.cache_duration
        seconds = provider.cache_seconds if given is None else go_seconds(given)
        if seconds:
            key = {"Image": image, "Registry": image.partition("/")[0], "Global": _FOR_ALL}[response.cache_key_type]
            self._cache[provider.name, key, who] = (self._clock.monotonic() + seconds, keyring)
        return keyring

    async def _response(self, provider: Provider, image: str, identity: _Identity) -> _Response:
        """What the program answers. Raises OSError, TimeoutError, ValueError; their messages hold nothing that it printed but what it says of errors."""
        request: dict[str, object] = {
            "kind": "CredentialProviderRequest",
            "apiVersion": provider.api_version,
            "image": image,
        }
        if identity.token:
            request |= {"serviceAccountToken": identity.token, "serviceAccountAnnotations": dict(identity.annotations)}
        # Input from a file: a pipe breaks, in uvloop with an exception, where the program ends before it has read it.
        with tempfile.TemporaryFile() as file:
            file.write(msgspec.json.encode(request))
            file.seek(0)
            process = await asyncio.create_subprocess_exec(
                str(self._directory / provider.name),
                *provider.args,
                env={**os.environ, **(provider.environment or {})},
                stdin=file,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        output, errors = await output_of(process, _LIMIT)
        if process.returncode:
            raise ValueError(f"exit status {process.returncode}: {errors.decode(errors='replace').strip()}")
        try:
            response = msgspec.json.decode(output, type=_Response)
        except msgspec.DecodeError:
            # Not chained: the text may hold credentials.
            raise ValueError("error decoding credential provider plugin response from stdout") from None
        if response.api_version != provider.api_version or response.kind != "CredentialProviderResponse":
            raise ValueError(f"expected a CredentialProviderResponse of {provider.api_version}")
        if response.cache_key_type not in ("Image", "Registry", "Global"):
            raise ValueError("credential provider plugin did not return a valid cacheKeyType")
        by_token = provider.tokens is not None and provider.tokens.caches_by_token
        if identity.token and not by_token and any(a.password == identity.token for a in response.auth.values()):
            raise ValueError("the plugin returned the token as the password, which only cacheType Token allows")
        return response
