"""What the cases have in common: the cluster, a server on it, and how a case ends well."""
import os
import re
import shutil
import subprocess
import tempfile

from broker import SEGMENT_RECORDS, Broker, Writer
from hdfs import ROOT, Hdfs
from suite import Suite, eventually, true

suite = Suite("hdfs")
TOOL = os.path.join(ROOT, "tests/clients/java/tool")
TOOLS = os.environ.get("ALLUVIUM_TEST_TOOLS", os.path.join(ROOT, "target/test-tools"))


class Stage:
    """One cluster for all cases; a server, its data and its base folder for each."""

    def __init__(self, options):
        self.options, self.binary, self.number = options, options.binary, 0
        self.folder = tempfile.mkdtemp(prefix="alluvium-hdfs-", dir=options.scratch)
        self.hdfs = Hdfs(options.port, os.path.join(self.folder, "hdfs"))
        self.brokers, self.clusters = [], [self.hdfs]
        self.hdfs.start()

    def broker(self, *flags, hdfs=None, tier=None, **options):
        """A server that is not started yet, with a base folder of its own."""
        self.number += 1
        base = f"/case{self.number}"
        tier = tier or (hdfs or self.hdfs).url(base)
        one = Broker(self.binary, self.options.port + 100, os.path.join(self.folder, f"data{self.number}"), tier, *flags, **options)
        one.base = base
        self.brokers.append(one)
        return one

    def cluster(self, name, *properties, **environment):
        """Another cluster, beside the first; stopped behind its case."""
        one = Hdfs(self.options.port + 50, os.path.join(self.folder, name))
        self.clusters.append(one)
        return one.start(*properties, **environment)

    def after_case(self):
        for broker in self.brokers:
            broker.kill()
            shutil.rmtree(broker.folder, ignore_errors=True)
            shutil.rmtree(broker.folder + ".copied", ignore_errors=True)
        self.brokers.clear()
        for one in self.clusters[1:]:
            one.stop()
            shutil.rmtree(one.folder, ignore_errors=True)
        del self.clusters[1:]

    def end(self):
        for one in self.clusters:
            one.stop()
        if self.options.keep:
            print(f"left in {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def started(stage, *flags, configs=None, broker=None, **settings):
    """A server, a topic of one partition, and its writer."""
    broker = broker or stage.broker(*flags)
    broker.start(**settings)
    broker.create(**(configs or {}))
    return broker, Writer(broker)


def ended_well(stage, broker, writer, segments_min=1):
    """Everything is in the tier, once, and reads back; nothing half-done is left."""
    writer.write(2 * SEGMENT_RECORDS)
    broker.wait_copied(writer.end - 2 * SEGMENT_RECORDS)
    broker.wait_local_gone(writer.end - 2 * SEGMENT_RECORDS)
    writer.read_all()
    # A part of a manifest is written over by the next one.
    eventually(lambda: not [name for name, _, _ in stage.hdfs.list(f"{broker.base}/.tmp") if not name.startswith("manifest-")], "nothing is left in .tmp", 30)
    broker.stop()
    said = broker.verify()
    copied = int(re.search(r"(\d+) segments, \d+ bytes read back, 0 problems", said)[1])
    true(copied >= segments_min, said)
    print(f"   {writer.end} records, {copied} segments; {writer.latency()}", flush=True)


def tool(broker, name, *arguments, bootstrap="--bootstrap-server"):
    done = subprocess.run([TOOL, name, bootstrap, f"127.0.0.1:{broker.port}", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180)
    true(done.returncode == 0, f"{name}: {done.stdout[-1500:]}")
    return done.stdout
