from __future__ import annotations

import pytest

from doctor.errors import DoctorError
from doctor.launch.alloc_conf import merge_alloc_conf, parse_alloc_conf


def test_parse_alloc_conf_keeps_lists_whole():
    text = "expandable_segments:True, roundup_power2_divisions:[256:1,512:2,>:4],"
    assert parse_alloc_conf(text) == {
        "expandable_segments": "True",
        "roundup_power2_divisions": "[256:1,512:2,>:4]",
    }


@pytest.mark.parametrize("text", ["expandable_segments", "a:1,b", ":x", "a:[1", "expandable_segments=True"])
def test_parse_alloc_conf_refuses(text):
    with pytest.raises(DoctorError, match="PYTORCH_ALLOC_CONF"):
        parse_alloc_conf(text)


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        ("", "a:1", "a:1"),
        ("a:1,b:2", "b:3", "a:1,b:3"),
        ("a:1", "b:2", "a:1,b:2"),
        ("a:1,b:2", "a:", "b:2"),
        ("a:1", "a:", ""),
        ("broken", "a:1", "a:1"),
    ],
)
def test_merge_alloc_conf(old, new, merged):
    assert merge_alloc_conf(old, new) == merged


def test_merge_alloc_conf_twice_changes_nothing():
    once = merge_alloc_conf("max_split_size_mb:64", "expandable_segments:True")
    assert merge_alloc_conf(once, "expandable_segments:True") == once
