/**
 * `completions`. In: a shell's name. Out: the script that has the shell complete commands, options and providers.
 *
 * Options are read from the help of each command, so that what is offered is what is documented.
 */

import { parseCommandArgs } from "../cli-args.mjs";
import { HELP, NAME, UsageError } from "../cli-text.mjs";
import loader from "../load.cjs";

const SHELLS = { bash, zsh, fish };

/** @typedef {{ commands: Record<string, string[]>, providers: string[] }} Words what there is to complete; all of it letters, digits and `-` */

/** @param {string[]} args */
export async function completions(args) {
  const { positionals } = parseCommandArgs(args, {});
  const [shell = "", extra] = positionals;
  const names = Object.keys(SHELLS).join(", ");
  if (shell === "") throw new UsageError(`say for which shell: ${names}`);
  if (!Object.hasOwn(SHELLS, shell)) throw new UsageError(`unknown shell "${shell}": there are ${names}`);
  if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
  process.stdout.write(SHELLS[/** @type {keyof typeof SHELLS} */ (shell)](words()));
  return 0;
}

/** @returns {Words} */
function words() {
  /** @type {{ id: string }[]} */
  const registry = JSON.parse(loader.loadNative().providers());
  const commands = Object.entries(HELP).filter(([name]) => name !== "");
  return {
    commands: Object.fromEntries(commands.map(([name, text]) => [name, optionsOf(text)])),
    providers: registry.map(({ id }) => id),
  };
}

/** @param {string} help the lines that begin with an option say which there are */
function optionsOf(help) {
  const lines = help.split("\n").filter((line) => /^ {2}-/.test(line));
  return [...new Set(lines.flatMap((line) => line.match(/--[a-z][a-z-]*/) ?? []))].sort();
}

/** Words that follow a command or an option and are no options: providers, actions, shells. */
const ACTIONS = /** @type {Record<string, string[]>} */ ({ log: ["show", "html"], completions: Object.keys(SHELLS) });

/** @param {Words} words */
function bash({ commands, providers }) {
  const cases = Object.entries(commands).map(([name, options]) => {
    const others = name === "doctor" ? providers : (ACTIONS[name] ?? []);
    return `    ${name}) words="${[...options, ...others].join(" ")}" ;;`;
  });
  return `# bash completion of ${NAME}: source <(${NAME} completions bash)
_deep_factor_providers() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}" words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="${Object.keys(commands).join(" ")} --help --version"
  elif [ "$previous" = "--provider" ]; then
    words="${providers.join(" ")}"
  else case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    *) words="" ;;
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _deep_factor_providers ${NAME}
`;
}

/** @param {Words} words */
function zsh({ commands, providers }) {
  const cases = Object.entries(commands).map(([name, options]) => {
    const others = name === "doctor" ? providers : (ACTIONS[name] ?? []);
    return `    ${name}) compadd -- ${[...options, ...others].join(" ")} ;;`;
  });
  return `#compdef ${NAME}
# zsh completion of ${NAME}: source <(${NAME} completions zsh)
_deep_factor_providers() {
  if (( CURRENT == 2 )); then
    compadd -- ${Object.keys(commands).join(" ")} --help --version
    return
  fi
  if [[ "\${words[CURRENT-1]}" == "--provider" ]]; then
    compadd -- ${providers.join(" ")}
    return
  fi
  case "\${words[2]}" in
${cases.join("\n")}
  esac
  _files
}
compdef _deep_factor_providers ${NAME}
`;
}

/** @param {Words} words */
function fish({ commands, providers }) {
  const names = Object.keys(commands);
  const lines = Object.entries(commands).flatMap(([name, options]) => {
    const within = `complete -c ${NAME} -n "__fish_seen_subcommand_from ${name}"`;
    const others = name === "doctor" ? providers : (ACTIONS[name] ?? []);
    return [
      ...options.map((option) => {
        const values = option === "--provider" ? ` -x -a "${providers.join(" ")}"` : "";
        return `${within} -l ${option.slice(2)}${values}`;
      }),
      ...(others.length > 0 ? [`${within} -a "${others.join(" ")}"`] : []),
    ];
  });
  return `# fish completion of ${NAME}: ${NAME} completions fish | source
complete -c ${NAME} -n "not __fish_seen_subcommand_from ${names.join(" ")}" -f -a "${names.join(" ")}"
${lines.join("\n")}
`;
}
