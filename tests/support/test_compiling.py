"""What is said when code is compiled."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("numba")

from cagp.support.compiling import Saying


def event_of(module):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


@pytest.mark.parametrize("terminal", [True, False])
def test_compiling_is_said_once_on_a_terminal_and_only_of_own_code(terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    saying = Saying()
    saying.on_start(event_of("somebody.else"))
    assert capsys.readouterr().err == ""
    saying.on_start(event_of("cagp.kernels"))
    saying.on_start(event_of("cagp.kernels"))
    assert capsys.readouterr().err.count("compiling") == terminal


def test_processes_that_start_at_once_share_an_empty_cache(tmp_path):
    code = (
        "from numba.core import event; seen = []\n"
        "class Seen(event.Listener):\n"
        "    def on_start(self, event): seen.append(event)\n"
        "    def on_end(self, event): ...\n"
        "event.register('numba:compile', Seen())\n"
        "from cagp.support.compiling import exponential_of_minus\n"
        "print(exponential_of_minus(1.0), len(seen))"
    )
    how = {"env": {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, "stdout": subprocess.PIPE, "text": True}
    together = [subprocess.Popen([sys.executable, "-c", code], **how) for _ in range(2)]
    values = {float(process.communicate()[0].split()[0]) for process in together}
    after, compiled = subprocess.run([sys.executable, "-c", code], check=True, **how).stdout.split()
    assert values == {float(after)}
    assert values.pop() == pytest.approx(0.36787944117144233, rel=1e-15)
    assert compiled == "0"  # read from disk
