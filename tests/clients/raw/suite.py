"""Runs a list of cases, prints `ok NAME` or `FAIL NAME reason` for each, and one line of totals."""
import argparse
import os
import re
import sys
import time
import traceback
import uuid


class Suite:
    """`case` registers a function; `main` runs them all, or those that match the patterns on the command line."""

    def __init__(self, name):
        self.name, self.cases = name, []

    def case(self, name):
        def register(function):
            self.cases.append((name, function))
            return function
        return register

    def main(self, prepare, after=None, arguments=None):
        """`prepare(options)` returns what each case gets; `after(context)` is checked behind every case."""
        parser = arguments or self.arguments()
        options = parser.parse_intermixed_args()
        chosen = [(n, f) for n, f in self.cases if not options.only or any(re.search(p, n) for p in options.only)]
        if options.list:
            print("\n".join(n for n, _ in chosen))
            return 0
        try:
            context = prepare(options)
        except OSError as error:
            print(f"FAIL connect {options.bootstrap}: {error}\n{self.name}: 0 passed, 1 failed")
            return 1
        passed = failed = 0
        for name, function in chosen:
            began = time.monotonic()
            try:
                function(context)
                if after:
                    after(context)
            except Exception as error:  # each case's failure is a result, not the end of the run
                failed += 1
                reason = f"{type(error).__name__}: {error}" if not isinstance(error, AssertionError) else str(error)
                print(f"FAIL {name} {' '.join(reason.split())[:600]}", flush=True)
                if options.verbose:
                    traceback.print_exc()
            else:
                passed += 1
                print(f"ok {name}" + (f" ({time.monotonic() - began:.2f} s)" if options.verbose else ""), flush=True)
        print(f"{self.name}: {passed} passed, {failed} failed", flush=True)
        return 1 if failed or not passed else 0

    def arguments(self):
        parser = argparse.ArgumentParser(description=f"The {self.name} client suite.")
        parser.add_argument("bootstrap", nargs="?", default=os.environ.get("BOOTSTRAP", "127.0.0.1:9092"), help="HOST:PORT[,HOST:PORT]")
        parser.add_argument("only", nargs="*", help="patterns of case names")
        parser.add_argument("--list", action="store_true", help="print the names")
        parser.add_argument("--verbose", action="store_true", help="times, and a trace for each failure")
        return parser


def unique(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: got {shortened(got)}, want {shortened(want)}")


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def shortened(value):
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."


def eventually(condition, what, within_s=15.0):
    """Waits until `condition()` is true."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.05)


def expected_brokers():
    """How many brokers Metadata must name (EXPECT_BROKERS), or None when the caller does not say."""
    text = os.environ.get("EXPECT_BROKERS")
    return int(text) if text else None


if __name__ == "__main__":
    sys.exit("a module of the client suites")
