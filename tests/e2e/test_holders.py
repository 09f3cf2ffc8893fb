"""Every way in which memory is held, from the files of a node to the class, the action and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from household import FLOOR_BYTES, GIB, Household, of

from rocmwatch.model import Holdings
from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
RUNNING = {"active_state": "active", "sub_state": "running", "main_pid": 150}
DEAD = {"active_state": "inactive", "sub_state": "dead"}
SESSION = "/user.slice/user-1000.slice/session-3.scope"
TMUX = "/user.slice/user-1000.slice/user@1000.service/tmux-spawn-7.scope"
CONTAINER = "0123456789abcdef" * 4


@pytest.fixture
def household(node: Node) -> Iterator[Household]:
    with closing(Household(node("mi300x", gpus=2))) as household:
        household.uses(FLOOR_BYTES, FLOOR_BYTES)
        yield household


def told(holdings: Holdings, pid: int) -> tuple[str, str]:
    holder = of(holdings, pid)
    return holder.holder_class.value, holder.action.value


def test_orphan_engine(household: Household) -> None:
    """vllm-project/vllm#55510: the API server was killed, its workers live on."""
    household.units(vllm=DEAD)
    household.engine(200, 150 * GIB, comm="VLLM::EngineCor", parent=77, group=150)
    household.uses(FLOOR_BYTES + 150 * GIB)

    assert ("foreign", "none") == told(household.after(50), 200)
    holdings = household.after(40)
    assert ("orphan", "terminate") == told(holdings, 200)
    assert "vllm.service is inactive, and this outlived it; nobody of it listens" in of(holdings, 200).reason
    assert ("complete", 150 * GIB) == (holdings.attribution.value, of(holdings, 200).held_bytes)


def test_owned_engine(household: Household) -> None:
    household.units(vllm=RUNNING)
    household.engine(200, 150 * GIB)
    household.uses(FLOOR_BYTES + 150 * GIB)

    assert ("owned", "none") == told(household.after(90), 200)


def test_ctrl_c_in_tmux(household: Household) -> None:
    """The scope of the terminal is there, the program that was started in it is not."""
    household.process(140, "bash", cgroup=TMUX)
    household.engine(200, 150 * GIB, cgroup=TMUX, group=150)
    household.engine(201, 20 * GIB, gpu=1, cgroup=TMUX, group=140)
    household.uses(FLOOR_BYTES + 150 * GIB, FLOOR_BYTES + 20 * GIB)

    holdings = household.after(90)
    assert ("orphan", "terminate") == told(holdings, 200)
    assert ("foreign", "none") == told(holdings, 201)
    assert "a job of a person" in of(holdings, 201).reason


def test_auto_restart_leftover(household: Household) -> None:
    """The service was restarted by itself, and a worker of its last start is still there."""
    old, new = "a" * 32, "b" * 32
    household.units(vllm={**RUNNING, "invocation": new, "restarts": 1})
    household.engine(200, 100 * GIB, invocation=old)
    household.engine(201, 50 * GIB, gpu=1, invocation=new)
    household.uses(FLOOR_BYTES + 100 * GIB, FLOOR_BYTES + 50 * GIB)

    holdings = household.after(90)
    assert ("orphan", "terminate") == told(holdings, 200)
    assert ("owned", "none") == told(holdings, 201)


def test_docker_unit(household: Household) -> None:
    household.engine(200, 100 * GIB, cgroup=f"/system.slice/docker-{CONTAINER}.scope", namespaces=2)
    household.uses(FLOOR_BYTES + 100 * GIB)

    assert ("contained", "alert") == told(household.after(90), 200)


def test_tp8_peer_mapped(household: Household) -> None:
    """Each worker maps the memory of the others: nobody's bytes are counted twice."""
    household.units(vllm=RUNNING)
    for rank in range(2):
        pid = 200 + rank
        household.engine(pid, 100 * GIB, gpu=rank)
        household.books(pid, household.gpu_ids[1 - rank], vram=0)
        for gpu, place in enumerate(household.node.places):
            kib = f"{100 * GIB >> 10} KiB"
            keys = {"drm_driver": "amdgpu", "drm_pdev": place.pci, "drm_client_id": 10 * rank + gpu}
            household.opens(pid, 10 + gpu, f"/dev/dri/renderD{place.drm.render_minor}", **keys, drm_memory_vram=kib)
    household.uses(FLOOR_BYTES + 100 * GIB, FLOOR_BYTES + 100 * GIB)

    holdings = household.look()
    assert "complete" == holdings.attribution.value
    assert [100 * GIB, 100 * GIB] == [holder.held_bytes for holder in holdings.holders]


def test_zombie_leader_and_zombie(household: Household) -> None:
    household.units(vllm=DEAD)
    household.engine(200, 100 * GIB, state="Z")
    (household.root / "proc/200/fd/3").unlink()
    household.thread(200, 200, "Z")
    household.thread(200, 201)
    household.opens("200/task/201", 3, "/dev/kfd")
    household.engine(300, 1 * GIB, gpu=1, state="Z", parent=77)
    household.thread(300, 300, "Z")

    holdings = household.look()
    assert ("zombie_leader", "terminate") == told(holdings, 200)
    assert ("zombie", "reap_parent") == told(holdings, 300)
    assert "its parent, 77," in of(holdings, 300).reason


