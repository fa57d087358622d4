/**
 * A simulated node with only a consensus group on it: real host and codec, simulated ports, an observer. No membership,
 * no node core.
 */
import { type NodeId, nodeIdFrom } from '../../../../src/base/ids.ts';
import type { Address, Clock, Identity, Store, Streams } from '../../../../src/base/ports.ts';
import { ConsensusHost, type ConsensusPorts } from '../../../../src/consensus/consensus-host.ts';
import type { ConsensusOptions } from '../../../../src/consensus/state/options.ts';
import type { GroupChange, GroupHandle, GroupMember } from '../../../../src/consensus/state/state-machine.ts';
import { storageKeys } from '../../../../src/consensus/state/storage-format.ts';
import { decodeMessage, type Message, tryDecodeMessage } from '../../../../src/messages/catalogue.ts';
import { type ConsensusMessage, consensusMessages } from '../../../../src/messages/consensus.ts';
import type { SimulatedDisk } from '../../../../src/simulation/engine/simulated-disk.ts';
import type { SimulatedPorts } from '../../../../src/simulation/world/simulated-ports.ts';
import type { NodeContext } from '../../../../src/simulation/world/simulated-world.ts';
import { type CellReply, ReplicatedCells } from './replicated-cells.ts';
import { GroupObserver, type GroupObserverPorts } from './group-observer.ts';

/** What becomes of single messages on their way in, on top of what links do. */
export type MessageFaults = {
  readonly lossRatio: number;
  readonly doubleRatio: number;
  readonly holdRatio: number;
  readonly holdMs: number;
  /** In the world's time. */
  readonly untilMs: number;
};

export type GroupNode = {
  readonly name: string;
  readonly id: NodeId;
  readonly clock: Clock;
  readonly ledger: ReplicatedCells;
  /** Everybody who could be a member. */
  readonly everybody: readonly GroupMember[];
  /** There when the disk has been read. */
  handle?: GroupHandle<CellReply>;
  mischief?: MessageFaults;
  /** Called when this node gives its vote to somebody. */
  onVote?: () => void;
  setHealth(health: number): void;
  /** Asks this node for a change of members. */
  change(change: GroupChange, timeoutMs: number, done: (ok: boolean) => void): void;
  /** It is told that a life of another node is over. */
  reportProcessGone(id: NodeId, generation: number): void;
};

export type GroupNodeOptions = {
  readonly witnesses: GroupObserverPorts;
  readonly everybody: readonly GroupMember[];
  /** Empty for a node that waits outside until it is added. */
  readonly first: readonly GroupMember[];
  readonly options: ConsensusOptions;
};

const port = 7400;
const groupName = 'simulated';
const storeName = 'group';
const startAgainMs = 300;

export function nodeIdAt(index: number): NodeId {
  return nodeIdFrom(new Uint8Array(16).fill(index + 1));
}

export function groupMemberAt(index: number, name: string, host: string): GroupMember {
  return { id: nodeIdAt(index), name, host, port, standing: 'voter' };
}

const keys = storageKeys(groupName);

export function diskHasEntry(disk: SimulatedDisk, index: number): boolean {
  return disk.store(storeName).peek(keys.entry(index)) !== undefined;
}

export function bootGroupNode(ports: SimulatedPorts, context: NodeContext, spec: GroupNodeOptions): GroupNode {
  const { name, host, boots, index } = context;
  const id = nodeIdAt(index);
  const identity: Identity = { id, name, host, port, generation: boots, roles: ['manager'], dc: 'local' };
  const witness = new GroupObserver(name, spec.witnesses);
  const ledger = new ReplicatedCells({
    applied: (applied) => spec.witnesses.observe({ kind: 'applied', node: name, ...applied }),
    restored: (at, chain) => spec.witnesses.observe({ kind: 'restored', node: name, index: at, chain }),
  });
  let group: ConsensusHost<CellReply> | undefined;
  let changes = 0;
  const seat: GroupNode = {
    ...{ name, id, clock: ports.clock, ledger, everybody: spec.everybody },
    setHealth: (health) => witness.observeAround(() => group?.healthChanged(health)),
    change: (wanted, timeoutMs, done) => {
      const about = { node: name, change: ++changes };
      spec.witnesses.observe({ kind: 'changeStarted', ...about });
      group?.change(wanted, timeoutMs, ({ ok }) => {
        spec.witnesses.observe({ kind: 'changeEnded', ...about, ok });
        done(ok);
      });
    },
    reportProcessGone: (gone, generation) => witness.observeAround(() => group?.onProcessGone(gone, generation)),
  };
  const { streams } = ports.listen(identity, groupName);
  const watchedPorts = {
    clock: watchedClock(ports.clock, witness),
    streams: watchedStreams(streams, witness, seat),
    store: watchedStore(ports.openStore(storeName), witness),
    random: context.random.fork('group'),
    log: context.log,
  };
  group = new ConsensusHost<CellReply>(
    watchedPorts,
    { group: groupName, self: identity, options: spec.options },
    ledger,
    {
      event: ({ type, term, index: at, why }) => context.log('info', `${type} ${term}/${at}: ${why}`),
      onHalt: (error) => {
        throw error;
      },
    },
  );
  streams.serve(serviceOf(group, witness, seat, ports, context));
  begin({ group, witness, seat, spec, ports, context });
  return seat;
}

