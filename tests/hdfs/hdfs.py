"""A real HDFS by scripts/hdfs-up, and its files over WebHDFS: no JVM is started to look at them."""
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UP = os.path.join(ROOT, "scripts/hdfs-up")


class Hdfs:
    """A cluster in `folder`, on `port` and some after it."""

    def __init__(self, port, folder):
        self.port, self.folder = port, folder
        self.conf = os.path.join(folder, "conf")
        self.web_ports = [port + 1]

    def start(self, *properties, **environment):
        self.web_ports = [self.port + 1, self.port + 3] if environment.get("HA") else [self.port + 1]
        subprocess.run([UP, "start", str(self.port), self.folder, *properties], check=True, env={**os.environ, **environment}, stdout=sys.stderr)
        return self

    def stop(self):
        if os.path.exists(os.path.join(self.folder, "env")):
            self.control("stop", "KILL")

    def control(self, verb, *arguments):
        """One of scripts/hdfs-up's verbs; what it says."""
        done = subprocess.run([UP, verb, self.folder, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise AssertionError(f"hdfs-up {verb} {arguments}: {done.stdout[-1500:]}")
        return done.stdout

    def url(self, base):
        return f"hdfs://127.0.0.1:{self.port}{base}"

    def web(self, method, path, op, data=None, user="root", **parameters):
        """A call of WebHDFS; its answer, or None where nothing of that name is there."""
        query = urllib.parse.urlencode({"op": op, "user.name": user, **parameters})
        error = None
        for port in self.web_ports:
            url = f"http://127.0.0.1:{port}/webhdfs/v1{urllib.parse.quote(path)}?{query}"
            try:
                if data is not None:
                    # The NameNode says which DataNode takes the bytes.
                    url = json.load(urllib.request.urlopen(urllib.request.Request(url + "&noredirect=true", method=method), timeout=20))["Location"]
                with urllib.request.urlopen(urllib.request.Request(url, data=data, method=method), timeout=20) as answer:
                    body = answer.read()
                return body if op == "OPEN" else json.loads(body or b"{}")
            except urllib.error.HTTPError as failed:
                text = failed.read().decode(errors="replace")
                if "FileNotFoundException" in text:
                    return None
                error = AssertionError(f"{op} {path}: {text[:300]}")
            except urllib.error.URLError as failed:
                error = failed
        raise error

    def list(self, path):
        """(name, length, is a folder) of what is in a folder; nothing where there is none."""
        found = self.web("GET", path, "LISTSTATUS")
        rows = [] if found is None else found["FileStatuses"]["FileStatus"]
        return [(row["pathSuffix"], row["length"], row["type"] == "DIRECTORY") for row in rows]

    def segments(self, base):
        """Paths of the segments' files and their lengths, below a base folder."""
        found = {}
        for folder, _, is_folder in self.list(base):
            if is_folder and re.search(r"-\d+-[\w-]{22}$", folder):
                found.update({f"{base}/{folder}/{name}": length for name, length, _ in self.list(f"{base}/{folder}")})
        return found

    def status(self, path):
        found = self.web("GET", path, "GETFILESTATUS")
        return None if found is None else found["FileStatus"]

    def make_folder(self, path, permission="755", user="root"):
        self.web("PUT", path, "MKDIRS", user=user, permission=permission)

    def remove(self, path):
        return self.web("DELETE", path, "DELETE", recursive="true")

    def read(self, path):
        return self.web("GET", path, "OPEN")

    def write(self, path, data):
        self.web("PUT", path, "CREATE", data=data, overwrite="true", blocksize=1 << 20)

    def set_quota(self, path, names=None, space_bytes=None):
        """Limits a folder; without a number the limit is gone."""
        self.web("PUT", path, "SETQUOTA", namespacequota=-1 if names is None else names, storagespacequota=-1 if space_bytes is None else space_bytes)

    def set_permission(self, path, permission):
        self.web("PUT", path, "SETPERMISSION", permission=permission)
