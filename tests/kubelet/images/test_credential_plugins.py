"""Plugins that give credentials: real programs, with a clock that is moved."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from bayplan.api.types import core_v1
from bayplan.kubelet.images.credential_plugins import (
    CredentialPlugins,
    CredentialProviderConfigError,
    Provider,
    TokenAttributes,
    read_config,
)
from bayplan.kubelet.images.keyring import AccountSource, lookup_all
from bayplan.testing.builders import metadata, pod
from bayplan.testing.clock import ManualClock

V1 = "credentialprovider.kubelet.k8s.io/v1"
ANSWER = """#!/bin/sh
input=$(cat)
echo "$1 $MODE $input" >> {log}
echo '{{"kind":"CredentialProviderResponse","apiVersion":"{version}","cacheKeyType":"{key}",{duration}"auth":{{"quay.io":{{"username":"me","password":"pw"}}}}}}'
"""


def plugin(directory: Path, *, key: str = "Image", duration: str = "", version: str = V1, script: str = ANSWER) -> Path:
    """A program that answers; returns the file that has a line for every time it was run."""
    log = directory / "log"
    log.touch()
    file = directory / "provider"
    file.write_text(script.format(log=log, key=key, version=version, duration=duration))
    file.chmod(0o755)
    return log


def plugins(directory: Path, clock: ManualClock, seconds: float = 60) -> CredentialPlugins:
    """One plugin for quay.io and its subdomains."""
    provider = Provider("provider", ("quay.io", "*.quay.io"), seconds, V1, ("argument",), {"MODE": "test"})
    return CredentialPlugins([provider], directory, clock)


async def users(them: CredentialPlugins, repository: str) -> list[str]:
    """Names of the users for an image."""
    return [each.credentials.username for each in lookup_all(await them.keyrings(repository), repository)]


def test_program_gets_a_request_and_its_answer_is_kept(tmp_path: Path) -> None:
    log, clock = plugin(tmp_path), ManualClock()
    them = plugins(tmp_path, clock)

    async def steps() -> None:
        assert await users(them, "gcr.io/a") == []
        assert log.read_text() == ""
        assert list(await asyncio.gather(users(them, "quay.io/a"), users(them, "quay.io/a"))) == [["me"], ["me"]]
        (line,) = log.read_text().splitlines()
        assert line == f'argument test {{"kind":"CredentialProviderRequest","apiVersion":"{V1}","image":"quay.io/a"}}'
        assert await users(them, "quay.io/b") == ["me"]
        assert len(log.read_text().splitlines()) == 2
        clock.advance(59)
        await users(them, "quay.io/a")
        assert len(log.read_text().splitlines()) == 2
        clock.advance(2)
        await users(them, "quay.io/a")
        assert len(log.read_text().splitlines()) == 3

    asyncio.run(steps())


@pytest.mark.parametrize(
    ("key", "duration", "runs"),
    [("Registry", "", 1), ("Global", "", 1), ("Image", "", 2), ("Registry", '"cacheDuration":"0s",', 3)],
)
def test_answers_say_how_far_they_reach(tmp_path: Path, key: str, duration: str, runs: int) -> None:
    log = plugin(tmp_path, key=key, duration=duration)
    them = plugins(tmp_path, ManualClock())

    async def steps() -> None:
        for image in ("quay.io/a", "quay.io/b", "quay.io/a"):
            await users(them, image)

    asyncio.run(steps())
    assert len(log.read_text().splitlines()) == runs


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\nexit 3\n",
        "#!/bin/sh\necho secret\n",
        ANSWER.replace("{version}", "other/v1"),
        ANSWER.replace("{key}", "Other"),
    ],
)
def test_plugin_that_fails_gives_nothing_and_tells_no_secret(
    tmp_path: Path, script: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin(tmp_path, script=script)
    assert asyncio.run(users(plugins(tmp_path, ManualClock()), "quay.io/a")) == []
    assert "credential provider provider gives nothing" in caplog.text
    assert "secret" not in caplog.text


def provider(**changes: object) -> dict[str, object]:
    """A row of the configuration."""
    row = {"name": "ecr", "apiVersion": V1, "matchImages": ["*.ecr.test"], "defaultCacheDuration": "1h30m"}
    return {key: value for key, value in {**row, **changes}.items() if value is not None}


def attributes(**changes: object) -> dict[str, object]:
    """What is said of tokens."""
    row = {
        "serviceAccountTokenAudience": "registry",
        "requireServiceAccount": True,
        "requiredServiceAccountAnnotationKeys": ["a"],
        "optionalServiceAccountAnnotationKeys": ["b"],
        "cacheType": "ServiceAccount",
    }
    return {**row, **changes}


def written(path: Path, *rows: dict[str, object]) -> Path:
    """A configuration file."""
    document = {"kind": "CredentialProviderConfig", "apiVersion": "kubelet.config.k8s.io/v1", "providers": list(rows)}
    path.write_text(yaml.safe_dump(document))
    return path


def test_configuration_is_a_file_or_a_directory(tmp_path: Path) -> None:
    row = provider(args=["x"], env=[{"name": "A", "value": "b"}])
    expected = Provider("ecr", ("*.ecr.test",), 5400.0, V1, ("x",), {"A": "b"})
    assert read_config(written(tmp_path / "b.yaml", row)) == (expected,)
    (with_tokens,) = read_config(written(tmp_path / "b.yaml", provider(tokenAttributes=attributes(cacheType="Token"))))
    assert with_tokens.tokens == TokenAttributes("registry", True, ("a",), ("b",), True)
    written(tmp_path / "b.yaml", row)
    written(tmp_path / "a.json", provider(name="other"))
    (tmp_path / "ignored.txt").write_text("{")
    assert [each.name for each in read_config(tmp_path)] == ["other", "ecr"]
    written(tmp_path / "c.yml", provider())
    with pytest.raises(CredentialProviderConfigError, match="duplicate provider name 'ecr'"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a/b"}, "name"),
        ({"name": ".."}, "name"),
        ({"apiVersion": "v1"}, "apiVersion"),
        ({"matchImages": []}, "matchImages"),
        ({"defaultCacheDuration": None}, "defaultCacheDuration"),
        ({"defaultCacheDuration": "-1s"}, "defaultCacheDuration"),
        ({"tokenAttributes": 1}, "tokenAttributes"),
        ({"tokenAttributes": {}, "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1"}, "tokenAttributes"),
        (
            {"tokenAttributes": attributes(serviceAccountTokenAudience="")},
            "tokenAttributes.serviceAccountTokenAudience",
        ),
        ({"tokenAttributes": attributes(requireServiceAccount=None)}, "tokenAttributes.requireServiceAccount"),
        ({"tokenAttributes": attributes(requireServiceAccount=False)}, "tokenAttributes: requireServiceAccount"),
        (
            {"tokenAttributes": attributes(optionalServiceAccountAnnotationKeys=["a"])},
            "tokenAttributes: annotation keys",
        ),
        ({"tokenAttributes": attributes(cacheType="Other")}, "tokenAttributes.cacheType"),
    ],
)
def test_configuration_errors_name_the_field(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(CredentialProviderConfigError, match=rf"c\.yaml: providers\[0\]\.{message}"):
        read_config(written(tmp_path / "c.yaml", provider(**change)))


def test_missing_files_and_programs_are_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialProviderConfigError, match=r"none\.yaml"):
        read_config(tmp_path / "none.yaml")
    with pytest.raises(CredentialProviderConfigError, match="provider did not exist"):
        plugins(tmp_path, ManualClock())
    (tmp_path / "x.yaml").write_text("kind: Other\n")
    with pytest.raises(CredentialProviderConfigError, match="CredentialProviderConfig"):
        read_config(tmp_path / "x.yaml")
    with pytest.raises(CredentialProviderConfigError, match="at least 1 item"):
        read_config(written(tmp_path / "x.yaml"))


class Accounts:
    """Service accounts by name, with tokens that change when they are to."""

    def __init__(self) -> None:
        self.known = {"web": {"a": "1", "b": "2", "c": "3"}, "bare": {}}
        self.issue = 1

    async def account(self, namespace: str, name: str) -> core_v1.ServiceAccount:
        """See AccountTokens."""
        if name not in self.known:
            raise LookupError(f"no account {name}")
        return core_v1.ServiceAccount(
            metadata=metadata(name, namespace, uid=f"uid-{name}", annotations=self.known[name])
        )

    async def token(self, pod: core_v1.Pod, audience: str) -> str:
        """See AccountTokens."""
        return f"{audience}-{pod.spec.service_account_name}-{self.issue}"


@pytest.mark.parametrize(("by_token", "runs"), [(False, 1), (True, 2)])
def test_plugin_gets_a_token_of_the_pods_account(tmp_path: Path, by_token: bool, runs: int) -> None:
    log, accounts = plugin(tmp_path), Accounts()
    tokens = TokenAttributes("registry", True, ("a",), ("b", "none"), by_token)
    provider = Provider("provider", ("quay.io",), 60, V1, ("x",), {"MODE": "y"}, tokens)
    them = CredentialPlugins([provider], tmp_path, ManualClock(), accounts)

    async def found(account: str) -> list[object]:
        one = pod("p", service_account_name=account)
        return [each.source for each in lookup_all(await them.keyrings("quay.io/a", one), "quay.io/a")]

    async def steps() -> None:
        assert await found("web") == [AccountSource("uid-web", "default", "web")]
        (line,) = log.read_text().splitlines()
        assert '"serviceAccountToken":"registry-web-1","serviceAccountAnnotations":{"a":"1","b":"2"}' in line
        for other in ("", "bare", "gone"):
            assert await found(other) == []
        accounts.issue = 2
        assert len(await found("web")) == 1
        assert len(log.read_text().splitlines()) == runs

    asyncio.run(steps())


def test_pods_without_an_account_may_be_allowed(tmp_path: Path) -> None:
    plugin(tmp_path)
    tokens = TokenAttributes("registry", False)
    them = CredentialPlugins([Provider("provider", ("quay.io",), 60, V1, tokens=tokens)], tmp_path, ManualClock())

    async def steps() -> None:
        (found,) = lookup_all(await them.keyrings("quay.io/a", pod("p")), "quay.io/a")
        assert found.source is None
        one = pod("p", service_account_name="web")
        assert lookup_all(await them.keyrings("quay.io/a", one), "quay.io/a") == []

    asyncio.run(steps())


def test_token_is_no_password_unless_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plugin(tmp_path, script=ANSWER.replace('"pw"', '"registry-web-1"'))
    one = pod("p", service_account_name="web")
    for by_token in (False, True):
        tokens = TokenAttributes("registry", True, caches_by_token=by_token)
        provider = Provider("provider", ("quay.io",), 60, V1, tokens=tokens)
        them = CredentialPlugins([provider], tmp_path, ManualClock(), Accounts())
        found = lookup_all(asyncio.run(them.keyrings("quay.io/a", one)), "quay.io/a")
        assert len(found) == by_token
    assert "only cacheType Token allows" in caplog.text
