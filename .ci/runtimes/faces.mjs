// @ts-check
/** The faces of the frameworks on whatever runtime this is: each is imported, and makes a call of a CLI, whole and in pieces. */
import assert from "node:assert/strict";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { cli } from "deep-factor-providers/ai-sdk";
import { ChatCli } from "deep-factor-providers/langchain";
import * as api from "deep-factor-providers/native";
import runtime from "./use.cjs";

const provider = runtime.createProvider(api, "answer");
const chat = new ChatCli({ provider });
assert(chat instanceof BaseChatModel);
assert.equal((await chat.invoke("Say hello")).text, "hello");
let text = "";
for await (const chunk of await chat.stream("Say hello")) text += chunk.text;
assert.equal(text, "hello");

const model = cli(provider)();
/** @type {import("deep-factor-providers/ai-sdk").CliCallOptions} */
const call = { prompt: [{ role: "user", content: [{ type: "text", text: "Say hello" }] }] };
const { content, finishReason } = await model.doGenerate(call);
assert.deepEqual([content, finishReason.unified], [[{ type: "text", text: "hello" }], "stop"]);
text = "";
for await (const part of (await model.doStream(call)).stream) if (part.type === "text-delta") text += part.delta;
assert.equal(text, "hello");
await provider.close();
console.log("LangChain's chat models and the AI SDK's models answer");
