from __future__ import annotations

import pytest

from rocmwatch.judge.owners import owner_of

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("cgroup", "kind", "name"),
    [
        ("/system.slice/system-vllm.slice/vllm@0.service", "unit", "vllm@0.service"),
        ("/system.slice/vllm.service/payload", "unit", "vllm.service"),
        ("/user.slice/user-1000.slice/session-3.scope", "session", "session-3.scope"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "session", "vllm.service"),
        ("/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", "session", "tmux-spawn-1.scope"),
        ("/system.slice/run-r1.scope", "session", "run-r1.scope"),
        (f"/system.slice/docker-{ID}.scope", "container", ID),
        (f"/docker/{ID}", "container", ID),
        (f"/machine.slice/libpod-{ID}.scope/container", "container", ID),
        (f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", "container", ID),
        (f"/kubepods/burstable/pod1/{ID}", "container", ID),
        (f"/system.slice/podman.service/libpod-{ID}.scope", "container", ID),
        ("/machine.slice/machine-node1.scope", "container", "node1"),
        ("/lxc.payload.web/system.slice/x.service", "container", "web"),
        ("/", "none", None),
        ("", "none", None),
        (None, "none", None),
        ("/slurm/uid_1000/job_7/step_0", "none", None),
    ],
)
def test_the_path_of_its_control_group_names_the_owner(cgroup: str | None, kind: str, name: str | None) -> None:
    owner = owner_of(cgroup)

    assert (kind, name) == (owner.kind.value, owner.name)


def test_another_pid_namespace_is_a_container_without_a_name() -> None:
    owner = owner_of("/system.slice/vllm.service", namespaces=2)

    assert ("container", None) == (owner.kind.value, owner.name)
