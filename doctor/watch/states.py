"""The states of a watched server, the phases of its start, and which state may follow which. Imports nothing.

starting     the process runs; SGLang is on its way (see PHASES)
ready        this very server answered a real completion; nothing else was asked yet
serving      it handles requests
draining     it was told to stop, and has until a deadline
stalled      something is wrong with a server that still runs; evidence is being taken
dead         no process of it is left
backing-off  it will be started again
stopped      it ended because it was asked to, or with code 0; final
failed       it ended and is not started again; final
"""

STARTING = "starting"
READY = "ready"
SERVING = "serving"
DRAINING = "draining"
STALLED = "stalled"
DEAD = "dead"
BACKING_OFF = "backing-off"
STOPPED = "stopped"
FAILED = "failed"

STATES = (STARTING, READY, SERVING, DRAINING, STALLED, DEAD, BACKING_OFF, STOPPED, FAILED)

UP = frozenset({READY, SERVING})
RUNNING = frozenset({STARTING, READY, SERVING, DRAINING, STALLED})
FINAL = frozenset({STOPPED, FAILED})

ALLOWED = {
    STARTING: frozenset({READY, STALLED, DRAINING, DEAD}),
    READY: frozenset({SERVING, STALLED, DRAINING, DEAD}),
    SERVING: frozenset({READY, STALLED, DRAINING, DEAD}),
    STALLED: frozenset({STARTING, READY, SERVING, DRAINING, DEAD}),
    DRAINING: frozenset({DEAD}),
    DEAD: frozenset({BACKING_OFF, STOPPED, FAILED}),
    BACKING_OFF: frozenset({STARTING, STOPPED, FAILED}),
    STOPPED: frozenset(),
    FAILED: frozenset(),
}

ARGS = "args"
IMPORT = "import"
DIST_INIT = "dist-init"
LOAD = "load"
KV_POOL = "kv-pool"
CAPTURE = "capture"
WARM_UP = "warmup"

PHASES = (ARGS, IMPORT, DIST_INIT, LOAD, KV_POOL, CAPTURE, WARM_UP)
"""In the words of the JSON contract; ranks and draft models repeat parts of the way."""
