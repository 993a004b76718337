"""Probes of the network group; sockets are bound on loopback only."""

import os
import socket

import pytest

from doctor.probes import hub, interfaces, ports, proxy, rendezvous
from doctor.probes.base.context import Answer
from doctor.probes.base.edits import correct_command
from doctor.probes.base.ports import Port, list_ports
from tests.probes.helpers import make_context, problems, run, statuses, write

SERVE = "sglang serve --model-path /m"


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_port_that_is_taken(taken):
    context = make_context("/", f"{SERVE} --port {taken}")
    (found,) = problems(ports, context)
    assert f"port {taken}" in found.summary
    assert any(f"pid {os.getpid()}" in line for line in found.evidence)
    assert f"--port {taken}" not in correct_command(context.launch, [found])


def test_port_that_is_free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    assert statuses(ports, make_context("/", f"{SERVE} --port {number}")) == ["ok"]


def test_default_port_that_is_taken_is_a_note_without_a_launch(monkeypatch, taken):
    monkeypatch.setattr(ports, "list_ports", lambda _: [Port(taken, "127.0.0.1", "HTTP (--port)")])
    (found,) = problems(ports, make_context("/"))
    assert found.severity == "info"
    assert not any("kill" in fix for fix in found.fixes)


def test_port_held_by_nobody_we_may_see(tmp_path, taken):
    (found,) = problems(ports, make_context(tmp_path, f"{SERVE} --port {taken}"))
    assert found.fixes[0].startswith("sudo ss")


def test_host_that_is_not_ours():
    (found,) = problems(ports, make_context("/", f"{SERVE} --host 192.0.2.1 --port 31999"))
    assert "cannot be bound" in found.summary


def test_ports_derived_for_attention_dp():
    context = make_context("/", f"{SERVE} --tp 2 --dp-size 2 --enable-dp-attention --port 30000")
    assert [port.number for port in list_ports(context)] == [30000, *range(30233, 30240)]


def test_ports_derived_downwards_at_the_end_of_the_range():
    context = make_context("/", f"{SERVE} --tp 2 --dp-size 2 --enable-dp-attention --port 65500")
    assert list_ports(context)[1].number == 65267


def test_ports_of_a_prefill_server():
    context = make_context("/", f"{SERVE} --disaggregation-mode prefill")
    assert [port.number for port in list_ports(context)] == [30000, 8998]


@pytest.fixture
def host(tmp_path):
    for name in ("lo", "eth0", "docker0"):
        write(tmp_path, f"/sys/class/net/{name}/mtu", "1500")
    write(tmp_path, "/sys/class/infiniband/mlx5_0/fw_ver", "1")
    return tmp_path


def test_interface_that_does_not_exist(host):
    context = make_context(host, f"NCCL_SOCKET_IFNAME=bond0 {SERVE}")
    (found,) = problems(interfaces, context)
    assert correct_command(context.launch, [found]).startswith("NCCL_SOCKET_IFNAME=eth0 ")


@pytest.mark.parametrize("value", ["eth", "eth0", "=eth0", "^docker", "eth0,ib0"])
def test_interface_that_exists(host, value):
    assert statuses(interfaces, make_context(host, environment={"NCCL_SOCKET_IFNAME": value})) == ["ok"]


@pytest.mark.parametrize(
    ("name", "value"), [("NCCL_SOCKET_IFNAME", "=eth"), ("GLOO_SOCKET_IFNAME", "eth"), ("NCCL_IB_HCA", "mlx5_7")]
)
def test_interface_that_only_begins_so(host, name, value):
    assert name in problems(interfaces, make_context(host, environment={name: value}))[0].summary


@pytest.mark.parametrize(
    ("name", "severity"),
    [("NCCL_SOCKET_IFNAME", "error"), ("GLOO_SOCKET_IFNAME", "error"), ("NCCL_IB_HCA", "warning")],
)
def test_interface_that_is_missing_is_as_bad_as_what_needs_it(host, name, severity):
    assert [found.severity for found in problems(interfaces, make_context(host, environment={name: "bond7"}))] == [
        severity
    ]


def test_interfaces_without_sys_are_unknown(tmp_path):
    assert statuses(interfaces, make_context(tmp_path, environment={"NCCL_SOCKET_IFNAME": "eth0"})) == ["unknown"]


def test_infiniband_device_with_a_port_exists(host):
    assert statuses(interfaces, make_context(host, environment={"NCCL_IB_HCA": "mlx5_0:1"})) == ["ok"]


