/**
 * `completions`. In: a shell's name. Out: the script that has the shell complete commands, options and providers.
 *
 * Options are read from the help of each command, so that what is offered is what is documented.
 */

import { parseCommandArgs } from "../cli-args.mjs";
import { HELP, NAME, UsageError } from "../cli-text.mjs";
import loader from "../load.cjs";
import { print } from "./screen.mjs";

const SHELLS = { bash, zsh, fish };

/**
 * What there is to complete; all of it letters, digits and `-`.
 *
 * @typedef {{ commands: Record<string, string[]>, values: Record<string, string[]> }} Completable `commands`: the options of each, and
 *   what else stands behind it; `values`: what stands behind an option, where that is one of few
 */
/** Behind these, the shell completes files. */
const FILES = [
  "--file",
  "--history",
  "--image",
  "--keys",
  "--logs",
  "--out",
  "--output",
  "--record",
  "--schema",
  "--socket",
  "--token-file",
];

/** @param {string[]} args */
export async function completions(args) {
  const { positionals } = parseCommandArgs(args, {});
  const [shell = "", extra] = positionals;
  const names = Object.keys(SHELLS).join(", ");
  if (shell === "") throw new UsageError(`say for which shell: ${names}`);
  if (!Object.hasOwn(SHELLS, shell)) throw new UsageError(`unknown shell "${shell}": there are ${names}`);
  if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
  print(SHELLS[/** @type {keyof typeof SHELLS} */ (shell)](completable()));
  return 0;
}

/** @returns {Completable} */
function completable() {
  /** @type {{ id: string }[]} */
  const registry = JSON.parse(loader.loadNative().providers());
  const providers = registry.map(({ id }) => id);
  const others = /** @type {Record<string, string[]>} */ ({
    doctor: providers,
    providers,
    log: ["show", "html"],
    completions: Object.keys(SHELLS),
  });
  const commands = Object.entries(HELP).filter(([name]) => name !== "");
  return {
    commands: Object.fromEntries(commands.map(([name, text]) => [name, [...optionsOf(text), ...(others[name] ?? [])]])),
    values: {
      "--provider": [...providers, "openai"],
      "--engine": ["auto", "live", "print", "warm"],
      "--color": ["auto", "always", "never"],
      "--level": ["command", "version", "auth", "request"],
    },
  };
}

/** @param {string} help the lines that begin with an option say which there are */
function optionsOf(help) {
  const lines = help.split("\n").filter((line) => /^ {2}-/.test(line));
  return [...new Set([...lines.flatMap((line) => line.match(/--[a-z][a-z-]*/) ?? []), "--color"])].sort();
}

/** @param {Completable} all */
function bash({ commands, values }) {
  const ofOptions = Object.entries(values).map(
    ([option, list]) => `      ${option}) candidates="${list.join(" ")}" ;;`,
  );
  const ofCommands = Object.entries(commands).map(
    ([name, list]) => `        ${name}) candidates="${list.join(" ")}" ;;`,
  );
  return `# bash completion of ${NAME}: source <(${NAME} completions bash)
_deep_factor_providers() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}" candidates=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    candidates="${Object.keys(commands).join(" ")} --help --version"
  else
    case "$previous" in
${ofOptions.join("\n")}
      ${FILES.join(" | ")}) ;;
      *) case "\${COMP_WORDS[1]}" in
${ofCommands.join("\n")}
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}
complete -o default -F _deep_factor_providers ${NAME}
`;
}

/** @param {Completable} all */
function zsh({ commands, values }) {
  const ofOptions = Object.entries(values).map(
    ([option, list]) => `    ${option}) compadd -- ${list.join(" ")}; return ;;`,
  );
  const ofCommands = Object.entries(commands).map(([name, list]) => `    ${name}) compadd -- ${list.join(" ")} ;;`);
  return `#compdef ${NAME}
# zsh completion of ${NAME}: source <(${NAME} completions zsh)
_deep_factor_providers() {
  if (( CURRENT == 2 )); then
    compadd -- ${Object.keys(commands).join(" ")} --help --version
    return
  fi
  case "\${words[CURRENT-1]}" in
${ofOptions.join("\n")}
    ${FILES.join(" | ")}) _files; return ;;
  esac
  case "\${words[2]}" in
${ofCommands.join("\n")}
  esac
  _files
}
compdef _deep_factor_providers ${NAME}
`;
}

/** @param {Completable} all */
function fish({ commands, values }) {
  const names = Object.keys(commands);
  const lines = Object.entries(commands).flatMap(([name, list]) => {
    const within = `complete -c ${NAME} -n "__fish_seen_subcommand_from ${name}"`;
    const words = list.filter((word) => !word.startsWith("-"));
    return [
      ...list
        .filter((word) => word.startsWith("-"))
        .map((option) => {
          const choices = values[option];
          const takes = choices ? ` -x -a "${choices.join(" ")}"` : FILES.includes(option) ? " -r -F" : "";
          return `${within} -l ${option.slice(2)}${takes}`;
        }),
      ...(words.length > 0 ? [`${within} -a "${words.join(" ")}"`] : []),
    ];
  });
  return `# fish completion of ${NAME}: ${NAME} completions fish | source
complete -c ${NAME} -n "not __fish_seen_subcommand_from ${names.join(" ")}" -f -a "${names.join(" ")}"
${lines.join("\n")}
`;
}
