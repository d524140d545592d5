// @ts-nocheck: a page's program, bundled by the test that serves it
/** The page of a small chat: `useChat` as its documentation shows it, with a tool that asks for permission. */
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { createElement as h, useState } from "react";
import { createRoot } from "react-dom/client";

function Part({ part, answer }) {
  switch (part.type) {
    case "text":
      return h("p", null, part.text);
    case "reasoning":
      return h("p", { className: "reasoning" }, part.text);
    case "tool-add":
      return h(
        "p",
        { className: "tool" },
        `add(${JSON.stringify(part.input)}): ${part.state}`,
        part.state === "output-available" && ` = ${JSON.stringify(part.output)}`,
        part.state === "approval-requested" &&
          h(
            "button",
            { id: "allow", type: "button", onClick: () => answer({ id: part.approval.id, approved: true }) },
            "Allow",
          ),
      );
    default:
      return null;
  }
}

function Chat() {
  const [input, setInput] = useState("");
  const { messages, sendMessage, addToolApprovalResponse, status, stop, error } = useChat({
    transport: new DefaultChatTransport({ api: "/api/chat" }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  return h(
    "main",
    { style: { font: "16px sans-serif", maxWidth: "40em", margin: "2em auto" } },
    messages.map(({ id, role, parts }) =>
      h(
        "section",
        { key: id, className: role },
        h("b", null, role),
        parts.map((part, index) => h(Part, { key: index, part, answer: addToolApprovalResponse })),
      ),
    ),
    error && h("p", { id: "error" }, error.message),
    h("p", { id: "status" }, status),
    h(
      "form",
      {
        onSubmit: (event) => {
          event.preventDefault();
          sendMessage({ text: input });
          setInput("");
        },
      },
      h("input", { id: "input", value: input, onChange: (event) => setInput(event.target.value) }),
      h("button", { id: "send", type: "submit" }, "Send"),
      h("button", { id: "stop", type: "button", onClick: stop }, "Stop"),
    ),
  );
}

createRoot(document.getElementById("root")).render(h(Chat));