@pytest.mark.parametrize("value", ["mlx5_9", '{"0": "mlx5_0,mlx5_9"}'])
def test_infiniband_device_of_a_flag(host, value):
    command = f"{SERVE} --disaggregation-mode prefill --disaggregation-ib-device '{value}'"
    assert "mlx5_9" in problems(interfaces, make_context(host, command))[0].summary


def see_address(address, answer, extra=""):
    return make_context("/", f"{SERVE} --dist-init-addr {address} {extra}", observed={"rendezvous": answer})


def test_rendezvous_on_this_host(taken):
    assert statuses(rendezvous, see_address("127.0.0.1:0", Answer(["127.0.0.1"]))) == ["problem"]
    (found,) = problems(rendezvous, see_address(f"127.0.0.1:{taken}", Answer(["127.0.0.1"])))
    assert "is taken" in found.summary


def test_rendezvous_that_cannot_be_resolved():
    (found,) = problems(rendezvous, see_address("head:5000", Answer(None, "gaierror: Name or service not known")))
    assert "head cannot be resolved" in found.summary


def test_rendezvous_whose_resolver_hangs_is_unknown():
    assert statuses(rendezvous, see_address("head:5000", Answer(None, "python gave no answer within 5 s"))) == [
        "unknown"
    ]


def test_rendezvous_on_another_host_than_node_0():
    (found,) = problems(rendezvous, see_address("192.0.2.1:5000", Answer(["192.0.2.1"])))
    assert "not an address of this node" in found.summary


def test_rendezvous_seen_from_node_1():
    context = see_address("192.0.2.1:5000", Answer(["192.0.2.1"]), "--nnodes 2 --node-rank 1 --tp 2")
    assert statuses(rendezvous, context) == ["ok"]


@pytest.mark.parametrize(("addresses", "count"), [(["127.0.1.1"], 1), (["::1"], 1), (["127.0.0.1", "192.0.2.1"], 0)])
def test_rendezvous_under_which_every_node_finds_itself(addresses, count):
    context = see_address("head:5000", Answer(addresses), "--nnodes 2 --node-rank 1 --tp 2")
    assert [found.severity for found in problems(rendezvous, context)] == ["warning"] * count


def test_rendezvous_names_its_interface():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    (found,) = run(rendezvous, see_address(f"127.0.0.1:{number}", Answer(["127.0.0.1"])))
    assert found.summary == f"127.0.0.1:{number} may be bound on this node (interface lo)"


def test_two_nodes_without_an_address():
    assert (
        "without --dist-init-addr" in problems(rendezvous, make_context("/", f"{SERVE} --nnodes 2 --tp 2"))[0].summary
    )


def test_proxy_that_swallows_the_warm_up():
    context = make_context("/", SERVE, environment={"HTTP_PROXY": "http://127.0.0.1:9"})
    (found,) = problems(proxy, context)
    assert "no_proxy=127.0.0.1,localhost" in correct_command(context.launch, [found])


def test_proxy_is_told_of_every_address_that_a_version_may_use():
    context = make_context("/", f"{SERVE} --host 0.0.0.0", environment={"HTTP_PROXY": "http://127.0.0.1:9"})
    (found,) = problems(proxy, context)
    assert found.fixes == ("export no_proxy=127.0.0.1,localhost,0.0.0.0",)


@pytest.mark.parametrize("exceptions", ["127.0.0.1", "localhost,127.0.0.0/8", "*"])
def test_proxy_with_an_exception(exceptions):
    environment = {"http_proxy": "http://p:1", "no_proxy": exceptions}
    assert statuses(proxy, make_context("/", SERVE, environment=environment)) == ["ok"]


@pytest.mark.parametrize("exceptions", ["example.com", "10.0.0.0/8", "27.0.0.1"])
def test_proxy_whose_exceptions_do_not_cover_loopback(exceptions):
    environment = {"http_proxy": "http://p:1", "no_proxy": exceptions}
    assert problems(proxy, make_context("/", SERVE, environment=environment))


def test_proxy_for_https_alone_is_no_matter():
    assert statuses(proxy, make_context("/", SERVE, environment={"https_proxy": "http://p:1"})) == ["not-applicable"]


def test_hub_is_not_asked_without_online():
    assert statuses(hub, make_context("/", SERVE)) == ["not-applicable"]


def test_hub_that_does_not_answer():
    context = make_context("/", SERVE, observed={"hub": Answer(None, "refused")}, online=True)
    assert run(hub, context)[0].severity == "error"
