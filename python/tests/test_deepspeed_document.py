# SPDX-License-Identifier: Apache-2.0

"""How a DeepSpeed configuration is read: as DeepSpeed reads it, and with the lines of its keys."""

import pytest

from penstock.deepspeed.document import BYTES_MAX, Fault, parse


def fault_of(text):
    with pytest.raises(Fault) as raised:
        parse(text if isinstance(text, bytes) else text.encode())
    return raised.value


@pytest.mark.parametrize("text", ["", "{", '{"a": }', "{} {}", b"\xff\xfe", '{"a": NaN}', '{"a": "\\q"}',
                                  '{"a": ' + "9" * 5000 + "}", '{"a": "b', "{a: '''b}", "{/* }"])
def test_what_deepspeed_cannot_read_is_a_fault(text):
    assert "is not JSON here" in str(fault_of(text))


def test_a_fault_has_its_line_and_column():
    fault = fault_of('{"a": 1,\n  "b": ]\n}')
    assert (fault.line, fault.column) == (2, 8)


def test_hjson_is_read_as_deepspeed_reads_it_and_told_to_be_no_json():
    text = ("{\n  # faster\n  aio: {\n    block_size: 1e6, queue_depth: 8.0\n    use_gds: true /* on */\n  }\n"
            "  x: one, two }\n}")
    document = parse(text.encode())
    assert document.root == {"aio": {"block_size": 10**6, "queue_depth": 8, "use_gds": True}, "x": "one, two }"}
    assert document.lines == {"aio": 3, "aio.block_size": 4, "aio.queue_depth": 4, "aio.use_gds": 5, "x": 7}
    assert parse(b"a: 'one\"two'\nb: [1, \"2\"\n3,]").root == {"a": 'one"two', "b": [1, "2", 3]}
    assert parse(b'{"a": 1,\n}').not_json[0] == 2
    assert parse(b'{"a": 1}').not_json is None


def test_a_key_that_is_given_twice_is_refused_with_both_lines():
    fault = fault_of('{"aio": {"use_gds": true,\n"use_gds": false}}')
    assert '"aio.use_gds" is given twice, in line 1 too' in str(fault) and fault.line == 2
    assert parse(b'{"a": {"c": 1}, "b": {"c": 1}, "d": [{"c": 1}, {"c": 1}]}').lines.keys() == {
        "a", "a.c", "b", "b.c", "d"}


def test_what_is_no_object_too_deep_or_too_large_is_refused():
    for text in ("[]", "1", "null", '"aio"'):
        assert "one object" in str(fault_of(text))
    for text in ('{"a":' * 100000, '{"a":' + "[" * 100000):
        assert "nested deeper" in str(fault_of(text))
    assert "larger than 1 MiB" in str(fault_of(" " * (BYTES_MAX + 1)))
