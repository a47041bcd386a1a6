"""One request, one answer, within a time: the standard library alone.

A token goes to this machine, or over TLS, and nowhere else; none goes by a Unix
socket. No redirect is followed and no proxy asked: what answers is the server
that was named.
"""
from __future__ import annotations

import http.client
import io
import ipaddress
import json
import os
import pathlib
import socket
import ssl
import time
import urllib.parse
from typing import Any, Dict, List, Optional

from ._local import Connection, Way

ANSWER_MAX = 64 * 1024 * 1024  # bytes of an answer that is read whole
LINE_MAX = 8 * 1024 * 1024  # bytes of a line of a stream


class ClientError(Exception):
    """Base of all that a client raises."""


class NoAnswer(ClientError):
    """Nobody answers, or not within the time."""


class NotRunning(ClientError):
    """The run is not alive, so that it has no server."""


class BadAnswer(ClientError):
    """What answers is no mltune, or its answer broke off."""


class Refused(ClientError):
    """The server refuses. Its subclasses say what kind of refusal it is.

    status: of HTTP; code: the server's stable word, "" where there is none;
    detail: its sentence; errors: a list of {"pointer", "detail"}, one a fault.
    """

    def __init__(self, status: int, code: str, detail: str,
                 errors: List[Dict[str, Any]]) -> None:
        more = "".join(f"\n  {e.get('pointer', '')}: {e.get('detail', '')}"
                       for e in errors)
        super().__init__(f"{detail} ({status} {code or 'no code'}){more}")
        self.status, self.code = status, code
        self.detail, self.errors = detail, errors


class Invalid(Refused):
    """400, 413, 414, 415, 422, 431: the request itself is at fault."""


class TokenRequired(Refused):
    """401: a token is missing, or is not the server's."""


class NotFound(Refused):
    """404: there is no such thing."""


class Conflict(Refused):
    """409: not in the state that the run is in; see code."""


class Unavailable(Refused):
    """503, 429: it may pass; try again."""


KINDS = {400: Invalid, 413: Invalid, 414: Invalid, 415: Invalid, 422: Invalid,
         431: Invalid, 401: TokenRequired, 404: NotFound, 409: Conflict,
         429: Unavailable, 503: Unavailable}


class _Timed(io.RawIOBase):
    """Reads of a socket that end at a moment, however slowly bytes come."""

    def __init__(self, sock: socket.socket, deadline: List[float]) -> None:
        super().__init__()
        self.sock, self.deadline = sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline[0] - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.sock.settimeout(left)
        return self.sock.recv_into(buffer)


class _Timing:
    """What http.client takes for a socket."""

    def __init__(self, sock: socket.socket, deadline: List[float]) -> None:
        self.sock, self.deadline = sock, deadline

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_Timed(self.sock, self.deadline))


class Answer:
    """An answer that has begun: status, headers, and a body to be read."""

    def __init__(self, connection: http.client.HTTPConnection,
                 reply: http.client.HTTPResponse,
                 deadline: List[float]) -> None:
        self.connection, self.reply, self.deadline = connection, reply, deadline
        self.status, self.headers = reply.status, reply.headers
        self.rest, self.ended = b"", False

    def within(self, seconds: float) -> None:
        """What is read from now on has so many seconds."""
        self.deadline[0] = time.monotonic() + seconds

    def some(self, size: int = 65536) -> bytes:
        """What is there, at least a byte; b"" is the end, as it was meant."""
        try:
            part = self.reply.read1(size)
        except (OSError, http.client.HTTPException) as e:
            raise _broken(e) from e
        if not part and self.reply.length:  # of Content-Length, not read
            raise BadAnswer("the answer broke off")
        return part

    def line(self) -> bytes:
        """A line without its end; b"" is also the end of all, then ended."""
        while b"\n" not in self.rest:
            part = self.some()
            if not part:
                self.ended = True
                return b""
            self.rest += part
            if len(self.rest) > LINE_MAX:
                raise BadAnswer(f"a line of more than {LINE_MAX} bytes")
        line, _, self.rest = self.rest.partition(b"\n")
        return line.rstrip(b"\r")

    def whole(self) -> bytes:
        parts, size = [], 0
        while True:
            part = self.some()
            if not part:
                break
            parts.append(part)
            size += len(part)
            if size > ANSWER_MAX:
                raise BadAnswer(f"an answer of more than {ANSWER_MAX} bytes")
        return b"".join(parts)

    def close(self) -> None:
        self.reply.close()
        self.connection.close()


