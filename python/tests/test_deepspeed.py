# SPDX-License-Identifier: Apache-2.0

"""What `python -m penstock check --deepspeed` says of configurations, wherever they may run."""

import json
from pathlib import Path

import pytest

from penstock import deepspeed_commands
from penstock.deepspeed import Report, judge, rules
from penstock.deepspeed.config import Config
from penstock.deepspeed.document import parse

FIXTURES = Path(__file__).resolve().parents[2] / "test" / "fixtures" / "deepspeed"
AT_LAUNCH = ["warning load_refused checkpoint.writer", "note launcher checkpoint.writer"]


def findings_on(text, refusals=None):
    config = Config(parse(text.encode()), refusals)
    rules.check(config)
    return config.findings()


def lint(text, refusals=None):
    return [f"{each.severity} {each.code} {each.key}" for each in findings_on(text, refusals)]


def with_parameters_offloaded(more):
    """At stage 3, with parameters on a drive from the first element on: what reads use_gds."""
    return ('{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/data", '
            f'"max_in_cpu": 0}}}}, {more}}}')


def with_writer(writer, stage=3):
    return f'{{"zero_optimization": {{"stage": {stage}}}, "checkpoint": {{"writer": {writer}}}}}'


# ---- Keys, each by itself.


def test_a_file_with_many_findings_is_answered_in_bounds():
    text = '{"aio": {' + ",".join(f'"k{i}": 1' for i in range(50000)) + "}}"
    assert len(findings_on(text)) <= 256


def test_a_configuration_without_files_has_nothing_to_tell():
    assert lint("{}") == []
    assert lint('{"train_batch_size": "auto", "bf16": {"enabled": true}, "aio": {}, "checkpoint": null}') == []


def test_hjson_is_a_warning_since_others_take_json_alone():
    assert lint('{"a": 1,}') == ["warning not_json "]


def test_thread_count_is_no_key_and_its_name_is_told():
    finding, = findings_on('{"aio": {\n"thread_count": 1}}')
    assert (finding.severity, finding.key, finding.value, finding.line) == ("warning", "aio.thread_count", "1", 2)
    assert "intra_op_parallelism" in finding.expected


