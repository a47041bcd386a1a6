"""A server of this machine, found through its state folder.

Its port may be another program's once it has ended, and a token must not go
there. So it is asked by its Unix socket, without a token, where it has not
written beside its address that it has none (cli/state/address_io.h); and the
folder is looked into again before each connection.
"""
from __future__ import annotations

import fcntl
import http.client
import os
import pathlib
import socket
import struct
from typing import NamedTuple, Optional

PATH_BYTES = 108  # of an address of a Unix socket, its end included
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")


def locked(path: pathlib.Path) -> bool:
    """Whether a process that lives holds the lock of this file."""
    try:
        with open(path, "rb") as file:
            ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            told = fcntl.fcntl(file, fcntl.F_OFD_GETLK, ask)
    except OSError:
        return False
    return struct.unpack("hhqqi4x", told)[0] != fcntl.F_UNLCK


class Way(NamedTuple):
    """How a server is reached now."""

    url: str
    socket: Optional[pathlib.Path]  # None: by the address, with the token


class Folder(NamedTuple):
    """Where a server says where it is: its lock, address and socket."""

    lock: pathlib.Path
    address: pathlib.Path
    socket: pathlib.Path

    def way(self) -> Optional[Way]:
        """None: it does not live, or does not listen yet."""
        if not locked(self.lock):
            return None
        try:
            lines = self.address.read_text(encoding="ascii").split("\n")
        except (OSError, ValueError):
            return None
        url = lines[0].strip()
        if url.startswith("https:") or _has_none(lines[1:]):
            return Way(url, None)
        return Way(url, self.socket)


def of_service(state: pathlib.Path) -> Folder:
    return Folder(state / "serve.lock", state / "serve.url",
                  state / "serve.sock")


def of_run(folder: pathlib.Path) -> Folder:
    return Folder(folder / "lock", folder / "url", folder / "http.sock")


def _has_none(rest: "list[str]") -> bool:
    """Whether the lines after the address say so, in this boot of this very
    machine."""
    try:
        boot = BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return False
    return bool(boot) and rest == [f"no socket {boot}", ""]


class Connection(http.client.HTTPConnection):
    """HTTP by the Unix socket @path. Only this user, root and the folder's
    owner are taken for the server."""

    def __init__(self, path: pathlib.Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX)
        folder = -1
        try:
            sock.settimeout(self.timeout)
            name = os.fspath(self.path)
            if len(os.fsencode(name)) >= PATH_BYTES:
                folder = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY)
                name = f"/proc/self/fd/{folder}/{self.path.name}"
            sock.connect(name)
            told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            who = struct.unpack("3i", told)[1]
            if who not in (os.geteuid(), 0, self.path.parent.stat().st_uid):
                raise PermissionError(f"user {who} listens there")
            self.sock = sock
        except BaseException:
            sock.close()
            raise
        finally:
            if folder >= 0:
                os.close(folder)
