/** A strict consumer of `deep-factor-providers/native` that has no LangChain installed. */
import {
  type ApiProvider,
  type CliProvider,
  checkHealth,
  createClaudeCliProvider,
  createFallbackProvider,
  createOpenAiCompatibleProvider,
  type HealthReport,
  isModelAdapter,
  type ModelAdapter,
  ProviderError,
  runAgent,
} from "deep-factor-providers/native";

type IsAny<T> = 0 extends 1 & T ? true : false;
declare function refuseAny<_T extends false>(): void;

export async function use(): Promise<string> {
  const provider: CliProvider = createClaudeCliProvider({ model: "sonnet" });
  const adapter: ModelAdapter = provider.bindTools([{ name: "t", parameters: { type: "object" } }]);
  const message = await adapter.invoke([{ role: "user", content: "hi" }]);
  refuseAny<IsAny<typeof provider>>();
  refuseAny<IsAny<typeof message>>();
  refuseAny<IsAny<typeof message.tool_calls>>();
  for await (const event of provider.stream([message])) refuseAny<IsAny<typeof event>>();
  const several = createFallbackProvider([provider, adapter]);
  const other = await several.bindTools([]).invoke([message]);
  refuseAny<IsAny<typeof other>>();
  const error: unknown = message;
  if (isModelAdapter(error) || error instanceof ProviderError) return "";
  return (
    (other.response_metadata.fallback?.provider ?? "") +
    message.content +
    message.response_metadata.provider +
    message.usage_metadata.input_tokens
  );
}

export function observe() {
  const off = createClaudeCliProvider({ telemetry: false });
  createFallbackProvider([off], { telemetry: { content: "redacted" } });
  // @ts-expect-error: there is no such content
  createClaudeCliProvider({ telemetry: { content: "some" } });
  // @ts-expect-error: there is no such key
  createClaudeCliProvider({ telemetry: { trace: true } });
  // @ts-expect-error: no tracer, also where OpenTelemetry is not installed
  createClaudeCliProvider({ telemetry: { tracer: 5 } });
  // @ts-expect-error: no meter
  createClaudeCliProvider({ telemetry: { meter: {} } });
  return runAgent({ provider: off, prompt: "hi", telemetry: { content: "full", agentName: "scout" } });
}

export async function look(provider: CliProvider): Promise<number> {
  const report: HealthReport = await provider.health({ level: "version" });
  const [first] = await checkHealth([provider.bindTools([])], {
    level: "command",
    signal: new AbortController().signal,
  });
  refuseAny<IsAny<typeof report.authenticated>>();
  refuseAny<IsAny<typeof first>>();
  refuseAny<IsAny<typeof report.engine>>();
  const engine: "print" | "live" | "warm" | "untried" | undefined = report.engine?.uses;
  if (engine === "live") await provider.prewarm({ system: "Be brief.", tools: [{ name: "t" }] });
  await provider.prewarm();
  // @ts-expect-error: a text
  await provider.prewarm({ system: 1 });
  // @ts-expect-error: there is no such option
  await provider.prewarm({ sytem: "" });
  const [model] = await provider.models({ signal: new AbortController().signal });
  refuseAny<IsAny<typeof model>>();
  const effort: string | undefined = model?.isDefault ? model.defaultEffort : model?.efforts?.[0];
  // @ts-expect-error: there is no such option
  await provider.models({ level: effort });
  // @ts-expect-error: there is no such level
  await checkHealth(undefined, { level: "deep" });
  return (report.timingsMs.version ?? 0) + (first?.problems.filter(({ severity }) => severity === "error").length ?? 0);
}

export async function askApi(): Promise<string> {
  const provider: ApiProvider = createOpenAiCompatibleProvider({ model: "m" });
  const message = await provider.bindTools([]).invoke(["hi"]);
  refuseAny<IsAny<typeof message>>();
  return message.content;
}

export async function agent(provider: CliProvider): Promise<unknown> {
  const tools = [{ name: "look", execute: () => "fine" }];
  const { messages } = await runAgent({ provider, prompt: "Look.", tools }).result;
  refuseAny<IsAny<typeof messages>>();
  const { result } = runAgent({ provider, messages, builtins: { handoff: { agents: { a: { provider, tools } } } } });
  return (await result).messages.map(({ content }) => content);
}

/** The value's type is the schema's, whichever library that is of. */
export async function structured(provider: CliProvider): Promise<number> {
  const four = {} as { _zod: { input: { n: number } } };
  const three = {} as { _def: object; _input: { n: number } };
  const standard = {} as { "~standard": { types?: { input: { n: number } } | undefined } };
  const [a, b, c] = await Promise.all([
    provider.invoke(["hi"], { outputSchema: four }),
    provider.invokeWithUpdates(["hi"], () => {}, { outputSchema: three }),
    runAgent({ provider, prompt: "hi", outputSchema: standard }).result,
  ]);
  const values = [a.response_metadata.structured_output, b.response_metadata.structured_output, c.structured] as const;
  for (const value of values) refuseAny<IsAny<typeof value>>();
  const plain = await provider.invoke(["hi"], { outputSchema: { type: "object" } });
  const unknown: unknown = plain.response_metadata.structured_output;
  // @ts-expect-error without a schema there is no value
  const none: number = (await provider.invoke(["hi"])).response_metadata.structured_output;
  return values.reduce((sum, value) => sum + (value?.n ?? 0), Number(unknown) + none);
}
