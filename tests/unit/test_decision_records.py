"""Architecture decision records stay short, complete and in order."""

from __future__ import annotations

import re

import pytest
from needs import REPOSITORY

RECORDS = sorted((REPOSITORY / "docs" / "adr").glob("*.md"))
HEADINGS = {"Context", "Decision", "Consequences"}


def test_the_first_four_records_are_there():
    assert {"0001", "0002", "0003", "0004"} <= {path.name[:4] for path in RECORDS}


def test_no_number_is_given_twice():
    numbers = [path.name[:4] for path in RECORDS]
    assert sorted(set(numbers)) == numbers


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_has_at_most_fifty_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 50


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_is_named_by_its_number_and_title(path):
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
    number, title = path.name[:4], path.read_text(encoding="utf-8").splitlines()[0]
    assert re.match(rf"# ({number}: |{int(number)}\. )\w", title)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_says_why_what_and_what_follows(path):
    headings = set(re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert headings >= HEADINGS
