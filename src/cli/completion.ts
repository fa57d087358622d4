/**
 * `remuster completion bash|zsh|fish`: prints a shell completion script made from the command tree. The script starts
 * no process.
 */
import type { Command } from 'commander';
import { RemusterError } from '../base/errors.ts';
import { printData } from './output/terminal.ts';
import { exitOk } from './command/exit.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

/** The words that may follow a chain of commands, for example after `dev`. */
type Place = { readonly path: string; readonly words: readonly string[]; readonly flags: readonly string[] };

export function completionCommand(program: Command, shell: string): number {
  const places = placesOf(program, '');
  switch (shell) {
    case 'bash':
      printData(bash(places));
      break;
    case 'zsh':
      printData(`#compdef remuster\nautoload -U +X bashcompinit && bashcompinit\n${bash(places)}`);
      break;
    case 'fish':
      printData(fish(places));
      break;
    default:
      throw new RemusterError(
        'BAD_ARGUMENT',
        `completion exists for ${shells.join(', ')}, not ${JSON.stringify(shell)}`,
      );
  }
  return exitOk;
}

function placesOf(command: Command, path: string): Place[] {
  const help = command.createHelp();
  const visible = help.visibleCommands(command);
  const words = visible.map((child) => child.name());
  const flags = help.visibleOptions(command).flatMap((option) => option.long ?? []);
  const children = command.commands.filter((child) => words.includes(child.name()));
  return [{ path, words, flags }, ...children.flatMap((child) => placesOf(child, `${path} ${child.name()}`.trim()))];
}

function bash(places: readonly Place[]): string {
  const cases = places.map(({ path, words, flags }) => `    '${path}') words='${[...words, ...flags].join(' ')}' ;;`);
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

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words, flags }) => {
    const condition = path === '' ? '__fish_use_subcommand' : `__fish_seen_subcommand_from ${path.split(' ').at(-1)}`;
    return [
      ...words.map((word) => `complete -c remuster -f -n '${condition}' -a ${word}`),
      ...flags.map((flag) => `complete -c remuster -n '${condition}' -l ${flag.slice(2)}`),
    ];
  });
  return lines.join('\n');
}
