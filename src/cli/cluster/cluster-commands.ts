/** Declares the commands about members, managers, nodes and load. What a command does is imported when it runs. */
import type { Command } from 'commander';
import type { RebalanceFlags } from './balance.ts';
import type { DrainFlags } from './drain.ts';
import type { LeaveFlags } from './leave.ts';
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

type ChangeFlags = ReadFlags & { readonly reason?: string };
type DestructiveFlags = ChangeFlags & { readonly yes?: true; readonly dryRun?: true };

/** Commands that print what the cluster is and does. */
export function addViewCommands(program: Command, finish: Finish): void {
  addStatus(program, finish);
  addMembers(program, finish);
  addEvents(program, finish);
  addBalance(program, finish);
}

/** Commands that change the manager group or a node. */
export function addOperateCommands(program: Command, finish: Finish): void {
  addManagers(program, finish);
  addNodes(program, finish);
  addRebalance(program, finish);
}

function addStatus(program: Command, finish: Finish): void {
  addReadCommand(program, 'status', 'show each datacenter: leader, voters, nodes, containers, open jobs')
    .option('--watch', watchHelp)
    .action(async (flags: ReadFlags & { watch?: true }) => {
      const { statusCommand } = await import('./status.ts');
      finish(await statusCommand(flags, flags.output, flags.watch === true));
    });
  addReadCommand(program, 'leader', 'show the leader of a datacenter; exit code 1 without a leader')
    .option('--dc <name>', dcHelp)
    .action(async (flags: ReadFlags & { dc?: string }) => {
      const { leaderCommand } = await import('./status.ts');
      finish(await leaderCommand(flags, flags.output));
    });
  addReadCommand(
    program,
    'health',
    'show whether a node is live, started and ready; exit code 1 when it is not ready',
  ).action(async (flags: ReadFlags) => {
    const { healthCommand } = await import('./health.ts');
    finish(await healthCommand(flags, flags.output));
  });
}

function addMembers(program: Command, finish: Finish): void {
  addReadCommand(program, 'members', 'list the members of the cluster and their states')
    .option('--watch', watchHelp)
    .action(async (flags: ReadFlags & { watch?: true }) => {
      const { membersCommand } = await import('./members.ts');
      finish(await membersCommand(flags, flags.output, flags.watch === true));
    });
  addReadCommand(program, 'why <name>', 'explain the state of a member: its last changes, with the evidence').action(
    async (name: string, flags: ReadFlags) => {
      const { whyCommand } = await import('./why.ts');
      finish(await whyCommand(flags, flags.output, name));
    },
  );
  addReadCommand(program, 'rtt <from> <to>', 'show the round trip time of two members, estimated and measured').action(
    async (from: string, to: string, flags: ReadFlags) => {
      const { rttCommand } = await import('./round-trip.ts');
      finish(await rttCommand(flags, flags.output, from, to));
    },
  );
  addReadCommand(
    program,
    'reachability',
    'show how each member sees each other member; exit code 4 when some did not reply',
  ).action(async (flags: ReadFlags) => {
    const { reachabilityCommand } = await import('./reachability.ts');
    finish(await reachabilityCommand(flags, flags.output));
  });
}

function addEvents(program: Command, finish: Finish): void {
  addReadCommand(program, 'events', 'print the events of a node, one JSON object a line', 'jsonl')
    .option('--follow', 'continue with new events, until Ctrl-C')
    .option('--since <seq>', 'only events after this number')
    .action(async (flags: ReadFlags & { follow?: true; since?: string }) => {
      const { eventsCommand } = await import('./events.ts');
      finish(await eventsCommand({ ...flags, follow: flags.follow === true, since: flags.since }, flags.output));
    });
}

