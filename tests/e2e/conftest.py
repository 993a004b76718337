import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from .faults import FAULTS
from .proof import write_proof
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
def rows():
    """What this run proves, by the fault's name; written down at the end when it tried them all."""
    found = {}
    yield found
    if all(fault.name in found for fault in FAULTS):
        write_proof([found[fault.name] for fault in FAULTS])
