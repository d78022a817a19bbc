"""Who pulled what: records by which a pod is kept from using an image that another pod's secret fetched (KEP-2535).

Files have kubelet's names and form (ImagePullIntent and ImagePulledRecord of kubelet.config.k8s.io/v1beta1 below `image_manager`), so that
kubelets may change places.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from bayplan.kubelet.images.keyring import AccountSource, PullCredentials, SecretSource
from bayplan.kubelet.images.references import InvalidReferenceError, without_tag
from bayplan.support.timestamps import parse_rfc3339, rfc3339

_API_VERSION = "kubelet.config.k8s.io/v1beta1"
_MOST_SECRETS = 100
"""Secrets in a record to which a use that was merely allowed adds no more."""


class _Secret(msgspec.Struct, rename={"credential_hash": "credentialHash"}, frozen=True):
    uid: str
    namespace: str
    name: str
    credential_hash: str


class _Account(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str


class _Credentials(msgspec.Struct, rename="camel", omit_defaults=True):
    kubernetes_secrets: list[_Secret] = []
    kubernetes_service_accounts: list[_Account] = []
    node_pods_accessible: bool = False


class _PulledRecord(msgspec.Struct, rename="camel"):
    last_updated_time: str
    image_ref: str
    credential_mapping: dict[str, _Credentials] = {}
    kind: str = "ImagePulledRecord"
    api_version: str = _API_VERSION


class Access(enum.Enum):
    """Who may use an image that is there."""

    ALL = "all pods"
    BY_SECRET = "pods with a secret or a service account that is known to open it"
    NONE = "nobody without a pull"


class VerificationPolicyError(ValueError):
    """The configuration of `imagePullCredentialsVerificationPolicy` makes no sense."""


def verification_policy(policy: str, allowed: Sequence[str] = ()) -> Callable[[str, bool], bool]:
    """Whether credentials must be shown for an image (its name, whether the kubelet pulled it): the setting
    imagePullCredentialsVerificationPolicy, with preloadedImagesVerificationAllowlist. Raises VerificationPolicyError."""
    if policy == "NeverVerify":
        return lambda image, pulled: False
    if policy == "NeverVerifyPreloadedImages":
        return lambda image, pulled: pulled
    if policy == "AlwaysVerify":
        return lambda image, pulled: True
    if policy != "NeverVerifyAllowlistedImages":
        raise VerificationPolicyError(f"unknown image pull credential verification policy: {policy}")
    prefixes = tuple(each[:-1] for each in allowed if each.endswith("/*"))
    names = frozenset(each for each in allowed if not each.endswith("/*"))
    for each in (*prefixes, *names):
        if not each.strip("/") or "*" in each or each != each.strip():
            raise VerificationPolicyError(f"not a valid pattern of images: {each!r}")

    def must_verify(image: str, pulled: bool) -> bool:
        name = _name(image)
        return name not in names and not name.startswith(prefixes)

    return must_verify


def _name(image: str) -> str:
    """The name without tag, or as it is if it is none."""
    try:
        return without_tag(image)
    except InvalidReferenceError:
        return image


class PullRecords:
    """Records in files below `<directory>/image_manager`. now: seconds since the epoch."""

    def __init__(self, directory: Path, now: Callable[[], float], must_verify: Callable[[str, bool], bool]) -> None:
        self._pulling = directory / "image_manager" / "pulling"
        self._pulled = directory / "image_manager" / "pulled"
        self._now = now
        self._must_verify = must_verify
        self._intents: Counter[str] = Counter()
        for path in (self._pulling, self._pulled):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def begin(self, image: str) -> None:
        """An image is going to be pulled. Raises OSError."""
        intent = {"kind": "ImagePullIntent", "apiVersion": _API_VERSION, "image": image}
        _write(self._pulling / _file_name(image), json.dumps(intent).encode())
        self._intents[image] += 1

    def failed(self, image: str) -> None:
        """A pull that `begin` recorded has failed."""
        self._intents[image] -= 1
        if self._intents[image] <= 0:
            del self._intents[image]
            (self._pulling / _file_name(image)).unlink(missing_ok=True)

    def succeeded(self, image: str, image_ref: str, used: PullCredentials | None) -> None:
        """A pull that `begin` recorded has brought an image. used: the credentials, None for none. Raises OSError."""
        self._add(image, image_ref, used is None or used.source is None, _secret(used), _account(used))
        self.failed(image)

    def access(self, image: str, image_ref: str) -> Access:
        """Who may use an image that is there without a pull."""
        record = self._record(image_ref)
        pulled = record is not None or image in self._intents or (self._pulling / _file_name(image)).exists()
        if not self._must_verify(image, pulled):
            return Access.ALL
        known = self._known(image, image_ref)
        if known is not None and known.node_pods_accessible:
            return Access.ALL
        if known is not None and (known.kubernetes_secrets or known.kubernetes_service_accounts):
            return Access.BY_SECRET
        return Access.NONE

    def is_opened_by(self, image: str, image_ref: str, credentials: Iterable[PullCredentials]) -> bool:
        """Whether one of the credentials is known to open an image that is there."""
        known = self._known(image, image_ref)
        credentials = list(credentials)
        if known is not None and any(_account(each) in known.kubernetes_service_accounts for each in credentials):
            return True
        secrets = [secret for secret in map(_secret, credentials) if secret is not None]
        return known is not None and any(self._opens(image, image_ref, secret, known) for secret in secrets)

    def _known(self, image: str, image_ref: str) -> _Credentials | None:
        record = self._record(image_ref)
        return record.credential_mapping.get(_name(image)) if record is not None else None

    def _opens(self, image: str, image_ref: str, secret: _Secret, known: _Credentials) -> bool:
        for each in known.kubernetes_secrets:
            same_place = (each.uid, each.namespace, each.name) == (secret.uid, secret.namespace, secret.name)
            same_content = each.credential_hash == secret.credential_hash
            if not same_place and not same_content:
                continue
            has_room = len(known.kubernetes_secrets) < _MOST_SECRETS
            if not same_content and not has_room:
                continue
            if not (same_place and same_content) and has_room:
                self._add(image, image_ref, False, secret)
            return True
        return False

    def recover(self, images: Iterable[tuple[str, Sequence[str]]]) -> None:
        """After a restart: pulls that were under way and have brought an image are recorded, with credentials unknown. images: (reference, names)."""
        intents = {path: _image_of(path) for path in _files(self._pulling)}
        for image_ref, names in images:
            for path, image in intents.items():
                if image in names or f"{image}:latest" in names:
                    self._add(image, image_ref, False, None)
                    path.unlink(missing_ok=True)

    def prune(self, present: Iterable[str], until: float) -> None:
        """Drop records of images that are gone, but for those written since `until` (seconds since the epoch)."""
        kept = {_file_name(each) for each in present}
        for path in _files(self._pulled):
            record = _read(path)
            if path.name not in kept and (record is None or parse_rfc3339(record.last_updated_time) < until):
                path.unlink(missing_ok=True)

    def _record(self, image_ref: str) -> _PulledRecord | None:
        record = _read(self._pulled / _file_name(image_ref))
        return record if record is not None and record.image_ref == image_ref else None

    def _add(
        self, image: str, image_ref: str, is_open: bool, secret: _Secret | None, account: _Account | None = None
    ) -> None:
        """Write into the record of an image that it can be used by all pods (`is_open`), with a secret, or by a service account."""
        record = self._record(image_ref) or _PulledRecord("", image_ref)
        name = _name(image)
        known = record.credential_mapping.get(name)
        if is_open:
            record.credential_mapping[name] = _Credentials(node_pods_accessible=True)
        elif account is not None and not (known and known.node_pods_accessible):
            known = known or _Credentials()
            if account not in known.kubernetes_service_accounts:
                accounts = [*known.kubernetes_service_accounts, account]
                record.credential_mapping[name] = _Credentials(known.kubernetes_secrets, accounts)
        elif secret is not None and not (known and known.node_pods_accessible):
            others = [
                each
                for each in (known.kubernetes_secrets if known else ())
                if (each.uid, each.namespace, each.name) != (secret.uid, secret.namespace, secret.name)
            ]
            accounts = known.kubernetes_service_accounts if known else []
            record.credential_mapping[name] = _Credentials([*others, secret], accounts)
        record.last_updated_time = rfc3339(self._now())
        _write(self._pulled / _file_name(image_ref), msgspec.json.encode(record))


def _secret(used: PullCredentials | None) -> _Secret | None:
    if used is None or not isinstance(used.source, SecretSource):
        return None
    return _Secret(used.source.uid, used.source.namespace, used.source.name, used.hash)


def _account(used: PullCredentials | None) -> _Account | None:
    if used is None or not isinstance(used.source, AccountSource):
        return None
    return _Account(used.source.uid, used.source.namespace, used.source.name)


def _file_name(text: str) -> str:
    return f"sha256-{hashlib.sha256(text.encode()).hexdigest()}"


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.glob("sha256-*") if path.suffix != ".tmp"]


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)


def _read(path: Path) -> _PulledRecord | None:
    """A record; None where there is none, or one that nobody can read: then credentials must be shown again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_PulledRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _image_of(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes()).get("image", ""))
    except (OSError, ValueError, AttributeError):
        return ""
