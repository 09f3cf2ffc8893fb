"""What is replaced by what: nothing of it is left, and what was the same still is."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rocmwatch.observe.record_table import (
    CGROUPS,
    CMDLINE,
    FDINFO,
    HOST,
    ID,
    KERNEL,
    NAME,
    NUMBER,
    PROPERTIES,
    STAT,
    STATUS,
    TEXT,
)
from rocmwatch.observe.scrub import Piece, Scrubber
from rocmwatch.observe.scrub_ids import WORD, alike, spellings

KEY = b"a key"
UNIQUE = 0x4BF83C7A19E2D5A1


def scrub(*pieces: tuple[str, bytes], names: tuple[str, ...] = (), key: bytes = KEY) -> list[bytes]:
    """The contents, scrubbed together."""
    made = [Piece(*piece) for piece in pieces]
    scrubber = Scrubber(key, made, names)
    return [scrubber.content(piece) for piece in made]


def one(rule: str, data: bytes) -> bytes:
    return scrub((rule, data))[0]


# Ids


def test_an_id_is_replaced_in_every_form_that_it_has() -> None:
    forms = [b"%x" % UNIQUE, b"%d" % UNIQUE, b"%X" % UNIQUE]
    first, *rest = scrub(
        (NUMBER, b"%016x\n" % UNIQUE),
        *((KERNEL, b"a %s b\n" % form) for form in forms),
        (PROPERTIES, b"simd_count 304\nunique_id %d\n" % UNIQUE),
        (CGROUPS, b"0::/vllm-%x.service\n" % UNIQUE),
    )
    new = int(first, 16)

    assert re.fullmatch(rb"[0-9a-f]{16}\n", first)
    assert UNIQUE != new
    assert [b"a %x b\n" % new, b"a %d b\n" % new, b"a %X b\n" % new] == rest[:3]
    assert [b"simd_count 304\nunique_id %d\n" % new, b"0::/vllm-%x.service\n" % new] == rest[3:]


def test_zeros_in_front_stay() -> None:
    (new,) = scrub((NUMBER, b"000b3c7a19e2d5a1\n"))

    assert re.fullmatch(rb"000[1-9a-f][0-9a-f]{12}\n", new)


def test_a_serial_number_that_is_the_unique_id_becomes_that_again() -> None:
    unique, serial = scrub((NUMBER, b"%016x\n" % UNIQUE), (ID, b"%016x\n" % UNIQUE))

    assert unique == serial


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"N/A\n", b"unknown\n", b"0000000000\n", b"To Be Filled By O.E.M.\n", b"--\n"]
)
def test_what_says_nothing_stays(text: bytes) -> None:
    assert text == one(ID, text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (b"692351001234\n", rb"[1-9][0-9]{11}\n"),
        (b"PCB0421-Ab7\n", rb"[A-Z]{3}[0-9]{4}-[A-Z][a-z][0-9]\n"),
        (b"9d5c1f6e-0a4b-4c3d-8e2f-1a2b3c4d5e6f\n", rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n"),
        (b"S1\n", rb"[A-Z][0-9]\n"),
        (b"<b>X\xff\xfe9</b>\n", rb"<[a-z]>[A-Z][a-z]{2}[0-9]</[a-z]>\n"),
    ],
)
def test_a_replacement_has_the_form(text: bytes, form: bytes) -> None:
    new = one(ID, text)

    assert re.fullmatch(form, new), new
    assert text != new


def test_a_card_without_an_id_keeps_its_zero() -> None:
    assert [b"unique_id 0\nhive_id 0\n", b"\n"] == scrub((PROPERTIES, b"unique_id 0\nhive_id 0\n"), (NUMBER, b"\n"))


# The host's name


def test_the_host_is_replaced_wherever_it_is() -> None:
    host, short, escaped, upper, release = scrub(
        (HOST, b"gpu-17.lab.example\n"),
        (NAME, b"gpu-17\n"),
        (CGROUPS, b"0::/vllm@gpu\\x2d17.service\n"),
        (KERNEL, b"board of GPU-17\n"),
        (TEXT, b"6.8.0-gpu-17+\n"),
    )
    name = host.partition(b".")[0]

    assert re.fullmatch(rb"[a-z]{3}-[0-9]{2}", short.strip())
    assert short.strip() != b"gpu-17"
    assert b"0::/vllm@" + short.strip().replace(b"-", b"\\x2d") + b".service\n" == escaped
    assert b"board of " + short.strip().upper() + b"\n" == upper
    assert b"6.8.0-" + short.strip() + b"+\n" == release
    assert name != b"gpu-17"


@pytest.mark.parametrize("host", [b"amdgpu", b"active", b"n1", b"42", b"gpu"])
def test_a_host_with_a_common_name_spoils_nothing(host: bytes) -> None:
    """It cannot be told from what the kernel says, and is replaced where people choose names."""
    kernel = b"DRIVER=amdgpu\nactive n1 42 gpu\n"
    contents = scrub((HOST, host + b"\n"), (KERNEL, kernel), (NAME, host + b"-x\n"))

    assert kernel == contents[1]
    assert contents[0] != host + b"\n"
    assert contents[2] == contents[0].strip() + b"-x\n"


# Names


@pytest.mark.parametrize(
    "name",
    [
        b"VLLM::EngineCor\n",
        b"python3.11\n",
        b"pt_main_thread\n",
        b"ray::RayWorker\n",
        b"ollama_llama_se\n",
        b"amd-smi\n",
        b"0::/system.slice/vllm@0.service\n",
        b"0::/user.slice/user-0.slice/session-3.scope\n",
        b"12:cpu,cpuacct:/init.scope\n1:name=systemd:/\n",
    ],
)
def test_well_known_names_stay(name: bytes) -> None:
    assert name.replace(b"_se\n", b"") == one(NAME, name)[: len(name.replace(b"_se\n", b""))]


@pytest.mark.parametrize(
    ("rule", "text", "form"),
    [
        (NAME, b"kunde-train\n", rb"[a-z]{5}-[a-z]{5}\n"),
        (NAME, b"a<script>b\n", rb"a<[a-z]{6}>[a-z]\n"),
        (NAME, b"caf\xe9\x01\n", rb"[a-z]{4}\x01\n"),
        (CGROUPS, b"0::/user.slice/user-51234.slice\n", rb"0::/user\.slice/user-[1-9][0-9]{4}\.slice\n"),
        (CGROUPS, b"0::/docker/" + b"c0ffee42" * 8 + b"\n", rb"0::/docker/[0-9a-f]{64}\n"),
        (NAME, b"on 10.0.0.1 eth 3c:ec:ef:00:01:02\n", rb"on (?!10\.0)\d\d\.\d\.\d\.\d [a-z]{3} [0-9a-f:]{17}\n"),
        (CMDLINE, b"/kunde/bin/python3\0-m\0vllm\0--port=8123\0", rb"python3\x00-m\x00vllm\x00--port=[1-9]\d{3}\x00"),
        (CMDLINE, b"vllm\0serve\0--api-key\0model-server-8\0", rb"vllm\x00serve\x00--api-key\x00x{5}-x{6}-8\x00|"
         rb"vllm\x00serve\x00--api-key\x00x{5}-x{6}-0\x00"),
        (CMDLINE, b"vllm\0--gpu-memory-utilization\x000.92\0", rb"vllm\x00--gpu-memory-utilization\x000\.92\x00"),
        (CMDLINE, b"", rb""),
        (FDINFO, b"drm-driver:\tamdgpu\ndrm-pdev:\t0000:05:00.0\ndrm-client-name:\tkunde\ndrm-memory-vram:\t12 KiB\n",
         rb"drm-driver:\tamdgpu\ndrm-pdev:\t0000:05:00\.0\ndrm-client-name:\t[a-z]{5}\ndrm-memory-vram:\t12 KiB\n"),
        (STATUS, b"Name:\tkunde\nUid:\t1000\nGroups:\t4 27\nState:\tS (sleeping)\nSigPnd:\t0000000000000100\n",
         rb"Name:\t[a-z]{5}\nUid:\t(?!1000)[1-9]\d{3}\nState:\tS \(sleeping\)\nSigPnd:\t0000000000000100\n"),
    ],
)  # fmt: skip
def test_names_are_replaced_word_by_word(rule: str, text: bytes, form: bytes) -> None:
    new = one(rule, text)

    assert re.fullmatch(form, new), new
    assert text != new or rule == CMDLINE


def test_a_process_keeps_its_numbers_and_loses_its_addresses() -> None:
    fields = "S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 918273 1000 20 18446744073709551615 94012 94990 7 8 9\n"
    new = one(STAT, b"42 (ein) (kunde\n) " + fields.encode())

    assert re.fullmatch(
        rb"42 \([a-z]{3}\) \([a-z]{5}\n\) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 918273 1000 20( 0)+\n", new
    ), new
    assert b"94012" not in new
    assert b"kunde" not in new


def test_the_same_name_becomes_the_same() -> None:
    comm, cgroup, command = scrub(
        (NAME, b"kunde\n"), (CGROUPS, b"0::/kunde.slice\n"), (CMDLINE, b"/usr/bin/kunde\0--name=kunde\0")
    )
    word = comm.strip()

    assert b"0::/%s.slice\n" % word == cgroup
    assert b"%s\0--name=%s\0" % (word, word) == command


def test_another_key_makes_another_name() -> None:
    first, again, other = (scrub((NAME, b"geheimprojekt\n"), key=key)[0] for key in (b"1", b"1", b"2"))

    assert first == again != other


def test_a_file_of_the_kernel_stays_as_it_is() -> None:
    text = b"uncommon 12345 words-of_the kernel \xff\0\n"

    assert text == one(KERNEL, text)


# Whatever comes

words = st.text("abcxyzXYZ0189", min_size=1, max_size=9).map(str.encode) | st.binary(min_size=1, max_size=6)
texts = st.lists(words, min_size=1, max_size=4).map(b"-/.:_ ,=\0\n(".join)
names = st.tuples(st.sampled_from((NAME, CGROUPS, CMDLINE)), texts)
numbers = st.integers(1 << 40, (1 << 64) - 1)


@given(pieces=st.lists(names, min_size=1, max_size=5), key=st.binary(min_size=1, max_size=8))
def test_no_word_of_a_name_survives(pieces: list[tuple[str, bytes]], key: bytes) -> None:
    made = [Piece(*piece) for piece in pieces]
    scrubber = Scrubber(key, made, ())
    left = {word for piece in made for word in WORD.findall(scrubber.content(piece))}

    assert set() == left & scrubber.words.keys()
    for piece in made:
        for name in scrubber.names_in(piece):
            assert all(scrubber.is_known(word) or word in scrubber.words for word in WORD.findall(name))


@given(pieces=st.lists(names, min_size=1, max_size=5))
def test_two_names_never_become_one(pieces: list[tuple[str, bytes]]) -> None:
    scrubber = Scrubber(KEY, [Piece(*piece) for piece in pieces], ())

    assert len(scrubber.words) == len(set(scrubber.words.values()))
    assert set(scrubber.words.values()).isdisjoint(scrubber.words)


@given(first=numbers, second=numbers, upper=st.booleans())
def test_no_form_of_an_id_survives(first: int, second: int, upper: bool) -> None:
    assume(first != second)
    forms = [*spellings(first), *spellings(second)]
    text = b"/".join(form.upper() if upper else form for form in forms)
    contents = scrub(
        (NUMBER, b"%016x\n" % first), (PROPERTIES, b"unique_id %d\n" % second), (KERNEL, text), (NAME, text)
    )

    assert [] == [form for form in forms for content in contents if len(form) > 10 and form in content.lower()]
    assert len(text) <= len(contents[2]) + 12  # decimal may be shorter


@given(st.binary(max_size=40), st.binary(min_size=40, max_size=40))
def test_a_likeness_has_the_length_and_the_marks(text: bytes, drawn: bytes) -> None:
    like = alike(text, drawn)

    assert WORD.sub(b"", text) == WORD.sub(b"", like)
    assert [len(word) for word in WORD.findall(text)] == [len(word) for word in WORD.findall(like)]
    assert [chr(byte).isdigit() for byte in text if byte < 128] == [
        chr(new).isdigit() for old, new in zip(text, like, strict=True) if old < 128
    ] or re.search(rb"[0-9a-f]{8}|[0-9A-F]{8}", text)


def test_names_of_one_letter_do_not_run_out() -> None:
    every = [bytes((letter,)) for letter in b"abcdefghijklmnopqrstuvwxyz"]
    (new,) = scrub((NAME, b"-".join(every)))
    changed = [word for word in new.split(b"-") if word not in every]

    assert len(changed) == len(set(changed))
    assert all(first != second for first, second in pairwise(sorted(changed)))
