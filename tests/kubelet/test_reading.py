# ruff: noqa: E501 - the messages are read as they are
"""Reading a configuration: the kubelet's YAML, its types, drop-ins and flags; and no text breaks it."""

from __future__ import annotations

import contextlib
import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import numalign.kubelet.yaml
from numalign.errors import CannotRead, WrongUsage
from numalign.kubelet import gojson, yaml
from numalign.kubelet.document import Document, Refused, decode, nanoseconds
from numalign.kubelet.effective import effective
from numalign.kubelet.flags import parse_flags
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import go_atoi, parse_cpus, settings
from numalign.report.configuration import printed
from tests.vectors import MACHINE

HEADER = b"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
TYPE_META = "couldn't get version/kind; json parse error: json: cannot unmarshal"
JSON = '{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", %s}'
NAMES = ("cpuManagerPolicy", "reservedSystemCPUs", "reservedMemory", "evictionHard", "kubeReserved", "featureGates", "maxPods",
         "enforceNodeAllocatable", "topologyManagerPolicyOptions", "cpuManagerReconcilePeriod", "memorySwap", "<<", "x")  # fmt: skip
SCALARS = ("on", "0", "1_0", "0x1", "1:30", "~", "''", '"a"', "1e3", ".inf", "-1", "static", "5%", "1Gi", "0-3", "[]", "{}", "*a",
           "&a b", "!!python/object:os.system x", "!!binary aGk=", "- a", "|\n  x", "[{numaNode: 0, limits: {memory: 1Gi}}]")  # fmt: skip


def load(text: bytes, minor: int = 36) -> Document:
    return decode(HEADER + text, "f.yaml", minor)


