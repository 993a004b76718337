"""What stands after `--`: read, mended, and the address it will answer at."""

import pytest

from doctor.errors import DoctorError
from doctor.launch.edits import Edit
from doctor.watch.launch import Address, check_executable, find_address, find_proxy, mend, read_launch


def test_launch_keeps_variables_and_words():
    launch = read_launch(["A=1", "sglang", "serve", "--model-path", "m", "--port", "31000"])
    assert (launch.argv[0], launch.variables, launch.arguments["port"]) == ("sglang", {"A": "1"}, 31000)


def test_launch_of_bare_arguments_gets_a_program():
    assert read_launch(["--model-path", "m"]).argv[-2:] == ("--model-path", "m")


def test_launch_of_a_wrapper_keeps_its_separator():
    launch = read_launch(["/x/wrapper", "serve", "m", "--", "--model-path", "m", "--tp", "2"])
    assert launch.argv[:4] == ("/x/wrapper", "serve", "m", "--")
    assert launch.arguments["tp_size"] == 2


@pytest.mark.parametrize("words", [["echo", "hi"], ["sleep", "5"], ["python", "x.py", "--port", "3"]])
def test_launch_that_is_not_sglang_has_no_command(words):
    assert read_launch(words).command is None


@pytest.mark.parametrize("words", [[], ["A=1"]])
def test_launch_of_nothing_is_refused(words):
    with pytest.raises(DoctorError):
        read_launch(words)


def test_executable_is_looked_for_on_the_path_of_the_launch(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    check_executable(read_launch([f"PATH={tmp_path}", "program"]), {"PATH": "/nowhere"})
    with pytest.raises(DoctorError):
        check_executable(read_launch(["program"]), {"PATH": "/nowhere"})


def test_mend_edits_the_words():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--mem-fracton-static", "0.7"])
    edits = [Edit("flag", "--mem-fracton-static", "0.7", None), Edit("flag", "--mem-fraction-static", None, "0.7")]
    assert mend(launch, edits, "0.5.23").argv[-2:] == ("--mem-fraction-static", "0.7")


def test_mend_keeps_a_secret_that_reports_hide():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--api-key", "secretsecret", "--tp", "2"])
    assert "secretsecret" in mend(launch, [Edit("flag", "--tp-size", "2", "1")], None).argv


def test_mend_of_nothing_is_none():
    launch = read_launch(["sglang", "serve", "--model-path", "m", "--tp", "2"])
    assert mend(launch, [Edit("flag", "--tp-size", "2", "2")], None) is None
    assert mend(read_launch(["echo"]), [], None) is None


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, ""),
        ({"HTTP_PROXY": "http://proxy:3128"}, "HTTP_PROXY"),
        ({"all_proxy": "socks5://proxy:1080"}, "all_proxy"),
        ({"https_proxy": "http://proxy:3128"}, ""),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,127.0.0.1"}, ""),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "example.com"}, "http_proxy"),
    ],
)
def test_proxy_of_requests_to_itself(environment, name):
    assert find_proxy(environment, Address("127.0.0.1", 30000)) == name


def test_proxy_of_requests_to_itself_over_tls():
    environment = {"http_proxy": "http://one:3128", "HTTPS_PROXY": "http://two:3128"}
    assert find_proxy(environment, Address("127.0.0.1", 30000, secure=True)) == "HTTPS_PROXY"


def test_address_of_the_dump_wins():
    assert find_address({"port": 1, "api_key": "k"}, {"port": 2, "host": "0.0.0.0"})[:2] == ("127.0.0.1", 2)  # noqa: S104 - what servers print
    assert find_address({}, {}).port == 30000
    assert find_address({"port": 70000}, {}).port == 30000
