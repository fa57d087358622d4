/**
 * A simulated node that runs a consensus group and nothing else: real host and codec, simulated ports, an observer.
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

/** Faults of single received messages, in addition to those of links. */
export type MessageFaults = {
  readonly lossRatio: number;
  readonly doubleRatio: number;
  readonly holdRatio: number;
  readonly holdMs: number;
  /** World time. */
  readonly untilMs: number;
};

export type GroupNode = {
  readonly name: string;
  readonly id: NodeId;
  readonly clock: Clock;
  readonly cells: ReplicatedCells;
  /** All nodes that can become members. */
  readonly candidates: readonly GroupMember[];
  /** Present once the disk has been read. */
  handle?: GroupHandle<CellReply>;
  messageFaults?: MessageFaults;
  /** Called when this node sends a granted vote. */
  onVote?: () => void;
  setHealth(health: number): void;
  /** Proposes a configuration change to this node. */
  change(change: GroupChange, timeoutMs: number, done: (ok: boolean) => void): void;
  /** Reports to this node that a process of another node is gone. */
  reportProcessGone(id: NodeId, generation: number): void;
};

export type GroupNodeOptions = {
  readonly observerPorts: GroupObserverPorts;
  readonly candidates: readonly GroupMember[];
  /** The members of the bootstrap; empty for a node that waits until it is added. */
  readonly first: readonly GroupMember[];
  readonly consensus: ConsensusOptions;
};

const port = 7400;
const groupName = 'simulated';
const storeName = 'group';
const restartMs = 300;

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

export function bootGroupNode(ports: SimulatedPorts, context: NodeContext, options: GroupNodeOptions): GroupNode {
  const { name, host, boots, index } = context;
  const id = nodeIdAt(index);
  const identity: Identity = { id, name, host, port, generation: boots, roles: ['manager'], dc: 'local' };
  const observer = new GroupObserver(name, options.observerPorts);
  const cells = new ReplicatedCells({
    applied: (applied) => options.observerPorts.observe({ kind: 'applied', node: name, ...applied }),
    restored: (at, chain) => options.observerPorts.observe({ kind: 'restored', node: name, index: at, chain }),
  });
  let group: ConsensusHost<CellReply> | undefined;
  let changes = 0;
  const groupNode: GroupNode = {
    ...{ name, id, clock: ports.clock, cells, candidates: options.candidates },
    setHealth: (health) => observer.observeAround(() => group?.healthChanged(health)),
    change: (change, timeoutMs, done) => {
      const about = { node: name, change: ++changes };
      options.observerPorts.observe({ kind: 'changeStarted', ...about });
      group?.change(change, timeoutMs, ({ ok }) => {
        options.observerPorts.observe({ kind: 'changeEnded', ...about, ok });
        done(ok);
      });
    },
    reportProcessGone: (gone, generation) => observer.observeAround(() => group?.onProcessGone(gone, generation)),
  };
  const { streams } = ports.listen(identity, groupName);
  const watchedPorts = {
    clock: watchedClock(ports.clock, observer),
    streams: watchedStreams(streams, observer, groupNode),
    store: watchedStore(ports.openStore(storeName), observer),
    random: context.random.fork('group'),
    log: context.log,
  };
  group = new ConsensusHost<CellReply>(
    watchedPorts,
    { group: groupName, self: identity, options: options.consensus },
    cells,
    {
      event: ({ type, term, index: at, why }) => context.log('info', `${type} ${term}/${at}: ${why}`),
      onHalt: (error) => {
        throw error;
      },
    },
  );
  streams.serve(serviceOf(group, observer, groupNode, ports, context));
  start({ group, observer, groupNode, options, ports, context });
  return groupNode;
}

type StartContext = {
  readonly group: ConsensusHost<CellReply>;
  readonly observer: GroupObserver;
  readonly groupNode: GroupNode;
  readonly options: GroupNodeOptions;
  readonly ports: SimulatedPorts;
  readonly context: NodeContext;
};

function start(parts: StartContext): void {
  const { group, observer, groupNode, options, ports, context } = parts;
  const retry = (code: string): void => {
    context.log('warn', 'cannot start', { code });
    if (code !== 'STORE_CORRUPT') ports.clock.schedule(restartMs, () => start(parts));
  };
  const onReady = (): void => {
    groupNode.handle = group;
    observer.watch(group);
  };
  const bootstrap = (): void =>
    group.bootstrap(options.first, (outcome) => {
      if (outcome.ok || outcome.error.code === 'PRECONDITION') onReady();
      else ports.clock.schedule(restartMs, bootstrap);
    });
  group.start((read) => {
    if (!read.ok) retry(read.error.code);
    else if (read.value.fresh && options.first.length > 0) bootstrap();
    else onReady();
  });
}

/** Delivers to the host what the service of a node would: decoded messages of its own kinds. */
function serviceOf(
  group: ConsensusHost<CellReply>,
  observer: GroupObserver,
  groupNode: GroupNode,
  ports: SimulatedPorts,
  context: NodeContext,
): Parameters<Streams['serve']>[0] {
  const random = context.random.fork('message-faults');
  const refuse = (): never => {
    throw new Error('voters only notify each other');
  };
  return {
    request: refuse,
    open: refuse,
    notify: (from, body) => {
      const message = decodeMessage(body);
      if (!isConsensus(message)) return;
      const deliver = (): void => observer.observeAround(() => group.onMessage(from, message));
      const { messageFaults } = groupNode;
      if (messageFaults === undefined || messageFaults.untilMs < observer.nowMs()) return deliver();
      if (random.chance(messageFaults.lossRatio)) return;
      if (random.chance(messageFaults.doubleRatio))
        ports.clock.schedule(random.between(0, messageFaults.holdMs), deliver);
      if (random.chance(messageFaults.holdRatio))
        ports.clock.schedule(random.between(0, messageFaults.holdMs), deliver);
      else deliver();
    },
  };
}

const consensusKinds: ReadonlySet<string> = new Set(consensusMessages.map(({ kind }) => kind));

function isConsensus(message: Message): message is ConsensusMessage {
  return consensusKinds.has(message.kind);
}

function watchedClock(clock: Clock, observer: GroupObserver): Clock {
  return { ...clock, schedule: (delayMs, run) => clock.schedule(delayMs, () => observer.observeAround(run)) };
}

function watchedStore(store: Store, observer: GroupObserver): Store {
  return {
    read: (range, done) => store.read(range, (outcome) => observer.observeAround(() => done(outcome))),
    write: (batch, done) => store.write(batch, (outcome) => observer.observeAround(() => done(outcome))),
    close: (done) => store.close(done),
  };
}

function watchedStreams(streams: Streams, observer: GroupObserver, groupNode: GroupNode): ConsensusPorts['streams'] {
  return {
    notify: (to: Address, body: Uint8Array) => {
      const message = tryDecodeMessage(body);
      if (message !== undefined && isConsensus(message)) {
        const peer = groupNode.candidates.find(({ host }) => host === to.host);
        observer.onSend(peer?.name ?? to.host, message);
        if (message.kind === 'requestVoteReply' && message.granted) groupNode.onVote?.();
      }
      return streams.notify(to, body);
    },
  };
}
