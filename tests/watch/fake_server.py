"""A small program that behaves like SGLang from outside: phases, titled children, a health endpoint, and its faults."""

import argparse
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ARGUMENTS = argparse.ArgumentParser(allow_abbrev=False)
ARGUMENTS.add_argument("--model-path", default="tiny")
ARGUMENTS.add_argument("--port", type=int, default=30000)
ARGUMENTS.add_argument("--host", default="127.0.0.1")
ARGUMENTS.add_argument("--act", action="append", default=[])

CHILDREN = []


def say(text):
    print(time.strftime("[%Y-%m-%d %H:%M:%S]"), text, file=sys.stderr, flush=True)


def start_child(title):
    # the title is what ps shows; SGLang sets it with setproctitle
    child = subprocess.Popen([title, "600"], executable="/bin/sleep", stdout=subprocess.DEVNULL)
    CHILDREN.append(child)
    return child


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            self.reply(200, {}) if not is_stuck() else hang()
        elif self.path in ("/model_info", "/server_info"):
            self.reply(200, {"model_path": OPTIONS.model_path, "is_generation": True})
        else:
            self.reply(404, {})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if is_stuck():
            hang()
        text = " the the" * 60 if "garbage" in OPTIONS.act else " Paris, which lies on the Seine."
        say(
            "Decode batch, #running-req: 1, #token: 40, token usage: 0.00, cuda graph: True, gen throughput (token/s): 5.33, #queue-req: 0"
        )
        self.reply(200, {"text": text, "meta_info": {"completion_tokens": 48, "finish_reason": {"type": "length"}}})

    def reply(self, code, data):
        body = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def is_stuck():
    """A stopped or lost scheduler answers nobody."""
    if "stuck" in OPTIONS.act and os.path.exists(os.environ["FAKE_STUCK"]):
        return True
    with open(f"/proc/{CHILDREN[0].pid}/stat") as stream:
        return stream.read().rpartition(")")[2].split()[0] in "TtZ"


def hang():
    time.sleep(600)


def leave_things():
    """What a killed SGLang leaves: a mapped segment and temporary files."""
    path = f"/dev/shm/sglang_loads_{os.getpid()}.shm"  # noqa: S108 - where SGLang puts it
    with open(path, "w+b") as stream:
        stream.write(b"x" * 4096)
        stream.flush()
        LEFT.append(mmap.mmap(stream.fileno(), 4096))
    tempfile.mkdtemp()
    say(f"segment {path} folder {tempfile.gettempdir()}")


LEFT = []


def start_up():
    say(f"server_args={{'model_path': '{OPTIONS.model_path}', 'port': {OPTIONS.port}, 'host': '{OPTIONS.host}'}}")
    start_child("sglang::scheduler")
    start_child("sglang::detokenizer")
    say("Load weight begin. avail mem=78.53 GB")
    if "hang-in-load" in OPTIONS.act:
        hang()
    if "eat-memory" in OPTIONS.act:
        eat_memory()
    if "leave" in OPTIONS.act:
        leave_things()
    say("Load weight end. elapsed=0.01 s, type=LlamaForCausalLM, avail mem=70 GB, mem usage=8 GB.")
    say("Memory pool end. avail mem=10 GB")
    say(f"INFO:     Started server process [{os.getpid()}]")


def eat_memory():
    """Take memory as an offload does, 32 MiB at a time."""
    taken = []
    for layer in range(200):
        taken.append(bytearray(os.urandom(1)) * (32 << 20))
        say(
            f"[offloader] offload module_index={layer} submodule=<class 'x.Experts'> params=['w13_weight'] memory_allocated=1"
        )
        time.sleep(0.05)


def serve():
    try:
        server = ThreadingHTTPServer((OPTIONS.host, OPTIONS.port), Handler)
    except OSError:
        say(
            f"ERROR:    [Errno 98] error while attempting to bind on address ('{OPTIONS.host}', {OPTIONS.port}): address already in use"
        )
        if "fired-up-anyway" in OPTIONS.act:
            say("The server is fired up and ready to roll!")
        hang()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(f"INFO:     Uvicorn running on http://{OPTIONS.host}:{OPTIONS.port} (Press CTRL+C to quit)")
    say("The server is fired up and ready to roll!")


def watch_children():
    """SGLang looks once a second, and ends its own tree with SIGKILL."""
    while True:
        time.sleep(0.5)
        for number, child in enumerate(CHILDREN):
            if child.poll() is not None and "zombie" not in OPTIONS.act:
                say(
                    f"Subprocess scheduler_{number} (pid={child.pid}) crashed with exit code {child.returncode}. Triggering SIGQUIT for cleanup..."
                )
                say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
                end_children()
                os.kill(os.getpid(), signal.SIGKILL)


def end_children():
    for child in CHILDREN:
        child.kill()


def stop(*_):
    say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    end_children()
    os._exit(0)


if __name__ == "__main__":
    OPTIONS = ARGUMENTS.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "ignore-term" in OPTIONS.act else stop)
    start_up()
    serve()
    watch_children()
