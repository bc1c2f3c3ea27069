"""A real Apache Kafka in KRaft mode: one broker, or several that form a cluster.

Brokers are controllers too. They listen on free ports, keep everything in one temporary folder and die
with the test run.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from tests.parts.need import missing
from tests.parts.ports import HOST, answers, free_ports

HERE = Path(__file__).parent
LIBS = HERE.parents[2] / ".parts" / "kafka" / "libs"
CLUSTER_ID = "reconcilerTestsKafka-w"
START_TIMEOUT_S = 60.0
RESTART_TIMEOUT_S = 120.0
#: Starts fast; for the minutes of a benchmark the compiler that works longer pays.
JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
JVM_THAT_LASTS = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC")


class KafkaCluster:
    """Brokers that a test may kill and start again."""

    def __init__(self, brokers: int = 1, *, jvm: Sequence[str] = JVM) -> None:
        if not LIBS.is_dir() or shutil.which("java") is None:
            missing("Apache Kafka", "run `make parts` (it needs java and mvn: `make system`)")
        ports = free_ports(2 * brokers)
        self.ports = ports[:brokers]
        self._controller_ports = ports[brokers:]
        self._folder = Path(tempfile.mkdtemp(prefix="reconciler-kafka-"))
        self._jvm = tuple(jvm)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    @property
    def nodes(self) -> range:
        return range(len(self.ports))

    def start(self) -> None:
        try:
            for node in self.nodes:
                self._write_settings(node)
            self._format(self.nodes)
            for node in self.nodes:
                self._spawn(node)
            self._wait_until_answering(self.nodes)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for broker in self._running.values():
            broker.kill()
        for broker in self._running.values():
            broker.wait()
        self._running.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self, node: int) -> None:
        """As `kill -9`."""
        broker = self._running.pop(node)
        broker.send_signal(signal.SIGKILL)
        broker.wait()

    def freeze(self, node: int) -> None:
        self._running[node].send_signal(signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        self._running[node].send_signal(signal.SIGCONT)

    async def restart(self, node: int) -> None:
        """Start a killed broker; returns when the cluster knows it again."""
        async with asyncio.timeout(RESTART_TIMEOUT_S):
            while not answers(self.ports[node]):
                # Somebody's connection may have taken its port meanwhile, which ends it at once.
                if node not in self._running or self._running[node].poll() is not None:
                    self._spawn(node)
                await asyncio.sleep(0.1)
            while node not in await self._registered():
                await asyncio.sleep(0.1)

    async def _registered(self) -> set[int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            await admin.start()
            brokers = (await admin.describe_cluster())["brokers"]
        except KafkaError:
            return set()
        finally:
            await admin.close()
        return {broker["node_id"] for broker in brokers}

    def _settings_path(self, node: int) -> Path:
        return self._folder / f"node-{node}.properties"

    def _log_path(self, node: int) -> Path:
        return self._folder / f"node-{node}.log"

    def _write_settings(self, node: int) -> None:
        replicas = min(3, len(self.ports))
        voters = ",".join(f"{each}@{HOST}:{self._controller_ports[each]}" for each in self.nodes)
        settings = {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{HOST}:{self.ports[node]},"
            f"CONTROLLER://{HOST}:{self._controller_ports[node]}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self._folder / f"data-{node}",
            "auto.create.topics.enable": "false",
            "num.network.threads": 2,
            "num.io.threads": 4,
            "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
            "log.retention.check.interval.ms": 1_000,
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 2,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": max(1, replicas - 1),
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "default.replication.factor": replicas,
            # A lost broker is noticed in seconds, so that the tests of it are short.
            "broker.session.timeout.ms": 3_000,
            "broker.heartbeat.interval.ms": 500,
            "controller.quorum.election.timeout.ms": 500,
            "controller.quorum.fetch.timeout.ms": 1_000,
            "replica.lag.time.max.ms": 3_000,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self._settings_path(node).write_text(text)

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [
            "java",
            *self._jvm,
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.yaml'}",
            "-cp",
            f"{LIBS}/*",
            main,
            *arguments,
        ]

    def _format(self, nodes: Sequence[int]) -> None:
        started = [
            subprocess.Popen(
                self._java(
                    "kafka.tools.StorageTool",
                    "format",
                    "--cluster-id",
                    CLUSTER_ID,
                    "--config",
                    str(self._settings_path(node)),
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for node in nodes
        ]
        for each in started:
            output, _ = each.communicate(timeout=START_TIMEOUT_S)
            if each.returncode != 0:
                message = f"formatting the broker's folder failed: {output.decode()}"
                raise RuntimeError(message)

    def _spawn(self, node: int) -> None:
        command = self._java("kafka.Kafka", str(self._settings_path(node)))
        if shutil.which("setpriv"):
            # The broker must not outlive a test run that was killed.
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with self._log_path(node).open("ab") as log:
            self._running[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def _wait_until_answering(self, nodes: Sequence[int]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        waiting = set(nodes)
        while waiting:
            waiting = {node for node in waiting if not answers(self.ports[node])}
            for node in waiting:
                if self._running[node].poll() is not None or time.monotonic() > deadline:
                    message = f"broker {node} did not start:\n{self._log_path(node).read_text()}"
                    raise RuntimeError(message)
            if waiting:
                time.sleep(0.05)
