"""Which strings have which format."""

from __future__ import annotations

import pytest

from bayplan.api.custom_resources.formats import has_format, is_known, worded_duration

_UUID3, _UUID4 = "3bbcee75-cecc-3b56-8031-b6641c1ed1f1", "025b0d74-00a2-4048-bf57-227c5111bb34"
_UUID5 = "886313e1-3b8a-5372-9b90-0c9aee199e5d"

RIGHT = {
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"],
    "byte": ["VGhpcw==", "VGhp", "VGhpcyA="],
    "cidr": ["192.168.254.1/24", "192.0.2.1/024", "192.0.02.1/24", "2001:db8:a0b:12f0::1/32", "::/0", "::ffff:1.2.3.4/128"],
    "creditcard": ["4111-1111-1111-1111", "4012-8888-8888-1881", "5555 5555 5555 4444"],
    "date": ["2006-01-02", "2024-02-29", "0000-02-29"],
    "date-time": [
        "2014-12-15T19:30:20.000Z",
        "2014-12-15t19:30:20z",
        "2014-12-15T08:00:00.000+01:00",
        "2011-08-18T19:03:37.000000000+01:00",
        "2014-12-15T19:30:20Ztuesday",
    ],
    "duration": ["1.5h", "22 ns", "-3m", "0", "+5s", "1h2m3.5s", ".5s", "1µs", "2 days", "3 Weeks", "1 WK", "7 hours", "about 2 hours or so"],
    "email": [
        "somebodyelse@somewhere.com",
        "test@d.verylongtoplevel",
        "email+tag@gmail.com",
        '" "@example.com',
        '"Abc\\@def"@example.com',
        '"Fred Bloggs"@example.com',
        '"Joe\\\\Blow"@example.com',
        "customer/department=shipping@example.com",
        "$A12345@example.com",
        "!def!xyz%abc@example.com",
        "!#$%&'*+-/=?^_`{}|~@example.com",
        "Miles.O'Brian@example.com",
        "postmaster@☁→❄→☃→☀→☺→☂→☹→✝.ws",
        "root@localhost",
        "Ann <ann@example.com>",
        "<ann@example.com>",
        "  ann@ example.com (at work) (\\( mostly)",
        '"Ann B." (old) C. <ann@example.com>',
        "friends: ann@example.com;",
        "ann@[192.0.2.1]",
        "ann@[::1]",
    ],
    "hexcolor": ["#FFFFFF", "fff", "#0a0"],
    "hostname": [
        "somewhere.com", "888.com", "1.2.3.4.com", "1wwworg.example.com", "xn--bcher-kva.example.com", "☁→❄→☃→☀→☺→☂→☹→✝.ws",
        "www.example.ôlà", "ôlà.ôlà", "ex$ample", "localhost", "x", "x-y", "ex=ample.com", "<foo>", "www.詹姆斯.london",
    ],
    "ipv4": ["192.168.254.2", "127.0.0.1", "192.168.1.01", "::ffff:10.0.0.1", "::ffff:10.0.0.01"],
    "ipv6": ["::2", "2001:db8::1", "::ffff:10.0.0.1", "FE80::1"],
    "isbn": ["0321751043", "978-0321751041"],
    "isbn10": ["0-321-75104-3", "080442957X"],
    "isbn13": ["978-0321751041", "978 0321751041"],
    "k8s-long-name": ["a.b-c.d", "a" * 64, "1"],
    "k8s-short-name": ["a", "a-1", "a" * 63],
    "mac": ["06:05:04:03:02:01", "01-23-45-67-89-ab-cd-ef", "0123.4567.89AB", "0123.4567.89ab.cdef", ":".join(["00"] * 20)],
    "password": ["", "anything"],
    "rgbcolor": ["rgb(0,0,0)", "rgb( 255 , 1,99 )"],
    "ssn": ["111-11-1111", "999 99 9999"],
    "uri": [
        "http://somewhereelse.com", "/a/path?q#f", "mailto:ann@example.com", "*", "HTTP://u:p@h:80/%41?%zz", "//a b", "http://[::1]:80/",
        "http://[fe80::1%25eth0]/", "http://h:/", "urn:x y", "http://é.example/", "http:///x", "http://%25/", "a+b-1.:x",
    ],
    "uuid": [_UUID3, _UUID4.upper(), _UUID5.replace("-", "")],
    "uuid3": [_UUID3],
    "uuid4": [_UUID4],
    "uuid5": [_UUID5],
}  # fmt: skip
WRONG = {
    "bsonobjectid": ["507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g", ""],
    "byte": ["", "ZWxpemFiZXRocG9zZXk", "VGhp\n", "VG_p"],
    "cidr": ["198.168.254.2", "2001:db8:a0b:12f0::1", "1.2.3.4/33", "::1/129", "1.2.3.4/", "1.2.3.4/+1", "1.2.3.256/8", "1.2.3.4/24/1"],
    "creditcard": ["9999-9999-9999-999", "4111-1111-1111-1112", ""],
    "date": ["20060102", "2006-W01-1", "2006-13-01", "2023-02-29", "2006-01-02T00:00:00Z", "", "٢٠٠٦-01-02"],
    "date-time": ["2014-12-15", "2014-12-15T24:00:00Z", "2014-12-15T19:60:00Z", "2014-12-15T19:30:60Z", "2014-12-15T19:30:20", "2014-13-15T19:30:20Z", ""],
    "duration": ["", "5", "1 fortnight", "h", "99999999999999999999h of 1 s", "five days", "7 hrs", "9" * 5000 + " h"],
    "email": [
        "somebody@somewhere@com", "ann", "@example.com", "ann@", ".ann@example.com", "ann.@example.com", "a..n@example.com", '""@example.com',
        "ann@example.com, bob@example.com", "ann@example.com <bob@example.com>", "Ann ann@example.com", "ann@[nowhere]",
        "ann@example.com (open", "",
        "friends: ann@example.com, bob@example.com;", "nobody:;", '"ann@example.com', "<ann@example.com", "ann smith@example.com", 'a"b@example.com', "<>",
        "a: b: c@d;;",
        "ann@example.com\n", "ann@[1.2.3.4", '"\x01"@example.com',
    ],
    "hexcolor": ["#fffffffz", "#ffff", ""],
    "hostname": [
        "somewhere.com!", "user@email.domain", "1.1.1.1", "a" * 256, "x.y." + "a" * 64, "www.example-.org", "www.--example.org", "-www.example.org",
        "www-", "-www", "www.ex ample.org", "_www.example.org", "www.example_underscored.org", "www.詹姆斯.x", "a.b.c.d", "x.", "example.com.", "a.b.c.é;ö", "",
    ],
    "ipv4": ["198.168.254.2.2", "::1", "1.2.3", "1.2.3.256", "1.2.3.4 ", "", "1.2.3.٤"],
    "ipv6": ["127.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.01", "1::2::3", ""],
    "isbn": ["836217463", "978-0321751042"],
    "isbn10": ["0321751044", "X321751043"],
    "isbn13": ["978-0321751042", "0321751043"],
    "k8s-long-name": ["A", "a..b", "-a", "a" * 254, ""],
    "k8s-short-name": ["a.b", "A", "a" * 64, "a-", ""],
    "mac": ["01:02:03:04:05", "01-02:03:04:05:06", "01:02:03:04:05:06:07", "0123.4567", "g1:02:03:04:05:06", ""],
    "rgbcolor": ["rgb(300,0,0)", "rgb(1,2)", "rgb(01,2,3)", ""],
    "ssn": ["999 99 999", "999999999", "9999-99-999"],
    "uri": [
        "somewhere.com", "", ":80", "http://a b/", "http://a/%zz", "\x00", "http://a:b/", "http://[::1/", "http://[zz]/", "http://u^@h/", "http://a#b", "path",
        "http://%41/", "http://a:80:80/", "http://h\x7f/", "http://%zz@h/", "http://[1.2.3.4]/", "http://[::1]x/",
    ],
    "uuid": ["not-a-uuid", _UUID3 + "0", ""],
    "uuid3": [_UUID4],
    "uuid4": [_UUID3, "025b0d74-00a2-4048-7f57-227c5111bb34"],
    "uuid5": [_UUID4],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in RIGHT.items() for value in values])
def test_has_the_format(name: str, value: str) -> None:
    assert has_format(value, name)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_lacks_the_format(name: str, value: str) -> None:
    assert not has_format(value, name)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("2 days", 172_800 * 10**9), ("1h and 30 Minutes", 5400 * 10**9), ("0" * 5000 + "7 ns", 7), ("7 hrs", None), ("", None)],
)  # fmt: skip
def test_durations_in_words_have_a_length(text: str, nanoseconds: int | None) -> None:
    assert worded_duration(text) == nanoseconds


def test_names_of_formats_are_the_same_with_and_without_dashes() -> None:
    assert is_known("datetime")
    assert is_known("date-time")
    assert not has_format("x", "datetime")


def test_formats_that_are_not_known_are_not_checked() -> None:
    assert not is_known("int32")
    assert not is_known("binary")
    assert has_format("x", "binary")
    assert is_known("password")
