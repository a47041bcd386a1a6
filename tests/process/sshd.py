"""An sshd of a test's own: its own port, keys and folder, beside whatever runs on
this machine. Nothing under /etc or of the user's is read or changed.
"""
import os
import pathlib
import pwd
import shlex
import socket
import spwd
import subprocess
import time

from harness import MARK

SSHD = "/usr/sbin/sshd"


class Sshd:
    """@case's sshd, at any port of loopback. `bin` has an `ssh` that reaches it,
    to be put before PATH; @more are lines of its configuration."""

    def __init__(self, case, *more, name="sshd"):
        self.case, self.more = case, more
        self.folder = case.folder / name
        self.bin = self.folder / "bin"
        self.log = self.folder / "log"
        self.bin.mkdir(parents=True)
        self.folder.chmod(0o755)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            self.folder / key], check=True,
                           stdin=subprocess.DEVNULL)
        (self.folder / "allowed").write_text(
            (self.folder / "user.pub").read_text())
        (self.folder / "allowed").chmod(0o600)
        self.process = None
        self.port = 0

    def user(self):
        return pwd.getpwuid(os.geteuid()).pw_name

    def write_client(self):
        """The user's configuration, and an `ssh` that reads it."""
        host = (self.folder / "host.pub").read_text().split()
        known = self.folder / "known"
        known.write_text("".join(
            f"[{name}]:{self.port} {host[0]} {host[1]}\n"
            for name in ("127.0.0.1", "127.0.0.2", "127.0.0.3", "localhost")))
        config = self.folder / "config"
        config.write_text(f"""
            Host *
            Port {self.port}
            User {self.user()}
            IdentityFile {self.folder}/user
            IdentitiesOnly yes
            IdentityAgent none
            UserKnownHostsFile {known}
            GlobalKnownHostsFile /dev/null
            StrictHostKeyChecking yes
            """)
        wrapper = self.bin / "ssh"
        wrapper.write_text("#!/bin/sh\nexec /usr/bin/ssh -F "
                           f"{shlex.quote(str(config))} \"$@\"\n")
        wrapper.chmod(0o755)

    def is_locked(self):
        """Without PAM sshd lets nobody in whose password is locked."""
        try:
            return spwd.getspnam(self.user()).sp_pwdp.startswith("!")
        except (KeyError, PermissionError):
            return False

    def start(self):
        """Another port if somebody took it meanwhile; until it answers."""
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for _ in range(20):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            if self.try_port():
                self.write_client()
                return self
        self.case.fail("sshd does not start: " + self.log.read_text())
        return None

    def try_port(self):
        config = self.folder / "sshd_config"
        mark = self.case.mark
        lines = [f"Port {self.port}", "ListenAddress 0.0.0.0",
                 f"HostKey {self.folder}/host", "PidFile none",
                 f"UsePAM {'yes' if self.is_locked() else 'no'}",
                 f"AuthorizedKeysFile {self.folder}/allowed", "StrictModes no",
                 "PubkeyAuthentication yes", "PasswordAuthentication no",
                 "KbdInteractiveAuthentication no", "PermitRootLogin yes",
                 "PermitUserEnvironment no", "AllowTcpForwarding no",
                 f"SetEnv {MARK}={mark}", "UseDNS no", "LogLevel VERBOSE",
                 "PrintMotd no", "MaxSessions 100", *self.more]
        if not any(line.startswith("MaxStartups") for line in self.more):
            lines.append("MaxStartups 100:30:200")
        config.write_text("\n".join(lines) + "\n")
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", config], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=open(self.log, "ab"))
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as s:
                    s.settimeout(5)
                    if s.recv(4) == b"SSH-":
                        return True
            except OSError:
                time.sleep(0.05)
        self.stop()
        return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
