/** Declares the commands about pools, containers, calls and keys. What a command does is imported when it runs. */
import { type Command, Option } from 'commander';
import { poolLimits } from '../../placement/operations/pool-spec.ts';
import { poolDurabilities } from '../../placement/state/container-records.ts';
import type { MigrateFlags } from './containers.ts';
import type { PoolCreateFlags, PoolDeleteFlags } from './pools.ts';
import {
  type ReadFlags,
  addChangeCommand,
  addDestructiveCommand,
  addReadCommand,
  integerFlag,
} from '../command/command-flags.ts';

const againSentence = 'print again when something changes';
const dcSentence = 'of this datacenter instead of that of the asked node';

type Finish = (exitCode: number) => void;
type Watching = ReadFlags & { readonly dc?: string; readonly watch?: true };

export function addPoolCommands(program: Command, finish: Finish): void {
  const pool = program.command('pool').description('named sets of containers of one module').helpGroup('Operate:');
  addCreate(pool, finish);
  addReadCommand(pool, 'list', 'all pools, and how many of their containers serve')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (flags: Watching) => {
      const { poolListCommand } = await import('./pools.ts');
      finish(await poolListCommand(flags));
    });
  addReadCommand(pool, 'show <name>', 'every container of a pool: its owner, its copies, who is in sync')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (name: string, flags: Watching) => {
      const { poolShowCommand } = await import('./pools.ts');
      finish(await poolShowCommand(name, flags));
    });
  waiting(addDestructiveCommand(pool, 'delete <name>', 'delete a pool with all its state'), 'the pool is gone').action(
    async (name: string, flags: PoolDeleteFlags) => {
      const { poolDeleteCommand } = await import('./pools.ts');
      finish(await poolDeleteCommand(name, flags));
    },
  );
  addTransfers(pool, finish);
  addContainers(program, finish);
}

function addTransfers(pool: Command, finish: Finish): void {
  addReadCommand(pool, 'export <name>', 'write everything in a pool to a file; each container as it is at one instant')
    .helpGroup('Operate:')
    .requiredOption('--out <file>', 'where to')
    .action(async (name: string, flags: ReadFlags & { out: string }) => {
      const { poolExportCommand } = await import('./pool-transfer.ts');
      finish(await poolExportCommand(name, flags));
    });
  addChangeCommand(
    pool,
    'import <name> <file>',
    'put an exported pool into a new one, which is created if it is not there',
  )
    .option('--timeout <duration>', 'wait so long until all containers serve', '30s')
    .action(async (name: string, file: string, flags: ReadFlags & { timeout: string; reason?: string }) => {
      const { poolImportCommand } = await import('./pool-transfer.ts');
      finish(await poolImportCommand(name, file, flags));
    });
}

function waiting(command: Command, until: string, timeout = '30s'): Command {
  return command
    .option('--dc <name>', dcSentence)
    .option('--timeout <duration>', `wait so long until ${until}; exit code 4 after that`, timeout)
    .option('--detach', 'do not wait');
}

function addCreate(pool: Command, finish: Finish): void {
  waiting(
    addChangeCommand(pool, 'create <name>', 'create a pool; the same one again is no error'),
    'all containers serve',
  )
    .requiredOption('--module <name>', 'the module that its containers run')
    .requiredOption('--containers <count>', 'how many; decided once', integerFlag('--containers', 1))
    .option('--copies <count>', "of each container's state, the owner's included", integerFlag('--copies', 1))
    .addOption(new Option('--durability <when>', 'when a write is acknowledged').choices(poolDurabilities))
    .option('--restart', 'come back from disk on the same node, when it restarts in time')
    .option('--params <json>', 'for the module')
    .option('--force', `also more than ${poolLimits.containersUnforcedMax} containers`)
    .action(async (name: string, flags: PoolCreateFlags) => {
      const { poolCreateCommand } = await import('./pools.ts');
      finish(await poolCreateCommand(name, flags));
    });
}

function addContainers(program: Command, finish: Finish): void {
  const container = program
    .command('container')
    .description('one shard of a pool: where it is, why, and moving it')
    .helpGroup('Operate:');
  waiting(
    addChangeCommand(container, 'migrate <containers...>', 'move containers (POOL/ID) with their state'),
    'they serve there',
    '60s',
  )
    .requiredOption('--to <node>', 'the node that is to own them')
    .action(async (names: string[], flags: MigrateFlags) => {
      const { containerMigrateCommand } = await import('./containers.ts');
      finish(await containerMigrateCommand(names, flags));
    });
  addReadCommand(container, 'show <container>', 'one container (POOL/ID): owner, copies, fence, version')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (name: string, flags: Watching) => {
      const { containerShowCommand } = await import('./containers.ts');
      finish(await containerShowCommand(name, flags));
    });
  addReadCommand(container, 'explain <container>', 'why it is where it is, what it waits for, who could take over')
    .option('--dc <name>', dcSentence)
    .action(async (name: string, flags: ReadFlags & { dc?: string }) => {
      const { containerExplainCommand } = await import('./containers.ts');
      finish(await containerExplainCommand(name, flags));
    });
}
