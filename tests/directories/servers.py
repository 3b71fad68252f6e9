"""Both servers on folders that outlive them, and Kafka's tools."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "tests/clients/raw"), os.path.join(ROOT, "tests/differential")]
from connection import Cluster

PEER = os.path.join(ROOT, "scripts/kafka-peer")


class Kafka:
    """A real broker; `folder` has its logs/."""

    def __init__(self, port, folder):
        self.port, self.folder, self.logs = port, folder, os.path.join(folder, "logs")

    def start(self, *settings):
        environment = {"KAFKA_HEAP_OPTS": "-Xms256M -Xmx256M", **os.environ}
        subprocess.run([PEER, "start", str(self.port), self.folder, "auto.create.topics.enable=false", *settings], check=True, env=environment, stdout=sys.stderr)
        self.cluster = Cluster(f"127.0.0.1:{self.port}")
        return self.cluster

    def stop(self, *signal):
        if os.path.exists(os.path.join(self.folder, "pid")):
            subprocess.run([PEER, "stop", self.folder, *signal], check=True, stdout=sys.stderr)


class Alluvium:
    """The server, on one core."""

    def __init__(self, binary, port, folder):
        self.binary, self.port, self.folder, self.process = binary, port, folder, None

    def start(self, *settings):
        self.log = open(self.folder + ".log", "a")
        flags = [flag for setting in settings for flag in ("--set", setting)]
        self.process = subprocess.Popen([self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--cores", "1", "--data-dir", self.folder, *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, text=True)
        while not (line := self.process.stdout.readline()).startswith("ready"):
            if not line:
                raise AssertionError(f"alluvium did not start: {open(self.folder + '.log').read()[-1500:]}")
        self.cluster = Cluster(f"127.0.0.1:{self.port}")
        return self.cluster

    def stop(self):
        if self.process is not None:
            process, self.process = self.process, None
            process.terminate()
            if process.wait(60) != 0:
                raise AssertionError("alluvium did not stop cleanly")


def tool(name, *words):
    """What one of Kafka's tools says."""
    done = subprocess.run([PEER, "tool", name, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{name}: {done.stdout[-1500:]}")
    return done.stdout


def dump(files, *options):
    """What kafka-dump-log says."""
    return tool("kafka-dump-log", "--files", ",".join(files), *options)
