"""A loop with a tool by Anthropic's own client, as for the API itself: where the gateway is stands in ANTHROPIC_BASE_URL and _API_KEY."""

import sys

from anthropic import Anthropic

TOOL = {
    "name": "add",
    "description": "Adds two numbers",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}


def loop(model: str, question: str) -> None:
    client = Anthropic()
    messages = [{"role": "user", "content": question}]
    while True:
        raw = client.messages.with_raw_response.create(
            model=model, max_tokens=1000, messages=messages, tools=[TOOL]
        )
        session, answer = raw.headers["x-dfp-session"], raw.parse()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            print(f"{session}: {answer.content[0].text}")
            return
        results = []
        for call in calls:
            a, b = call.input["a"], call.input["b"]
            print(f"{session}: add({a}, {b})")
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": str(a + b)})
        messages.append({"role": "user", "content": results})


loop(sys.argv[1], sys.argv[2])