type Start = {
  readonly group: ConsensusHost<CellReply>;
  readonly witness: GroupObserver;
  readonly seat: GroupNode;
  readonly spec: GroupNodeOptions;
  readonly ports: SimulatedPorts;
  readonly context: NodeContext;
};

function begin(start: Start): void {
  const { group, witness, seat, spec, ports, context } = start;
  const again = (code: string): void => {
    context.log('warn', 'cannot start', { code });
    if (code !== 'STORE_CORRUPT') ports.clock.schedule(startAgainMs, () => begin(start));
  };
  const joined = (): void => {
    seat.handle = group;
    witness.watch(group);
  };
  const bootstrap = (): void =>
    group.bootstrap(spec.first, (made) => {
      if (made.ok || made.error.code === 'PRECONDITION') joined();
      else ports.clock.schedule(startAgainMs, bootstrap);
    });
  group.start((read) => {
    if (!read.ok) again(read.error.code);
    else if (read.value.fresh && spec.first.length > 0) bootstrap();
    else joined();
  });
}

/** The host gets what it hears as the node's service would give it: decoded, and only its own kinds. */
function serviceOf(
  group: ConsensusHost<CellReply>,
  witness: GroupObserver,
  seat: GroupNode,
  ports: SimulatedPorts,
  context: NodeContext,
): Parameters<Streams['serve']>[0] {
  const random = context.random.fork('mischief');
  const refuse = (): never => {
    throw new Error('voters only notify each other');
  };
  return {
    request: refuse,
    open: refuse,
    notify: (from, body) => {
      const message = decodeMessage(body);
      if (!isConsensus(message)) return;
      const deliver = (): void => witness.observeAround(() => group.onMessage(from, message));
      const { mischief } = seat;
      if (mischief === undefined || mischief.untilMs < witness.nowMs()) return deliver();
      if (random.chance(mischief.lossRatio)) return;
      if (random.chance(mischief.doubleRatio)) ports.clock.schedule(random.between(0, mischief.holdMs), deliver);
      if (random.chance(mischief.holdRatio)) ports.clock.schedule(random.between(0, mischief.holdMs), deliver);
      else deliver();
    },
  };
}

const consensusKinds: ReadonlySet<string> = new Set(consensusMessages.map(({ kind }) => kind));

function isConsensus(message: Message): message is ConsensusMessage {
  return consensusKinds.has(message.kind);
}

function watchedClock(clock: Clock, witness: GroupObserver): Clock {
  return { ...clock, schedule: (delayMs, run) => clock.schedule(delayMs, () => witness.observeAround(run)) };
}

function watchedStore(store: Store, witness: GroupObserver): Store {
  return {
    read: (range, done) => store.read(range, (outcome) => witness.observeAround(() => done(outcome))),
    write: (batch, done) => store.write(batch, (outcome) => witness.observeAround(() => done(outcome))),
    close: (done) => store.close(done),
  };
}

function watchedStreams(streams: Streams, witness: GroupObserver, seat: GroupNode): ConsensusPorts['streams'] {
  return {
    notify: (to: Address, body: Uint8Array) => {
      const message = tryDecodeMessage(body);
      if (message !== undefined && isConsensus(message)) {
        const peer = seat.everybody.find(({ host }) => host === to.host);
        witness.onSend(peer?.name ?? to.host, message);
        if (message.kind === 'requestVoteReply' && message.granted) seat.onVote?.();
      }
      return streams.notify(to, body);
    },
  };
}
