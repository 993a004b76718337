"""Event modules are found by themselves, in order, and every keyword may reach its parser."""

import pkgutil

import doctor.logs.events as package
from doctor.logs.events import load_parsers


def test_every_module_with_keywords_is_loaded_in_order_of_name() -> None:
    names = [parser.name for parser in load_parsers()]
    assert names == sorted(info.name for info in pkgutil.iter_modules(package.__path__) if info.name != "types")


def test_keywords_are_bytes_and_long_enough_to_search_for() -> None:
    assert all(
        isinstance(keyword, bytes) and len(keyword) >= 4 for parser in load_parsers() for keyword in parser.keywords
    )
