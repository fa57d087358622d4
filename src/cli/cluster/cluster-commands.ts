/** Declares the commands about nodes, managers and load. */
import type { Command } from 'commander';
import type { RebalanceFlags } from './balance.ts';
import type { DrainFlags } from './drain.ts';
import type { LeaveFlags } from './leave.ts';
import {
  type ReadFlags,
  addChangeCommand,
  addDestructiveCommand,
  addReadCommand,
  integerFlag,
} from '../command/command-flags.ts';
import type { SnapshotRestoreFlags } from '../registry/registry-backup.ts';
import type { WriteFlags } from '../registry/registry.ts';

const againSentence = 'print again when something changes';
const dcSentence = 'of this datacenter instead of that of the asked node';

type Finish = (exitCode: number) => void;
type Reasoned = ReadFlags & { readonly reason?: string };
type Careful = Reasoned & { readonly yes?: true; readonly dryRun?: true };

export function addClusterCommands(program: Command, finish: Finish): void {
  addStatus(program, finish);
  addManagers(program, finish);
  addNodes(program, finish);
  addBalance(program, finish);
  addRegistry(program, finish);
}

function addStatus(program: Command, finish: Finish): void {
  addReadCommand(program, 'status', 'the cluster at a glance: who leads each datacenter, and how many voters live')
    .option('--watch', againSentence)
    .action(async (flags: ReadFlags & { watch?: true }) => {
      const { statusCommand } = await import('./status.ts');
      finish(await statusCommand(flags, flags.output, flags.watch === true));
    });
  addReadCommand(program, 'leader', 'who leads a datacenter; exit code 1 when nobody does')
    .option('--dc <name>', dcSentence)
    .action(async (flags: ReadFlags & { dc?: string }) => {
      const { leaderCommand } = await import('./status.ts');
      finish(await leaderCommand(flags, flags.output));
    });
}

function addManagers(program: Command, finish: Finish): void {
  const manager = program
    .command('manager')
    .description('the group of managers that decides for a datacenter')
    .helpGroup('Operate:');
  addReadCommand(manager, 'list', 'who belongs to the group, who votes, who leads')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (flags: ReadFlags & { dc?: string; watch?: true }) => {
      const { managerListCommand } = await import('./managers.ts');
      finish(await managerListCommand(flags, flags.output));
    });
  const change = (verb: 'add' | 'promote', sentence: string): void => {
    addChangeCommand(manager, `${verb} <name>`, sentence).action(async (name: string, flags: Reasoned) => {
      const { managerChangeCommand } = await import('./managers.ts');
      finish(await managerChangeCommand(verb, name, flags));
    });
  };
  change('add', 'take a manager into the group, also one that was removed; it votes once it has caught up');
  change('promote', 'let a manager vote that follows and has caught up');
  addDestructiveCommand(
    manager,
    'remove <name>',
    'take a manager out of the group for good; exit code 5 if that costs the quorum',
  ).action(async (name: string, flags: Careful) => {
    const { managerRemoveCommand } = await import('./managers.ts');
    finish(await managerRemoveCommand(name, flags));
  });
  addChangeCommand(manager, 'transfer [name]', 'hand leadership to that voter, or to the best one')
    .option('--dc <name>', dcSentence)
    .action(async (name: string | undefined, flags: Reasoned & { dc?: string }) => {
      const { managerTransferCommand } = await import('./managers.ts');
      finish(await managerTransferCommand(name, flags));
    });
}

function addNodes(program: Command, finish: Finish): void {
  const node = program.command('node').description('what a node may do for the cluster').helpGroup('Operate:');
  addReadCommand(node, 'show <name>', 'one node: state, registration, and how its drain goes').action(
    async (name: string, flags: ReadFlags) => {
      const { nodeShowCommand } = await import('./nodes.ts');
      finish(await nodeShowCommand(name, flags, flags.output));
    },
  );
  addChangeCommand(
    node,
    'drain <name>',
    'give what a node holds to others, and give it nothing new; goes on after Ctrl-C',
  )
    .option('--deadline <duration>', 'until when it should be done; what is left then stays', '60s')
    .option('--detach', 'do not wait for the end')
    .option('--dry-run', 'only say whether it can begin')
    .option('--yes', 'accepted, and not needed: a drain can be taken back')
    .action(async (name: string, flags: DrainFlags) => {
      const { nodeDrainCommand } = await import('./drain.ts');
      finish(await nodeDrainCommand(name, flags));
    });
  addChangeCommand(node, 'activate <name>', 'let a drained node work again').action(
    async (name: string, flags: Reasoned) => {
      const { nodeActivateCommand } = await import('./nodes.ts');
      finish(await nodeActivateCommand(name, flags));
    },
  );
  addDestructiveCommand(
    node,
    'leave <name>',
    'let a node go for good: drained, out of the group, unregistered, its process ended',
  )
    .option('--deadline <duration>', 'of the drain', '60s')
    .action(async (name: string, flags: LeaveFlags) => {
      const { nodeLeaveCommand } = await import('./leave.ts');
      finish(await nodeLeaveCommand(name, flags));
    });
}

