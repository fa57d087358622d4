/**
 * The commands about what the cluster agrees on: managers, the state and load of nodes, the registry. Like program.ts
 * it only declares; what a command does is imported when it is called.
 */
import type { Command } from 'commander';
import type { RebalanceFlags } from './balance.ts';
import type { DrainFlags } from './drain.ts';
import type { LeaveFlags } from './leave.ts';
import { type ReadingFlags, changer, destroyer, reader, wholeNumber } from './reading.ts';
import type { RestoreFlags } from './registry-snapshot.ts';
import type { WriteFlags } from './registry.ts';

const againSentence = 'print again when something changes';
const dcSentence = 'of this datacenter instead of that of the asked node';

type Finish = (exitCode: number) => void;
type Reasoned = ReadingFlags & { readonly reason?: string };
type Careful = Reasoned & { readonly yes?: true; readonly dryRun?: true };

export function addControl(program: Command, finish: Finish): void {
  addStatus(program, finish);
  addManagers(program, finish);
  addNodes(program, finish);
  addBalance(program, finish);
  addRegistry(program, finish);
}

function addStatus(program: Command, finish: Finish): void {
  reader(program, 'status', 'the cluster at a glance: who leads each datacenter, and how many voters live')
    .option('--watch', againSentence)
    .action(async (flags: ReadingFlags & { watch?: true }) => {
      const { status } = await import('./status.ts');
      finish(await status(flags, flags.output, flags.watch === true));
    });
  reader(program, 'leader', 'who leads a datacenter; exit code 1 when nobody does')
    .option('--dc <name>', dcSentence)
    .action(async (flags: ReadingFlags & { dc?: string }) => {
      const { leader } = await import('./status.ts');
      finish(await leader(flags, flags.output));
    });
}

function addManagers(program: Command, finish: Finish): void {
  const manager = program
    .command('manager')
    .description('the group of managers that decides for a datacenter')
    .helpGroup('Operate:');
  reader(manager, 'list', 'who belongs to the group, who votes, who leads')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (flags: ReadingFlags & { dc?: string; watch?: true }) => {
      const { listManagers } = await import('./managers.ts');
      finish(await listManagers(flags, flags.output));
    });
  const change = (verb: 'add' | 'promote', sentence: string): void => {
    changer(manager, `${verb} <name>`, sentence).action(async (name: string, flags: Reasoned) => {
      const { changeManager } = await import('./managers.ts');
      finish(await changeManager(verb, name, flags));
    });
  };
  change('add', 'take a manager into the group, also one that was removed; it votes once it has caught up');
  change('promote', 'let a manager vote that follows and has caught up');
  destroyer(
    manager,
    'remove <name>',
    'take a manager out of the group for good; exit code 5 if that costs the quorum',
  ).action(async (name: string, flags: Careful) => {
    const { removeManager } = await import('./managers.ts');
    finish(await removeManager(name, flags));
  });
  changer(manager, 'transfer [name]', 'hand leadership to that voter, or to the best one')
    .option('--dc <name>', dcSentence)
    .action(async (name: string | undefined, flags: Reasoned & { dc?: string }) => {
      const { transferLeadership } = await import('./managers.ts');
      finish(await transferLeadership(name, flags));
    });
}

function addNodes(program: Command, finish: Finish): void {
  const node = program.command('node').description('what a node may do for the cluster').helpGroup('Operate:');
  reader(node, 'show <name>', 'one node: state, registration, and how its drain goes').action(
    async (name: string, flags: ReadingFlags) => {
      const { showNode } = await import('./nodes.ts');
      finish(await showNode(name, flags, flags.output));
    },
  );
  changer(node, 'drain <name>', 'give what a node holds to others, and give it nothing new; goes on after Ctrl-C')
    .option('--deadline <duration>', 'until when it should be done; what is left then stays', '60s')
    .option('--detach', 'do not wait for the end')
    .option('--dry-run', 'only say whether it can begin')
    .option('--yes', 'accepted, and not needed: a drain can be taken back')
    .action(async (name: string, flags: DrainFlags) => {
      const { drainNode } = await import('./drain.ts');
      finish(await drainNode(name, flags));
    });
  changer(node, 'activate <name>', 'let a drained node work again').action(async (name: string, flags: Reasoned) => {
    const { activateNode } = await import('./nodes.ts');
    finish(await activateNode(name, flags));
  });
  destroyer(node, 'leave <name>', 'let a node go for good: drained, out of the group, unregistered, its process ended')
    .option('--deadline <duration>', 'of the drain', '60s')
    .action(async (name: string, flags: LeaveFlags) => {
      const { leaveCluster } = await import('./leave.ts');
      finish(await leaveCluster(name, flags));
    });
}

