"""A real server is started with a broken command, then with the one that the doctor printed."""

import contextlib

import pytest

from .corrected import try_fault
from .faults import FAULTS, QUICK
from .real_server import find_free_port, listen, take_turn

pytestmark = pytest.mark.e2e
each_fault = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.name.replace(" ", "-"), marks=[pytest.mark.quick] if fault.name in QUICK else [])
        for fault in FAULTS
    ],
)


@each_fault
def test_corrected_command_works(fault, model, tmp_path, rows):
    port = find_free_port()
    (tmp_path / "server.ini").write_text("[server]\n")
    given = {"model": model, "port": port, "folder": tmp_path, "rendezvous": find_free_port()}
    with take_turn(), listen(port) if fault.port_taken else contextlib.nullcontext():
        row, log = try_fault(fault, given, tmp_path)
    rows[fault.name] = row
    assert row.works, f"{row.corrected}\n{row.result}\n{log[-3000:]}"
