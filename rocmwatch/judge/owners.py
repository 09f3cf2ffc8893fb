r"""Who a process belongs to, by the path of its control group.

    /system.slice/system-vllm.slice/vllm@0.service              a service of the node
    /user.slice/user-1000.slice/session-3.scope                 a login
    /user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope        a person's terminal, or service
    /system.slice/docker-<64 hexadecimal digits>.scope          a container

The name of a process says nothing: engines set their own, and it is cut at 15 bytes.
"""

from __future__ import annotations

import re

from rocmwatch.model import Owner, OwnerKind

_ID = r"(?P<id>[0-9a-f]{64})"
_CONTAINERS = (
    re.compile(rf"(?:docker|libpod|podman|crio|cri-containerd|nerdctl|containerd)-{_ID}(?:\.scope|\.service)?"),
    re.compile(_ID),  # below /docker, /kubepods and others, where systemd does not run the groups
    re.compile(r"(?:lxc\.payload\.|machine-)(?P<id>[^/]+?)(?:\.scope)?"),
    re.compile(r"systemd-nspawn@(?P<id>[^/]+)\.service"),
)
_PERSONS = ("/user.slice/", "/user@")


def owner_of(cgroup: str | None, namespaces: int | None = 1) -> Owner:
    """The owner of a process.

    Args:
        cgroup: Path of its control group.
        namespaces: How many pid namespaces know it: one of a container is known by two at least.

    Returns:
        A container's name is its whole id; a session's the deepest unit of the person's that it is in.
    """
    parts = (cgroup or "").strip("/").split("/")
    for part in reversed(parts):
        for pattern in _CONTAINERS:
            found = pattern.fullmatch(part)
            if found:
                return Owner(kind=OwnerKind.CONTAINER, name=found["id"])
    if namespaces is not None and namespaces > 1:
        return Owner(kind=OwnerKind.CONTAINER)
    units = [part for part in parts if part.endswith((".service", ".scope"))]
    if any(mark in f"{cgroup}/" for mark in _PERSONS) or (units and units[-1].endswith(".scope")):
        return Owner(kind=OwnerKind.SESSION, name=units[-1] if units else None)
    if units:
        return Owner(kind=OwnerKind.UNIT, name=units[-1])
    return Owner()
