/**
 * Workload of whole nodes that join through seeds and send echo requests, plus one node of another cluster. Observes
 * all traffic at the ports.
 */
import type { Clock, Datagrams, Identity, Streams } from '../../../../src/base/ports.ts';
import type { Random } from '../../../../src/base/random.ts';
import { encodeMessage, tryDecodeMessage } from '../../../../src/messages/catalogue.ts';
import type { NodeEvent } from '../../../../src/node/core/node-event-log.ts';
import type { NodeOptions } from '../../../../src/node/options/options.ts';
import {
  simulatedAddress,
  aliveMembersOf,
  bootSimulatedNode,
  type SimulatedNode,
  type WrappedPorts,
} from '../../../../src/simulation/cluster/simulated-node.ts';
import type { EchoEndpoints, Observation, WorkloadRun, WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedPorts } from '../../../../src/simulation/world/simulated-ports.ts';
import { type NodeContext, SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';

const echoEveryMs = 500;
const echoTimeoutMs = 2_000;
const seedsMax = 3;
/** No fault makes a clock run faster; a pause counts in the caller's own time. */
const fastestClock = 1.25;

export function echoWorkload(context: WorkloadContext): WorkloadRun {
  return runEchoes(context, () => ({}));
}

/** The same with two push members: nodes without datagrams, which prove themselves alive by heartbeats. */
export function pushEchoWorkload(context: WorkloadContext): WorkloadRun {
  const pushMembers = context.names.slice(-3, -1);
  return runEchoes(context, (name) => (pushMembers.includes(name) ? { membership: 'push', roles: ['worker'] } : {}));
}

function runEchoes(workload: WorkloadContext, optionsOf: (name: string) => Partial<NodeOptions>): WorkloadRun {
  const { seed, names, detailed, sink, observe } = workload;
  let isStopped = false;
  let requests = 0;
  const foreign = names.length > 3 ? names.at(-1) : undefined;
  const clusterOf = (name: string): string => (name === foreign ? 'foreign' : 'simulated');
  const world: SimulatedWorld<SimulatedNode> = new SimulatedWorld<SimulatedNode>({
    ...{ seed, names, detailed, sink },
    boot: (ports, context) => {
      const join = names.slice(0, seedsMax).map((name) => simulatedAddress(world, name));
      const node = bootSimulatedNode(ports, context, {
        join,
        cluster: clusterOf(context.name),
        options: optionsOf(context.name),
        wrap: (streams, datagrams, { name, generation }) => {
          observe({ kind: 'listening', node: name, generation });
          return observedPorts(streams, datagrams, trafficObserver(ports, context));
        },
      });
      sendEchoes(ports, context, node);
      followEvents(ports, context, node);
      return node;
    },
  });

  const trafficObserver = (ports: SimulatedPorts, context: NodeContext): TrafficObserver => ({
    node: context.name,
    clock: ports.clock,
    stalledMs: () => world.host(context.name).process?.pausedMs ?? 0,
    nextRequest: () => ++requests,
    observe,
  });
  const sendEchoes = (ports: SimulatedPorts, context: NodeContext, node: SimulatedNode): void => {
    const random = context.random.fork('echo');
    const sendNext = (): void => {
      if (isStopped) return;
      sendEcho(world, context.name, node, random);
      ports.clock.schedule(random.between(0, 2 * echoEveryMs), sendNext);
    };
    ports.clock.schedule(random.between(0, echoEveryMs), sendNext);
  };
  /** The core exists once the identity has been read from the disk. */
  const followEvents = (ports: SimulatedPorts, context: NodeContext, node: SimulatedNode): void => {
    if (node.core === undefined) return void ports.clock.schedule(1, () => followEvents(ports, context, node));
    for (const event of node.core.events.since(0)) observeMemberState(event, context.name, observe);
    node.core.events.follow((event) => observeMemberState(event, context.name, observe));
  };
  return {
    world,
    clusterOf,
    start: () => undefined,
    stopWork: () => {
      isStopped = true;
    },
    aliveViews: () => new Map(names.map((name) => [name, aliveMembersOf(world.program(name))])),
    durableValue: () => 0,
  };
}

const memberStates = {
  'member.alive': 'alive',
  'member.suspect': 'suspect',
  'member.dead': 'dead',
  'member.left': 'left',
} as const;

function observeMemberState(event: NodeEvent, node: string, observe: WorkloadContext['observe']): void {
  const state = Object.hasOwn(memberStates, event.type)
    ? memberStates[event.type as keyof typeof memberStates]
    : undefined;
  const { member, generation, incarnation } = event;
  if (state === undefined || typeof member !== 'string') return;
  if (typeof generation !== 'number' || typeof incarnation !== 'number') return;
  observe({ kind: 'memberStateChanged', node, about: member, state, generation, incarnation });
}

function sendEcho(world: SimulatedWorld<unknown>, name: string, node: SimulatedNode, random: Random): void {
  const to = random.pick(world.names);
  const payload = new TextEncoder().encode(`${name}>${to}`);
  node.streams?.request(
    simulatedAddress(world, to),
    encodeMessage({ kind: 'echo', payload }),
    echoTimeoutMs,
    () => undefined,
  );
}

type TrafficObserver = {
  readonly node: string;
  readonly clock: Clock;
  readonly stalledMs: () => number;
  readonly nextRequest: () => number;
  readonly observe: (observation: Observation) => void;
};

/** The same ports with an observer of requests and received messages. */
function observedPorts(streams: Streams, datagrams: Datagrams, observer: TrafficObserver): WrappedPorts {
  const { node, observe } = observer;
  const received = (from: Identity, claims?: EchoEndpoints): void =>
    observe({ kind: 'messageReceived', node, from: from.name, ...(claims === undefined ? {} : { claims }) });
  return {
    streams: {
      ...streams,
      request: (to, body, timeoutMs, done) => {
        const request = observer.nextRequest();
        const deadlineMs = observer.clock.nowMs() + timeoutMs;
        const stalledMs = observer.stalledMs();
        observe({ kind: 'requestStarted', node, request, timeoutMs });
        return streams.request(to, body, timeoutMs, (outcome) => {
          const lateMs = observer.clock.nowMs() - deadlineMs - fastestClock * (observer.stalledMs() - stalledMs);
          observe({ kind: 'requestEnded', node, request, code: outcome.ok ? 'OK' : outcome.error.code, lateMs });
          done(outcome);
        });
      },
      serve: (service) =>
        streams.serve({
          request: (from, body, remainingMs, reply) => {
            received(from, claimsOf(body));
            service.request(from, body, remainingMs, reply);
          },
          notify: (from, body) => {
            received(from);
            service.notify(from, body);
          },
          open: (from, opening, stream) => service.open(from, opening, stream),
        }),
    },
    datagrams: {
      ...datagrams,
      receive: (handler) =>
        datagrams.receive((from, body) => {
          received(from);
          handler(from, body);
        }),
    },
  };
}

/** An echo names its sender and its receiver. */
function claimsOf(body: Uint8Array): EchoEndpoints | undefined {
  const message = tryDecodeMessage(body);
  if (message?.kind !== 'echo') return undefined;
  const [from, to] = new TextDecoder().decode(message.payload).split('>');
  return from === undefined || to === undefined ? undefined : { from, to };
}