def refusal(text: bytes, minor: int = 36) -> tuple[str, int | None]:
    with pytest.raises(Refused) as caught:
        load(text, minor)
    return caught.value.message.removeprefix("failed to decode: "), caught.value.line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("No", False),
        ("y", True),
        ("~", None),
        ("", None),
        ("0x1F", 31),
        ("0b101", 5),
        ("010", 8),
        ("0o10", 8),
        ("1_000", 1000),
        ("-0x10", -16),
        ("08", 8.0),
        ("1:30", "1:30"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("2024-01-01", "2024-01-01"),
        ("18446744073709551615", (1 << 64) - 1),
        ("0-3", "0-3"),
        ("+1", 1),
        ("1__", 1),
        ("_1", "_1"),
    ],
)
def test_bare_words_mean_what_the_kubelets_yaml_says(text: str, value: Any) -> None:
    found = yaml.scalar(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (b"maxPods: a", "json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32", 3),
        (b"maxPods: 1.5", "json: cannot unmarshal number 1.5 into Go struct field KubeletConfiguration.maxPods of type int32", 3),
        (b"failSwapOn: 'no'", "json: cannot unmarshal string into Go struct field KubeletConfiguration.failSwapOn of type bool", 3),
        (b"kubeReserved: a", "json: cannot unmarshal string into Go struct field KubeletConfiguration.kubeReserved of type map[string]string", 3),
        (b"\nreservedMemory: 1", "json: cannot unmarshal number into Go struct field KubeletConfiguration.reservedMemory of type []v1beta1.MemoryReservation", 4),
        (b"syncFrequency: 10", "json: cannot unmarshal number into Go value of type string", 3),
        (b"syncFrequency: 10x", 'time: unknown unit "x" in duration "10x"', 3),
        (b"kind: Pod", 'no kind "Pod" is registered for version "kubelet.config.k8s.io/v1beta1" in scheme', 3),
    ],
)  # fmt: skip
def test_a_wrong_type_is_refused_in_gos_words_and_at_its_line(text: bytes, message: str, line: int) -> None:
    assert refusal(text) == (message, line)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"registerWithTaints: [{key: a, value: true}]", "json: cannot unmarshal bool into Go struct field Taint.registerWithTaints.value of type string"),
        (b"logging: {verbosity: abc}", "json: cannot unmarshal string into Go struct field LoggingConfiguration.logging.verbosity of type v1.VerbosityLevel"),
        (b"logging: {flushFrequency: true}", 'invalid duration "true": json: cannot unmarshal bool into Go value of type time.Duration'),
        (b"tracing: {samplingRatePerMillion: x}", "json: cannot unmarshal string into Go struct field TracingConfiguration.tracing.samplingRatePerMillion of type int32"),
        (b"authentication: {x509: {clientCAFile: 1}}", "json: cannot unmarshal number into Go struct field KubeletX509Authentication.authentication.x509.clientCAFile of type string"),
    ],
)  # fmt: skip
def test_types_are_checked_however_deep_they_lie(text: bytes, message: str) -> None:
    assert refusal(text) == (message, 3)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b"registerWithTaints: [{key: a, val: b, effect: NoSchedule}]", "registerWithTaints[0].val"),
        (b"logging: {formt: json}", "logging.formt"),
        (b"logging: {options: {json: {split: true}}}", "logging.options.json.split"),
        (b"tracing: {end: a}", "tracing.end"),
    ],
)
def test_unknown_fields_are_named_however_deep_they_lie(text: bytes, field: str) -> None:
    assert [ignored.field for ignored in load(text).ignored] == [field]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: static\t# why", {"a": "static"}),
        ("a: 5\t", {"a": 5}),
        ('a: "x"\t\nb: 1', {"a": "x", "b": 1}),
        ("a:\tstatic", {"a": "static"}),
        ("a:\t\n  b: 1\t\n", {"a": {"b": 1}}),
        ("a: |\n  x\ty\t\n", {"a": "x\ty\t\n"}),
        ('a: "x\ty"', {"a": "x\ty"}),
        ("x: &x {p: s}\na: {p: o, <<: *x}", {"x": {"p": "s"}, "a": {"p": "s"}}),
        ("x: &x {p: s}\na: {<<: *x, p: o}", {"x": {"p": "s"}, "a": {"p": "o"}}),
        ("x: &x {p: s}\nz: &z {p: t, r: 1}\na: {<<: [*x, *z]}", {"x": {"p": "s"}, "z": {"p": "t", "r": 1}, "a": {"p": "s", "r": 1}}),
        ('x: &x {p: s}\n"<<": *x', {"x": {"p": "s"}, "<<": {"p": "s"}}),
        ('a: !!int "110"', {"a": 110}),
        ('a: !!bool "false"', {"a": False}),
        ("a: !!float 1", {"a": 1.0}),
        ('a: ! "1"', {"a": "1"}),
        ("a: ! 1", {"a": "1"}),
        ("a: !", {"a": ""}),
        ("a: b\tc", {"a": "b\tc"}),
        ("a: b\n \t c", {"a": "b c"}),
        ("a\t: b", {"a": "b"}),
        ("a: 1e400", {"a": "1e400"}),
        ("a: .1_0", {"a": 0.1}),
        ("a: .1_", {"a": ".1_"}),
        ('a: "b\\\'c"', {"a": "b'c"}),
        ("a: b\u2028c: d", {"a": "b", "c": "d"}),
        ("a: b # c\x85c: d", {"a": "b", "c": "d"}),
        ("a: &b-1_ c\nd: *b-1_", {"a": "c", "d": "c"}),
        ("a: >\n \n  b\n", {"a": "\nb\n"}),
        ("a: |#c\n b", {"a": "b"}),
        ("a: |-2\t# c\n   b\n", {"a": " b"}),
        ("a: b\n...\n}", {"a": "b"}),
        ("a: !!timestamp 2001-1-1", {"a": "2001-1-1"}),
        ("a: !!timestamp 2001-01-01T1:2:3.5Z", {"a": "2001-01-01T1:2:3.5Z"}),
        ("a: {1.5: b, 1e3: c}", {"a": {"1.5": "b", "1000": "c"}}),
        ('\t{"a":\t"b\\/c\u2028\x7f"}', {"a": "b/c\u2028\x7f"}),
        ('{"%s"\n: 1}' % ("x" * 2000), {"x" * 2000: 1}),
        ("a: !!str 1", {"a": "1"}),
        ("a: !!binary aGk=", {"a": "hi"}),
        ("%YAML 1.1\n---\na: 1", {"a": 1}),
        ('{"a": "\\ud83d\\ude00", "b": "\\ud83d", "\\ude00": 1}', {"a": "\U0001f600", "b": "\ufffd", "\ufffd": 1}),
    ],
)  # fmt: skip
def test_documents_are_what_the_kubelets_yaml_makes_of_them(text: str, value: Any) -> None:
    assert yaml.read(text.encode(), "f").value == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\tmaxPods: 1", "yaml: line 3: found a tab character that violates indentation"),
        (b"clusterDomain: @a", "yaml: line 3: found character that cannot start any token"),
        (b'clusterDomain: "\\ud83d\\ude00"', "yaml: line 3: found invalid Unicode character escape code"),
        (b"kubeReserved: {<<: 5}", "yaml: map merge requires map or sequence of maps as the value"),
        (b"kubeReserved: {<<: [3]}", "yaml: map merge requires map or sequence of maps as the value"),
        (b"maxPods: !!int abc", "yaml: cannot decode !!str `abc` as a !!int"),
        (b"maxPods: !!timestamp 2001-02-30", "yaml: cannot decode !!str `2001-02-30` as a !!timestamp"),
        (b"maxPods: !!timestamp 2001-01-01 1:2:3Z", "yaml: cannot decode !!str `2001-01-01 1:2:3Z` as a !!timestamp"),
        (b"clusterDomain: &a.b c", "yaml: line 3: did not find expected alphabetic or numeric character"),
        (b"clusterDomain: *a", "yaml: unknown anchor 'a' referenced"),
        (b'clusterDomain: "a\\/b"', "yaml: line 3: found unknown escape character"),
        (b'clusterDomain: "\\UFFFFFFFF"', "yaml: line 3: found invalid Unicode character escape code"),
        (b"kubeReserved: {~: a}", 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "a"'),
        (b"9223372036854775808: [1, ~]", "unsupported map key of type: uint64, key: 0x8000000000000000, value: []interface {}{1, interface {}(nil)}"),
        (b"? [a]", 'yaml: invalid map key: []interface {}{"a"}'),
        (b"clusterDomain: a: b", "yaml: line 3: mapping values are not allowed in this context"),
        (b"maxPods: !!int abc\n\n- a", "yaml: line 4: did not find expected key"),
        (b"clusterDomain: |\n\tx", "yaml: line 4: found a tab character where an indentation space is expected"),
        (b"- a", "yaml: line 2: did not find expected key"),
        (b"clusterDomain: ]", "yaml: line 2: did not find expected node content"),
        (b"clusterDomain: \x07", "yaml: control characters are not allowed"),
        (b"syncFrequency: '10'", 'time: missing unit in duration "10"'),
        (b"syncFrequency: 1d", 'time: unknown unit "d" in duration "1d"'),
        (b"podPidsLimit: 18446744073709551616", "json: cannot unmarshal number 18446744073709552000 into Go struct field KubeletConfiguration.podPidsLimit of type int64"),
        (b"memoryThrottlingFactor: .nan", "json: unsupported value: NaN"),
        (b"memoryThrottlingFactor: -.inf", "json: unsupported value: -Inf"),
    ],
)  # fmt: skip
def test_what_the_kubelets_yaml_refuses_is_refused_in_its_words(text: bytes, message: str) -> None:
    assert refusal(text) == (message, 3 + text.count(b"\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%FOO bar\n---\n", "yaml: found unknown directive name"),
        ("%YAMLX 1.1\n---\n", "yaml: found unknown directive name"),
        ("- a", f"{TYPE_META} array into Go value of type struct {{ APIVersion string "),
        ("5", f"{TYPE_META} number into Go value of type struct {{ APIVersion string "),
        ("apiVersion: a/b/c", "unexpected GroupVersion string: a/b/c"),
        ("kind: Foo\napiVersion: v1", 'no kind "Foo" is registered for version "v1" in scheme'),
        ('{"a": 1}', "Object 'Kind' is missing in '{\"a\": 1}'"),
    ],
)
def test_what_is_no_configuration_at_all_is_refused_in_the_kubelets_words(text: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        decode(text.encode(), "f.yaml", 36)
    assert caught.value.message.startswith(f"failed to decode: {message}")


@pytest.mark.parametrize(("minor", "cast"), [(34, False), (35, True)])
def test_another_kind_of_the_kubelets_is_read_and_then_refused(minor: int, cast: bool) -> None:
    text = HEADER.replace(b"KubeletConfiguration", b"ImagePullIntent")
    with pytest.raises(Refused) as caught:
        decode(text, "f.yaml", minor)
    said = "failed to cast object to KubeletConfiguration, unexpected type: kubelet.config.k8s.io/v1beta1, "
    assert caught.value.message.startswith(said + "Kind=ImagePullIntent") == cast


@pytest.mark.parametrize(("minor", "ignored"), [(29, ["logging.options.text"]), (30, [])])
def test_a_field_of_a_structure_is_none_before_its_version(minor: int, ignored: list[str]) -> None:
    text = b"logging: {options: {text: {splitStream: false}}}"
    assert [field.field for field in load(text, minor).ignored] == ignored


def test_a_flush_frequency_was_a_number_only_in_1_27() -> None:
    text = b"logging: {flushFrequency: 5s}"
    said = "json: cannot unmarshal string into Go struct field LoggingConfiguration.logging.flushFrequency of type time.Duration"
    assert refusal(text, 27) == (said, 3)
    assert load(text, 28).ignored == ()


def test_a_number_beyond_any_is_named_as_it_is_written_in_json() -> None:
    with pytest.raises(
        Refused, match=r"cannot unmarshal number 1e400 into Go struct field .*[.]memoryThrottlingFactor of"
    ):
        decode((JSON % '"memoryThrottlingFactor": 1e400').encode(), "f.json", 36)


def test_a_document_that_is_too_large_is_not_read() -> None:
    with pytest.raises(CannotRead, match=r"f\.yaml: larger than 128 KiB, which no kubelet configuration is"):
        decode(HEADER + b"\n" * (512 << 10), "f.yaml", 36)


def test_a_long_tag_is_read() -> None:
    assert [field.field for field in decode(HEADER + b"a: !" + b"x" * (100 << 10) + b" b\n", "f.yaml", 36).ignored] == [
        "a"
    ]


def test_a_document_of_yaml_1_2_is_incompatible() -> None:
    with pytest.raises(Refused, match="found incompatible YAML document"):
        decode(b"%YAML 1.2\n---\n" + HEADER, "f.yaml", 36)


@pytest.mark.parametrize("number", ["110.0", "1e2"])
def test_a_fraction_is_no_whole_number_in_json_and_one_in_yaml(number: str) -> None:
    said = f"cannot unmarshal number {number} into Go struct field KubeletConfiguration.maxPods of type int32"
    with pytest.raises(Refused, match=said):
        decode((JSON % f'"maxPods": {number}').encode(), "f.json", 36)
    assert load(f"maxPods: {number}".encode()).values["maxPods"] == float(number)


def test_halves_of_characters_in_json_never_get_out() -> None:
    text = JSON % r'"clusterDomain": "\ud83d\ude00 \ud83d", "\ude00": "\\ud83d", "memoryThrottlingFactor": 0.5'
    document = decode(text.encode(), "f.json", 36)
    assert (document.values["clusterDomain"], document.ignored[0].field) == ("\U0001f600 \ufffd", "\ufffd")
    printed(document, "json").decode()
    assert b"memoryThrottlingFactor: 0.5\n" in printed(document, "yaml")


def test_the_kind_is_read_in_any_letters() -> None:
    document = decode(HEADER.replace(b"kind", b"Kind") + b"maxPods: 1", "f.yaml", 36)
    assert (document.values["maxPods"], [field.field for field in document.ignored]) == (1, ["Kind"])


def test_newer_fields_are_unknown_to_older_kubelets() -> None:
    text = b"mergeDefaultEvictionSettings: true"
    assert [field.field for field in load(text, 32).ignored] == ["mergeDefaultEvictionSettings"]
    assert load(text, 33).ignored == ()


def test_nested_unknown_fields_are_named_with_their_place() -> None:
    document = load(b"reservedMemory:\n- numaNode: 0\n  limit: {memory: 1Gi}\n")
    assert [(field.field, field.place) for field in document.ignored] == [("reservedMemory[0].limit", "f.yaml:5")]


def test_bom_and_crlf_and_json_are_read() -> None:
    assert decode(b"\xef\xbb\xbf" + HEADER.replace(b"\n", b"\r\n") + b"maxPods: 7\r\n", "f", 36).values["maxPods"] == 7
    text = b'{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": 7}'
    assert decode(text, "f", 36).values["maxPods"] == 7


@pytest.mark.parametrize(
    "text",
    [
        b"clusterDomain: a\t# comment",
        b"clusterDomain: a\t",
        b'clusterDomain: "a"\t',
        b"clusterDomain:\ta",
        b"clusterDomain: [\ta\t]",
    ],
)
def test_tabs_are_blanks_behind_values_and_colons(text: bytes) -> None:
    if b"[" in text:
        assert refusal(text)[0].endswith("of type string")
    else:
        assert load(text).values["clusterDomain"] == "a"


def test_a_tab_is_no_indentation() -> None:
    assert "character" in refusal(b"kubeReserved:\n\tcpu: 1")[0]


def test_surrogates_are_joined_or_replaced() -> None:
    pair = decode(
        b'{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","clusterDomain":"\\ud83d\\ude00"}',
        "f",
        36,
    )
    assert pair.values["clusterDomain"] == "\U0001f600"
    assert refusal(b'clusterDomain: "a\\ud83d"')[0].endswith("found invalid Unicode character escape code")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b"registerWithTaints: [{key: a, value: true, effect: NoSchedule}]",
            "cannot unmarshal bool into Go struct field Taint.registerWithTaints.value of type string",
        ),
        (
            b"logging: {verbosity: abc}",
            "cannot unmarshal string into Go struct field LoggingConfiguration.logging.verbosity of type v1.VerbosityLevel",
        ),
        (b"tracing: {samplingRatePerMillion: x}", "of type int32"),
    ],
)
def test_structs_inside_are_looked_into(text: bytes, message: str) -> None:
    assert message in refusal(text)[0]


