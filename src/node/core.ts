/**
 * The core of a node: its machines, wired to ports that somebody else has opened. Pure: it runs unchanged on the real
 * world and in the simulator, which both boot exactly this. It opens, closes and times out nothing outside; it lets go
 * of the ports at `stop`, and their owner closes them.
 *
 *   ports --bytes--> service / datagram handler --messages--> greeting --events--> event log
 */
import { type Done, success } from '../base/errors.ts';
import type { Identity, Log } from '../base/ports.ts';
import type { MemberEvent } from '../membership/member.ts';
import { EventLog } from './event-log.ts';
import { Greeting, type GreetingPorts } from './greeting.ts';
import type { NodeOptions } from './options-table.ts';
import { type MemberRow, type OwnTruth, memberRow, ownTruth } from './own-truth.ts';
import { scopedClock } from './scoped-clock.ts';
import { type ServiceParts, datagramHandler, serviceOf } from './service.ts';

export type CorePorts = GreetingPorts & { readonly log: Log };

/** Times are final: `timeScale` has been applied. */
export type CoreOptions = Pick<
  NodeOptions,
  'join' | 'helloIntervalMs' | 'silentAfterMs' | 'deadAfterMs' | 'requestTimeoutMs'
> & { readonly identity: Identity };

export type CoreHooks = {
  /** A seed has answered, or there is none to ask. Called once. */
  readonly joined?: () => void;
  /** The core is over because of a mistake of ours; the owner treats it as a crash. */
  readonly halted?: (error: unknown) => void;
};

export type NodeCore = {
  readonly identity: Identity;
  readonly events: Pick<EventLog, 'since' | 'follow' | 'checkRoom' | 'lastSeq'>;
  joined(): boolean;
  /** True when a mistake of ours has stopped the machines. */
  halted(): boolean;
  members(): readonly MemberRow[];
  ownTruth(): OwnTruth;
  /** Numbers that only grow, by name; `rejected.<reason>` for what was refused. */
  counters(): Readonly<Record<string, number>>;
  /** Says goodbye, waits a moment so that it is heard, and is over. The second call is as good as the first. */
  stop(done: Done<void>, reason?: string): void;
};

const membersMax = 1_000;
const goodbyeMs = 200;

export function bootNode(ports: CorePorts, options: CoreOptions, hooks: CoreHooks = {}): NodeCore {
  const { clock, log } = ports;
  const { identity } = options;
  const bootedMs = clock.nowMs();
  const timers = scopedClock(clock);
  const counters = new Map<string, number>();
  const count = (name: string): void => void counters.set(name, (counters.get(name) ?? 0) + 1);
  const events = new EventLog({ clock, node: identity.name, generation: identity.generation });
  let stopping = false;
  let halted = false;

  const happened = (type: string, fields: Readonly<Record<string, unknown>>): void => {
    events.append(type, fields);
    log('info', type, fields);
  };
  const greeting = new Greeting(
    { ...ports, clock: timers.clock },
    identity,
    { ...options, seeds: options.join, membersMax },
    {
      count,
      event: (event) => happened(event.type, memberFields(event)),
      joined: () => {
        happened('node.joined', { generation: identity.generation });
        hooks.joined?.();
      },
      halted: (error) => {
        halted = true;
        log('error', 'the greeter stopped by mistake', { error: String(error) });
        hooks.halted?.(error);
      },
    },
  );
  const members = (): MemberRow[] => greeting.views().map(memberRow);
  serve(ports, {
    count,
    stopping: () => stopping,
    members: () => greeting.views(),
    told: (from, message) => greeting.told(from, message),
    introduction: (from, message, reply) => greeting.introduction(from, message, reply),
  });
  happened('node.started', { generation: identity.generation });
  greeting.start();

  return {
    identity,
    events,
    joined: () => greeting.joined,
    halted: () => halted,
    members,
    counters: () => Object.fromEntries(counters),
    ownTruth: () =>
      ownTruth({
        self: identity,
        members: members(),
        joined: greeting.joined,
        stopping,
        queues: { introductions: greeting.waiting },
        rejected: rejections(counters),
        uptimeMs: Math.floor(clock.nowMs() - bootedMs),
      }),
    stop: (done, reason = 'stopped') => {
      const told = !stopping && greeting.stop(reason);
      if (!stopping) happened('node.stopping', { reason });
      stopping = true;
      timers.close();
      clock.schedule(told ? goodbyeMs : 0, () => done(success(undefined)));
    },
  };
}

function serve(ports: CorePorts, parts: ServiceParts): void {
  ports.datagrams.receive(datagramHandler(parts));
  ports.streams.serve(serviceOf(parts));
  ports.streams.watch((change) => parts.count(`connections.${change.kind}`));
}

function memberFields({ member, reason }: MemberEvent): Readonly<Record<string, unknown>> {
  const { name, id, generation, host, port } = member;
  return { member: name, id, generation, host, port, reason };
}

function rejections(counters: ReadonlyMap<string, number>): Record<string, number> {
  const prefix = 'rejected.';
  const found = [...counters].filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(found.map(([name, value]) => [name.slice(prefix.length), value]));
}
