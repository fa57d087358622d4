/**
 * `remuster completion bash|zsh|fish`: prints a shell completion script, generated from the command tree. The script
 * starts no process.
 */
import type { Command } from 'commander';
import { RemusterError } from '../base/errors.ts';
import { printData } from './output/terminal.ts';
import { exitOk } from './command/exit.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

/** What may follow a command path such as `dev`: subcommands and flags. */
type PathCompletions = {
  readonly path: string;
  readonly subcommands: readonly string[];
  readonly flags: readonly string[];
};

export function completionCommand(program: Command, shell: string): number {
  const completions = completionsOf(program, '');
  switch (shell) {
    case 'bash':
      printData(bash(completions));
      break;
    case 'zsh':
      printData(`#compdef remuster\nautoload -U +X bashcompinit && bashcompinit\n${bash(completions)}`);
      break;
    case 'fish':
      printData(fish(completions));
      break;
    default:
      throw new RemusterError(
        'BAD_ARGUMENT',
        `there is no completion for ${JSON.stringify(shell)}: the shells are ${shells.join(', ')}`,
      );
  }
  return exitOk;
}

function completionsOf(command: Command, path: string): PathCompletions[] {
  const help = command.createHelp();
  const visible = help.visibleCommands(command);
  const subcommands = visible.map((child) => child.name());
  const flags = help.visibleOptions(command).flatMap((option) => option.long ?? []);
  const children = command.commands.filter((child) => subcommands.includes(child.name()));
  return [
    { path, subcommands, flags },
    ...children.flatMap((child) => completionsOf(child, `${path} ${child.name()}`.trim())),
  ];
}

function bash(completions: readonly PathCompletions[]): string {
  const cases = completions.map(
    ({ path, subcommands, flags }) => `    '${path}') words='${[...subcommands, ...flags].join(' ')}' ;;`,
  );
  return `_remuster() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path='' word words=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in
      -*) break ;;
      *) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _remuster remuster`;
}

function fish(completions: readonly PathCompletions[]): string {
  const lines = completions.flatMap(({ path, subcommands, flags }) => {
    const condition = path === '' ? '__fish_use_subcommand' : `__fish_seen_subcommand_from ${path.split(' ').at(-1)}`;
    return [
      ...subcommands.map((name) => `complete -c remuster -f -n '${condition}' -a ${name}`),
      ...flags.map((flag) => `complete -c remuster -n '${condition}' -l ${flag.slice(2)}`),
    ];
  });
  return lines.join('\n');
}
