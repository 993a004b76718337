"""What the server's output tells the guard: an offload that cannot fit, and how much one may take."""

import json

import pytest

from doctor.logs.events.types import OffloadStep, PhaseMark, ServerArgs
from doctor.memory.units import GIB
from doctor.watch.journal import Journal
from doctor.watch.launch import read_launch
from doctor.watch.model import Fault, Settings
from doctor.watch.process import Process
from doctor.watch.screen import Screen
from doctor.watch.server import Desk, Server
from tests.watch.world import RECORD

RESERVE = GIB


@pytest.fixture
def server(tmp_path):
    """A server that was never started; `available` is what the host has left, in GiB."""
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 12}))
    launch = read_launch(["sglang", "serve", "--model-path", str(tmp_path), "--offload-group-size", "1"])
    posted = []
    with (tmp_path / "said").open("wb") as said:
        desk = Desk(Screen(said.fileno(), live=False), Journal(None), "")
        made = Server(launch, Settings(reserve=RESERVE), Process(-1, None), desk, posted.append)
        made.posted, made.available = posted, 20.0
        made.guard.look = lambda: int(made.available * GIB)
        made._on_event(ServerArgs(RECORD, launch.arguments, truncated=False))
        yield made
        made.close()


def offload(server, layer, available, params=("w13_weight",)):
    server.available = available
    server._on_event(OffloadStep(RECORD, layer, "Experts", params, 0))


def list_halts(server):
    return [message.data for message in server.posted if message.kind == "memory"]


def test_offload_that_cannot_fit_is_halted_before_the_layer_that_would_not(server):
    offload(server, 0, 10.0, params=())
    for layer, available in ((1, 8.5), (2, 7.0), (3, 5.5)):
        offload(server, layer, available)
        assert list_halts(server) == []
    offload(server, 4, 3.9)
    (reason,) = list_halts(server)
    assert "3.9 GiB are left after layer 4 and a layer takes 1.5 GiB" in reason
    assert "stops at layer 5 of 11" in reason


def test_offload_that_fits_runs_to_its_end(server):
    for layer in range(12):
        offload(server, layer, 20.0 - 1.5 * layer)
    assert list_halts(server) == []


def test_room_for_an_offload_is_what_is_left_when_loading_begins(server):
    server.available = 7.0
    server._on_event(PhaseMark(RECORD, "load", "begin"))
    server.available = 3.0
    server._on_event(PhaseMark(RECORD, "load", "begin"))  # a second rank, later
    assert server._room == 6 * GIB


def test_proxy_in_the_way_is_named(server):
    server._environment = {"HTTP_PROXY": "http://proxy:3128"}
    assert server.proxy() == "HTTP_PROXY"


def test_proxy_is_no_matter_while_weights_are_waited_for(server):
    server._environment = {"HTTP_PROXY": "http://proxy:3128"}
    server._on_event(ServerArgs(RECORD, {"checkpoint_engine_wait_weights_before_ready": True}, truncated=False))
    assert server.proxy() == ""


def test_evidence_of_a_silent_start_asks_nothing_over_http(server):
    """NET006 reads from the log that no request was answered."""
    assert server._look(Fault("silent-start", "", 0.0)).ask() is None
    assert server._look(Fault("stalled", "", 0.0)).ask() is not None
