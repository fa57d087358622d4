/** Declares `remuster new module|workflow`. What a command does is imported when it runs. */
import type { Command } from 'commander';
import type { Finish } from '../command/command-flags.ts';

type NewFlags = { readonly dir: string };

export function addNewCommands(program: Command, finish: Finish): void {
  const create = program.command('new').description('write starter code').helpGroup('Tools:');
  create
    .command('module <name>')
    .description('write a module and its test')
    .option('--dir <folder>', 'folder of the new files', '.')
    .action(async (name: string, { dir }: NewFlags) => {
      const { newModuleCommand } = await import('./new-module.ts');
      finish(newModuleCommand(name, dir));
    });
  create
    .command('workflow <name>')
    .description('write a load test and a batch job in one file')
    .option('--dir <folder>', 'folder of the new file', '.')
    .action(async (name: string, { dir }: NewFlags) => {
      const { newWorkflowCommand } = await import('./new-workflow.ts');
      finish(newWorkflowCommand(name, dir));
    });
}