def test_d_state(household: Household) -> None:
    household.engine(300, 120 * GIB, state="D", pending=0x100)
    household.thread(300, 300, "D")

    assert ("stuck", "reboot") == told(household.look(), 300)


def test_alive_after_a_kill(household: Household) -> None:
    """vllm-project/vllm#25127: it spins in the driver, and no signal reaches it."""
    household.engine(300, 120 * GIB, state="R", pending=0x100)
    household.thread(300, 300, "R")

    assert "foreign" == told(household.look(), 300)[0]
    assert ("stuck", "reboot") == told(household.after(40), 300)


def test_ghosts(household: Household) -> None:
    """Numbers in the driver's books whose process is gone, or another one by now."""
    household.books(4242, household.gpu_ids[0], vram=0)
    household.books(4243, household.gpu_ids[0], vram=80 * GIB)
    household.process(4244, "sshd", cgroup="/system.slice/ssh.service")
    (household.root / "proc/4244/maps").write_text("")
    household.books(4244, household.gpu_ids[1], vram=80 * GIB)
    household.units(ssh=DEAD)

    holdings = household.after(90)
    assert ("ghost", "none") == told(holdings, 4242)
    assert ("ghost", "alert") == told(holdings, 4243)
    assert ("ghost", "alert") == told(holdings, 4244)
    assert "the number was reused" in of(holdings, 4244).reason


def test_monitor_only(household: Household) -> None:
    household.engine(9, 0, comm="rdcd", cgroup="/system.slice/rdc.service")

    assert ("monitor", "none") == told(household.look(), 9)


def test_no_owner(household: Household) -> None:
    """ROCm/rocm-systems#8263: the same residue on every GPU, nobody but monitors there; stranded at the first start."""
    household.engine(9, 0, comm="rdcd")
    household.uses(46111 << 20, 46111 << 20)

    assert [0, 0] == [balance.unowned_bytes for balance in household.after(250).balances]
    holdings = household.after(100)
    expected = (46111 << 20) - GIB
    assert [expected, expected] == [balance.unowned_bytes for balance in holdings.balances]
    assert holdings.driver_leak


def test_attribution_zero(household: Household) -> None:
    """ROCm/rocm_smi_lib#165: it has queues, and the driver counts nothing for it."""
    household.engine(200, 0)
    queue = household.kfd / "200/queues/1"
    queue.mkdir(parents=True)
    (queue / "gpuid").write_text(str(household.gpu_ids[0]))
    household.uses(170 * GIB, FLOOR_BYTES)

    holdings = household.after(400)
    assert ("unknown", None) == (holdings.attribution.value, holdings.balances[0].unowned_bytes)


def test_vanishing_entry(household: Household) -> None:
    """The driver takes the entry away before it frees the memory."""
    household.units(vllm=RUNNING)
    household.engine(200, 150 * GIB)
    household.uses(FLOOR_BYTES + 150 * GIB)
    household.look()
    household.ends(200)
    seen = [household.look().balances[0].unowned_bytes for _ in range(2)]
    household.uses(FLOOR_BYTES)

    assert [0, 0, 0] == [*seen, household.look().balances[0].unowned_bytes]


def test_lazy_release(household: Household) -> None:
    series = (165, 165, 120, 40, 3, 3, 3)
    seen = []
    for gib in series:
        household.uses(gib * GIB)
        seen.append(household.look(15.0).balances[0].unowned_bytes)

    assert [0] * 7 == seen


def test_evil_name(household: Household) -> None:
    household.units(vllm=RUNNING)
    household.engine(55, GIB, comm="a) R 1 (b\n<i>")
    household.uses(FLOOR_BYTES + GIB)

    holder = of(household.look(), 55)
    assert ("a) R 1 (b\ufffd<i>", "S", "owned") == (
        holder.process.comm,
        holder.process.state,
        holder.holder_class.value,
    )


def test_cpx_two_units_one_gpu(node: Node) -> None:
    with closing(Household(node("mi300x-cpx", gpus=1))) as household:
        household.units(vllm0=RUNNING, vllm1=DEAD)
        household.engine(200, 20 * GIB, gpu=0, cgroup="/system.slice/vllm0.service")
        household.engine(201, 15 * GIB, gpu=1, cgroup="/system.slice/vllm1.service")
        household.uses(FLOOR_BYTES + 35 * GIB)

        holdings = household.after(90)
        places = {holder.process.pid: holder.held[0].partition for holder in holdings.holders}
        assert {200: "0", 201: "1"} == places
        assert (("owned", "none"), ("orphan", "terminate")) == (told(holdings, 200), told(holdings, 201))
        assert "complete" == holdings.attribution.value


def test_without_a_word_of_systemd_nothing_is_an_orphan(household: Household) -> None:
    household.engine(200, 150 * GIB)
    household.uses(FLOOR_BYTES + 150 * GIB)

    holdings = household.after(90)
    assert ("foreign", "what systemd says of vllm.service is not known") == (
        told(holdings, 200)[0],
        of(holdings, 200).reason,
    )
