/**
 * Workload of whole nodes that join through a seed and send echo requests; one foreign node. Observes all traffic at
 * the ports.
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
/** No fault makes a clock run faster; a stall counts in the caller's own time. */
const fastestClock = 1.25;

export function echoWorkload(spec: WorkloadContext): WorkloadRun {
  return conversations(spec, () => ({}));
}

/** The same, and two of the nodes have no datagrams: others know of their life by their heartbeats. */
export function pushEchoWorkload(spec: WorkloadContext): WorkloadRun {
  const quiet = spec.names.slice(-3, -1);
  return conversations(spec, (name) => (quiet.includes(name) ? { membership: 'push', roles: ['worker'] } : {}));
}

function conversations(spec: WorkloadContext, optionsOf: (name: string) => Partial<NodeOptions>): WorkloadRun {
  const { seed, names, detailed, sink, observe } = spec;
  let resting = false;
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
          observe({ kind: 'listens', node: name, generation });
          return observedPorts(streams, datagrams, witness(ports, context));
        },
      });
      converse(ports, context, node);
      listen(ports, context, node);
      return node;
    },
  });

  const witness = (ports: SimulatedPorts, context: NodeContext): TrafficObserver => ({
    node: context.name,
    clock: ports.clock,
    stalledMs: () => world.host(context.name).process?.pausedMs ?? 0,
    nextRequest: () => ++requests,
    observe,
  });
  const converse = (ports: SimulatedPorts, context: NodeContext, node: SimulatedNode): void => {
    const random = context.random.fork('echo');
    const again = (): void => {
      if (resting) return;
      ask(world, context.name, node, random);
      ports.clock.schedule(random.between(0, 2 * echoEveryMs), again);
    };
    ports.clock.schedule(random.between(0, echoEveryMs), again);
  };
  /** The core is there once the disk has told who the node is. */
  const listen = (ports: SimulatedPorts, context: NodeContext, node: SimulatedNode): void => {
    if (node.core === undefined) return void ports.clock.schedule(1, () => listen(ports, context, node));
    for (const event of node.core.events.since(0)) tellBelief(event, context.name, observe);
    node.core.events.follow((event) => tellBelief(event, context.name, observe));
  };
  return {
    world,
    clusterOf,
    start: () => undefined,
    stopWork: () => {
      resting = true;
    },
    aliveViews: () => new Map(names.map((name) => [name, aliveMembersOf(world.program(name))])),
    durableValue: () => 0,
  };
}

const beliefs = {
  'member.alive': 'alive',
  'member.suspect': 'suspect',
  'member.dead': 'dead',
  'member.left': 'left',
} as const;

function tellBelief(event: NodeEvent, node: string, observe: WorkloadContext['observe']): void {
  const state = Object.hasOwn(beliefs, event.type) ? beliefs[event.type as keyof typeof beliefs] : undefined;
  const { member, generation, incarnation } = event;
  if (state === undefined || typeof member !== 'string') return;
  if (typeof generation !== 'number' || typeof incarnation !== 'number') return;
  observe({ kind: 'believes', node, about: member, state, generation, incarnation });
}

function ask(world: SimulatedWorld<unknown>, name: string, node: SimulatedNode, random: Random): void {
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

/** The same ports, with somebody who writes down what passes. */
function observedPorts(streams: Streams, datagrams: Datagrams, witness: TrafficObserver): WrappedPorts {
  const { node, observe } = witness;
  const heard = (from: Identity, claims?: EchoEndpoints): void =>
    observe({ kind: 'heard', node, from: from.name, ...(claims === undefined ? {} : { claims }) });
  return {
    streams: {
      ...streams,
      request: (to, body, timeoutMs, done) => {
        const request = witness.nextRequest();
        const deadlineMs = witness.clock.nowMs() + timeoutMs;
        const stalledMs = witness.stalledMs();
        observe({ kind: 'requestStarted', node, request, timeoutMs });
        return streams.request(to, body, timeoutMs, (outcome) => {
          const lateMs = witness.clock.nowMs() - deadlineMs - fastestClock * (witness.stalledMs() - stalledMs);
          observe({ kind: 'requestEnded', node, request, code: outcome.ok ? 'OK' : outcome.error.code, lateMs });
          done(outcome);
        });
      },
      serve: (service) =>
        streams.serve({
          request: (from, body, remainingMs, reply) => {
            heard(from, claimsOf(body));
            service.request(from, body, remainingMs, reply);
          },
          notify: (from, body) => {
            heard(from);
            service.notify(from, body);
          },
          open: (from, opening, stream) => service.open(from, opening, stream),
        }),
    },
    datagrams: {
      ...datagrams,
      receive: (handler) =>
        datagrams.receive((from, body) => {
          heard(from);
          handler(from, body);
        }),
    },
  };
}

/** Echoes name both ends. */
function claimsOf(body: Uint8Array): EchoEndpoints | undefined {
  const message = tryDecodeMessage(body);
  if (message?.kind !== 'echo') return undefined;
  const [from, to] = new TextDecoder().decode(message.payload).split('>');
  return from === undefined || to === undefined ? undefined : { from, to };
}
