"""A launch that starts a container: GPUs, shared memory and an address that others can reach, as its options say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.launch.container import find_image
from doctor.launch.edits import Edit
from doctor.probes.base.context import Context
from doctor.probes.base.devices import list_devices
from doctor.probes.base.interpreter import is_yaml, which
from doctor.probes.base.result import Result, make_error, make_ok, make_void, make_warning

NAME = "container"
GROUP = "launch"
SUMMARY = "the container gets what the server needs"
NEEDS = ("gpus",)
INSIDE = False

_TOOLKIT = ("nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime")
_INSTALL = (
    "sudo apt-get install -y nvidia-container-toolkit",
    "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
)
# Where SGLang listens by default, and other names of the container's own loopback.
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOST_NETWORK = ("hostNetwork: true", "network_mode: host", 'network_mode: "host"')


def probe(context: Context) -> Iterator[Result]:
    """Judge the options of `docker run` and its relatives, and where the server in it listens."""
    if context.launch is None or not context.is_outside:
        yield make_void(NAME, "the launch starts no container")
        return
    options = list_options(context)
    problems = list(check_reach(context, options))
    if options:
        problems += [*check_tool(context, options), *check_gpus(context, options), *check_shm(context, options)]
    yield from problems
    if not problems:
        yield make_ok(NAME, SUMMARY + ", as far as the command says")


def list_options(context: Context) -> list[str]:
    """Return the words of `docker run` before the image; none for YAML, `docker exec` and `docker compose run`."""
    command = context.launch.command if context.launch else None
    image = find_image(command.wrapper, 0) if command else None
    values = [word.value for word in command.wrapper[:image]] if command and image is not None else []
    return values if "run" in values and "compose" not in values else []


def has_option(options: Sequence[str], *names: str) -> bool:
    """Tell whether one of some options is given, with its value behind it or attached."""
    return any(option in names or option.startswith(tuple(f"{name}=" for name in names)) for option in options)


def is_on_host_network(context: Context, options: Sequence[str]) -> bool:
    """Tell whether the container has the network of its host."""
    text = context.launch.command.text if context.launch else ""
    words = f"{' '.join(options).replace('=', ' ')} "
    return any(f"{name} host " in words for name in ("--network", "--net")) or any(
        mark in text for mark in _HOST_NETWORK
    )


def check_reach(context: Context, options: Sequence[str]) -> Iterator[Result]:
    """Yield a server that listens on the container's own loopback, where no -p leads."""
    is_told = bool(options) or (context.launch is not None and is_yaml(context.launch.command))
    host = context.value("host", "127.0.0.1")
    if host in _LOOPBACK and is_told and not is_on_host_network(context, options):
        summary = f"the server listens on {host} of the container: nobody outside reaches it, with -p or without"
        edits = (Edit("flag", "--host", None, "0.0.0.0"),)  # noqa: S104 - the container's own addresses
        yield make_warning(NAME, summary, (), ("--host 0.0.0.0",), edits)


def check_tool(context: Context, options: Sequence[str]) -> Iterator[Result]:
    """Yield a missing docker, and a docker that cannot hand in GPUs."""
    tool = next(word for word in options if word.rpartition("/")[2] in ("docker", "podman", "nerdctl"))
    if which(tool, context.environment) is None:
        yield make_error(NAME, f"{tool} is not on PATH", (), (f"install {tool}, or run the check where it is",))
        return
    has_toolkit = any(which(name, context.environment) for name in _TOOLKIT)
    if has_option(options, "--gpus") and list_devices(context) and not has_toolkit:
        summary = f"nvidia-container-toolkit is not installed: {tool} cannot hand in GPUs"
        yield make_warning(NAME, summary, (), _INSTALL)


def check_gpus(context: Context, options: Sequence[str]) -> Iterator[Result]:
    """Yield a container without GPUs; a default runtime of NVIDIA's would hand them in all the same."""
    is_given = has_option(options, "--gpus", "--runtime", "--device") or "NVIDIA_VISIBLE_DEVICES" in context.environment
    if context.uses_gpu and not is_given:
        fixes = ("docker run --gpus all ...", "podman run --device nvidia.com/gpu=all ...")
        yield make_warning(NAME, "the container is started without GPUs", (), fixes)


def check_shm(context: Context, options: Sequence[str]) -> Iterator[Result]:
    """Yield several ranks in docker's 64 MiB of shared memory, which NCCL outgrows."""
    ranks = context.count("tp_size") * context.count("pp_size") // context.count("nnodes")
    if ranks > 1 and not has_option(options, "--shm-size", "--ipc"):
        summary = f"{ranks} ranks in a container with docker's default of 64 MiB of shared memory: NCCL may fail"
        yield make_warning(NAME, summary, (), ("docker run --shm-size 32g ..., or --ipc=host",))