def test_fields_that_structs_inside_do_not_have_are_named() -> None:
    found = load(
        b"registerWithTaints: [{key: a, val: b}]\nlogging: {formt: json, flushFrequency: 5, options: {json: {split: true}}}\n"
    )
    assert sorted(field.field for field in found.ignored) == [
        "logging.formt",
        "logging.options.json.split",
        "registerWithTaints[0].val",
    ]


def test_kind_in_other_letters_is_read_and_ignored() -> None:
    found = decode(b"apiVersion: kubelet.config.k8s.io/v1beta1\nKind: KubeletConfiguration\nmaxPods: 5\n", "f.yaml", 36)
    assert (found.values["maxPods"], [field.field for field in found.ignored]) == (5, ["Kind"])


@pytest.mark.parametrize(("text", "says"), [
    (b"x: &x {maxPods: 5}\n<<: 5", "map merge requires map or sequence of maps as the value"),
    (b"<<: [3]", "map merge requires map or sequence of maps as the value"),
])  # fmt: skip
def test_only_mappings_are_merged(text: bytes, says: str) -> None:
    assert says in refusal(text)[0]


def test_another_yaml_is_refused() -> None:
    with pytest.raises(Refused, match="incompatible YAML"):
        decode(b"%YAML 1.2\n---\n" + HEADER, "f.yaml", 36)
    assert decode(b"%YAML 1.1\n---\n" + HEADER, "f.yaml", 36).values["kind"] == "KubeletConfiguration"


