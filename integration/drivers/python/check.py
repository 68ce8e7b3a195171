"""Checks of a suite: each prints `ok <name>` or `not ok <name>: <why>`."""

import os
import subprocess
import sys
import time
import traceback

_failed = 0


def check(name):
    """Runs the decorated function at once as the check of that name."""

    def run(f):
        global _failed
        start = time.time()
        try:
            f()
            print("ok " + name, flush=True)
        except Exception as e:
            _failed += 1
            print("not ok %s: %s" % (name, " ".join(explain(e).split())), flush=True)
            if os.environ.get("VERBOSE"):
                traceback.print_exc()
        if os.environ.get("VERBOSE"):
            print("%d ms %s" % ((time.time() - start) * 1000, name), file=sys.stderr)
        return f

    return run


def skip(name, why):
    print("skip %s: %s" % (name, why), flush=True)


def explain(e):
    code = sqlstate(e)
    frame = traceback.extract_tb(e.__traceback__)[-1]
    return "%s %s %s (line %s)" % (code or "", type(e).__name__, e, frame.lineno)


def sqlstate(e):
    """The SQLSTATE, wherever the library hides the driver's error."""
    while e is not None:
        code = getattr(e, "pgcode", None) or getattr(e, "sqlstate", None)
        if code:
            return code
        e = getattr(e, "orig", None) or e.__cause__
    return None


def same(got, want):
    if got != want:
        raise AssertionError("got %.600r, want %.600r" % (got, want))


class fails:
    """Expects the statements inside to fail with a SQLSTATE."""

    def __init__(self, code):
        self.code, self.error = code, None

    def __enter__(self):
        return self

    def __exit__(self, kind, e, tb):
        if e is None:
            raise AssertionError("no error, want " + self.code)
        if sqlstate(e) != self.code:
            return False
        self.error = e
        return True


def eventually(f, seconds=30):
    """Repeats what may fail while a server comes back."""
    end = time.time() + seconds
    while True:
        try:
            return f()
        except Exception:
            if time.time() > end:
                raise
            time.sleep(0.2)


def declare(*tables):
    subprocess.run("%s %s" % (os.environ.get("DECLARE", "true"), " ".join(tables)), shell=True, check=True, stdout=subprocess.DEVNULL)


def restart():
    subprocess.run(os.environ.get("RESTART", "true"), shell=True, check=True, stdout=subprocess.DEVNULL)


def done():
    sys.exit(1 if _failed else 0)
