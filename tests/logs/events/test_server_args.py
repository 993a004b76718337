import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.logs.events import server_args
from doctor.logs.events.server_args import is_plain, parse_value, split_fields
from tests.helpers import FIXTURES
from tests.logs.events.helpers import parse

PREFIX = "[2026-04-24 06:29:19] server_args="


def read(dump: str):
    (event,) = parse(server_args, PREFIX + dump)
    return event


BOTH = {
    "to 0.5.18": "ServerArgs(model_path='/m', tp_size=2, a=None, b=True, c=0.88, d=[1, 2], e={'x': 1}, f=\"it's\")",
    "from 0.5.19": "{'model_path': '/m', 'tp_size': 2, 'a': None, 'b': True, 'c': 0.88, 'd': [1, 2], 'e': {'x': 1}, 'f': \"it's\"}",
}


@pytest.mark.parametrize("dump", BOTH.values(), ids=BOTH)
def test_dump_of_both_styles(dump: str) -> None:
    event = read(dump)
    assert event.values == {
        "model_path": "/m",
        "tp_size": 2,
        "a": None,
        "b": True,
        "c": 0.88,
        "d": [1, 2],
        "e": {"x": 1},
        "f": "it's",
    }
    assert not event.truncated


def test_real_dumps_are_whole() -> None:
    for name, fields in (
        ("seed/invalid_device_ordinal.log", 300),
        ("seed/offload_vram_torchcodec_noise.log", 300),
        ("recordings/cpu/healthy_chat_200.log", 300),
    ):
        (event,) = parse(server_args, (FIXTURES / name).read_bytes())
        assert not event.truncated
        assert len(event.values) > fields, name


def test_nested_object_is_a_dict() -> None:
    event = read(
        "ServerArgs(cuda_graph_config=CudaGraphConfig(decode=Phase(backend='full', bs=[1, 2]), prefill=None), tp_size=1)"
    )
    assert event.values == {
        "cuda_graph_config": {"decode": {"backend": "full", "bs": [1, 2]}, "prefill": None},
        "tp_size": 1,
    }


def test_nested_object_of_a_real_log() -> None:
    (event,) = parse(server_args, (FIXTURES / "seed/offload_vram_torchcodec_noise.log").read_bytes())
    assert isinstance(event.values["cuda_graph_config"], dict)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<Enum.A: 'x, y'>", "<Enum.A: 'x, y'>"),
        ("torch.bfloat16", "torch.bfloat16"),
        ("nan", "nan"),
        ("'a\\'b, c)'", "a'b, c)"),
        ('\'{"a": 1, "b": [2]}\'', '{"a": 1, "b": [2]}'),
        ("'quoted ( unbalanced'", "quoted ( unbalanced"),
        ("('a', 'b')", ("a", "b")),
    ],
)
def test_value_in_a_dump(text: str, value: object) -> None:
    assert read(f"ServerArgs(x={text}, tp_size=1)").values == {"x": value, "tp_size": 1}


@pytest.mark.parametrize(
    "text",
    [
        "b'x'",
        "{1, 2}",
        "1j",
        "...",
        "1e999",
        "-1e999",
        "0x" + "f" * 200,
        "9" * 5000,
        "{(1, 2): 3}",
        "[1e999]",
        "{'a': b''}",
    ],
)
def test_literal_that_json_cannot_hold_stays_text(text: str) -> None:
    assert parse_value(text) == text


@pytest.mark.parametrize(
    "dump",
    [
        "ServerArgs(model_path='/m', tp_size=2, tokenizer='/mo",
        "ServerArgs(model_path='/m', tp_size=2, nested=X(a=1",
        "{'model_path': '/m', 'tp_size': 2",
    ],
)
def test_dump_without_end_is_truncated(dump: str) -> None:
    event = read(dump)
    assert event.truncated
    assert event.values["model_path"] == "/m"


def test_dump_cut_by_a_newline_goes_on() -> None:
    assert read("ServerArgs(model_path='/m',\n tp_size=2)").values == {"model_path": "/m", "tp_size": 2}


def test_text_after_a_dump_does_not_matter() -> None:
    assert read("ServerArgs(tp_size=2) and (more)").values == {"tp_size": 2}


@pytest.mark.parametrize(
    "text",
    [
        "launch(server_args=server_args)",
        "server_args=None",
        "server_args=ServerArgs()",
        "server_args={}",
        "server_args=ServerArgs(1, 2)",
    ],
)
def test_dump_near_miss(text: str) -> None:
    assert parse(server_args, f"[2026-04-24 06:29:19] {text}") == []


@pytest.mark.parametrize(
    "dump",
    [
        "ServerArgs(a=" + "(" * 50_000 + ")" * 50_000 + ")",
        "ServerArgs(a=" + "[" * 50_000,
        "ServerArgs(a=" + "-" * 19_000 + "1)",
        "ServerArgs(a=" + "not " * 4000 + "1)",
        "ServerArgs(a=" + "1+" * 9000 + "1)",
        "ServerArgs(a=[" + "1," * 40_000 + "])",
        "ServerArgs(" + "a=B(" * 150 + "x=1" * 20_000 + ")" * 151,
        "ServerArgs(" + "a=1, " * 19_000 + ")",
        "{" + "'a': {" * 15_000,
        "ServerArgs(a='" + "\\" * 90_000,
    ],
)
def test_hostile_dump_ends_in_time(dump: str) -> None:
    for event in parse(server_args, PREFIX + dump):
        assert all(map(is_plain, event.values.values()))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 60), 1 << 60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.from_regex(r"[a-z][a-z_0-9]{0,12}", fullmatch=True)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=8))
def test_any_arguments_come_back_from_both_styles(values: dict) -> None:
    """What Python prints is what is read, as long as a value is no string with a line end in it."""
    plain = ", ".join(f"{name}={value!r}" for name, value in values.items())
    for dump in (f"ServerArgs({plain})", repr(values)):
        fields, truncated = split_fields(dump.partition("(" if dump[0] == "S" else "{")[2])
        assert (len(fields), truncated) == (len(values), False)
    for event in (read(f"ServerArgs({plain})"), read(repr(values))):
        assert event.values == values


@given(st.text(alphabet="()[]{}<>'\"\\,=: aServ1", max_size=80))
def test_any_text_is_split_without_loss(text: str) -> None:
    fields, truncated = split_fields(text)
    joined = ",".join(fields)
    assert text.startswith(joined)
    assert truncated or len(joined) < len(text)
