import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from .faults import FAULTS
from .proof import Row, write_proof
from .real_server import find_python


@pytest.fixture(scope="session")
def model():
    """A random two-layer Llama, in a folder with a short name."""
    folder = Path(tempfile.mkdtemp(prefix="e2e-model-"))
    script = Path(__file__).with_name("make_model.py")
    subprocess.run([str(find_python()), str(script), str(folder)], check=True, capture_output=True, timeout=120)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def rows(pytestconfig):
    """What was proved, with what earlier runs proved, written down at the end."""
    found = {row[0]: Row(*row) for row in pytestconfig.cache.get("e2e/rows", [])}
    yield found
    pytestconfig.cache.set("e2e/rows", list(found.values()))
    write_proof(found, [fault.name for fault in FAULTS])
