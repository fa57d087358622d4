/** Declares the commands about pools and containers. What a command does is imported when it runs. */
import { type Command, Option } from 'commander';
import { poolLimits } from '../../placement/operations/pool-spec.ts';
import { poolDurabilities } from '../../placement/state/container-records.ts';
import type { MigrateFlags } from './containers.ts';
import type { PoolCreateFlags, PoolDeleteFlags } from './pools.ts';
import {
  type Finish,
  type ReadFlags,
  addChangeCommand,
  addDestructiveCommand,
  addReadCommand,
  dcHelp,
  integerFlag,
  watchHelp,
} from '../command/command-flags.ts';

type ViewFlags = ReadFlags & { readonly dc?: string; readonly watch?: true };

export function addPoolCommands(program: Command, finish: Finish): void {
  const pool = program
    .command('pool')
    .description('named sets of containers that run one module')
    .helpGroup('Operate:');
  addCreate(pool, finish);
  addReadCommand(pool, 'list', 'list the pools, and how many of their containers serve')
    .option('--dc <name>', dcHelp)
    .option('--watch', watchHelp)
    .action(async (flags: ViewFlags) => {
      const { poolListCommand } = await import('./pools.ts');
      finish(await poolListCommand(flags));
    });
  addReadCommand(pool, 'show <name>', 'show every container of a pool: owner, copies, in-sync copies')
    .option('--dc <name>', dcHelp)
    .option('--watch', watchHelp)
    .action(async (name: string, flags: ViewFlags) => {
      const { poolShowCommand } = await import('./pools.ts');
      finish(await poolShowCommand(name, flags));
    });
  waiting(
    addDestructiveCommand(pool, 'delete <name>', 'delete a pool with all its state'),
    'the pool is deleted',
  ).action(async (name: string, flags: PoolDeleteFlags) => {
    const { poolDeleteCommand } = await import('./pools.ts');
    finish(await poolDeleteCommand(name, flags));
  });
  addTransfers(pool, finish);
  addContainers(program, finish);
}

function addTransfers(pool: Command, finish: Finish): void {
  addReadCommand(pool, 'export <name>', 'write the state of a pool to a file; each container as of one moment')
    .helpGroup('Operate:')
    .requiredOption('--out <file>', 'the file to write')
    .action(async (name: string, flags: ReadFlags & { out: string }) => {
      const { poolExportCommand } = await import('./pool-transfer.ts');
      finish(await poolExportCommand(name, flags));
    });
  addChangeCommand(
    pool,
    'import <name> <file>',
    'load an exported file into an empty pool, created if it does not exist',
  )
    .option('--timeout <duration>', 'wait at most this long until all containers serve', '30s')
    .action(async (name: string, file: string, flags: ReadFlags & { timeout: string; reason?: string }) => {
      const { poolImportCommand } = await import('./pool-transfer.ts');
      finish(await poolImportCommand(name, file, flags));
    });
}

function waiting(command: Command, until: string, timeout = '30s'): Command {
  return command
    .option('--dc <name>', dcHelp)
    .option('--timeout <duration>', `wait at most this long until ${until}; then exit code 4`, timeout)
    .option('--detach', 'do not wait');
}

function addCreate(pool: Command, finish: Finish): void {
  waiting(
    addChangeCommand(pool, 'create <name>', 'create a pool; no error if the same pool exists'),
    'all containers serve',
  )
    .requiredOption('--module <name>', 'the module that the containers run')
    .requiredOption('--containers <count>', 'number of containers; cannot be changed', integerFlag('--containers', 1))
    .option(
      '--copies <count>',
      `copies of the state of each container, including its owner's (default: ${poolLimits.copiesDefault})`,
      integerFlag('--copies', 1),
    )
    .addOption(
      new Option(
        '--durability <when>',
        'write acknowledged: in memory, on the disk of the owner, or on all in-sync disks',
      ).choices(poolDurabilities),
    )
    .option('--restart', 'reopen containers from the disk of the same node when it restarts in time')
    .option('--params <json>', 'parameters of the module, as JSON')
    .option('--force', `allow more than ${poolLimits.containersUnforcedMax} containers`)
    .action(async (name: string, flags: PoolCreateFlags) => {
      const { poolCreateCommand } = await import('./pools.ts');
      finish(await poolCreateCommand(name, flags));
    });
}

function addContainers(program: Command, finish: Finish): void {
  const container = program
    .command('container')
    .description('one part of a pool: inspect it or move it')
    .helpGroup('Operate:');
  waiting(
    addChangeCommand(container, 'migrate <containers...>', 'move containers (POOL/ID) with their state to a node'),
    'they serve there',
    '60s',
  )
    .requiredOption('--to <node>', 'the new owner')
    .action(async (names: string[], flags: MigrateFlags) => {
      const { containerMigrateCommand } = await import('./containers.ts');
      finish(await containerMigrateCommand(names, flags));
    });
  addReadCommand(container, 'show <container>', 'show one container (POOL/ID): owner, copies, fence, version')
    .option('--dc <name>', dcHelp)
    .option('--watch', watchHelp)
    .action(async (name: string, flags: ViewFlags) => {
      const { containerShowCommand } = await import('./containers.ts');
      finish(await containerShowCommand(name, flags));
    });
  addReadCommand(
    container,
    'explain <container>',
    'explain why a container is where it is, what it waits for, and which nodes could take over',
  )
    .option('--dc <name>', dcHelp)
    .action(async (name: string, flags: ReadFlags & { dc?: string }) => {
      const { containerExplainCommand } = await import('./containers.ts');
      finish(await containerExplainCommand(name, flags));
    });
}
