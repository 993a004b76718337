"""What holds for every test."""

import signal

# A shell starts a job in the background with SIGINT ignored, and what it starts inherits that: no test could interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
