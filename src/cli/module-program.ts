/** The commands about modules. It only declares; what a command does is imported when it is called. */
import type { Command } from 'commander';
import type { ComposeFlags } from './compose.ts';
import type { DeployFlags } from './modules.ts';
import { type ReadingFlags, changer, destroyer, reader } from './reading.ts';

const dcSentence = 'of this datacenter instead of that of the asked node';

type Finish = (exitCode: number) => void;
type Looking = ReadingFlags & { readonly dc?: string; readonly watch?: true };

export function addModules(program: Command, finish: Finish): void {
  const module = program.command('module').description('the code that pools run').helpGroup('Operate:');
  changer(
    module,
    'deploy <file>',
    'bundle a module, send it to all nodes and let its pools run it, one container after the other',
  )
    .option('--name <name>', 'which one, when the file exports several modules')
    .option('--no-roll', 'only deploy: pools go on with what they run')
    .option('--timeout <duration>', 'wait so long until its pools run it; exit code 4 after that', '2m')
    .option('--detach', 'do not wait until its pools run it')
    .action(async (file: string, flags: DeployFlags) => {
      const { deployModule } = await import('./modules.ts');
      finish(await deployModule(file, flags));
    });
  reader(module, 'list', 'all modules, deployed or from the configuration of nodes')
    .option('--dc <name>', dcSentence)
    .option('--watch', 'print again when something changes')
    .action(async (flags: Looking) => {
      const { listModules } = await import('./modules.ts');
      finish(await listModules(flags));
    });
  reader(module, 'show <name>', 'versions of a module, who can run them, and which pools do')
    .option('--dc <name>', dcSentence)
    .option('--watch', 'print again when something changes')
    .action(async (name: string, flags: Looking) => {
      const { showModule } = await import('./modules.ts');
      finish(await showModule(name, flags));
    });
}

export function addCompose(program: Command, finish: Finish): void {
  destroyer(program, 'compose <file>', 'create the pools of a YAML file; those that are there already stay')
    .option('--unregister', 'delete them instead, with all their state')
    .option('--dc <name>', dcSentence)
    .option(
      '--timeout <duration>',
      'wait so long until all containers serve, or are gone; exit code 4 after that',
      '60s',
    )
    .option('--detach', 'do not wait')
    .action(async (file: string, flags: ComposeFlags) => {
      const { compose } = await import('./compose.ts');
      finish(await compose(file, flags));
    });
}

/** Also of workflows: one noun for both. */
export function addNew(program: Command, finish: Finish): void {
  const begin = program.command('new').description('begin something with a small example').helpGroup('Tools:');
  begin
    .command('module <name>')
    .description('a module and its test, in two files')
    .option('--dir <folder>', 'where to', '.')
    .action(async (name: string, { dir }: { dir: string }) => {
      const { newModule } = await import('./new-module.ts');
      finish(newModule(name, dir));
    });
  begin
    .command('workflow <name>')
    .description('a load test and a batch job, in one file')
    .option('--dir <folder>', 'where to', '.')
    .action(async (name: string, { dir }: { dir: string }) => {
      const { newWorkflow } = await import('./new-workflow.ts');
      finish(newWorkflow(name, dir));
    });
}
