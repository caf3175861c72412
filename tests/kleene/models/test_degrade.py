"""What an endpoint turns out to lack."""

from __future__ import annotations

import pytest

from kleene.models.degrade import Degrade
from kleene.udfs.protocols import Message, Reply, Request
from tests.fake_server import Ask, FakeServer, failure
from tests.kleene.models.wires import provider, run


@pytest.mark.parametrize(
    ("replies", "structured"),
    [
        ([Reply("The answer lies in", stop="length")] * 2, "tool"),
        ([Reply("It is.")] * 2, "tool"),
        ([Reply('{"answer": tr', stop="length")] * 4, "schema"),
        ([Reply("It is."), Reply('{"answer": true}'), Reply("It is.")], "schema"),
        ([Reply("no", stop="refusal")] * 4, "schema"),
        ([Reply("It is.")] * 9, "text"),
    ],
    ids=["cut prose", "prose", "cut JSON", "once in a while", "refusals", "always"],
)
def test_two_replies_in_a_row_that_are_no_json_show_that_a_schema_is_ignored(
    replies: list[Reply], structured: str
) -> None:
    degrade = Degrade()
    for reply in replies:
        degrade.saw(reply)
    assert degrade.structured == structured


def test_a_responses_server_that_needs_typed_items_gets_them() -> None:
    def rule(ask: Ask) -> object:
        assistant = ask.body["input"][1]
        return "b" if assistant.get("type") == "message" else failure(400, "Cannot determine type of 'item'")

    messages = (Message("user", "Say a."), Message("assistant", "a"), Message("user", "Say b."))
    with FakeServer(rule) as server:  # type: ignore[arg-type]
        model = provider("responses", server.url)

        async def work() -> list[str]:
            said = []
            for _ in range(2):
                try:
                    said.append((await model.send(Request("root", messages))).text)
                except Exception as error:
                    said.append(str(error.retryable))  # type: ignore[attr-defined]
            await model.aclose()
            return said

        assert run(work) == ["True", "b"]
        assert server.asks[1].body["input"][1] == {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}],
        }