function addManagers(program: Command, finish: Finish): void {
  const manager = program
    .command('manager')
    .description('the manager group, which decides for a datacenter')
    .helpGroup('Operate:');
  addReadCommand(manager, 'list', 'list the managers: voter or not, state, leader')
    .option('--dc <name>', dcHelp)
    .option('--watch', watchHelp)
    .action(async (flags: ReadFlags & { dc?: string; watch?: true }) => {
      const { managerListCommand } = await import('./managers.ts');
      finish(await managerListCommand(flags, flags.output));
    });
  const change = (verb: 'add' | 'promote', description: string): void => {
    addChangeCommand(manager, `${verb} <name>`, description).action(async (name: string, flags: ChangeFlags) => {
      const { managerChangeCommand } = await import('./managers.ts');
      finish(await managerChangeCommand(verb, name, flags));
    });
  };
  change('add', 'add a manager to the group, also a removed one; it becomes a voter when it has caught up');
  change('promote', 'make a caught-up manager a voter now');
  addDestructiveCommand(
    manager,
    'remove <name>',
    'remove a manager from the group; exit code 5 when that would lose the quorum',
  ).action(async (name: string, flags: DestructiveFlags) => {
    const { managerRemoveCommand } = await import('./managers.ts');
    finish(await managerRemoveCommand(name, flags));
  });
  addChangeCommand(manager, 'transfer [name]', 'transfer leadership to this voter, or to the best one')
    .option('--dc <name>', dcHelp)
    .action(async (name: string | undefined, flags: ChangeFlags & { dc?: string }) => {
      const { managerTransferCommand } = await import('./managers.ts');
      finish(await managerTransferCommand(name, flags));
    });
}

function addNodes(program: Command, finish: Finish): void {
  const node = program.command('node').description('drain, activate or remove a node').helpGroup('Operate:');
  addReadCommand(node, 'show <name>', 'show one node: state, registration, progress of its drain').action(
    async (name: string, flags: ReadFlags) => {
      const { nodeShowCommand } = await import('./nodes.ts');
      finish(await nodeShowCommand(name, flags, flags.output));
    },
  );
  addChangeCommand(
    node,
    'drain <name>',
    'move all containers and work away from a node and assign nothing new; continues after Ctrl-C',
  )
    .option('--deadline <duration>', 'time limit of the drain; what is left then stays on the node', '60s')
    .option('--detach', 'return at once, do not follow the drain')
    .option('--dry-run', 'print whether the drain can start, and what it would move')
    .option('--yes', 'accepted for scripts; a drain needs no confirmation, because `node activate` undoes it')
    .action(async (name: string, flags: DrainFlags) => {
      const { nodeDrainCommand } = await import('./drain.ts');
      finish(await nodeDrainCommand(name, flags));
    });
  addChangeCommand(node, 'activate <name>', 'let a drained node get work again').action(
    async (name: string, flags: ChangeFlags) => {
      const { nodeActivateCommand } = await import('./nodes.ts');
      finish(await nodeActivateCommand(name, flags));
    },
  );
  addDestructiveCommand(
    node,
    'leave <name>',
    'remove a node permanently: drain it, remove it from the manager group, unregister it, end its process',
  )
    .option('--deadline <duration>', 'time limit of the drain', '60s')
    .action(async (name: string, flags: LeaveFlags) => {
      const { nodeLeaveCommand } = await import('./leave.ts');
      finish(await nodeLeaveCommand(name, flags));
    });
  addReadCommand(program, 'join <addresses>', 'give a running node more seeds to join (host:port,...)')
    .helpGroup('Operate:')
    .action(async (addresses: string, flags: ReadFlags) => {
      const { joinCommand } = await import('./join.ts');
      finish(await joinCommand(flags, flags.output, addresses));
    });
}

function addBalance(program: Command, finish: Finish): void {
  addReadCommand(program, 'balance', 'show how evenly the load is spread over the nodes')
    .option('--dc <name>', dcHelp)
    .option('--watch', watchHelp)
    .action(async (flags: ReadFlags & { dc?: string; watch?: true }) => {
      const { balanceCommand } = await import('./balance.ts');
      finish(await balanceCommand(flags, flags.output));
    });
}

function addRebalance(program: Command, finish: Finish): void {
  addDestructiveCommand(program, 'rebalance', 'move containers until the load of the nodes is even')
    .option('--dc <name>', dcHelp)
    .option('--max-moves <count>', 'start at most this many moves', integerFlag('--max-moves', 1))
    .action(async (flags: RebalanceFlags) => {
      const { rebalanceCommand } = await import('./balance.ts');
      finish(await rebalanceCommand(flags));
    });
}
