import { describe, expect, it } from "vitest";
import { calling, markIn, readPrompt, writeToolCalls } from "../support/model.mjs";

const TOOLS = [
  { name: "count", description: 'counts [words] in "files" \\', parameters: { type: "object", properties: { a: {} } } },
  { name: "other", description: "}]", parameters: {} },
];

const THREAD = `<thread>
  <event type="system" id="0" iteration="0">Be brief.</event>
  <event type="human" id="1" iteration="0">a &lt; b &amp;amp; &quot;c&quot; &#39;d&#x1F642;</event>
  <event type="tool_input" id="2" name="count" call_id="call_1" iteration="0">{&quot;a&quot;:1}</event>
  <event type="tool_output" id="3" name="count" call_id="call_1" status="success" iteration="0">two
lines</event>
</thread>`;

describe("readPrompt", () => {
  it("finds tools and thread between the CLI's own reminders", () => {
    const prompt = `[Available Tools]\n${JSON.stringify(TOOLS, null, 2)}\n\nWhen you need to call a tool …\n\n${THREAD}`;
    const content = [
      { type: "text", text: "<system-reminder>[Available Tools] no</system-reminder>" },
      { type: "text", text: prompt },
    ];
    const messages = [
      { role: "user", content },
      { role: "system", content: "<thread></thread>" },
    ];
    expect(readPrompt({ messages })).toEqual({
      text: prompt,
      tools: TOOLS,
      events: [
        { type: "system", name: undefined, callId: undefined, status: undefined, text: "Be brief." },
        { type: "human", name: undefined, callId: undefined, status: undefined, text: `a < b &amp; "c" 'd🙂` },
        { type: "tool_input", name: "count", callId: "call_1", status: undefined, text: '{"a":1}' },
        { type: "tool_output", name: "count", callId: "call_1", status: "success", text: "two\nlines" },
      ],
    });
  });

  it("reads a plain prompt as text without tools or events", () => {
    const messages = [{ role: "user", content: "Say hello" }];
    expect(readPrompt({ messages })).toEqual({ text: "Say hello", tools: [], events: [] });
  });
});

describe("writeToolCalls", () => {
  it("writes the fenced block of SPEC-01", () => {
    const calls = [{ name: "count", args: { a: 1 }, id: "call_1" }];
    const [, json] = /^```json\n([\s\S]*)\n```$/.exec(writeToolCalls(calls)) ?? [];
    expect(JSON.parse(json ?? "")).toEqual({ tool_calls: calls });
  });

  it("writes ids as the request asks for them", () => {
    const prompt = 'like this: {\n      "id": "call_k7f3q9x2ab_1"\n}';
    const body = { messages: [{ role: "user", content: [{ type: "text", text: prompt }] }] };
    expect([markIn(body), markIn({ messages: [{ content: '"id": "call_1"' }] })]).toEqual([
      "call_k7f3q9x2ab",
      undefined,
    ]);
    const calls = ["call_1", "x"].map((id) => ({ name: "count", args: {}, id }));
    const [, json] = /^Hm\.\n\n```json\n([\s\S]*)\n```$/.exec(calling("Hm.", calls)({ body }).text) ?? [];
    const ids = ["call_k7f3q9x2ab_1", "call_k7f3q9x2ab_x"].map((id) => ({ name: "count", args: {}, id }));
    expect(JSON.parse(json ?? "")).toEqual({ tool_calls: ids });
  });
});
