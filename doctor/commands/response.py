"""Read a saved model answer into facts for the rules about output quality."""

from __future__ import annotations

from typing import Any

from doctor.errors import DoctorError


def read_response_facts(path: str) -> dict[str, Any]:
    """Measure the answer in a file; raises DoctorError when it cannot be read, ErrorAnswerError when it is an error."""
    from doctor.logs.degenerate import judge_response
    from doctor.logs.response import MAX_RESPONSE, ErrorAnswerError, read_response

    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_RESPONSE + 1)
    except OSError as error:
        raise DoctorError(
            f"{path}: {error.strerror or error}", "give the file that holds the server's answer"
        ) from error
    try:
        response = read_response(data)
    except ErrorAnswerError:
        raise
    except DoctorError as error:
        raise DoctorError(f"{path}: {error.message}", error.hint) from error
    verdict = judge_response(response)
    return {
        "response.file": path,
        "response.degenerate": verdict.degenerate,
        "response.kinds": list(verdict.kinds),
        "response.explanation": verdict.explanation,
        "response.confidence": verdict.confidence,
        "response.threshold": verdict.threshold,
        "response.chars": sum(map(len, response.texts)),
        "response.finish_reason": next(iter(response.finish_reasons), None),
        "response.model": response.model,
    }
