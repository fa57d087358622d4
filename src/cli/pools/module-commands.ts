/** Declares the commands about modules and compose. */
import type { Command } from 'commander';
import type { ComposeFlags } from './compose.ts';
import type { ModuleDeployFlags } from './modules.ts';
import { type ReadFlags, addChangeCommand, addDestructiveCommand, addReadCommand } from '../command/command-flags.ts';

const dcSentence = 'of this datacenter instead of that of the asked node';

type Finish = (exitCode: number) => void;
type Looking = ReadFlags & { readonly dc?: string; readonly watch?: true };

export function addModuleCommands(program: Command, finish: Finish): void {
  const module = program.command('module').description('the code that pools run').helpGroup('Operate:');
  addChangeCommand(
    module,
    'deploy <file>',
    'bundle a module, send it to all nodes and let its pools run it, one container after the other',
  )
    .option('--name <name>', 'which one, when the file exports several modules')
    .option('--no-roll', 'only deploy: pools go on with what they run')
    .option('--timeout <duration>', 'wait so long until its pools run it; exit code 4 after that', '2m')
    .option('--detach', 'do not wait until its pools run it')
    .action(async (file: string, flags: ModuleDeployFlags) => {
      const { moduleDeployCommand } = await import('./modules.ts');
      finish(await moduleDeployCommand(file, flags));
    });
  addReadCommand(module, 'list', 'all modules, deployed or from the configuration of nodes')
    .option('--dc <name>', dcSentence)
    .option('--watch', 'print again when something changes')
    .action(async (flags: Looking) => {
      const { moduleListCommand } = await import('./modules.ts');
      finish(await moduleListCommand(flags));
    });
  addReadCommand(module, 'show <name>', 'versions of a module, who can run them, and which pools do')
    .option('--dc <name>', dcSentence)
    .option('--watch', 'print again when something changes')
    .action(async (name: string, flags: Looking) => {
      const { moduleShowCommand } = await import('./modules.ts');
      finish(await moduleShowCommand(name, flags));
    });
}

export function addComposeCommand(program: Command, finish: Finish): void {
  addDestructiveCommand(program, 'compose <file>', 'create the pools of a YAML file; those that are there already stay')
    .option('--unregister', 'delete them instead, with all their state')
    .option('--dc <name>', dcSentence)
    .option(
      '--timeout <duration>',
      'wait so long until all containers serve, or are gone; exit code 4 after that',
      '60s',
    )
    .option('--detach', 'do not wait')
    .action(async (file: string, flags: ComposeFlags) => {
      const { composeCommand } = await import('./compose.ts');
      finish(await composeCommand(file, flags));
    });
}

/** Also of workflows: one noun for both. */
export function addNewCommands(program: Command, finish: Finish): void {
  const begin = program.command('new').description('begin something with a small example').helpGroup('Tools:');
  begin
    .command('module <name>')
    .description('a module and its test, in two files')
    .option('--dir <folder>', 'where to', '.')
    .action(async (name: string, { dir }: { dir: string }) => {
      const { newModuleCommand } = await import('../scaffold/new-module.ts');
      finish(newModuleCommand(name, dir));
    });
  begin
    .command('workflow <name>')
    .description('a load test and a batch job, in one file')
    .option('--dir <folder>', 'where to', '.')
    .action(async (name: string, { dir }: { dir: string }) => {
      const { newWorkflowCommand } = await import('../scaffold/new-workflow.ts');
      finish(newWorkflowCommand(name, dir));
    });
}
