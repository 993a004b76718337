"""What people save of a model's answer is read; what is not an answer is refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.logs.response import MAX_RESPONSE, Response, read_response


def chat(content, finish="stop", usage=None, **message):
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "logprobs": None,
        "finish_reason": finish,
    }
    body = {"id": "a", "object": "chat.completion", "model": "qwen", "choices": [choice]}
    return body | ({"usage": usage} if usage else {})


def chunk(delta, finish=None, index=0):
    choices = [{"index": index, "delta": delta, "finish_reason": finish}]
    return {"id": "a", "object": "chat.completion.chunk", "model": "qwen", "choices": choices}


def generate(text, tokens=3, finish="stop", **more):
    meta = {"id": "a", "finish_reason": {"type": finish}, "prompt_tokens": 2, "completion_tokens": tokens}
    return {"text": text, "meta_info": meta, **more}


def dump(*values):
    return "\n".join(json.dumps(value, ensure_ascii=False) for value in values).encode()


def stream(*values, done=True):
    return b"".join(b"data: " + dump(value) + b"\n\n" for value in values) + b"data: [DONE]\n\n" * done


def test_read_response_chat_completion():
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    found = read_response(dump(chat("Hello there.", usage=usage)))
    assert found == Response(("Hello there.",), ("stop",), (7,), "qwen", "chat")


def test_read_response_pretty_printed_json():
    assert read_response(json.dumps(chat("Hi"), indent=2).encode()).texts == ("Hi",)


def test_read_response_content_null_is_an_empty_answer():
    found = read_response(dump(chat(None, finish="length", usage={"completion_tokens": 32})))
    assert found.texts == ("",)
    assert found.completion_tokens == (32,)


def test_read_response_reasoning_counts_as_text():
    assert read_response(dump(chat("42", reasoning_content="Six by seven."))).texts == ("Six by seven.\n42",)


def test_read_response_reasoning_alone():
    assert read_response(dump(chat(None, reasoning_content="Hmm"))).texts == ("Hmm",)


def test_read_response_tool_call_counts_as_text():
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    found = read_response(dump(chat(None, finish="tool_calls", tool_calls=[call])))
    assert found.texts == ('look{"at": "sky"}',)


def test_read_response_content_parts_are_joined():
    assert read_response(dump(chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))).texts == ("ab",)


def test_read_response_hidden_reasoning_tokens_are_left_out():
    usage = {"completion_tokens": 90, "reasoning_tokens": 88}
    assert read_response(dump(chat("", usage=usage))).completion_tokens == (2,)


def test_read_response_shown_reasoning_tokens_are_kept():
    usage = {"completion_tokens": 90, "reasoning_tokens": 88}
    assert read_response(dump(chat("", usage=usage, reasoning_content="Hmm"))).completion_tokens == (90,)


def test_read_response_several_choices_share_the_tokens():
    body = chat("one", usage={"completion_tokens": 8})
    body["choices"].append({"index": 1, "message": {"content": "two"}, "finish_reason": "length"})
    found = read_response(dump(body))
    assert (found.texts, found.finish_reasons) == (("one", "two"), ("stop", "length"))
    assert found.completion_tokens == (4, 4)


def test_read_response_text_completion():
    body = {"object": "text_completion", "choices": [{"index": 0, "text": " Lima", "finish_reason": "stop"}]}
    found = read_response(dump(body))
    assert (found.texts, found.source) == ((" Lima",), "completion")


def test_read_response_generate():
    assert read_response(dump(generate(" over", finish="length"))) == Response(
        (" over",), ("length",), (3,), None, "generate"
    )


def test_read_response_generate_list():
    found = read_response(dump([generate("a"), generate("b", tokens=9)]))
    assert (found.texts, found.completion_tokens) == (("a", "b"), (3, 9))


def test_read_response_message_alone():
    assert read_response(dump({"role": "assistant", "content": "Hi"})).texts == ("Hi",)


def test_read_response_json_lines():
    assert read_response(dump(chat("a"), chat("b"), generate("c"))).texts == ("a", "b", "c")


def test_read_response_concatenated_objects():
    assert read_response(dump(chat("a")) + dump(chat("b"))).texts == ("a", "b")


def test_read_response_ignores_what_follows_the_json():
    assert read_response(dump(chat("a")) + b"\nreal 0m1.204s\n").texts == ("a",)


def test_read_response_json_string():
    assert read_response(b'"caf\\u00e9 \\ud83d\\ude00"').texts == ("café 😀",)


def test_read_response_lone_surrogate_is_replaced():
    assert read_response(b'"a\\ud83d"').texts == ("a\ufffd",)


def test_read_response_raw_line_breaks_in_json_strings():
    assert read_response(b'{"choices": [{"message": {"content": "a\nb"}}]}').texts == ("a\nb",)


def test_read_response_plain_text():
    text = "The river flows north.\nIt is cold."
    assert read_response(text.encode()) == Response((text,), (None,), (None,), None, "text")


def test_read_response_plain_text_keeps_its_blanks():
    assert read_response(b"Answer:\n\n\n").texts == ("Answer:\n\n\n",)


def test_read_response_flood_of_blanks_is_an_answer():
    assert read_response(b"\n" * 500).texts == ("\n" * 500,)


def test_read_response_json_that_the_model_wrote_is_text():
    text = '{"city": "Oslo", "error": "none"}'
    assert read_response(text.encode()) == Response((text,), (None,), (None,), None, "text")


@pytest.mark.parametrize("text", ["[1, 2, 3]", "{'a': 1}", "{not json", "42", "true", '{"a": {"b": 1}', "[[[", '"open'])
def test_read_response_near_json_is_text(text):
    assert read_response(text.encode()).texts == (text,)


def test_read_response_utf16_of_powershell():
    assert read_response(json.dumps(chat("é")).encode("utf-16")).texts == ("é",)


def test_read_response_utf8_with_signature():
    assert read_response(b"\xef\xbb\xbf" + dump(chat("é"))).texts == ("é",)


def test_read_response_latin_1_text():
    assert read_response("café crème".encode("latin-1")).texts == ("café crème",)


def test_read_response_stream_joins_deltas():
    body = stream(
        chunk({"role": "assistant", "content": ""}), chunk({"content": "a"}), chunk({"content": " b"}, "stop")
    )
    assert read_response(body) == Response(("a b",), ("stop",), (None,), "qwen", "stream")


def test_read_response_stream_reasoning_and_usage():
    usage = {"id": "a", "object": "chat.completion.chunk", "choices": [], "usage": {"completion_tokens": 5}}
    body = stream(chunk({"reasoning_content": "Hm"}), chunk({"content": "m"}, "length"), usage)
    found = read_response(body)
    assert (found.texts, found.completion_tokens) == (("Hmm",), (5,))


def test_read_response_stream_of_two_choices():
    body = stream(chunk({"content": "a"}), chunk({"content": "x"}, index=1), chunk({"content": "b"}))
    assert read_response(body).texts == ("ab", "x")


def test_read_response_stream_with_nothing_but_a_role_is_empty():
    assert read_response(stream(chunk({"role": "assistant"}), chunk({}, "length"))).texts == ("",)


def test_read_response_stream_cumulative_generate():
    body = stream(generate("a", 1), generate("a b", 2), generate("a b c", 3))
    found = read_response(body)
    assert (found.texts, found.completion_tokens) == (("a b c",), (3,))


def test_read_response_stream_incremental_generate():
    assert read_response(stream(generate("a"), generate(" b"), generate(" c"))).texts == ("a b c",)


def test_read_response_stream_with_event_names_and_comments():
    body = b": ping\n\nevent: message\nid: 1\n" + stream(chunk({"content": "a"}))
    assert read_response(body).texts == ("a",)


def test_read_response_stream_with_line_separator_inside_a_string():
    assert read_response(stream(chunk({"content": "a\u2028b\x85c"}))).texts == ("a\u2028b\x85c",)


def test_read_response_stream_interrupted_in_its_last_event():
    assert read_response(stream(chunk({"content": "a"}), done=False) + b'data: {"id": "a", "cho').texts == ("a",)


def test_read_response_stream_broken_in_the_middle_is_refused():
    body = b'data: {"id": "a", "cho\n\n' + stream(chunk({"content": "a"}))
    with pytest.raises(DoctorError, match="event 1 of the stream is broken"):
        read_response(body)


def test_read_response_stream_without_answer_is_refused():
    usage = {"object": "chat.completion.chunk", "choices": [], "usage": {"completion_tokens": 0}}
    with pytest.raises(DoctorError, match="holds no answer"):
        read_response(stream(usage))


def test_read_response_chunks_without_data_prefix():
    assert read_response(dump(chunk({"content": "a"}), chunk({"content": "b"}))).texts == ("ab",)


def test_read_response_text_that_begins_like_a_stream_is_text():
    assert read_response(b"data: the plural of datum").texts == ("data: the plural of datum",)


@pytest.mark.parametrize("break_", ["\r\n", "\n"])
def test_read_response_curl_with_headers(break_):
    head = break_.join(["HTTP/1.1 100 Continue", "", "HTTP/1.1 200 OK", "content-type: application/json", "", ""])
    assert read_response(head.encode() + dump(chat("a"))).texts == ("a",)


def test_read_response_curl_verbose():
    noise = "* Connected to localhost\n> POST /generate HTTP/1.1\n>\n< HTTP/1.1 200 OK\n<\n{ [12 bytes data]\n"
    assert read_response(noise.encode() + dump(generate("a")) + b"\n* Connection #0 left intact\n").texts == ("a",)


def test_read_response_curl_progress_meter():
    meter = "  % Total    % Received % Xferd  Average Speed\n100  412  100   412    0     0\n"
    assert read_response(meter.encode() + dump(chat("a"))).texts == ("a",)


def test_read_response_curl_without_body_is_refused():
    with pytest.raises(DoctorError, match="no body"):
        read_response(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(DoctorError, match="no body"):
        read_response(b"* Trying 127.0.0.1\n< HTTP/1.1 200 OK\n<\n")


def test_read_response_http_failure_is_refused():
    with pytest.raises(DoctorError, match=r"HTTP/1\.1 502 Bad Gateway: <html>"):
        read_response(b"HTTP/1.1 502 Bad Gateway\r\nserver: nginx\r\n\r\n<html>no upstream</html>")


def test_read_response_many_header_blocks_take_bounded_time():
    assert read_response(b"HTTP/\n\n" * 100_000 + b"a").source == "text"


@pytest.mark.parametrize(
    "body",
    [
        {"object": "error", "message": "too long", "code": 400},
        {"error": {"message": "too long", "type": "BadRequest"}},
        {"detail": "too long"},
    ],
)
def test_read_response_error_of_the_server_is_refused(body):
    with pytest.raises(DoctorError, match="too long") as caught:
        read_response(dump(body))
    assert caught.value.hint


def test_read_response_error_without_message_is_refused():
    with pytest.raises(DoctorError, match="no message"):
        read_response(dump({"error": {"message": {"deep": 1}}}))


def test_read_response_error_in_a_stream_is_refused():
    with pytest.raises(DoctorError, match="abort"):
        read_response(stream(chunk({"content": "a"}), {"error": {"message": "abort"}}))


def test_read_response_broken_response_is_refused():
    with pytest.raises(DoctorError, match=r"not valid JSON: .*line 1 column") as caught:
        read_response(dump(chat("a"))[:-9])
    assert "whole body" in caught.value.hint


@pytest.mark.parametrize("usage", [None, {}, {"completion_tokens": 3}])
def test_read_response_without_choices_is_refused(usage):
    with pytest.raises(DoctorError, match='"choices" is empty'):
        read_response(dump({"object": "chat.completion", "choices": [], "usage": usage}))


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t", b"\xef\xbb\xbf"])
def test_read_response_empty_file_is_refused(data):
    with pytest.raises(DoctorError, match="is empty"):
        read_response(data)


def test_read_response_compressed_file_is_refused():
    with pytest.raises(DoctorError, match="gzip"):
        read_response(b"\x1f\x8b\x08\x00abc")


def test_read_response_binary_file_is_refused():
    with pytest.raises(DoctorError, match="binary"):
        read_response(b"\x7fELF\x00\xff\xfe\xfd")


def test_read_response_oversized_text_is_cut_between_characters():
    text = read_response("a😀".encode() * MAX_RESPONSE).texts[0]
    assert set(text) == {"a", "😀"}
    assert len(text.encode()) <= MAX_RESPONSE


def test_read_response_oversized_json_is_refused():
    with pytest.raises(DoctorError, match="not valid JSON") as caught:
        read_response(dump(chat("a" * MAX_RESPONSE)))
    assert "4 MB" in caught.value.hint


def test_read_response_deep_nesting_is_no_crash():
    assert read_response(b'{"a":' * 50_000 + b"1").source == "text"
    with pytest.raises(DoctorError, match="not valid JSON"):
        read_response(b'{"choices":' + b"[" * 50_000)


def test_read_response_values_of_the_wrong_type_are_no_answer():
    body = {"choices": [None, 3, {"index": "x", "message": 5, "finish_reason": 7}], "usage": 4, "model": 1}
    assert read_response(dump(body)) == Response(("",), (None,), (None,), None, "chat")


@given(st.binary(max_size=300))
def test_read_response_any_bytes_are_read_or_refused(data):
    try:
        found = read_response(data)
    except DoctorError:
        return
    assert len(found.texts) == len(found.finish_reasons) == len(found.completion_tokens) > 0
    "".join(found.texts).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "text",
                    "index",
                    "finish_reason",
                    "usage",
                    "completion_tokens",
                    "meta_info",
                    "error",
                    "object",
                    "role",
                    "detail",
                    "model",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "reasoning_tokens",
                    "type",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, min_size=1, max_size=3), st.booleans())
def test_read_response_any_json_is_read_or_refused(values, streamed):
    body = json.dumps(values[0]) if len(values) == 1 else "\n".join(map(json.dumps, values))
    data = stream(*values) if streamed else body.encode()
    try:
        found = read_response(data)
    except DoctorError:
        return
    assert len(found.texts) == len(found.finish_reasons) == len(found.completion_tokens) > 0


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_read_response_stream_equals_whole_answer(parts):
    whole = read_response(dump(chat("".join(parts)))).texts
    assert read_response(stream(*(chunk({"content": part}) for part in parts))).texts == whole