def test_a_merge_goes_over_what_stands_before_it() -> None:
    assert load(b"x: &x {maxPods: 5}\nmaxPods: 6\n<<: *x").values["maxPods"] == 5
    assert load(b"x: &x {maxPods: 5}\n<<: *x\nmaxPods: 6").values["maxPods"] == 6
    assert load(b"x: &x {maxPods: 5}\ny: &y {maxPods: 7}\n<<: [*x, *y]").values["maxPods"] == 5
    assert "maxPods" not in load(b'x: &x {maxPods: 5}\n"<<": *x').values


def test_merge_keys_and_aliases_are_followed() -> None:
    document = load(b"kubeReserved: &a {cpu: '1'}\nsystemReserved: {<<: *a, memory: 1Gi}\n")
    assert document.values["systemReserved"] == {"cpu": "1", "memory": "1Gi"}


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(SCALARS)), max_size=6), st.integers(27, 37))
def test_any_configuration_is_judged_or_refused(entries: list[tuple[str, str]], minor: int) -> None:
    text = HEADER + "\n".join(f"{name}: {value}" for name, value in entries).encode()
    with contextlib.suppress(Refused):
        assert effective(("f.yaml", HEADER), {"d/1.conf": text, "d/2.conf": text}, {}, minor).values is not None
    try:
        document = effective(("f.yaml", text), {}, {}, minor)
    except Refused:
        return
    for problem in problems(settings(document.values, minor), MACHINE):
        assert problem.message
        assert document.place(*problem.path)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_refused(data: bytes) -> None:
    for prefix in (b"", HEADER, b"{"):
        with contextlib.suppress(Refused, CannotRead):
            assert decode(prefix + data, "f.yaml", 36).values["kind"] == "KubeletConfiguration"


