"""Diagnose SGLang: from a log, a launch command or a running server to the one cause and its fix."""

__version__ = "0.1.0"
