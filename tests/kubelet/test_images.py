"""Names of images that need no credentials are read as the kubelet reads them, of each version."""

from __future__ import annotations

import pytest

from numalign.kubelet.images import wrong_image

SHA = "a" * 64
TAGGED = "neither tag nor digest is accepted in an image reference: "
PARSE = "failed to parse as an image name: "
LONG = "repository name must not be more than 255 characters"


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("a.b:5000/c/*", None),
        ("a/" + "b" * 255, None),
        ("0" * 64, None),
        (f"a@sha256:{SHA}", f"{TAGGED}a@sha256:{SHA}"),
        ("a:1", f"{TAGGED}a:1"),
        ("A", f"{PARSE}repository name must be lowercase"),
        ("a b", f"{PARSE}invalid reference format"),
        ("b" * 256, f"{PARSE}{LONG}"),
        (f"a@md5:{SHA}", f"{PARSE}unsupported digest algorithm"),
        (f"a@sha512:{SHA}", f"{PARSE}invalid checksum digest length"),
        (f"a@sha256:{SHA.upper()}", f"{PARSE}invalid checksum digest format"),
        (f"a@SHA256:{SHA}", f"{PARSE}invalid checksum digest format"),
    ],
)
def test_a_name_is_taken_as_it_is_from_1_36_on(pattern: str, wrong: str | None) -> None:
    assert wrong_image(pattern, 36) == wrong


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("docker.io/library/a", None),
        ("localhost/a", None),
        ("a", f"{TAGGED}a"),
        ("docker.io/a", f"{TAGGED}docker.io/a"),
        ("index.docker.io/a/b", f"{TAGGED}index.docker.io/a/b"),
        ("a.b/C", f"{PARSE}invalid reference format: repository name (C) must be lowercase"),
        ("A", f"{PARSE}invalid reference format: repository name (library/A) must be lowercase"),
        (SHA, f"{PARSE}invalid repository name ({SHA}), cannot specify 64-byte hexadecimal strings"),
    ],
)
def test_before_a_name_is_compared_with_its_whole_form(pattern: str, wrong: str | None) -> None:
    assert wrong_image(pattern, 35) == wrong
