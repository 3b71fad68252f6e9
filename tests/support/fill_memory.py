#!/usr/bin/env python3
"""Fills what memory is free with clean pages of the page cache, as it is on a server that has run for a day.

    python3 tests/support/fill_memory.py FOLDER [--leave-mib 512]

For measurements. On a virtual machine whose host takes back free memory (virtio balloon, free page reporting), the first write
to a page that was free pays for a fault of the host: 0.5 to 1.5 s of CPU for each GB here, counted for whoever wrote. A server
in use has no such pages: its page cache is full, and new pages come from those that were read longest ago.
Reads a file without blocks in FOLDER, which costs no disk and has no name; its pages go when the `Filler` does.
"""
import argparse
import os
import sys
import tempfile


def meminfo_mib(field):
    for line in open("/proc/meminfo"):
        name, value = line.split(":")
        if name == field:
            return int(value.split()[0]) >> 10
    raise SystemExit(f"/proc/meminfo has no {field}")


class Filler:
    """Fills memory, again and again: what was freed since is filled anew, what is still full is left alone."""

    def __init__(self, folder):
        self.file = tempfile.TemporaryFile(dir=folder, buffering=0)
        self.at = 0

    def fill(self, leave_mib=512):
        """Reads until less than leave_mib are free, or as much was read as the machine has."""
        buffer = bytearray(4 << 20)
        for read_mib in range(0, meminfo_mib("MemTotal"), 4):
            if read_mib % 64 == 0 and meminfo_mib("MemFree") < leave_mib:
                break
            os.truncate(self.file.fileno(), self.at + len(buffer))
            os.preadv(self.file.fileno(), [buffer], self.at)
            self.at += len(buffer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--leave-mib", type=int, default=512)
    options = parser.parse_args()
    filler = Filler(options.folder)
    while True:
        filler.fill(options.leave_mib)
        print(f"{meminfo_mib('MemFree')} MiB free; a line on standard input fills again, its end gives all back", flush=True)
        if not sys.stdin.readline():
            break