def test_a_misspelt_key_is_a_warning_where_deepspeed_reads_past_it_and_else_an_error():
    assert lint('{"aio": {"blok_size": 1048576}}') == ["warning no_such_key aio.blok_size"]
    assert findings_on('{"aio": {"blok_size": 1}}')[0].remedy == 'Write "block_size".'
    assert findings_on('{"aio": {"zzz": 1}}')[0].remedy == "Remove it."
    assert lint('{"checkpoint": {"writer": {"dekoupled": true}}}') == [
        "warning no_such_key checkpoint.writer.dekoupled", "warning file_names checkpoint.writer.type", *AT_LAUNCH]
    assert lint('{"zero_optimization": {"offload_param": {"buffer_cont": 5}}}') == [
        "error no_such_key zero_optimization.offload_param.buffer_cont"]
    assert lint('{"zero_optimization": {"offload_params": {"device": "nvme"}}}') == [
        "error no_such_key zero_optimization.offload_params"]
    assert lint('{"zero_optimization": {"stage3_prefetch_bucket_sise": 1}}') == [
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
    assert lint(f'{{"aio": {{"queue_depth": {value}}}}}') == ["error wrong_value aio.queue_depth"]


def test_a_value_of_another_kind_is_an_error():
    for value in ("1", '"true"', "[]"):
        assert lint(f'{{"aio": {{"single_submit": {value}}}}}') == ["error wrong_value aio.single_submit"]
    optimizer = "zero_optimization.offload_optimizer"
    for name, value in (("device", '"disk"'), ("device", '"NVMe"'), ("ratio", "2"), ("buffer_count", "2.5")):
        assert lint(f'{{"zero_optimization": {{"offload_optimizer": {{"{name}": {value}}}}}}}') == [
            f"error wrong_value {optimizer}.{name}"]
    for block in ("aio", "checkpoint"):
        assert lint(f'{{"{block}": 1}}') == [f"error wrong_value {block}"]
    assert lint('{"checkpoint": {"writer": "fast"}}') == ["error wrong_value checkpoint.writer"]


def test_whole_numbers_may_have_an_exponent_or_a_point():
    assert lint('{"aio": {"block_size": 1048576.0, "queue_depth": 1e1}}') == []
    assert lint('{"zero_optimization": {"stage": 3.0, "offload_param": {"buffer_size": 1e8, "max_in_cpu": 1e9}}}') == []


def test_models_take_texts_for_numbers_and_words_for_switches():
    assert lint('{"zero_optimization": {"offload_param": {"buffer_count": "5", "pin_memory": "yes"}}}') == []


def test_auto_stands_for_the_default_in_offload_blocks_alone():
    assert lint('{"zero_optimization": {"offload_param": {"buffer_size": "auto"}}}') == []
    assert lint('{"aio": {"block_size": "auto"}}') == ["error wrong_value aio.block_size"]


def test_numbers_out_of_range_are_errors_and_immoderate_ones_warnings():
    assert lint('{"aio": {"queue_depth": 0}}') == ["error out_of_range aio.queue_depth"]
    assert lint('{"aio": {"intra_op_parallelism": -1}}') == ["error out_of_range aio.intra_op_parallelism"]
    assert lint('{"aio": {"block_size": 4294967296}}') == ["error out_of_range aio.block_size"]
    assert lint('{"aio": {"queue_depth": 4096}}') == ["warning unusual_value aio.queue_depth"]


# ---- DeepSpeed's own word.


def test_of_its_own_models_deepspeed_has_the_last_word():
    text = '{"zero_optimization": {"new_key": 1, "offload_param": {"buffer_count": [5]}}}'
    assert lint(text, judge.Refusals("9.9", {})) == []
    why = {"zero_optimization.new_key": "Extra inputs are not permitted", "zero_optimization": "stage: a number"}
    assert lint(text, judge.Refusals("9.9", why)) == ["error no_such_key zero_optimization.new_key"]
    finding, = findings_on("{}", judge.Refusals("9.9", {"zero_optimization": "the ratio\nmakes no sense"}))
    assert (finding.code, finding.cause) == ("refused", "DeepSpeed 9.9 refuses it: the ratio makes no sense")


def test_where_deepspeed_cannot_be_imported_the_tables_judge_and_it_is_said():
    silent = judge.Refusals("", {}, "ImportError: no libaio")
    assert lint('{"zero_optimization": {"zzz": 1}}', silent) == ["error no_such_key zero_optimization.zzz",
                                                                 "note deepspeed_silent "]


def test_deepspeeds_own_classes_agree_with_the_tables():
    pytest.importorskip("deepspeed")
    for text, refused in (('{"zero_optimization": {"stage": 3, "offload_param": {"buffer_size": 1e8}}}', set()),
                          ('{"zero_optimization": {"aio": {}}}', {"zero_optimization.aio"}),
                          ('{"zero_optimization": {"offload_optimizer": {"ratio": 2, "device": "NVMe"}}}',
                           {"zero_optimization.offload_optimizer.ratio", "zero_optimization.offload_optimizer.device"}),
                          ('{"checkpoint": {"writer": {"type": "torch"}}}', {"checkpoint"})):
        asked = judge.refusals(parse(text.encode()).root)
        assert asked.failure == "" and set(asked.by_key) == refused
        errors = [each for each in lint(text) if each.startswith("error")]
        assert errors == [each for each in lint(text, asked) if each.startswith("error")]
        assert bool(errors) == bool(refused)


# ---- What keys mean together.


def test_gds_with_the_optimizer_swap_alone_is_without_effect():
    assert "warning gds_without_effect aio.use_gds" in lint(
        '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/data"}}, '
        '"aio": {"use_gds": true}}')


def test_gds_is_for_the_parameter_swap_of_stage_three_and_the_fast_writer():
    assert lint(with_parameters_offloaded('"aio": {"use_gds": true}')) == [
        "warning gds_wait aio.use_gds", "note gds_users aio.use_gds",
        "note swap_buffers zero_optimization.offload_param.buffer_size"]
    by_writer = ('{"zero_optimization": {"stage": 3}, "checkpoint": {"writer": {"type": "%s"}}, '
                 '"aio": {"use_gds": true}}')
    assert lint(by_writer % "FAST") == ["warning gds_wait aio.use_gds", AT_LAUNCH[0], "note gds_users aio.use_gds",
                                        AT_LAUNCH[1]]
    assert lint(by_writer % "python") == ["warning gds_without_effect aio.use_gds", *AT_LAUNCH]


@pytest.mark.parametrize(("size", "is_taken"), [(65536, True), (1048576, True), (16777216, True), (4096, False),
                                                (69632, False), (33554432, False)])
def test_with_gds_a_block_must_be_what_cufile_takes_for_one_operation(size, is_taken):
    lines = lint(with_parameters_offloaded(f'"aio": {{"use_gds": true, "block_size": {size}}}'))
    assert (lines[0] != "error gds_block_size aio.block_size") == is_taken


def test_blocks_must_fit_the_drive():
    assert lint('{"aio": {"block_size": 1048577}}') == ["error block_size_alignment aio.block_size"]
    assert lint('{"aio": {"block_size": 1049088}}') == ["warning block_size_alignment aio.block_size"]
    assert lint('{"aio": {"block_size": 8192}}') == ["warning unusual_value aio.block_size"]


def test_without_overlap_blocks_times_depth_must_fit_thirty_two_bits():
    aio = '{"aio": {"block_size": 8388608, "queue_depth": %d, "overlap_events": %s}}'
    assert lint(aio % (256, "false")) == ["error queue_too_large aio.queue_depth"]
    assert lint(aio % (128, "false")) == [] == lint(aio % (256, "true"))


def test_drives_are_for_stage_three_and_need_a_folder():
    optimizer = "zero_optimization.offload_optimizer"
    assert lint('{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}}') == [
        f"error no_nvme_path {optimizer}.nvme_path", f"warning stage {optimizer}.device"]
    assert lint('{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}') == []


def test_swap_buffers_are_told_in_bytes_and_what_stays_in_memory():
    first, second = findings_on(
        '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/data"}}}')
    assert "0.93 GiB of page-locked host memory" in first.cause
    assert second.key == "zero_optimization.offload_param.max_in_cpu"


def test_a_writer_that_writes_nothing_is_an_error():
    for name, code in (("Mock", "mock_writer"), ("torch", "wrong_value")):
        assert lint(with_writer(f'{{"type": "{name}"}}')) == [f"error {code} checkpoint.writer.type", *AT_LAUNCH]


def test_the_writers_buffer_holds_whole_blocks():
    buffer = "checkpoint.writer.io_buffer_size"
    for size, line in (("64000000", f"warning writer_buffer {buffer}"), ("64000001", f"error writer_buffer {buffer}"),
                       ("64e6", f"warning writer_buffer {buffer}"), ("64.5", f"error wrong_value {buffer}")):
        assert lint(with_writer(f'{{"io_buffer_size": {size}}}')) == [line, *AT_LAUNCH]
    assert lint(with_writer('{"io_buffer_size": 4096, "io_buffer_double": false}')) == AT_LAUNCH


def test_options_of_the_writer_that_the_stage_leaves_unread_are_noted():
    assert lint(with_writer('{"data_parallel": "socket", "io_multiplier": 2}')) == [
        AT_LAUNCH[0], "note without_effect checkpoint.writer.data_parallel",
        "note without_effect checkpoint.writer.io_multiplier", AT_LAUNCH[1]]
    assert lint(with_writer('{"data_parallel": "rack"}')) == ["error wrong_value checkpoint.writer.data_parallel",
                                                              *AT_LAUNCH]
    assert lint(with_writer("{}", 1)) == ["warning file_names checkpoint.writer.type", *AT_LAUNCH]


# ---- The page.


def test_the_page_for_a_configuration_as_texts_on_gds_have_it():
    text = (FIXTURES / "optimizer-offload.json").read_text()
    report = Report("optimizer-offload.json", "0.19.8", findings_on(text))
    assert "\n".join(deepspeed_commands.page(report)) + "\n" == (FIXTURES / "optimizer-offload.txt").read_text()


def test_the_document_for_programs_says_none_where_nothing_is_known():
    document = Report("x.json", "0.19.8", findings_on('{"aio": {"use_gds": true}}')).document()
    row, = document["findings"]
    assert (row["line"], row["column"], row["value"], row["remedy"][:7]) == (1, None, "true", "Offload")
    assert (document["errors"], document["warnings"], document["notes"], document["schema"]) == (0, 1, 0, 1)
    json.dumps(document)