def _broken(e: Exception) -> ClientError:
    if isinstance(e, (TimeoutError, socket.timeout)):
        return NoAnswer("no answer in time")
    return BadAnswer(f"the answer broke off: {e or type(e).__name__}")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Place:
    """An address, taken apart and checked once."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError as e:
            raise ClientError(f'"{url}" is no address: {e}') from e
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(f'"{url}" is no address such as '
                              "http://127.0.0.1:8080/")
        if parts.query or parts.fragment or parts.username:
            raise ClientError(f'"{url}": scheme, host, port and path alone')
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.tls else 80)
        self.path = parts.path.rstrip("/")
        self.socket: Optional[pathlib.Path] = None  # asked in its place
        if not self.tls and not _loopback(self.host):
            raise ClientError(f'"{url}": to another machine https only, since '
                              "a token must not go in the clear")
        name = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"{parts.scheme}://{name}:{self.port}{self.path}/"

    @classmethod
    def of(cls, way: Way) -> "Place":
        """Of a server that was found through its state folder."""
        place = cls(way.url)
        place.socket = way.socket
        return place

    def connection(self, cacert: Optional[str],
                   timeout: float) -> http.client.HTTPConnection:
        if self.socket:
            return Connection(self.socket, timeout)
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port,
                                              timeout=timeout)
        trusted = cacert or os.environ.get("MLTUNE_CACERT") or None
        try:
            context = ssl.create_default_context(cafile=trusted)
        except OSError as e:
            raise ClientError(f"read certificates of {trusted}: {e}") from e
        return http.client.HTTPSConnection(self.host, self.port,
                                           timeout=timeout, context=context)


def begin(place: Place, method: str, target: str, headers: Dict[str, str],
          body: Optional[bytes], timeout: float,
          cacert: Optional[str] = None) -> Answer:
    """Sends a request and reads the head of its answer, in @timeout seconds;
    the rest of that time is the body's (Answer.within)."""
    deadline = [time.monotonic() + timeout]
    connection = place.connection(cacert, timeout)

    def response(sock: Any, *words: Any, **named: Any) -> Any:
        return http.client.HTTPResponse(_Timing(sock, deadline),  # type: ignore
                                        *words, **named)
    connection.response_class = response  # type: ignore
    try:
        connection.connect()
        connection.sock.settimeout(max(deadline[0] - time.monotonic(), 0.001))
        connection.request(method, place.path + target, body, headers)
        return Answer(connection, connection.getresponse(), deadline)
    except (TimeoutError, socket.timeout) as e:
        connection.close()
        raise NoAnswer(f"no answer of {place.url} in {timeout:g} s") from e
    except http.client.RemoteDisconnected as e:
        connection.close()
        raise NoAnswer(f"the server at {place.url} hung up") from e
    except http.client.HTTPException as e:
        connection.close()
        raise BadAnswer(f"what answers at {place.url} is no mltune") from e
    except OSError as e:
        connection.close()
        raise NoAnswer(f"nobody answers at {place.url}: "
                       f"{e.strerror or e}") from e


def problem(place: Place, status: int, body: bytes) -> ClientError:
    """The error that an answer of status 300 and more is."""
    try:
        told = json.loads(body)
        told = told if isinstance(told, dict) else {}
    except ValueError:
        told = {}
    if not told and status < 500:
        return BadAnswer(f"what answers at {place.url} is no mltune "
                         f"(status {status})")
    kind = KINDS.get(status, Refused)
    return kind(status, told.get("code", ""),
                told.get("detail", f"the server answers {status}"),
                told.get("errors", []))