@given(st.text(max_size=60))
def test_any_text_is_json_or_gos_complaint(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert gojson.kind_of(gojson.decode(text)) in ("bool", "number", "string", "array", "object")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "unexpected end of JSON input"),
        ("static", "invalid character 's' looking for beginning of value"),
        ('{"a":1', "unexpected end of JSON input"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        ("1.", "unexpected end of JSON input"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('{"a":1}x', "invalid character 'x' after top-level value"),
        ("[" * 20000, "exceeded max depth"),
    ],
)
def test_bad_json_is_told_in_gos_words(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        gojson.decode(text)
    assert str(caught.value) == complaint


def test_drop_ins_merge_maps_replace_lists_and_take_keys_out() -> None:
    base = HEADER + (
        b"cpuManagerPolicy: none\nkubeReserved: {cpu: '1', memory: 1Gi}\n"
        b"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\nenforceNodeAllocatable: [none]\n"
    )
    drop_ins = {
        "d/10.conf": HEADER + b"kubeReserved: {memory: 2Gi, cpu: null}\nevictionHard: {nodefs.available: 5%}\n",
        "d/20.conf": HEADER + b"reservedMemory: [{numaNode: 1, limits: {memory: 2Gi}}]\ncpuManagerPolicy: static\n",
    }
    found = effective(("f.yaml", base), drop_ins, {}, 36)
    assert found.values["kubeReserved"] == {"memory": "2Gi"}
    assert [(entry["numaNode"], str(entry["limits"]["memory"])) for entry in found.values["reservedMemory"]] == [
        (1, "2Gi")
    ]
    assert found.values["evictionHard"]["memory.available"] == "100Mi"
    assert found.values["evictionHard"]["nodefs.available"] == "5%"
    assert found.values["enforceNodeAllocatable"] == ["none"]
    assert [
        found.place(*path) for path in (("cpuManagerPolicy",), ("kubeReserved", "memory"), ("enforceNodeAllocatable",))
    ] == [
        "d/20.conf:4",
        "d/10.conf:3",
        "f.yaml:6",
    ]
    assert found.place("evictionHard", "memory.available") == "default"


@pytest.mark.parametrize(
    ("text", "minor", "says"),
    [
        (b"", 36, "was empty"),
        (b"maxPods: 1", 36, "no apiVersion/kind"),
        (b"apiVersion: v1\nkind: Pod", 36, "unknown apiVersion/kind: v1, Kind=Pod"),
        (HEADER, 27, "unknown flag: --config-dir"),
        (HEADER + b"maxPods: a", 36, "cannot unmarshal string"),
    ],
)
def test_a_drop_in_that_is_none_keeps_the_kubelet_from_starting(text: bytes, minor: int, says: str) -> None:
    with pytest.raises(Refused, match=says):
        effective(("f.yaml", HEADER), {"d/1.conf": text}, {}, minor)


def test_other_letters_have_an_effect_in_drop_ins_only() -> None:
    assert "reservedSystemCPUs" not in load(b"reservedSystemCpus: 0-3").values
    found = effective(("f.yaml", HEADER), {"d/1.conf": HEADER + b"reservedSystemCpus: 0-3"}, {}, 36)
    assert found.values["reservedSystemCPUs"] == "0-3"


def test_an_eviction_map_of_its_own_has_no_defaults_unless_it_asks_for_them() -> None:
    own = b"evictionHard: {nodefs.available: 5%}\n"
    assert effective(("f", HEADER + own), {}, {}, 36).values["evictionHard"] == {"nodefs.available": "5%"}
    merged = effective(("f", HEADER + own + b"mergeDefaultEvictionSettings: true"), {}, {}, 36).values["evictionHard"]
    assert (merged["memory.available"], merged["nodefs.available"]) == ("100Mi", "5%")
    assert "imagefs.inodesFree" not in effective(("f", HEADER), {}, {}, 29).values["evictionHard"]
    assert effective(None, {}, {}, 36).values["evictionHard"] == {}


def test_flags_win_over_files_and_feature_gates_are_joined() -> None:
    flags = parse_flags(
        "/usr/bin/kubelet --config=x --reserved-cpus 0-1 --v=2 --feature-gates=A=true,B=false --fail_swap_on=false "
        "--kube-reserved=cpu=1,memory=1Gi --eviction-hard 'memory.available<5%,nodefs.available<1Gi' "
        "--reserved-memory '0:memory=1Gi;1:memory=2Gi,hugepages-2Mi=4Mi' --cgroups-per-qos"
    )
    text = b"reservedSystemCPUs: 0-7\nfeatureGates: {A: false, C: true}\n"
    found = effective(("f.yaml", HEADER + text), {}, flags, 36)
    assert found.values["reservedSystemCPUs"] == "0-1"
    assert found.values["featureGates"] == {"A": True, "B": False, "C": True}
    assert found.values["kubeReserved"] == {"cpu": "1", "memory": "1Gi"}
    assert found.values["evictionHard"] == {"memory.available": "5%", "nodefs.available": "1Gi"}
    assert [(entry["numaNode"], len(entry["limits"])) for entry in found.values["reservedMemory"]] == [(0, 1), (1, 2)]
    assert (found.values["failSwapOn"], found.values["cgroupsPerQOS"]) == (False, True)
    assert found.place("reservedSystemCPUs") == "--reserved-cpus"


@pytest.mark.parametrize(
    ("text", "value"), [("1h2m3.5s", 3723500000000), ("-1s", -1000000000), ("0", 0), ("1.5us", 1500)]
)
def test_durations_are_gos(text: str, value: int) -> None:
    assert nanoseconds(text) == value


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "1d", ".s", "99999999999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"time: (invalid duration|missing unit in duration|unknown unit .* in duration) "
    ):
        nanoseconds(text)


