"""URLs are read as Go's net/url reads them, with its words for what is wrong."""

from __future__ import annotations

import re

import pytest

from numalign.kubelet.gourl import scheme_of


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("dns://a:4317", "dns"),
        ("DNS:///a", "dns"),
        ("unix:a", "unix"),
        ("//a", ""),
        ("dns://[fe80::1%25en0]:1", "dns"),
        ("dns://a?%zz", "dns"),  # a query is taken as it is
        ("dns://%c3%a9", "dns"),
        ("dns://u:p@a/b c", "dns"),
        ("a b://c/", None),
    ],
)
def test_a_url_has_its_scheme(url: str, scheme: str | None) -> None:
    if scheme is None:
        with pytest.raises(ValueError, match="first path segment"):
            scheme_of(url)
    else:
        assert scheme_of(url) == scheme


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("://a", "missing protocol scheme"),
        ("dns://a\x7f", "net/url: invalid control character in URL"),
        ("1a://b", "first path segment in URL cannot contain colon"),
        ("dns://a:b", 'invalid port ":b" after host'),
        ("dns://[::1", "missing ']' in host"),
        ("dns://[::1]x", 'invalid port "x" after host'),
        ("dns://a b", 'invalid character " " in host name'),
        ("dns://a%41", 'invalid URL escape "%41"'),
        ("dns://[a%20b]", 'invalid URL escape "%20"'),
        ("dns://a/%4", 'invalid URL escape "%4"'),
        ("dns://a#%zz", 'invalid URL escape "%zz"'),
        ("dns://u p@a", "net/url: invalid userinfo"),
        ("dns://u%zz@a", 'invalid URL escape "%zz"'),
    ],
)
def test_what_is_no_url_is_refused_in_go_s_words(url: str, wrong: str) -> None:
    quoted = url.replace("\x7f", "\\x7f")
    with pytest.raises(ValueError, match=re.escape(f'parse "{quoted}": {wrong}') + "$"):
        scheme_of(url)
