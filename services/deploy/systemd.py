"""systemd units and config files of servers without Ray. Pure."""

from __future__ import annotations

from dataclasses import dataclass

CONTROLLER_UNIT, NODE_UNIT = "headrace-controller.service", "headrace-node@.service"
CONTROLLER_FILE, NODE_FILE = "controller.properties", "node-1.properties"
NATIVE_PORT, CONTROLLER_PORT, KAFKA_PORT = 9093, 9090, 9092


@dataclass(frozen=True)
class UnitOptions:
    """Where things are on the machine: the program, the config files, the data."""

    program: str = "/opt/headrace/venv/bin/headrace"
    user: str = "headrace"
    config_dir: str = "/etc/headrace"
    data_dir: str = "/var/lib/headrace"


# A server needs files below its data dir and sockets, and nothing else of its machine.
_HARDENING = """\
UMask=0077
NoNewPrivileges=true
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ReadWritePaths={data_dir}
ProtectHome=true
PrivateTmp=true
PrivateDevices=true
ProtectClock=true
ProtectControlGroups=true
ProtectHostname=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
LockPersonality=true
RemoveIPC=true
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
"""

_UNIT = """\
[Unit]
Description=headrace {what}
Documentation=https://github.com/headrace/headrace/blob/main/docs/DEPLOY.md
Wants=network-online.target
After=network-online.target time-sync.target
RequiresMountsFor={data_dir}
# A server that cannot start is started again, but not in a hot loop.
StartLimitIntervalSec=300
StartLimitBurst=20

[Service]
Type=notify
NotifyAccess=main
User={user}
Group={user}
ExecStart={program} server {role} --config {config}
Restart=always
RestartSec=2
# The server asks for more time while it recovers its logs; a stop moves its leaderships first.
TimeoutStartSec=90
TimeoutStopSec=90
# A server whose event loop stands still for this long is killed and started again.
WatchdogSec=60
KillMode=mixed
Environment=PYTHONUNBUFFERED=1
LimitNOFILE=1048576
LimitMEMLOCK=64M
LimitCORE=0
OOMScoreAdjust=-500
TasksMax=4096
{hardening}
[Install]
WantedBy=multi-user.target
"""

_CONTROLLER = """\
# A controller. The first one of several begins the quorum of a new cluster, once, before it is started:
#   headrace server format --standalone --config {config_dir}/controller.properties
process.roles=controller
node.id=100
metadata.log.dir={data_dir}/controller
listener.host=0.0.0.0
advertised.host=controller-1.example.com
listener.port={controller_port}
# All controllers, this one included; one is enough for tests, three for production.
controller.quorum.bootstrap.servers=controller-1.example.com:{controller_port}
default.replication.factor=3
min.insync.replicas=2
"""

_NODE = """\
# A storage node; the unit headrace-node@1 runs node-1.properties. One node per disk.
process.roles=broker
node.id=1
log.dirs={data_dir}/node-1
listener.host=0.0.0.0
advertised.host=node-1.example.com
listener.port={native_port}
controller.quorum.bootstrap.servers=controller-1.example.com:{controller_port}
# Kafka's clients; without these two lines only headrace's own clients connect.
listeners=PLAINTEXT://:{kafka_port}
advertised.listeners=PLAINTEXT://node-1.example.com:{kafka_port}
"""


def unit_files(options: UnitOptions) -> dict[str, str]:
    """The units by file name."""
    return {
        CONTROLLER_UNIT: _unit("controller", "controller", CONTROLLER_FILE, options),
        NODE_UNIT: _unit("node", "storage node %i", "node-%i.properties", options),
    }


def config_files(options: UnitOptions) -> dict[str, str]:
    """Config files to start from, by file name."""
    places = {"data_dir": options.data_dir, "config_dir": options.config_dir, "kafka_port": KAFKA_PORT}
    ports = {**places, "controller_port": CONTROLLER_PORT, "native_port": NATIVE_PORT}
    return {
        CONTROLLER_FILE: _CONTROLLER.format(**ports),
        NODE_FILE: _NODE.format(**ports),
    }


def _unit(role: str, what: str, file: str, options: UnitOptions) -> str:
    return _UNIT.format(
        what=what,
        role=role,
        user=options.user,
        program=options.program,
        config=f"{options.config_dir}/{file}",
        data_dir=options.data_dir,
        hardening=_HARDENING.format(data_dir=options.data_dir),
    )
