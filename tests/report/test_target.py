"""What a stream can show, asked of real terminals."""

import contextlib
import fcntl
import io
import os
import pty
import struct
import termios

import pytest

from doctor.report.interface import Target, find_target


@contextlib.contextmanager
def open_terminal(columns):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w") as stream:
        yield stream
    os.close(master)


@pytest.mark.parametrize(("columns", "width"), [(80, 80), (10, 40), (300, 120), (0, 100)])
def test_width_of_a_terminal_is_kept_within_what_reads_well(columns, width):
    with open_terminal(columns) as stream:
        assert find_target(stream, {}) == Target(width, color=True)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_terminal_without_colour(environment):
    with open_terminal(80) as stream:
        assert find_target(stream, environment) == Target(80, color=False)


def test_pipe_is_coloured_only_when_forced():
    assert find_target(io.StringIO(), {}) == Target(100, color=False)
    assert find_target(io.StringIO(), {"FORCE_COLOR": "1"}) == Target(100, color=True)


def test_closed_or_missing_stream_is_no_terminal():
    closed = io.StringIO()
    closed.close()
    assert find_target(closed, {}) == find_target(None, {}) == Target()


def test_terminal_without_a_descriptor_has_the_plain_width():
    class Console(io.StringIO):
        def isatty(self):
            return True

    assert find_target(Console(), {}) == Target(100, color=True)
