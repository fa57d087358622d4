/** The commands about pools and containers. It only declares; what a command does is imported when it is called. */
import { type Command, Option } from 'commander';
import { poolLimits } from '../placement/operations/pool-spec.ts';
import { poolDurabilities } from '../placement/state/container-records.ts';
import type { MigrateFlags } from './containers.ts';
import type { CreateFlags, DeleteFlags } from './pools.ts';
import { type ReadingFlags, changer, destroyer, reader, wholeNumber } from './reading.ts';

const againSentence = 'print again when something changes';
const dcSentence = 'of this datacenter instead of that of the asked node';

type Finish = (exitCode: number) => void;
type Watching = ReadingFlags & { readonly dc?: string; readonly watch?: true };

export function addPools(program: Command, finish: Finish): void {
  const pool = program.command('pool').description('named sets of containers of one module').helpGroup('Operate:');
  addCreate(pool, finish);
  reader(pool, 'list', 'all pools, and how many of their containers serve')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (flags: Watching) => {
      const { listPools } = await import('./pools.ts');
      finish(await listPools(flags));
    });
  reader(pool, 'show <name>', 'every container of a pool: its owner, its copies, who is in sync')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (name: string, flags: Watching) => {
      const { showPool } = await import('./pools.ts');
      finish(await showPool(name, flags));
    });
  waiting(destroyer(pool, 'delete <name>', 'delete a pool with all its state'), 'the pool is gone').action(
    async (name: string, flags: DeleteFlags) => {
      const { deletePool } = await import('./pools.ts');
      finish(await deletePool(name, flags));
    },
  );
  addTransfers(pool, finish);
  addContainers(program, finish);
}

function addTransfers(pool: Command, finish: Finish): void {
  reader(pool, 'export <name>', 'write everything in a pool to a file; each container as it is at one instant')
    .helpGroup('Operate:')
    .requiredOption('--out <file>', 'where to')
    .action(async (name: string, flags: ReadingFlags & { out: string }) => {
      const { exportPool } = await import('./pool-transfer.ts');
      finish(await exportPool(name, flags));
    });
  changer(pool, 'import <name> <file>', 'put an exported pool into a new one, which is created if it is not there')
    .option('--timeout <duration>', 'wait so long until all containers serve', '30s')
    .action(async (name: string, file: string, flags: ReadingFlags & { timeout: string; reason?: string }) => {
      const { importPool } = await import('./pool-transfer.ts');
      finish(await importPool(name, file, flags));
    });
}

function waiting(command: Command, until: string, timeout = '30s'): Command {
  return command
    .option('--dc <name>', dcSentence)
    .option('--timeout <duration>', `wait so long until ${until}; exit code 4 after that`, timeout)
    .option('--detach', 'do not wait');
}

function addCreate(pool: Command, finish: Finish): void {
  waiting(changer(pool, 'create <name>', 'create a pool; the same one again is no error'), 'all containers serve')
    .requiredOption('--module <name>', 'the module that its containers run')
    .requiredOption('--containers <count>', 'how many; decided once', wholeNumber('--containers', 1))
    .option('--copies <count>', "of each container's state, the owner's included", wholeNumber('--copies', 1))
    .addOption(new Option('--durability <when>', 'when a write is acknowledged').choices(poolDurabilities))
    .option('--restart', 'come back from disk on the same node, when it restarts in time')
    .option('--params <json>', 'for the module')
    .option('--force', `also more than ${poolLimits.containersUnforcedMax} containers`)
    .action(async (name: string, flags: CreateFlags) => {
      const { createPool } = await import('./pools.ts');
      finish(await createPool(name, flags));
    });
}

function addContainers(program: Command, finish: Finish): void {
  const container = program
    .command('container')
    .description('one shard of a pool: where it is, why, and moving it')
    .helpGroup('Operate:');
  waiting(
    changer(container, 'migrate <containers...>', 'move containers (POOL/ID) with their state'),
    'they serve there',
    '60s',
  )
    .requiredOption('--to <node>', 'the node that is to own them')
    .action(async (names: string[], flags: MigrateFlags) => {
      const { migrateContainers } = await import('./containers.ts');
      finish(await migrateContainers(names, flags));
    });
  reader(container, 'show <container>', 'one container (POOL/ID): owner, copies, fence, version')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (name: string, flags: Watching) => {
      const { showContainer } = await import('./containers.ts');
      finish(await showContainer(name, flags));
    });
  reader(container, 'explain <container>', 'why it is where it is, what it waits for, who could take over')
    .option('--dc <name>', dcSentence)
    .action(async (name: string, flags: ReadingFlags & { dc?: string }) => {
      const { explainContainer } = await import('./containers.ts');
      finish(await explainContainer(name, flags));
    });
}
