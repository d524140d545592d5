// @release
/** Ten steps by the official clients of Python, LangChain's models there and LiteLLM: one process of claude takes them all. */
import { describe, expect, it } from "vitest";
import { HERE } from "../clis/real.js";
import { serve } from "../support/gateway.mjs";
import { LIVE_FORMS } from "../support/live-forms.mjs";
import { pythonWith, runPython } from "../support/python.mjs";

const STEPS = 10;
const FORM = LIVE_FORMS.find(({ name }) => name.startsWith("claude"));

/** What all programs begin with. */
const HEAD = `
import json, os
URL, KEY = os.environ["URL"], os.environ["KEY"]
PARAMETERS = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
FUNCTION = {"type": "function", "function": {"name": "step", "description": "Takes a step", "parameters": PARAMETERS}}
`;

const OPENAI_LOOP = `
messages = [{"role": "user", "content": "go"}]
while True:
    message = ask(messages).choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        print(message.content)
        break
    for call in message.tool_calls:
        content = f"took {json.loads(call.function.arguments)['n']}"
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
`;

const LANGCHAIN_LOOP = `
from langchain_core.messages import HumanMessage, ToolMessage
bound, thread = model.bind_tools([FUNCTION]), [HumanMessage("go")]
while True:
    answer = bound.invoke(thread)
    thread.append(answer)
    if not answer.tool_calls:
        print(answer.text if isinstance(answer.text, str) else answer.text())
        break
    for call in answer.tool_calls:
        thread.append(ToolMessage(content=f"took {call['args']['n']}", tool_call_id=call["id"]))
`;

const PROGRAMS = [
  {
    name: "openai",
    set: "clients",
    text: `
from openai import OpenAI
client = OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
ask = lambda messages: client.chat.completions.create(model="worker", messages=messages, tools=[FUNCTION])
${OPENAI_LOOP}`,
  },
  {
    name: "anthropic, stream",
    set: "clients",
    text: `
from anthropic import Anthropic
client, messages = Anthropic(base_url=URL, api_key=KEY, max_retries=0), [{"role": "user", "content": "go"}]
while True:
    tools = [{"name": "step", "description": "Takes a step", "input_schema": PARAMETERS}]
    with client.messages.stream(model="worker", max_tokens=1000, messages=messages, tools=tools) as stream:
        answer = stream.get_final_message()
    messages.append({"role": "assistant", "content": answer.content})
    calls = [block for block in answer.content if block.type == "tool_use"]
    if not calls:
        print(answer.content[0].text)
        break
    results = [{"type": "tool_result", "tool_use_id": c.id, "content": f"took {c.input['n']}"} for c in calls]
    messages.append({"role": "user", "content": results})
`,
  },
  {
    name: "anthropic, tool runner",
    set: "runner",
    // It asks for a thread that the API keeps, is refused, and goes on without.
    refused: [undefined],
    text: `
from anthropic import Anthropic, beta_tool

@beta_tool
def step(n: float) -> str:
    """Takes a step."""
    return f"took {n}"

client, messages = Anthropic(base_url=URL, api_key=KEY, max_retries=0), [{"role": "user", "content": "go"}]
runner = client.beta.messages.tool_runner(model="worker", max_tokens=1000, messages=messages, tools=[step])
print(runner.until_done().content[0].text)
`,
  },
  {
    name: "LangChain, ChatOpenAI",
    set: "clients",
    text: `
from langchain_openai import ChatOpenAI
model = ChatOpenAI(model="worker", base_url=URL + "/v1", api_key=KEY, max_retries=0)
${LANGCHAIN_LOOP}`,
  },
  {
    name: "LangChain, ChatAnthropic",
    set: "clients",
    text: `
from langchain_anthropic import ChatAnthropic
model = ChatAnthropic(model="worker", base_url=URL, api_key=KEY, max_retries=0)
${LANGCHAIN_LOOP}`,
  },
  {
    name: "LiteLLM",
    set: "litellm",
    text: `
import litellm
ask = lambda messages: litellm.completion(model="openai/worker", api_base=URL + "/v1", api_key=KEY, messages=messages, tools=[FUNCTION])
${OPENAI_LOOP}`,
  },
] as const;

describe.skipIf(!HERE)("a loop of ten steps in Python", { timeout: 600_000 }, () => {
  it.each(PROGRAMS)("$name", async ({ set, text, ...more }) => {
    const python = await pythonWith(set);
    // Where there is no Python, or no registry, they can't be had.
    if (python === undefined) return;
    const running = await FORM?.start((index) =>
      index < STEPS ? { calls: [{ id: `call_${index}`, name: "step", args: { n: index } }] } : { text: "All done." },
    );
    if (running === undefined) throw new Error("there is no claude");
    const { gateway, log } = await serve({
      providers: { cli: running.create({ retry: false }) },
      aliases: { worker: ["cli"] },
    });
    const told = await runPython(python, ["-c", HEAD + text], {
      URL: gateway.url,
      KEY: String(gateway.token),
      // LiteLLM asks a server for prices otherwise.
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
    });
    expect(told.trim()).toBe("All done.");
    await expect
      .poll(() => log.map(({ fields }) => fields.session))
      .toEqual([...("refused" in more ? more.refused : []), "new", ...Array(STEPS).fill("continued")]);
    expect(running.api.requests.length).toBe(STEPS + 1);
  });
});
