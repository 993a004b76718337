"""What several tests need: diagnose text or files with the shipped rules, in this process."""

from functools import lru_cache
from pathlib import Path

from doctor.diagnosis.explain import Question, diagnose
from doctor.diagnosis.load import load_pack
from doctor.diagnosis.match import Index
from doctor.diagnosis.model import Report
from doctor.diagnosis.observe import Observer
from doctor.logs.lines import LineCutter

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"


@lru_cache(maxsize=1)
def shipped_index() -> Index:
    return Index(load_pack())


def explain_bytes(
    *files: tuple[str, bytes], index: Index | None = None, question: Question | None = None, chunk: int = 1 << 18
) -> Report:
    index = index or shipped_index()
    observer = Observer(index)
    for name, data in files:
        observer.open_file(name)
        cutter = LineCutter()
        for start in range(0, len(data), chunk):
            for block in cutter.feed(data[start : start + chunk]):
                observer.feed(block)
        for block in cutter.finish():
            observer.feed(block)
        observer.close_file(len(data))
    return diagnose(index.rules, observer.finish(), question or Question())


def explain_text(text: str, command: str | None = None) -> Report:
    return explain_bytes(("server.log", text.encode()), question=Question(command))


def list_findings(report: Report) -> list[str]:
    return [f"{item.role} {item.rule}" for item in report.diagnoses]
