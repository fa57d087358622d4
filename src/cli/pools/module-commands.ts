/** Declares the commands about modules, and `compose`. What a command does is imported when it runs. */
import type { Command } from 'commander';
import type { ComposeFlags } from './compose.ts';
import type { ModuleDeployFlags } from './modules.ts';
import {
  type Finish,
  type ReadFlags,
  addChangeCommand,
  addDestructiveCommand,
  addReadCommand,
  dcHelp,
  watchHelp,
} from '../command/command-flags.ts';

type ViewFlags = ReadFlags & { readonly dc?: string; readonly watch?: true };

export function addModuleCommands(program: Command, finish: Finish): void {
  const module = program.command('module').description('the code that pools run').helpGroup('Operate:');
  addChangeCommand(
    module,
    'deploy <file>',
    'bundle a module, send it to all nodes and roll it out, one container after the other',
  )
    .option('--name <name>', 'name of the module, when the file exports several')
    .option('--no-roll', 'deploy only; the pools keep the version that they run')
    .option('--timeout <duration>', 'wait at most this long until the pools run it; then exit code 4', '2m')
    .option('--detach', 'do not wait until the pools run it')
    .action(async (file: string, flags: ModuleDeployFlags) => {
      const { moduleDeployCommand } = await import('./modules.ts');
      finish(await moduleDeployCommand(file, flags));
    });
  addReadCommand(module, 'list', 'list the modules: deployed ones and those in the options of nodes')
    .option('--dc <name>', dcHelp)
    .option('--watch', watchHelp)
    .action(async (flags: ViewFlags) => {
      const { moduleListCommand } = await import('./modules.ts');
      finish(await moduleListCommand(flags));
    });
  addReadCommand(module, 'show <name>', 'show the versions of a module, the nodes that loaded them, and its pools')
    .option('--dc <name>', dcHelp)
    .option('--watch', watchHelp)
    .action(async (name: string, flags: ViewFlags) => {
      const { moduleShowCommand } = await import('./modules.ts');
      finish(await moduleShowCommand(name, flags));
    });
}

export function addComposeCommand(program: Command, finish: Finish): void {
  addDestructiveCommand(program, 'compose <file>', 'create the pools of a YAML file; existing pools are kept')
    .option('--unregister', 'delete these pools with all their state instead')
    .option('--dc <name>', dcHelp)
    .option(
      '--timeout <duration>',
      'wait at most this long until all containers serve, or are deleted; then exit code 4',
      '60s',
    )
    .option('--detach', 'do not wait')
    .action(async (file: string, flags: ComposeFlags) => {
      const { composeCommand } = await import('./compose.ts');
      finish(await composeCommand(file, flags));
    });
}
