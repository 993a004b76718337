from __future__ import annotations

import pytest

from doctor.launch.versions import sort_key

ORDERED = ["0.4.6.post5", "0.4.10", "0.4.10.post2", "0.5.2", "0.5.10rc0", "0.5.10", "0.5.10.post1", "0.5.23", "1.0"]


def test_sort_key_orders_releases_candidates_and_posts():
    assert sorted(ORDERED[::2] + ORDERED[1::2], key=sort_key) == ORDERED


@pytest.mark.parametrize("text", ["v0.5.10", " 0.5.10 ", "0.5.10+cu129", "0.5.10.dev1+g12ab"])
def test_sort_key_ignores_decoration(text):
    assert sort_key(text) == sort_key("0.5.10")


@pytest.mark.parametrize("text", ["", "main", "latest", "x0.5"])
def test_sort_key_of_other_text_is_empty(text):
    assert sort_key(text) == ()
