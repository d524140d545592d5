/** Members to make fallback providers of, the errors they throw, and what is asked of the outcome. */
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  createClaudeCliProvider,
  type FallbackMetadata,
  type ModelAdapter,
  ProviderError,
  type ProviderErrorCode,
  type ProviderErrorInit,
  type ProviderEvent,
} from "deep-factor-providers";
import { onTestFinished } from "vitest";
import nativeSide from "../../src/js/native.cjs";
import { createFakes } from "../support/fake.mjs";

export const GUIDANCE = new Map<string, { category: string; shouldRetry: boolean; shouldFallback: boolean }>(
  JSON.parse(nativeSide.errorCodes()).codes.map((own: { code: string; category: string; shouldFallback: boolean }) => [
    own.code,
    {
      ...JSON.parse(nativeSide.errorCodes()).categories.find(({ category }: typeof own) => category === own.category),
      shouldFallback: own.shouldFallback,
    },
  ]),
);

/** An error as a provider throws it. */
export function failure(
  code: ProviderErrorCode,
  message: string,
  more: Partial<ProviderErrorInit> = {},
): ProviderError {
  const guidance = GUIDANCE.get(code) as never as ProviderErrorInit;
  return new ProviderError({ ...guidance, code, message, provider: "x", attempts: 1, ...more });
}

export const thread = [new HumanMessage("hello")];

/** An adapter that can only `invoke`; each call takes the next of what it is given, the last stays. */
export function plain(id: string, ...answers: (Error | ((...args: unknown[]) => unknown))[]) {
  const calls: unknown[][] = [];
  const adapter = {
    id,
    calls,
    async invoke(...args: unknown[]) {
      calls.push(args);
      const next = answers.length > 1 ? answers.shift() : answers[0];
      if (next instanceof Error) throw next;
      return typeof next === "function" ? next(...args) : next;
    },
  };
  return adapter as typeof adapter & ModelAdapter;
}

/** A message of its own for each call. */
export const hi = () => new AIMessage("hi");
export const lost = () => failure("CONNECTION_LOST", "the connection broke");

/** What the answer says of who gave it. */
export const toldBy = (message: AIMessage) => message.response_metadata.fallback as FallbackMetadata;

export const caught = async (call: Promise<unknown>): Promise<ProviderError> =>
  await call.then(
    () => Promise.reject(new Error("it did not fail")),
    (error) => error,
  );

export async function collect(events: AsyncIterable<ProviderEvent>) {
  const collected: ProviderEvent[] = [];
  const error = await (async () => {
    for await (const event of events) collected.push(event);
  })().catch((error: unknown) => error);
  return { events: collected, error };
}

/** A fake CLI that speaks claude's stream-json. */
export function cli(id: string, ...behaviours: object[]) {
  const fakes = createFakes();
  onTestFinished(fakes.cleanup);
  return createClaudeCliProvider({ cliPath: fakes.cli(id, behaviours).path, retry: false });
}
export const line = (value: object) => `${JSON.stringify(value)}\n`;
export const spoken = (text: string) =>
  line({ type: "assistant", message: { id: "m1", content: [{ type: "text", text }] } });
export const result = (more: object) =>
  line({ type: "result", subtype: "success", num_turns: 1, usage: { input_tokens: 3, output_tokens: 2 }, ...more });
export const answering = { stdout: spoken("from the CLI") + result({ is_error: false, result: "from the CLI" }) };
export const dying = {
  stdout: result({ is_error: true, api_error_status: 500, result: "API Error: 500 boom" }),
  code: 1,
};
export const dyingLate = { ...dying, stdout: spoken("Half an answer") + dying.stdout };
