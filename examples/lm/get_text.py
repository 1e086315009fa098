#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches a long public-domain text from a Debian package and prints where it is.

    python3 get_text.py emma        one of Jane Austen's novels (package r-cran-janeaustenr)
    python3 get_text.py kjv         the King James Bible (packages bible-kjv, bible-kjv-text)

Packages are fetched and unpacked into a temporary folder, nothing is installed; the text stays in
${XDG_CACHE_HOME:-~/.cache}/heed. A text that is there already is not fetched again.
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

NOVELS = ["emma", "mansfieldpark", "northangerabbey", "persuasion", "prideprejudice",
          "sensesensibility"]  # in the order of the package's data file


def unpack(packages, folder):
    """The Debian packages' files below folder."""
    subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *packages],
                   cwd=folder, check=True)
    for package in pathlib.Path(folder).glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)


def strings(data):
    """The elements of one serialised R character vector (format X, version 3)."""
    at = data.index(b"UTF-8") + len("UTF-8")
    kind, count = struct.unpack_from(">ii", data, at)
    if not data.startswith(b"X\n") or kind & 0xFF != 16:
        raise ValueError("the package's data are no character vector")
    at += 8
    for _ in range(count):
        _, length = struct.unpack_from(">ii", data, at)  # -1: not available
        at += 8
        yield data[at:at + max(length, 0)].decode("utf-8")
        at += max(length, 0)


def austen(novel, folder):
    unpack(["r-cran-janeaustenr"], folder)
    data = next(pathlib.Path(folder).rglob("data/Rdata.rdb")).read_bytes()
    at = 0
    for name in NOVELS:  # each: its length, then zlib's stream
        stream = zlib.decompressobj()
        lines = stream.decompress(data[at + 4:])
        at = len(data) - len(stream.unused_data)
        if name == novel:
            return "\n".join(strings(lines)) + "\n"
    raise ValueError(f"the package does not hold {novel}")


def kjv(folder):
    unpack(["bible-kjv", "bible-kjv-text"], folder)
    root = pathlib.Path(folder)
    return subprocess.run([root / "usr/bin/bible", "-p", root / "usr/lib", "-l76",
                           "gen1:1-rev22:21"], check=True, capture_output=True,
                          text=True).stdout


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in [*NOVELS, "kjv"]:
        sys.exit(f"{__doc__}\nOne of: {' '.join([*NOVELS, 'kjv'])}")
    name = sys.argv[1]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    cache /= "heed"
    path = cache / f"{name}.txt"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                text = kjv(folder) if name == "kjv" else austen(name, folder)
            except (OSError, ValueError, StopIteration, struct.error, zlib.error,
                    subprocess.CalledProcessError) as error:
                sys.exit(f"The text {name} could not be fetched: {error}")
        part = path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    print(path)


if __name__ == "__main__":
    main()
