"""FFmpeg and torchcodec."""

import pytest

from doctor.probes import codecs
from tests.probes.helpers import (
    LAUNCH,
    make_package,
    make_python,
    make_sglang,
    make_torch,
    problems,
    see_python,
    statuses,
    write,
)


def see_codecs(root, libraries, cores, config="{}", *, codec="0.11.1", tried=None, torch="2.11.0"):
    write(root, "/m/config.json", config)
    rows = (make_torch(torch), *([make_package("torchcodec", codec)] if codec else []))
    found = [{"avutil": number + 52, "ffmpeg": number, "error": ""} for number in libraries]
    observed = {"codecs": {"libraries": found, "cores": cores}}
    if tried is not None:
        observed["imports"] = {"torch": {"version": "2.11.0"}, "torchcodec": {"cores": tried}}
    return see_python(root, make_python(*rows), LAUNCH, observed=observed, model=root / "m")


AUDIO = '{"audio_config": {"a": 1}}'

CORES = [f"libtorchcodec_core{number}.so" for number in (4, 5, 6, 7)]


def test_codecs_of_a_text_model_are_one_quiet_line(tmp_path):
    assert statuses(codecs, see_codecs(tmp_path, [], CORES)) == ["not-applicable"]


def test_codecs_of_an_audio_model(tmp_path):
    assert statuses(codecs, see_codecs(tmp_path, [6], CORES, AUDIO)) == ["ok"]


def test_codecs_with_an_ffmpeg_that_no_core_matches(tmp_path):
    write(tmp_path, "/etc/os-release", 'ID=ubuntu\nID_LIKE="debian"\n')
    (found,) = problems(codecs, see_codecs(tmp_path, [9], CORES, AUDIO))
    assert found.severity == "warning"
    assert found.fixes == ("sudo apt-get install -y ffmpeg",)


def test_codecs_without_torchcodec(tmp_path):
    (found,) = problems(codecs, see_codecs(tmp_path, [6], [], AUDIO, codec=None))
    assert "torchcodec==0.11.*" in found.fixes[0]


def test_torchcodec_of_another_torch(tmp_path):
    assert "another torch" in problems(codecs, see_codecs(tmp_path, [6], CORES, AUDIO, codec="0.7.0"))[0].summary


@pytest.mark.parametrize(
    ("torch", "codec", "good"),
    [
        ("2.9.1", "0.8.0", True),
        ("2.9.1", "0.9.1", True),
        ("2.8.0", "0.6.0", True),
        ("2.9.1", "0.7.0", False),
        ("2.11.0", "0.12.0", True),
        ("2.14.1", "0.17.0", True),
        ("2.9.1", "0.17.0", False),
        ("2.3.0", "0.0.3", True),
    ],
)
def test_torchcodec_beside_torch_by_the_table(tmp_path, torch, codec, good):
    context = see_codecs(tmp_path, [6], CORES, AUDIO, codec=codec, torch=torch)
    assert (problems(codecs, context) == []) is good


NO_FFMPEG = "libavutil.so.59: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("tried", "words"),
    [
        ({"7": NO_FFMPEG, "6": ""}, None),
        ({"7": "core7.so: undefined symbol: av_frame_new", "6": ""}, None),
        ({"7": NO_FFMPEG, "6": NO_FFMPEG}, "no FFmpeg library it can use"),
        ({"7": NO_FFMPEG, "6": "core6.so: undefined symbol: _ZN3c104impl3cow"}, "built for another torch"),
        ({"6": "libblas.so.3: cannot open shared object file"}, "no FFmpeg library it can use"),
    ],
)
def test_torchcodec_by_what_loading_its_cores_says(tmp_path, tried, words):
    """A pair that no table has, and a libavutil that loads while libraries it is not alone with do not."""
    found = problems(codecs, see_codecs(tmp_path, [6], CORES, AUDIO, codec="0.7.0", tried=tried))
    assert [words in problem.summary for problem in found] == ([True] if words else [])
    if words:
        assert list(tried.values())[-1] in " ".join(found[0].evidence)


def test_torchcodec_is_installed_as_sglang_pins_it(tmp_path):
    write(tmp_path, "/m/config.json", AUDIO)
    python = make_python(make_torch(), make_sglang("0.5.15.post1", "torchcodec==0.11.1"))
    observed = {"codecs": {"libraries": [], "cores": []}}
    (found,) = problems(codecs, see_python(tmp_path, python, LAUNCH, observed=observed, model=tmp_path / "m"))
    assert found.fixes[0].endswith("torchcodec==0.11.1")
