"""A check as JSON."""

from __future__ import annotations

import json

from doctor.report.check_report import CheckReport, to_data
from doctor.report.interface import Target


def render(report: CheckReport, target: Target) -> str:
    """Write the report; the target does not matter."""
    del target
    return json.dumps(to_data(report), indent=1) + "\n"