function addBalance(program: Command, finish: Finish): void {
  addReadCommand(program, 'balance', 'how evenly the load lies on the nodes')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (flags: ReadFlags & { dc?: string; watch?: true }) => {
      const { balanceCommand } = await import('./balance.ts');
      finish(await balanceCommand(flags, flags.output));
    });
  addDestructiveCommand(program, 'rebalance', 'move containers to even out the load')
    .option('--dc <name>', dcSentence)
    .option('--max-moves <count>', 'at most so many', integerFlag('--max-moves', 1))
    .action(async (flags: RebalanceFlags) => {
      const { rebalanceCommand } = await import('./balance.ts');
      finish(await rebalanceCommand(flags));
    });
}

function addRegistry(program: Command, finish: Finish): void {
  const registry = program
    .command('registry')
    .description('the keys that the cluster has agreed on')
    .helpGroup('Operate:');
  addKeys(registry, finish);
  const snapshot = registry.command('snapshot').description('backups of the whole registry').helpGroup('Operate:');
  addReadCommand(snapshot, 'save <file>', 'write everything into a file').action(
    async (file: string, flags: ReadFlags) => {
      const { registrySnapshotSaveCommand } = await import('../registry/registry-backup.ts');
      finish(await registrySnapshotSaveCommand(file, flags, flags.output));
    },
  );
  addDestructiveCommand(snapshot, 'restore <file>', 'replace everything by what stands in a file').action(
    async (file: string, flags: SnapshotRestoreFlags) => {
      const { registrySnapshotRestoreCommand } = await import('../registry/registry-backup.ts');
      finish(await registrySnapshotRestoreCommand(file, flags));
    },
  );
}

function addKeys(registry: Command, finish: Finish): void {
  const stale = (command: Command): Command =>
    command.option('--stale', 'what the nearest manager has, perhaps old; also without a leader');
  const conditional = (command: Command): Command =>
    command.option(
      '--if-version <count>',
      'only if the key has this version; 0: only if it does not exist',
      integerFlag('--if-version', 0),
    );
  stale(addReadCommand(registry, 'get <key>', 'one key')).action(
    async (key: string, flags: ReadFlags & { stale?: true }) => {
      const { registryGetCommand } = await import('../registry/registry.ts');
      finish(await registryGetCommand(key, flags, flags.output));
    },
  );
  stale(addReadCommand(registry, 'list [prefix]', 'all keys that begin with these characters'))
    .option('--limit <count>', 'at most so many', integerFlag('--limit', 1))
    .action(async (prefix: string | undefined, flags: ReadFlags & { stale?: true; limit?: number }) => {
      const { registryListCommand } = await import('../registry/registry.ts');
      finish(await registryListCommand(prefix ?? '', flags, flags.output));
    });
  conditional(addReadCommand(registry, 'put <key> <value>', 'write a key'))
    .helpGroup('Operate:')
    .action(async (key: string, value: string, flags: WriteFlags) => {
      const { registryPutCommand } = await import('../registry/registry.ts');
      finish(await registryPutCommand(key, value, flags));
    });
  conditional(addDestructiveCommand(registry, 'delete <key>', 'delete a key')).action(
    async (key: string, flags: WriteFlags & Careful) => {
      const { registryDeleteCommand } = await import('../registry/registry.ts');
      finish(await registryDeleteCommand(key, flags));
    },
  );
  addReadCommand(registry, 'watch [prefix]', 'changes as they happen, one JSON object a line', 'jsonl')
    .option('--from <revision>', 'from this revision on instead of from now on', integerFlag('--from', 1))
    .action(async (prefix: string | undefined, flags: ReadFlags & { from?: number }) => {
      const { registryWatchCommand } = await import('../registry/registry-watch.ts');
      finish(await registryWatchCommand(prefix ?? '', flags, flags.output));
    });
}
