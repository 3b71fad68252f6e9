"""Asks a real Kafka 4.4.0 and alluvium the same seeded requests, and compares the answers field by field.

    tests/differential/run --seeds 12              # both servers are started here
    tests/differential/run --seed 7 --verbose      # one seed, each step shown
    tests/differential/run --kafka 127.0.0.1:9092 --alluvium 127.0.0.1:9192 --seeds 100
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/clients/raw"))
import admin
import allowed
import fetch
import offsets
import produce
from compare import cut_differences, differences, has_cut_batch
from pair import Pair
from steps import next_step
from transactions import Transactions
from world import World


# Records with times long past stay until the seed is over.
NO_RETENTION = "log.retention.check.interval.ms=86400000"


class Servers:
    """Both servers, in a folder of their own, on one core each: then every partition has the same leader."""

    def __init__(self, binary, port):
        self.folder = tempfile.mkdtemp(prefix="alluvium-differential-")
        self.kafka, self.alluvium = f"127.0.0.1:{port}", f"127.0.0.1:{port + 5}"
        environment = {"KAFKA_HEAP_OPTS": "-Xms256M -Xmx256M", **os.environ}
        subprocess.run([os.path.join(ROOT, "scripts/kafka-peer"), "start", str(port), os.path.join(self.folder, "kafka"), "auto.create.topics.enable=false", NO_RETENTION],
                       check=True, env=environment, stdout=sys.stderr)
        self.log = open(os.path.join(self.folder, "alluvium.log"), "w")
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", self.alluvium, "--cores", "1", "--data-dir", os.path.join(self.folder, "data"), "--durability", "os", "--set", NO_RETENTION],
            stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, text=True)
        while True:
            line = self.process.stdout.readline()
            if line.startswith("ready"):
                break
            if not line:
                raise SystemExit(f"alluvium did not start: see {self.log.name}")

    def stop(self):
        self.process.terminate()
        code = self.process.wait(60)
        subprocess.run([os.path.join(ROOT, "scripts/kafka-peer"), "stop", os.path.join(self.folder, "kafka")], stdout=sys.stderr)
        if code == 0:
            shutil.rmtree(self.folder)
        return code


def run_seed(pair, seed, steps, verbose, survey=None):
    """The differences of one seed as texts."""
    world = World(pair, seed)
    failures = walk(pair, seed, world, lambda: next_step(world), steps, verbose, survey)
    world = Transactions(pair, seed)
    return failures + walk(pair, f"{seed}, transactions,", world, world.next_step, steps, verbose, survey)


def walk(pair, seed, world, make, steps, verbose, survey):
    """The first difference that is not allowed ends a walk, as what follows may only follow from it."""
    kinds = {name: kind for name, (kind, _) in world.topics.items()}
    failures = []
    for number in range(steps):
        step = make()
        case = f"{step.api} v{step.version} {step.label}"
        for attempt in range(3):
            asked = pair.ask(step.api, step.version, step.body, step.answered)
            answers = [answer for answer, _, _ in asked]
            found = differences(pair, step.api, kinds, answers)
            is_cut = step.api == "Fetch" and all(isinstance(answer, dict) for answer in answers) and any(map(has_cut_batch, answers))
            parts_ways = is_cut and bool(found)
            if parts_ways:
                found = cut_differences(pair, kinds, step.body, answers)
            waits = [took >= 0.95 * step.body.get("MaxWaitMs", 0) for _, took, _ in asked]
            # A slow machine may make a wait of an answer that came at once: such a fetch is asked again (it changes nothing).
            is_repeatable = step.api == "Fetch" and step.body["SessionEpoch"] == -1 and step.body["MaxWaitMs"] > 0
            # Who counts the bytes of a cut batch may have enough when the other waits.
            if found or is_cut or not is_repeatable or waits[0] == waits[1]:
                break
        else:
            found.append(f"answered at once: kafka {not waits[0]}, alluvium {not waits[1]} (a wait of {step.body['MaxWaitMs']} ms)")
        if verbose:
            print(f"  {number}: {case}: {asked[0][1]:.0f} ms, {asked[1][1]:.0f} ms", flush=True)
        unexpected = [one for one in found if isinstance(one, str) or not allowed.find(case, one)]
        if unexpected and survey is not None:
            for one in unexpected:
                key = (step.api, one if isinstance(one, str) else one.path)
                survey.setdefault(key, []).append(f"seed {seed} step {number} {case}: {str(one)[:240]}" + (f" {step.body}" if os.environ.get("BODY") else ""))
        elif unexpected:
            frames = "\n".join(f"    to {side.name}: {frame[:4000].hex()}" for side, (_, _, frame) in zip(pair.sides, asked))
            lines = "\n".join(f"    {one}" for one in unexpected[:8])
            failures.append(f"seed {seed} step {number}: {case}\n{lines}\n{frames}")
            break
        if step.learn:
            step.learn(*answers)
        if parts_ways:
            # Who was served goes last next time: from here on the two sessions go different ways.
            world.forget_session(pair.kafka, answers[0].get("SessionId"))
    for side in pair.sides:
        side.hang_up()
        for name in world.topics:
            side.cluster.delete_topic(name)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12, help="how many seeds, from 1 on")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=80, help="requests of a seed")
    parser.add_argument("--binary", default=os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release/alluvium"))
    parser.add_argument("--port", type=int, default=21030, help="port to port + 5 are free")
    parser.add_argument("--kafka", help="a running one's HOST:PORT")
    parser.add_argument("--alluvium", help="a running one's HOST:PORT")
    parser.add_argument("--verbose", action="store_true", help="each step")
    parser.add_argument("--survey", action="store_true", help="go on after a difference, and show each kind a few times")
    options = parser.parse_args()
    survey = {} if options.survey else None
    servers = None if options.kafka else Servers(options.binary, options.port)
    passed = failed = 0
    try:
        pair = Pair(options.kafka or servers.kafka, options.alluvium or servers.alluvium)
        seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
        for seed in seeds:
            began = time.monotonic()
            failures = run_seed(pair, seed, options.steps, options.verbose, survey)
            passed, failed = passed + (not failures), failed + bool(failures)
            print(f"{'FAIL' if failures else 'ok'} seed {seed} ({time.monotonic() - began:.1f} s)", *failures, sep="\n", flush=True)
        if options.seed is None:
            for entry in allowed.ALLOWED:
                if not entry.used:
                    failed += 1
                    print(f"FAIL allowed but never seen: {entry.case.pattern} {entry.field.pattern}: {entry.reason}")
    finally:
        if servers and servers.stop() != 0:
            failed += 1
            print(f"FAIL alluvium did not stop cleanly: see {servers.folder}")
    for key, seen in (survey or {}).items():
        print(*key, len(seen), *seen[:4], sep="\n    ")
    print(f"differential: {passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
