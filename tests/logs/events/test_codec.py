from doctor.logs.events import codec
from tests.helpers import FIXTURES
from tests.logs.events.helpers import parse


def test_codec_text_of_a_real_log_is_one_event_per_module() -> None:
    event, cut = parse(codec, (FIXTURES / "seed/offload_vram_torchcodec_noise.log").read_bytes())
    assert event.module == "sglang.srt.multimodal.processors.mimo_audio"
    assert event.missing == (
        "libavdevice.so.62",
        "libavutil.so.59",
        "libavutil.so.58",
        "libavutil.so.57",
        "libavutil.so.56",
    )
    assert event.torch == "2.13.0+cu130"
    assert len(event.record.lines) == 106
    assert (cut.module, cut.missing) == ("sglang.srt.multimodal.processors.mimo_v2", ())


def test_codec_near_miss_another_skipped_module() -> None:
    assert (
        parse(
            codec,
            "[2026-04-24 06:29:19] Ignore import error when loading sglang.srt.models.x: No module named 'libtorchcodec_core'",
        )
        == []
    )


def test_codec_library_of_another_kind_is_not_ffmpeg() -> None:
    (event,) = parse(
        codec, "RuntimeError: Could not load libtorchcodec. libnvrtc.so.13: cannot open shared object file"
    )
    assert (event.missing, event.module, event.torch) == ((), "", None)


def test_codec_hostile_names_end_in_time() -> None:
    (event,) = parse(codec, "Could not load libtorchcodec " + "libav" * 100_000 + " libav.so." * 50_000)
    assert event.missing == ()
