"""Space and rights where the server writes."""
# ruff: noqa: S108 - these folders are looked at, nothing is written to them

import pytest

from doctor.probes import disk
from doctor.probes.base.context import Answer
from tests.probes.helpers import (
    GIB,
    TP4,
    make_context,
    make_path,
    problems,
    run,
    statuses,
)


def see_disk(root, *rows, command="", environment=None):
    paths = {path: row for found in rows for path, row in found.items()}
    return make_context(root, command, observed={"paths": paths}, environment=environment)


def test_disk_with_space(tmp_path):
    assert statuses(disk, see_disk(tmp_path, make_path("/tmp"), make_path("/root/.cache/sglang"))) == ["ok"]


@pytest.mark.parametrize(
    ("fields", "words", "severity"),
    [
        ({"writable": False}, "not writable", "error"),
        ({"free": 0}, "is full", "error"),
        ({"free": GIB}, "compiled kernels", "warning"),
        ({"inodes": 3}, "inodes", "error"),
        ({"error": "Stale file handle"}, "Stale", "warning"),
    ],
)
def test_disk_with_a_fault(tmp_path, fields, words, severity):
    (found,) = problems(disk, see_disk(tmp_path, make_path("/root/.cache/flashinfer", **fields)))
    assert words in found.summary
    assert found.severity == severity


@pytest.mark.parametrize(("path", "count"), [("/tmp", 0), ("/root/.cache/sglang", 1)])
def test_disk_for_temporary_files_may_be_smaller(tmp_path, path, count):
    assert len(problems(disk, see_disk(tmp_path, make_path(path, free=2 * GIB)))) == count


def test_disk_of_a_cache_that_was_moved_is_named_by_its_variable(tmp_path):
    environment = {"SGLANG_CACHE_DIR": "/data/cache"}
    (found,) = problems(disk, see_disk(tmp_path, make_path("/data/cache", writable=False), environment=environment))
    assert found.fixes[0].startswith("set SGLANG_CACHE_DIR ")


def test_disk_of_the_model_is_not_written_to(tmp_path):
    command = "sglang serve --model-path /models/m"
    context = see_disk(tmp_path, make_path("/tmp"), make_path("/models/m", writable=False, free=0), command=command)
    assert statuses(disk, context) == ["ok"]


def test_disk_that_several_caches_share_is_named_once_as_badly_as_the_worst(tmp_path):
    rows = [make_path(path, folder="/root", writable=False) for path in (HUB, "/root/.cache/sglang", "/root/.triton")]
    (found,) = problems(disk, see_disk(tmp_path, *rows))
    assert (found.severity, len(found.fixes)) == ("error", 3)


def test_disk_without_inode_counts_is_fine(tmp_path):
    assert problems(disk, see_disk(tmp_path, make_path("/tmp", inodes=0, has_inodes=False))) == []


def test_disk_that_hangs_is_named(tmp_path):
    answer = Answer(make_path("/tmp"), "/mnt/dead does not answer (python gave no answer within 5 s)")
    found = run(disk, make_context(tmp_path, observed={"paths": answer}))
    assert [result.status for result in found] == ["unknown"]
    assert "/mnt/dead" in found[0].reason


HUB = "/root/.cache/huggingface/hub"


def test_model_that_would_be_downloaded(tmp_path):
    context = see_disk(tmp_path, make_path(HUB), command="sglang serve --model-path org/name")
    (found,) = problems(disk, context)
    assert ("will be downloaded" in found.summary, found.severity) == (True, "info")


@pytest.mark.parametrize("path", ["s3://bucket/model", "/models/m", "gpt2"])
def test_model_that_is_not_downloaded_from_the_hub(tmp_path, path):
    assert problems(disk, see_disk(tmp_path, make_path(HUB), command=f"sglang serve --model-path {path}")) == []


def test_model_from_another_hub_is_not_looked_for_in_this_one(tmp_path):
    environment = {"SGLANG_USE_MODELSCOPE": "true"}
    command = "sglang serve --model-path org/name"
    assert problems(disk, see_disk(tmp_path, make_path(HUB), command=command, environment=environment)) == []


@pytest.mark.parametrize(
    ("command", "severity"), [("", "info"), (TP4, "info"), ("sglang serve --model-path org/name", "error")]
)
def test_cache_of_the_hub_that_is_read_only(tmp_path, command, severity):
    found = problems(disk, see_disk(tmp_path, make_path(HUB, writable=False), command=command))
    assert (found[0].severity, "not writable" in found[0].summary) == (severity, True)


def test_model_that_may_not_be_downloaded(tmp_path):
    context = see_disk(
        tmp_path, make_path("/tmp"), command="sglang serve --model-path org/name", environment={"HF_HUB_OFFLINE": "1"}
    )
    assert problems(disk, context)[0].severity == "error"