function addBalance(program: Command, finish: Finish): void {
  reader(program, 'balance', 'how evenly the load lies on the nodes')
    .option('--dc <name>', dcSentence)
    .option('--watch', againSentence)
    .action(async (flags: ReadingFlags & { dc?: string; watch?: true }) => {
      const { balance } = await import('./balance.ts');
      finish(await balance(flags, flags.output));
    });
  destroyer(program, 'rebalance', 'move containers to even out the load')
    .option('--dc <name>', dcSentence)
    .option('--max-moves <count>', 'at most so many', wholeNumber('--max-moves', 1))
    .action(async (flags: RebalanceFlags) => {
      const { rebalance } = await import('./balance.ts');
      finish(await rebalance(flags));
    });
}

function addRegistry(program: Command, finish: Finish): void {
  const registry = program
    .command('registry')
    .description('the keys that the cluster has agreed on')
    .helpGroup('Operate:');
  addKeys(registry, finish);
  const snapshot = registry.command('snapshot').description('backups of the whole registry').helpGroup('Operate:');
  reader(snapshot, 'save <file>', 'write everything into a file').action(async (file: string, flags: ReadingFlags) => {
    const { saveSnapshot } = await import('./registry-snapshot.ts');
    finish(await saveSnapshot(file, flags, flags.output));
  });
  destroyer(snapshot, 'restore <file>', 'replace everything by what stands in a file').action(
    async (file: string, flags: RestoreFlags) => {
      const { restoreSnapshot } = await import('./registry-snapshot.ts');
      finish(await restoreSnapshot(file, flags));
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
      wholeNumber('--if-version', 0),
    );
  stale(reader(registry, 'get <key>', 'one key')).action(
    async (key: string, flags: ReadingFlags & { stale?: true }) => {
      const { getKey } = await import('./registry.ts');
      finish(await getKey(key, flags, flags.output));
    },
  );
  stale(reader(registry, 'list [prefix]', 'all keys that begin with these characters'))
    .option('--limit <count>', 'at most so many', wholeNumber('--limit', 1))
    .action(async (prefix: string | undefined, flags: ReadingFlags & { stale?: true; limit?: number }) => {
      const { listKeys } = await import('./registry.ts');
      finish(await listKeys(prefix ?? '', flags, flags.output));
    });
  conditional(reader(registry, 'put <key> <value>', 'write a key'))
    .helpGroup('Operate:')
    .action(async (key: string, value: string, flags: WriteFlags) => {
      const { putKey } = await import('./registry.ts');
      finish(await putKey(key, value, flags));
    });
  conditional(destroyer(registry, 'delete <key>', 'delete a key')).action(
    async (key: string, flags: WriteFlags & Careful) => {
      const { deleteKey } = await import('./registry.ts');
      finish(await deleteKey(key, flags));
    },
  );
  reader(registry, 'watch [prefix]', 'changes as they happen, one JSON object a line', 'jsonl')
    .option('--from <revision>', 'from this revision on instead of from now on', wholeNumber('--from', 1))
    .action(async (prefix: string | undefined, flags: ReadingFlags & { from?: number }) => {
      const { watchKeys } = await import('./registry-watch.ts');
      finish(await watchKeys(prefix ?? '', flags, flags.output));
    });
}
