"""The connection to the tuner: one thread that owns the socket.

The thread receives messages and hands them to a node (`_node.Node`), sends what
the node and the program have to say, a `beat` every second, and the windows that
are complete. It goes on while the program computes; so forks are answered and
beats come however long a clock takes.
"""
import collections
import json
import os
import re
import sys
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

MESSAGE_BYTES_MAX = 4 << 20
FIRST_S = 30.0    # the tuner's socket may take so long to be there
AGAIN_S = 3.0     # and so long to come back
BEAT_S = 1.0
REPORT_S = 0.25   # complete windows wait no longer
EXIT_LOST = 69

Message = Dict[str, Any]


def encode(message: Message) -> bytes:
    """The bytes of a message; numbers that are not finite are text already."""
    return json.dumps(message, separators=(",", ":"),
                      allow_nan=False).encode()


def decode(data: bytes) -> Message:
    """The message in @data. Raises ValueError for what is none."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise ValueError("over 4 MiB")
    try:
        message = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("no object")
    if not isinstance(message.get("kind"), str):
        raise ValueError("no kind")
    return message


def _run_key() -> Optional[str]:
    """The run's key, from MLTUNE_KEY or the file that MLTUNE_KEY_FILE names."""
    text = os.environ.get("MLTUNE_KEY")
    path = os.environ.get("MLTUNE_KEY_FILE")
    if text or not path:
        return text or None
    if path == "-":
        os.environ["MLTUNE_KEY"] = sys.stdin.readline().strip()
        return os.environ["MLTUNE_KEY"]
    with open(path, encoding="ascii") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(f"the run's key {path} must be a file of "
                                  "yours that nobody else can read")
        return file.readline().strip()


def _show_key(socket: Any, endpoint: str) -> None:
    """Over TCP: only a tuner with the run's key is spoken to."""
    host = endpoint[len("tcp://"):]
    inside = (re.match(r"127\.[0-9.]*:", host) or
              host.startswith(("localhost:", "[::1]:")))
    key = _run_key()
    if key is None:
        if not inside:
            raise PermissionError(f"{endpoint} is on another machine: give "
                                  "all processes of the run the same "
                                  "MLTUNE_KEY (openssl rand -hex 32)")
        return
    if not re.fullmatch("[0-9a-f]{64}", key):
        raise ValueError("MLTUNE_KEY: expected 64 hexadecimal digits")
    secret = z85.encode(bytes.fromhex(key))
    public = zmq.curve_public(secret)
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
    socket.setsockopt(zmq.CURVE_SERVERKEY, public)


class Link:
    """A connection to the tuner at @endpoint.

    receive   is called with each message, on the link's thread; a ValueError
              says that the message is garbage
    beat      gives the members of a beat; on the link's thread
    flush     sends the report that is due; whether there was one; on the
              link's thread
    told      is called when all that was to be sent has left, on the link's
              thread
    lost      is called when the tuner is gone, on the link's thread
    """

    def __init__(self, endpoint: str, receive: Callable[[Message], None],
                 beat: Callable[[], Message],
                 flush: Callable[[], bool],
                 told: Callable[[], None],
                 lost: Callable[[], None]) -> None:
        self._receive, self._beat = receive, beat
        self._flush, self._told, self._lost = flush, told, lost
        self._out: Deque[bytes] = collections.deque()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._closing = False
        self._garbage = 0
        self.bytes_sent = self.bytes_received = 0
        self._context = zmq.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.LINGER, 1000)
        self._dealer.setsockopt(zmq.SNDHWM, 0)
        self._dealer.setsockopt(zmq.RCVHWM, 0)
        self._dealer.setsockopt(zmq.RECONNECT_IVL, 50)
        self._dealer.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        if endpoint.startswith("tcp:"):
            self._dealer.setsockopt(zmq.HEARTBEAT_IVL, 2000)
            self._dealer.setsockopt(zmq.HEARTBEAT_TIMEOUT, 30000)
            _show_key(self._dealer, endpoint)
        self._monitor = self._dealer.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self.connected = False
        self._deadline = time.monotonic() + FIRST_S
        self._dealer.connect(endpoint)
        self.thread = threading.Thread(target=self._main, name="mltune-link",
                                        daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self.thread.start()

    def send(self, message: Message) -> None:
        """Sends @message after those before it. Any thread; returns at once."""
        self._out.append(encode(message))
        try:
            os.write(self._write_fd, b"x")
        except BlockingIOError:
            pass  # the thread has been woken often enough

    def close(self, seconds: float = 2.0) -> None:
        """Sends what waits, and ends. Not from the link's thread."""
        if self._closing:
            return
        self._closing = True
        try:
            os.write(self._write_fd, b"x")
        except BlockingIOError:
            pass
        self.thread.join(seconds)

    def wait_lost(self) -> None:
        """While there is no connection: until it is there again, or `lost` was
        called."""
        end = time.monotonic() + AGAIN_S + 1
        while not self.connected and time.monotonic() < end:
            self.thread.join(0.05)

    # ---- the thread --------------------------------------------------------

    def _main(self) -> None:
        poller = zmq.Poller()
        poller.register(self._dealer, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        poller.register(self._read_fd, zmq.POLLIN)
        beat_at = time.monotonic() + BEAT_S
        report_at = 0.0
        while True:
            now = time.monotonic()
            poller.poll(max(0.0, min(beat_at, now + REPORT_S) - now) * 1000)
            self._drain_pipe()
            self._watch()
            self._take()
            now = time.monotonic()
            if now >= report_at and self._flush():
                report_at = now + REPORT_S
            if now >= beat_at:
                beat_at = now + BEAT_S
                self._out.append(encode(self._beat()))
            if self._out:
                self._put()
                if not self._out:
                    self._told()
            if self._closing and not self._out:
                break
            if not self.connected and now >= self._deadline:
                self._lost()
                break
        self._dealer.disable_monitor()
        self._monitor.close(0)
        if not self.connected:
            self._dealer.setsockopt(zmq.LINGER, 0)
        self._dealer.close()
        self._context.term()

    def _drain_pipe(self) -> None:
        try:
            while len(os.read(self._read_fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def _watch(self) -> None:
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            self.connected = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if not self.connected:
                self._deadline = time.monotonic() + AGAIN_S

    def _take(self) -> None:
        while True:
            try:
                frames = self._dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.bytes_received += sum(map(len, frames))
            try:
                if len(frames) != 1:
                    raise ValueError("several frames")
                self._receive(decode(frames[0]))
            except ValueError as error:
                self._garbage += 1
                if self._garbage == 1:
                    print(f"mltune: message_ignored reason={error!s}",
                          file=sys.stderr, flush=True)

    def _put(self) -> None:
        while self._out:
            try:
                self._dealer.send(self._out[0], zmq.NOBLOCK)
            except zmq.Again:
                return
            self.bytes_sent += len(self._out.popleft())

    @property
    def garbage(self) -> int:
        """Messages that were none."""
        return self._garbage


def text_number(x: float) -> Any:
    """@x as messages have it: text where it is not finite."""
    if x != x:
        return "nan"
    if x in (float("inf"), float("-inf")):
        return "inf" if x > 0 else "-inf"
    return x


def text_numbers(values: List[float]) -> List[Any]:
    """Each of @values as messages have it."""
    return [text_number(x) for x in values]
