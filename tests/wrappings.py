"""What people's tools make of a log before they paste it: each takes the bytes of a log and gives the pasted ones."""

import datetime as dt
import html
import json
import re
from collections.abc import Callable

Wrapping = Callable[[bytes], bytes]

STAMP = re.compile(r"\[(20\d\d-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?((?: [^\]\s]+)*)\]")


def split(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").removesuffix("\n").split("\n")


def each(write: Callable[[int, str], str]) -> Wrapping:
    """Write every line anew, from its number and text."""
    return lambda data: "".join(f"{write(*item)}\n" for item in enumerate(split(data), 1)).encode()


def behind(prefix: str) -> Wrapping:
    return each(lambda _, line: prefix + line)


def restamp(template: str) -> Wrapping:
    """Write the time of records in another form."""

    def write(found: re.Match[str]) -> str:
        date, time, rank = found[1], found[2], found[4]
        return template.format(date=date, time=time, rank=rank, slashed=date.replace("-", "/"), epoch=epoch(date, time))

    return lambda data: STAMP.sub(write, data.decode("utf-8", "replace")).encode()


def epoch(date: str, time: str) -> int:
    return int(dt.datetime.fromisoformat(f"{date}T{time}+00:00").timestamp())


def clock(number: int) -> str:
    """Give a later time for every line."""
    moment = dt.datetime(2026, 4, 24, 6, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=137 * number)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")


def as_json(**fields: str) -> Wrapping:
    """Write every line as a JSON record; `{line}` and `{clock}` in a field are filled in."""
    return each(
        lambda number, line: json.dumps(
            {name: text.replace("{clock}", clock(number)).replace("{line}", line) for name, text in fields.items()}
        )
    )


def as_events(data: bytes) -> bytes:
    """Write what `aws logs get-log-events` prints."""
    events = [{"timestamp": 1777012159000, "message": line, "ingestionTime": 1} for line in split(data)]
    return json.dumps({"events": events}, indent=4).encode()


def fold(width: int) -> Wrapping:
    def write(_: int, line: str) -> str:
        return "\n".join(line[at : at + width] for at in range(0, max(len(line), 1), width))

    return each(write)


def paint(escape: str) -> Wrapping:
    return each(lambda _, line: f"{escape}[1;33m{line}{escape}[0m")


def cut(limit: int, mark: str) -> Wrapping:
    return each(lambda _, line: line if len(line) <= limit else line[: limit - len(mark)] + mark)


def in_issue(before: str, after: str) -> Wrapping:
    return lambda data: before.encode() + data.rstrip(b"\n") + after.encode()


ROUTER = "".join(
    f"\x1b[2m2026-04-24T06:29:{second:02d}.123456Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2msmg::core\x1b[0m\x1b[2m:\x1b[0m "
    f"worker_manager.rs:{second}: Worker http://10.0.0.{second}:30000 health check passed\n"
    for second in range(1, 20)
).encode()

PROSE = "### Bug\n\nIt says CUDA out of memory sometimes.\n\n"
ISSUES = {
    "fenced": in_issue(PROSE + "```shell\n", "\n```\n\nThanks!\n"),
    "fence never closed": in_issue(PROSE + "```\n", "\n"),
    "no fence": in_issue(PROSE, "\n\nThanks!\n"),
    "folded away": in_issue("<details>\n<summary>log</summary>\n\n```\n", "\n```\n\n</details>\n"),
    "preformatted": lambda data: in_issue(PROSE + "<pre>\n", "</pre>\n")(
        html.escape(data.decode(), quote=False).encode()
    ),
    "answered by mail": lambda data: b"On Fri, Apr 24, 2026 at 6:29 AM X wrote:\n" + behind("> ")(data) + b"\nHello\n",
}
"""Given as a file `issue.md`."""

WRAPPINGS = {
    "Windows": lambda data: data.replace(b"\n", b"\r\n"),
    "blank lines between": each(lambda _, line: line + "\n"),
    "tabs": each(lambda _, line: re.sub("^(?:  )+", lambda found: "\t" * (len(found[0]) // 2), line)),
    "indentation lost": each(lambda _, line: line.strip()),
    "hard blanks": each(lambda _, line: re.sub("^ +", lambda found: "\N{NO-BREAK SPACE}" * len(found[0]), line)),
    "first character missing": each(lambda number, line: line[1:] if number == 1 else line),
    "brackets missing": each(lambda _, line: line.removeprefix("[") if line.startswith("[20") else line),
    # quotes and lists
    "quoted without a blank": behind(">"),
    "quoted thrice": behind(">>> "),
    "quoted with bars": behind("| "),
    "list": behind("- "),
    # containers and clusters
    "docker --timestamps": each(lambda number, line: f"{clock(number)}123Z {line}"),
    "docker swarm": behind("llm_sglang.1.k3jd83kd9s2a@gpu-node-7    | "),
    "kubectl --prefix --timestamps": each(lambda number, line: f"[pod/sglang-0/server] {clock(number)}Z {line}"),
    "kubetail": behind("[sglang-7d9f4c5b6d-abcde] "),
    "stern": behind("sglang-7d9f4c5b6d-abcde sglang "),
    "journald short-precise": each(
        lambda number, line: f"Apr 24 06:29:{number % 60:02d}.{number:06d} gpu-7 sg[1]: {line}"
    ),
    "journald short-full": each(lambda number, line: f"Fri 2026-04-24 06:29:{number % 60:02d} UTC gpu-7 sg[1]: {line}"),
    "journald short-unix": each(lambda number, line: f"1777012159.{number:06d} gpu-7 sglang[1234]: {line}"),
    "Ray, colours without escapes": behind("[36m(SGLangEngine pid=4123)[0m "),
    "SkyPilot": behind("(head, rank=0, pid=1234) "),
    "srun --label": behind("0: "),
    "mpirun --tag-output": behind("[1,0]<stderr>:"),
    "torchrun": behind("[default0]:"),
    "pdsh": behind("gpu-7: "),
    "PM2": behind("0|sglang  | "),
    "honcho": behind("06:29:19 sglang.1 | "),
    "GitLab": each(lambda number, line: f"{clock(number)}Z 01O {line}"),
    # editors and search tools
    "cat -n": each(lambda number, line: f"{number:6d}\t{line}"),
    "less -N": each(lambda number, line: f"{number:7d} {line}"),
    "vim": each(lambda number, line: f"{number:4d} {line}"),
    "bat": each(lambda number, line: f"{number:4d} \N{BOX DRAWINGS LIGHT VERTICAL} {line}"),
    "grep -n": each(lambda number, line: f"{number}:{line}"),
    "grep -H": behind("server.log:"),
    "grep -Hn": each(lambda number, line: f"server.log:{number}:{line}"),
    "grep -n -A": each(lambda number, line: f"{number}{':' if number % 5 == 0 else '-'}{line}"),
    "tail -f": in_issue("==> /var/log/sglang/server.log <==\n", "\n"),
    # exports
    "docker json-file": as_json(log="{line}\n", stream="stderr", time="{clock}Z"),
    "journald json": as_json(_PID="1234", SYSLOG_IDENTIFIER="sglang", MESSAGE="{line}", PRIORITY="6"),
    "Loki": as_json(labels="{}", line="{line}", timestamp="{clock}Z"),
    "GCP": as_json(insertId="x" * 100, textPayload="{line}", timestamp="{clock}Z"),
    "Datadog": as_json(timestamp="{clock}", level="INFO", message="{line}"),
    "CSV": each(lambda number, line: f'"{clock(number)}Z","gpu-7","sglang","' + line.replace('"', '""') + '"'),
    "CloudWatch tail": each(lambda number, line: f"{clock(number)}+00:00 ecs/sglang/abcdef0123456789 {line}"),
    "CloudWatch events": as_events,
    "list in JSON": lambda data: json.dumps(split(data), indent=1).encode(),
    # web pages and terminals
    "entities": lambda data: html.escape(data.decode("utf-8", "replace")).encode(),
    "entities in decimal": lambda data: data.replace(b"&", b"&amp;").replace(b'"', b"&#34;").replace(b"'", b"&#39;"),
    "line breaks as tags": lambda data: html.escape(data.decode("utf-8", "replace")).replace("\n", "<br>\n").encode(),
    "curved quotes": lambda data: (
        data.decode("utf-8", "replace")
        .replace('"', "\N{RIGHT DOUBLE QUOTATION MARK}")
        .replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
        .encode()
    ),
    "colours without escapes": paint(""),
    "colours of cat -v": paint("^["),
    "colours of syslog": paint("#033"),
    "colours of an editor": paint("\N{SYMBOL FOR ESCAPE}"),
    "colours of a repr": paint("\\x1b"),
    "80 columns": fold(80),
    "120 columns": fold(120),
    "long lines cut": cut(300, "..."),
    # other formats of time
    "time with a T": restamp("[{date}T{time}{rank}]"),
    "time in UTC": restamp("[{date}T{time}Z{rank}]"),
    "RFC 3339": restamp("[{date}T{time}.123456+00:00{rank}]"),
    "comma before milliseconds": restamp("[{date} {time},123{rank}]"),
    "slashes": restamp("[{slashed} {time}{rank}]"),
    "seconds since 1970": restamp("[{epoch}.123{rank}]"),
    "time without brackets": restamp("{date} {time}{rank}"),
    "time and level": restamp("{date} {time},123 - INFO -"),
    # beside other programs
    "after a router's log": lambda data: ROUTER + data,
}
