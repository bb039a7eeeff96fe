# SPDX-License-Identifier: Apache-2.0

"""What `python -m penstock check --deepspeed` says of configurations, wherever they may run."""

import pytest

from penstock.deepspeed import rules
from penstock.deepspeed.config import Config
from penstock.deepspeed.document import parse

AT_LAUNCH = ["warning load_refused checkpoint.writer", "note launcher checkpoint.writer"]


def findings_on(text, refusals=None):
    config = Config(parse(text.encode()), refusals)
    rules.check(config)
    return config.findings()


def told(text, refusals=None):
    return [f"{each.severity} {each.code} {each.key}" for each in findings_on(text, refusals)]


# ---- Keys, each by itself.


def test_a_file_with_many_findings_is_answered_in_bounds():
    text = '{"aio": {' + ",".join(f'"k{i}": 1' for i in range(50000)) + "}}"
    assert len(findings_on(text)) <= 256


def test_a_configuration_without_files_has_nothing_to_tell():
    assert told("{}") == []
    assert told('{"train_batch_size": "auto", "bf16": {"enabled": true}, "aio": {}, "checkpoint": null}') == []


def test_hjson_is_a_warning_since_others_take_json_alone():
    assert told('{"a": 1,}') == ["warning not_json "]


def test_thread_count_is_no_key_and_its_name_is_told():
    finding, = findings_on('{"aio": {\n"thread_count": 1}}')
    assert (finding.severity, finding.key, finding.value, finding.line) == ("warning", "aio.thread_count", "1", 2)
    assert "intra_op_parallelism" in finding.expected


def test_a_misspelt_key_is_a_warning_where_deepspeed_reads_past_it_and_else_an_error():
    assert told('{"aio": {"blok_size": 1048576}}') == ["warning no_such_key aio.blok_size"]
    assert findings_on('{"aio": {"blok_size": 1}}')[0].remedy == 'Write "block_size".'
    assert findings_on('{"aio": {"zzz": 1}}')[0].remedy == "Remove it."
    assert told('{"checkpoint": {"writer": {"dekoupled": true}}}') == [
        "warning no_such_key checkpoint.writer.dekoupled", "warning file_names checkpoint.writer.type", *AT_LAUNCH]
    assert told('{"zero_optimization": {"offload_param": {"buffer_cont": 5}}}') == [
        "error no_such_key zero_optimization.offload_param.buffer_cont"]
    assert told('{"zero_optimization": {"offload_params": {"device": "nvme"}}}') == [
        "error no_such_key zero_optimization.offload_params"]
    assert told('{"zero_optimization": {"stage3_prefetch_bucket_sise": 1}}') == [
        "error no_such_key zero_optimization.stage3_prefetch_bucket_sise"]


def test_a_key_in_the_wrong_block_is_told_with_its_place():
    for inner, place in (('"use_gds": true', "aio.use_gds"), ('"aio": {"use_gds": true}', "aio")):
        finding, = findings_on(f'{{"zero_optimization": {{{inner}}}}}')
        assert (finding.severity, finding.expected, finding.remedy) == ("error", f"{place}?", f"Move it to {place}.")
    for outer, place in (('"use_gds": true', "aio.use_gds"), ('"offload_param": {}', "zero_optimization.offload_param"),
                         ('"writer": {}', "checkpoint.writer")):
        finding, = findings_on(f"{{{outer}}}")
        assert (finding.severity, finding.code, finding.expected) == ("warning", "misplaced", place)


@pytest.mark.parametrize("value", ['"auto"', "1.5", "true", "[8]", "{}", "18446744073709551615"])
def test_a_number_of_another_kind_is_an_error(value):
    assert told(f'{{"aio": {{"queue_depth": {value}}}}}') == ["error wrong_value aio.queue_depth"]


def test_a_value_of_another_kind_is_an_error():
    for value in ("1", '"true"', "[]"):
        assert told(f'{{"aio": {{"single_submit": {value}}}}}') == ["error wrong_value aio.single_submit"]
    optimizer = "zero_optimization.offload_optimizer"
    for name, value in (("device", '"disk"'), ("device", '"NVMe"'), ("ratio", "2"), ("buffer_count", "2.5")):
        assert told(f'{{"zero_optimization": {{"offload_optimizer": {{"{name}": {value}}}}}}}') == [
            f"error wrong_value {optimizer}.{name}"]
    for block in ("aio", "checkpoint"):
        assert told(f'{{"{block}": 1}}') == [f"error wrong_value {block}"]
    assert told('{"checkpoint": {"writer": "fast"}}') == ["error wrong_value checkpoint.writer"]


def test_whole_numbers_may_have_an_exponent_or_a_point():
    assert told('{"aio": {"block_size": 1048576.0, "queue_depth": 1e1}}') == []
    assert told('{"zero_optimization": {"stage": 3.0, "offload_param": {"buffer_size": 1e8, "max_in_cpu": 1e9}}}') == []


def test_models_take_texts_for_numbers_and_words_for_switches():
    assert told('{"zero_optimization": {"offload_param": {"buffer_count": "5", "pin_memory": "yes"}}}') == []


def test_auto_stands_for_the_default_in_offload_blocks_alone():
    assert told('{"zero_optimization": {"offload_param": {"buffer_size": "auto"}}}') == []
    assert told('{"aio": {"block_size": "auto"}}') == ["error wrong_value aio.block_size"]


def test_numbers_out_of_range_are_errors_and_immoderate_ones_warnings():
    assert told('{"aio": {"queue_depth": 0}}') == ["error out_of_range aio.queue_depth"]
    assert told('{"aio": {"intra_op_parallelism": -1}}') == ["error out_of_range aio.intra_op_parallelism"]
    assert told('{"aio": {"block_size": 4294967296}}') == ["error out_of_range aio.block_size"]
    assert told('{"aio": {"queue_depth": 4096}}') == ["warning unusual_value aio.queue_depth"]
