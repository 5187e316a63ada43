"""A real etcd and kube-apiserver on free loopback ports, for tests.

No controllers run and there are no nodes' kubelets: objects are validated, defaulted, stored and guarded by RBAC
exactly as in a cluster, but nothing acts on them.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster.binaries import require_tool

LOOPBACK = "127.0.0.1"
START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 15.0
POLL_SECONDS = 0.05
# A free port can be taken by somebody else before the server binds it.
START_ATTEMPTS = 3
LOG_TAIL_CHARACTERS = 3000

ADMIN = "admin"
VIEWER = "viewer"
GROUPS: Mapping[str, str] = {ADMIN: "system:masters", VIEWER: ""}


class ClusterStartError(Exception):
    """etcd or the API server did not come up; the message carries the end of its log."""


def free_port() -> int:
    """Ask the kernel for a loopback port nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def tied_to_this_process(command: list[str]) -> list[str]:
    """Let the kernel end the child when the test process is killed and no cleanup runs.

    With SIGKILL: on SIGTERM an API server whose etcd is gone already never ends.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


@dataclass
class ServerProcess:
    """One child process whose output goes to a log file."""

    command: list[str]
    log: Path
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                tied_to_this_process(self.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C must reach the tests only: they stop the servers in order.
                start_new_session=True,
            )

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check_alive(self) -> None:
        if not self.is_running():
            raise ClusterStartError(f"{Path(self.command[0]).name} stopped:\n{self.log_tail()}")

    def log_tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARACTERS:]


@dataclass
class ControlPlane:
    """etcd and kube-apiserver with everything they need in one directory; the ports stay the same over restarts."""

    directory: Path
    api_port: int = field(default_factory=free_port)
    etcd_port: int = field(default_factory=free_port)
    etcd_peer_port: int = field(default_factory=free_port)
    tokens: dict[str, str] = field(default_factory=lambda: {user: secrets.token_hex(16) for user in GROUPS})

    def __post_init__(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_token_file()
        self._etcd = ServerProcess(self._etcd_command(), self.directory / "etcd.log")
        self._api = ServerProcess(self._api_command(), self.directory / "kube-apiserver.log")

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.api_port}"

    @property
    def certificate(self) -> Path:
        """Return the certificate that the API server signs for itself at its first start."""
        return self.directory / "certificates" / "apiserver.crt"

    def start(self) -> None:
        self._etcd.start()
        self._api.start()
        self._wait_until_ready()

    def stop(self) -> None:
        self._api.stop()
        self._etcd.stop()

    def _write_token_file(self) -> None:
        lines = [f'{token},{user},{user},"{GROUPS[user]}"\n' for user, token in self.tokens.items()]
        path = self.directory / "tokens.csv"
        path.write_text("".join(lines), encoding="utf-8")
        path.chmod(0o600)

    def _etcd_command(self) -> list[str]:
        client, peer = f"http://{LOOPBACK}:{self.etcd_port}", f"http://{LOOPBACK}:{self.etcd_peer_port}"
        return [
            str(require_tool("etcd")),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
            # The data need not survive a crash of the machine.
            "--unsafe-no-fsync",
        ]

    def _api_command(self) -> list[str]:
        # The key that the server makes for its own certificate signs the service account tokens as well.
        signing_key = self.certificate.with_suffix(".key")
        return [
            str(require_tool("kube-apiserver")),
            f"--etcd-servers=http://{LOOPBACK}:{self.etcd_port}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.api_port}",
            f"--cert-dir={self.certificate.parent}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={signing_key}",
            f"--service-account-signing-key-file={signing_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            # No controller creates the "default" service accounts that this plugin would insist on.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            # A loopback address cannot be published as an endpoint of the service "kubernetes".
            "--endpoint-reconciler-type=none",
            f"--advertise-address={LOOPBACK}",
        ]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._is_ready():
            self._etcd.check_alive()
            self._api.check_alive()
            if time.monotonic() > deadline:
                raise ClusterStartError(
                    f"the API server was not ready after {START_TIMEOUT_SECONDS:.0f} s:\n{self._api.log_tail()}"
                )
            time.sleep(POLL_SECONDS)

    def _is_ready(self) -> bool:
        if not self.certificate.exists():
            return False
        try:
            trust = ssl.create_default_context(cafile=str(self.certificate))
            with urllib.request.urlopen(f"{self.server}/readyz", timeout=5, context=trust) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


@dataclass(frozen=True)
class Cluster:
    """What a test works with: the address of a running API server and the means to talk to it."""

    kubeconfig: Path
    server: str
    kubectl_binary: Path
    control_plane: ControlPlane = field(repr=False)

    def kubectl(
        self, *args: str, input: str | None = None, user: str = ADMIN, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as a user of the kubeconfig; a failure fails the test unless check is false."""
        command = [str(self.kubectl_binary), f"--kubeconfig={self.kubeconfig}", f"--context={user}", *args]
        # A home of its own: kubectl keeps what it discovered about a server there, by the server's address.
        surroundings = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.kubeconfig.parent)}
        done = subprocess.run(
            command,
            input=input,
            stdin=None if input is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=surroundings,
            timeout=120,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)} failed with {done.returncode}:\n{done.stderr}{done.stdout}")
        return done

    def restart(self) -> None:
        """Stop etcd and the API server, and start them again on the same data and ports."""
        self.control_plane.stop()
        self.control_plane.start()


def write_kubeconfig(control_plane: ControlPlane) -> Path:
    """Write a kubeconfig with one context per user, named like the user; the current one is the admin's."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": ADMIN,
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": control_plane.server,
                    "certificate-authority": str(control_plane.certificate),
                },
            }
        ],
        "users": [{"name": user, "user": {"token": token}} for user, token in control_plane.tokens.items()],
        "contexts": [
            {"name": user, "context": {"cluster": "test", "user": user, "namespace": "default"}}
            for user in control_plane.tokens
        ],
    }
    path = control_plane.directory / "kubeconfig"
    # JSON is YAML.
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    path.chmod(0o600)
    return path


def start_control_plane(directory: Path) -> ControlPlane:
    """Start a control plane below a directory, on other ports when the first ones turn out to be taken."""
    for attempt in range(1, START_ATTEMPTS + 1):
        control_plane = ControlPlane(directory / f"attempt-{attempt}")
        try:
            control_plane.start()
        except ClusterStartError as error:
            control_plane.stop()
            if "address already in use" not in str(error) or attempt == START_ATTEMPTS:
                raise
        except BaseException:
            control_plane.stop()
            raise
        else:
            return control_plane
    raise AssertionError("unreachable: the last attempt returns or raises")


@contextlib.contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """Run a cluster for the time of a with block; the logs stay in the directory, the data does not."""
    kubectl = require_tool("kubectl")
    control_plane = start_control_plane(directory)
    try:
        yield Cluster(write_kubeconfig(control_plane), control_plane.server, kubectl, control_plane)
    finally:
        control_plane.stop()
        shutil.rmtree(control_plane.directory / "etcd", ignore_errors=True)
