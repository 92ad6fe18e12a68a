"""What exists on one system alone is not needed: the core, with all that Windows does not have taken away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TAKEN_AWAY = """
import builtins, io, os, signal, sys, tempfile
import numpy, psutil, safetensors.numpy, scipy.linalg, scipy.optimize, scipy.spatial, scipy.special, threadpoolctl
import torch, torch.linalg

found = threadpoolctl.ThreadpoolController().lib_controllers  # each system has its own way of finding them
for name in (
    "sysconf", "sysconf_names", "fork", "forkpty", "register_at_fork", "getuid", "geteuid", "getgid", "setsid",
    "sched_getaffinity", "sched_setaffinity", "getloadavg", "killpg", "mkfifo", "uname", "chown", "fchmod", "statvfs",
    "O_DIRECTORY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "posix_fallocate", "posix_fadvise", "pread", "pwrite",
    "openpty", "wait", "wait3", "wait4", "nice", "sync",
):
    if hasattr(os, name):
        delattr(os, name)
for name in [each for each in dir(signal) if each.startswith("SIG") and each not in (
    "SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN")]:
    delattr(signal, name)
for name in ("alarm", "setitimer", "pause", "pthread_kill", "pthread_sigmask", "sigwait", "siginterrupt"):
    if hasattr(signal, name):
        delattr(signal, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline"):
    sys.modules[name] = None  # importing it is an ImportError

listen = signal.signal
def only_ctrl_c(number, handler):
    assert number == signal.SIGINT, f"the signal {number} is not there"
    return listen(number, handler)
signal.signal = only_ctrl_c

def windows_like(opens):
    def opened(path, *arguments, **options):
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        if str(text).startswith(("/proc", "/sys", "/dev", "/etc")):
            raise FileNotFoundError(2, "no such file", text)
        if text and os.path.isdir(text) and "opener" not in options:  # which opens a file in it
            raise PermissionError(13, "a folder cannot be opened", text)
        return opens(path, *arguments, **options)
    return opened

tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # files without a name; numba tries a folder by one
memory = psutil.virtual_memory()
psutil.virtual_memory = lambda: memory
threadpoolctl.ThreadpoolController._load_libraries = lambda controller: controller.lib_controllers.extend(found)
builtins.open = io.open = windows_like(io.open)
os.open = windows_like(os.open)
rename = os.rename
def rename_to_new(source, target):
    if os.path.exists(target):
        raise FileExistsError(17, "it exists", target)
    rename(source, target)
os.rename = rename_to_new
"""

CORE = """
import warnings
import numpy as np
import cagp

rng = np.random.default_rng(0)
X = rng.random((60, 2))
y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(60)
prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)
model = prior.condition(X, y)
mean = model.predict(X[:3]).mean
for overwrite in (False, True):
    model.save("plain", overwrite=overwrite)
assert np.array_equal(cagp.load("plain").predict(X[:3]).mean, mean)
fitted = cagp.fit(X, y, kernel="matern32", progress=True)
fitted.save("fitted")
np.testing.assert_allclose(cagp.load("fitted").predict(X[:3]).mean, fitted.predict(X[:3]).mean, rtol=1e-12)
print("done")
"""


def test_the_core_needs_nothing_that_one_system_alone_has(tmp_path: Path) -> None:
    code = TAKEN_AWAY + CORE
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("done")
