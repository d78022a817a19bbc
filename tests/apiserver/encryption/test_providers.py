"""Providers of encryption: values come back, only under their key of the store where that counts, and what is changed is noticed."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from bayplan.apiserver.encryption.providers import IDENTITY, AesCbc, AesGcm, Provider, Providers, Secret, SecretBox
from bayplan.store.errors import Untransformable

KEY, OTHER = "/registry/secrets/default/a", "/registry/secrets/default/b"
VALUE = b'{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}'
MAKERS: dict[str, Callable[[bytes, Callable[[int], bytes]], Secret]] = {
    "aescbc": AesCbc,
    "aesgcm": AesGcm,
    "secretbox": SecretBox,
}


def provider(name: str, key: str = "key1", secret: bytes = bytes(range(32))) -> Provider:
    return Provider(f"k8s:enc:{name}:v1:{key}:".encode(), MAKERS[name](secret, os.urandom))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("value", [b"", b"x", VALUE, VALUE * 1000], ids=["empty", "one byte", "small", "large"])
def test_a_value_comes_back_and_does_not_show(name: str, value: bytes) -> None:
    providers = Providers([provider(name)])
    stored = providers.to_storage(KEY, value)
    assert stored.startswith(f"k8s:enc:{name}:v1:key1:".encode())
    assert b"password" not in stored
    assert providers.from_storage(KEY, stored) == value
    assert providers.to_storage(KEY, value) != stored


@pytest.mark.parametrize("name", ["aesgcm", "secretbox"])
def test_a_changed_value_is_noticed(name: str) -> None:
    providers = Providers([provider(name)])
    stored = bytearray(providers.to_storage(KEY, VALUE))
    stored[-1] ^= 1
    with pytest.raises(Untransformable, match="unable to transform key '/registry/secrets/default/a'"):
        providers.from_storage(KEY, bytes(stored))


def test_a_value_under_another_key_of_the_store_is_noticed() -> None:
    providers = Providers([provider("aesgcm")])
    with pytest.raises(Untransformable, match="message authentication failed"):
        providers.from_storage(OTHER, providers.to_storage(KEY, VALUE))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("size", [0, 5, 17])
def test_a_value_that_is_cut_off_is_noticed(name: str, size: int) -> None:
    prefix = f"k8s:enc:{name}:v1:key1:".encode()
    with pytest.raises(Untransformable):
        Providers([provider(name)]).from_storage(KEY, prefix + bytes(size))


def test_the_first_provider_writes_and_all_read() -> None:
    old, new = provider("aescbc"), provider("aesgcm", "key2", b"k" * 32)
    stored = Providers([old]).to_storage(KEY, VALUE)
    both = Providers([new, old, IDENTITY])
    assert both.from_storage(KEY, stored) == both.from_storage(KEY, VALUE) == VALUE
    assert both.to_storage(KEY, VALUE).startswith(b"k8s:enc:aesgcm:v1:key2:")
    assert [both.is_current(one) for one in (stored, VALUE, both.to_storage(KEY, VALUE))] == [False, False, True]


def test_what_no_key_reads_is_an_error() -> None:
    stored = Providers([provider("aesgcm")]).to_storage(KEY, VALUE)
    with pytest.raises(Untransformable, match="no matching prefix found"):
        Providers([provider("aesgcm", "other")]).from_storage(KEY, stored)
    with pytest.raises(Untransformable, match="identity transformer tried to read encrypted data"):
        Providers([IDENTITY]).from_storage(KEY, stored)
    with pytest.raises(Untransformable, match="no matching prefix found"):
        Providers([provider("aesgcm")]).from_storage(KEY, VALUE)
    broken = stored[:-1] + bytes((stored[-1] ^ 1,))
    with pytest.raises(Untransformable, match="message authentication failed"):  # not that it is encrypted
        Providers([provider("aesgcm"), IDENTITY]).from_storage(KEY, broken)
    assert Providers([IDENTITY]).is_current(VALUE)
    assert not Providers([IDENTITY]).is_current(stored)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("aescbc", "000000000000000000000000000000009a6c1f33bcd6ed88437026e4c294ffb9"),
        ("aesgcm", "0000000000000000000000006f9cc6bbd65ee6c9283d83cc7a166d3490686212b0b3b239"),
        (
            "secretbox",
            "000000000000000000000000000000000000000000000000e59935abb1835e3a7bdfbc59eb9e5fca2b2e8324fbd8da47",
        ),
    ],
)
def test_the_form_is_that_of_kube_apiserver(name: str, data: str) -> None:
    """Read by kube-apiserver's transformers as `a secret`; the key is 00 01 .. 1f, the nonce all zeros."""
    made = MAKERS[name](bytes(range(32)), bytes)
    assert made.encrypt(KEY, b"a secret").hex() == data
    assert made.decrypt(KEY, bytes.fromhex(data)) == b"a secret"
