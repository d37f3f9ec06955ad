"""The explorer's answers; evidence is located in the texts without losing a character."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from streams.settings.outputs import BasicAuthSettings
from streams.store.records import milliseconds
from streams.store.views.evidence import EvidenceItem, pieces
from streams.web.access import BasicAuth
from tests.streams.results import at, scored
from tests.streams.store.records import StoreFile, result_record
from tests.streams.store.views.serving import NOW, explorer, explorer_of, fill, get, served


async def test_a_new_value_of_a_product_label_is_marked(tmp_path: Path) -> None:
    """v8, which comes 60 minutes after v7, is marked; v7, an app, and what was there before are not."""
    labels = [{"prompt_version": f"v{7 + (number >= 60)}", "app": f"a{number}"} for number in range(90)]
    results = [scored(number, 3, labels=one, seconds=60.0 * number) for number, one in enumerate(labels)]
    StoreFile(tmp_path / "s").write(*results)
    marked = [{"at": milliseconds(at(3600)), "text": "prompt_version=v8"}]
    async with explorer(tmp_path / "s") as (session, url):
        for query, changes in (
            ("", marked), ("since=2025-03-14T14:30:00Z", marked), ("since=2025-03-14T15:10:00Z", []),
        ):  # fmt: skip
            assert (await get(session, url, f"/explore/api/labels?{query}"))["changes"] == changes
    # A value that pauses and returns within the chart's time is not new.
    back = scored(99, 3, labels={"prompt_version": "v7", "app": "a"}, seconds=6_000.0)
    StoreFile(tmp_path / "s").write(result_record(back, 99))
    async with explorer(tmp_path / "s") as (session, url):
        found = await get(session, url, "/explore/api/labels?since=2025-03-14T15:01:00Z")
    assert found["changes"] == []


async def test_without_a_store_the_page_says_what_to_do(tmp_path: Path) -> None:
    async with explorer(tmp_path / "none") as (session, url):
        assert "--agents store" in (await get(session, url, "/explore/api/choices", 503))["error"]


async def test_an_empty_store_is_shown(tmp_path: Path) -> None:
    StoreFile(tmp_path / "s").write()
    async with explorer(tmp_path / "s") as (session, url):
        for name in ("choices", "verdicts", "charts", "labels"):
            await get(session, url, f"/explore/api/{name}")


async def test_access_is_controlled(tmp_path: Path) -> None:
    """All pages require the password, or are refused with the reason; they take no writing methods."""
    fill(tmp_path / "s")
    auth = BasicAuth(BasicAuthSettings.model_validate({"username": "ops", "password": SecretStr("p")}), {})
    async with explorer(tmp_path / "s", auth=auth) as (session, url):
        for path in ("/explore", "/explore/explore.js", "/explore/api/verdicts"):
            async with session.get(url + path) as answer:
                assert answer.status == 401
    async with (
        explorer(tmp_path / "s") as (session, url),
        session.post(f"{url}/explore/api/verdicts", data=b"x") as answer,
    ):
        assert answer.status == 405
    async with (
        explorer(tmp_path / "s", refusal="set telemetry.basic_auth") as (session, url),
        session.get(f"{url}/explore/api/verdicts") as answer,
    ):
        assert (answer.status, await answer.text()) == (403, "set telemetry.basic_auth")


async def test_a_gate_answers_by_its_status(tmp_path: Path) -> None:
    """200 if the answer is the required one, 409 if not, to Argo's GET and to Flagger's POST."""
    StoreFile(tmp_path / "s").write(
        *(scored(one, 2 + one % 2 * 2, labels={"version": f"v{7 + one % 2}"}) for one in range(400))
    )
    query, shown = "metric=relevance&label=version%3Dv7,v8&margin=1", explorer_of(tmp_path / "s")
    async with served(shown) as (session, url):
        address = f"{url}/explore/api/compare?{query}"
        async with session.get(address) as answer:
            found = await answer.json()
        assert (answer.status, found["answer"], found["compared"]) == (200, "no worse", [200, 200])
        for require, status in (("no worse", 200), ("worse", 409), ("better", 400)):
            hook = session.post(f"{address}&require={require}", json={"name": "answers", "phase": "Waiting"})
            async with hook as answer:
                assert answer.status == status, require
    key = ("relevance", "version", "v7", "v8")
    gauges = [("answer", key, 1), ("low", key, found["interval"][0]), ("high", key, found["interval"][1])]
    assert list(shown.gauges()) == gauges
    shown.now = lambda: NOW + timedelta(hours=2)
    assert list(shown.gauges()) == []


def _item(number: int, *spans: tuple[str, int, int]) -> EvidenceItem:
    return EvidenceItem(number=number, kind="claim", upheld=True, text="", why="", spans=spans)


_SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(st.text(max_size=30), _SPANS)
def test_pieces_are_the_text(text: str, spans: list[tuple[int, int]]) -> None:
    items = [
        _item(number, ("answer", start, end)) for number, (start, end) in enumerate(spans, 1) if start < end
    ]
    found = pieces(text, "answer", items)
    assert "".join(part for part, _ in found) == text
    marked = [numbers for part, numbers in found for _ in part]
    for place, numbers in enumerate(marked):
        assert numbers == [one.number for one in items if one.spans[0][1] <= place < one.spans[0][2]]
