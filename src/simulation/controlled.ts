/**
 * The controlled workload: whole nodes with their part in agreement, three managers and the rest workers. Things are
 * made for workers to hold, keys are written through random nodes, and everybody's word is kept: which group began, who
 * holds what and may act on it at that instant, which writes were acknowledged.
 */
import type { Address, Clock } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import type { AssignmentHost } from '../registry/assignment/assignments-held-host.ts';
import { heldAtOnce } from '../node/control/held-at-once.ts';
import { bootHostedNode, type HostedNode, simulatedPort } from './hosted-node.ts';
import type { Stage, StageSpec } from './observation.ts';
import { World } from './world.ts';

const managersCount = 3;
const thingsCount = 6;
const writeEveryMs = 400;
const writeTimeoutMs = 4_000;
const settledMs = 4_000;
/** Short, so that a run of a minute sees registrations run out. */
const registrationTtlMs = 8_000;

export function controlled(spec: StageSpec): Stage {
  const { seed, names, detailed, sink, observe } = spec;
  const random = new Random(seed).fork('controlled');
  const holding = new Map<string, Set<string>>(names.map((name) => [name, new Set()]));
  let resting = false;
  let writes = 0;
  const isManager = (name: string): boolean => names.indexOf(name) < managersCount;
  const world: World<HostedNode> = new World<HostedNode>({
    ...{ seed, names, detailed, sink },
    boot: (ports, context) => {
      const { name } = context;
      holding.set(name, new Set());
      const node = bootHostedNode(ports, context, {
        join: names.slice(0, managersCount).map((seedName) => addressOf(world, seedName)),
        roles: (one) => (isManager(one) ? ['manager'] : ['worker']),
        options: { registry: 'embedded', registrationTtlMs },
        assignments: (clock) => witnessed(clock, name),
      });
      listen(ports.clock, name, node);
      return node;
    },
  });

  /** Who holds it, besides the one that has just taken it, and would act on it now. A node that stands still does nothing. */
  const actingHolders = (thing: string, but: string): readonly string[] =>
    names.filter((name) => {
      if (name === but || holding.get(name)?.has(thing) !== true || !world.isUp(name)) return false;
      const isStalled = (world.host(name).life?.postponed ?? 0) > 0;
      return !isStalled && world.program(name)?.core?.control?.presence.mayServe() === true;
    });
  const witnessed = (clock: Clock, name: string): AssignmentHost => {
    const inner = heldAtOnce(clock);
    return {
      take: (assignment, done) =>
        inner.take(assignment, (outcome) => {
          const thing = `${assignment.pool}/${assignment.container}`;
          holding.get(name)?.add(thing);
          observe({ kind: 'took', node: name, thing, alsoHeldBy: actingHolders(thing, name) });
          done(outcome);
        }),
      release: (assignment, done) => {
        holding.get(name)?.delete(`${assignment.pool}/${assignment.container}`);
        inner.release(assignment, done);
      },
    };
  };
  const listen = (clock: Clock, name: string, node: HostedNode): void => {
    if (node.core === undefined) return void clock.schedule(1, () => listen(clock, name, node));
    node.core.events.follow(({ type }) => {
      if (type === 'group.begun') observe({ kind: 'groupBegan', node: name });
    });
    for (const { type } of node.core.events.since(0))
      if (type === 'group.begun') observe({ kind: 'groupBegan', node: name });
  };
  const write = (): void => {
    if (resting) return;
    world.timeline.after(random.between(0, 2 * writeEveryMs), write);
    const registry = world.program(random.pick(names))?.core?.control?.registry;
    const key = `/written/${++writes}`;
    const value = new TextEncoder().encode(key);
    const put = { compare: [], then: [{ kind: 'put', key, value }], otherwise: [] } as const;
    registry?.transact(put, { timeoutMs: writeTimeoutMs }, ({ ok }) => {
      if (ok) observe({ kind: 'wrote', key });
    });
  };
  /** Once, by whoever can: a mark is created with them. */
  const createThings = (): void => {
    const mark = '/made';
    const keys = [mark, ...Array.from({ length: thingsCount }, (_, i) => `/cluster/unassigned/things/t${i + 1}`)];
    const then = keys.map((key) => ({ kind: 'put', key, value: new Uint8Array() }) as const);
    const make = { compare: [{ key: mark, target: 'version', is: 'equal', than: 0 }], then, otherwise: [] } as const;
    const registry = world.program(random.pick(names))?.core?.control?.registry;
    registry?.transact(make, { timeoutMs: writeTimeoutMs }, () => undefined);
    if (!resting) world.timeline.after(writeTimeoutMs, createThings);
  };
  return {
    world,
    clusterOf: () => 'simulated',
    start: () => {
      world.timeline.after(settledMs, createThings);
      world.timeline.after(settledMs, write);
    },
    rest: () => {
      resting = true;
      look(world, names, observe);
    },
    views: () => new Map(names.map((name) => [name, aliveIn(world.program(name))])),
    durable: () => 0,
  };
}

/** Asks, when all is well, what has become of everything that was written; the answer comes before the end of the run. */
function look(world: World<HostedNode>, names: readonly string[], observe: StageSpec['observe']): void {
  const registry = world.program(names.at(-1) as string)?.core?.control?.registry;
  registry?.range({ from: '/written/', to: '/written0' }, { timeoutMs: writeTimeoutMs }, (outcome) => {
    if (outcome.ok) observe({ kind: 'found', keys: outcome.value.entries.map(({ key }) => key) });
  });
  const standings = names.map((name) => {
    const core = world.program(name)?.core;
    const standing = core?.control?.presence.standingOf(core.identity.id) ?? 'none';
    return { node: name, standing, leader: core?.control?.known().leader };
  });
  observe({ kind: 'registrations', standings });
}

function aliveIn(node: HostedNode | undefined): string[] {
  return (node?.core?.members() ?? []).filter(({ state }) => state === 'alive').map(({ name }) => name);
}

function addressOf(world: World<unknown>, name: string): Address {
  return { host: world.host(name).address, port: simulatedPort };
}