def test_cpu_lists_are_read_as_the_kubelet_does() -> None:
    assert str(parse_cpus("0-3,8,+9")) == "0-3,8-9"
    for text, says in (
        ("0, 1", 'parsing " 1"'),
        ("3-1", "3 > 1"),
        ("0-", 'parsing ""'),
        ("1,", 'parsing ""'),
        ("0-9999999", "beyond"),
    ):
        with pytest.raises(ValueError, match=says):
            parse_cpus(text)
    with pytest.raises(ValueError, match="out of range"):
        go_atoi("9" * 30)


def test_the_examples_hold() -> None:
    failed, tried = doctest.testmod(numalign.kubelet.yaml)
    assert (failed, tried > 0) == (0, True)


def test_flags_that_stand_several_times_add_up() -> None:
    found = parse_flags(
        "--reserved-memory 0:memory=50Mi --reserved-memory 1:memory=60Mi --feature-gates=A=true --feature-gates B=false "
        "--kube-reserved='cpu=1, memory=1Gi' --kube-reserved=pid=9 --cpu-manager-policy=none --cpu-manager-policy=static"
    )
    values = effective(("f.yaml", HEADER), {}, found, 36).values
    assert [(entry["numaNode"], str(entry["limits"]["memory"])) for entry in values["reservedMemory"]] == [
        (0, "50Mi"),
        (1, "60Mi"),
    ]
    assert values["featureGates"] == {"A": True, "B": False}
    assert values["kubeReserved"] == {"cpu": "1", "memory": "1Gi", "pid": "9"}
    assert values["cpuManagerPolicy"] == "static"


@pytest.mark.parametrize("flags", ["--cgroups-per-qos=maybe", "--feature-gates=A=maybe"])
def test_a_flag_that_is_no_boolean_keeps_the_kubelet_from_starting(flags: str) -> None:
    with pytest.raises(Refused, match="invalid argument"):
        effective(("f.yaml", HEADER), {}, parse_flags(flags), 36)


def test_a_misspelt_flag_is_told() -> None:
    with pytest.raises(WrongUsage) as told:
        parse_flags("--reserved-cpu=0-3")
    assert told.value.hint == "did you mean --reserved-cpus?"
    assert parse_flags("--v=2 --node-ip 10.0.0.1 --eviction-pressure-transition-period=5m") == {}


def test_drop_ins_name_their_own_faults() -> None:
    found = effective(("f.yaml", HEADER), {"/d/50.conf": HEADER + b"memorySwap: {swapBehaviour: NoSwap}\n"}, {}, 36)
    assert [field.place for field in found.ignored] == ["/d/50.conf:3"]
    with pytest.raises(Refused) as caught:
        effective(("f.yaml", HEADER), {"/d/50.conf": HEADER + b"maxPods: abc\n"}, {}, 36)
    assert caught.value.placed("f.yaml") == "/d/50.conf:3"
