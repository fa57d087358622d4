/** Every property is shown a violation that it must find, and a history that it must accept. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Observation, Property, WorkloadRun } from './workload.ts';
import {
  durableStaysDurable,
  everyRequestEndsOnce,
  generationsAreUnique,
  noFalseDeaths,
  noForeignMessages,
  deadStaysDead,
  transfersArriveComplete,
  viewsAgree,
  workResumes,
} from './node-properties.ts';
import { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';

function workloadRun(parts: Partial<WorkloadRun> = {}): WorkloadRun {
  const world = new SimulatedWorld<unknown>({ seed: 'properties', names: ['n1', 'n2', 'x'], boot: () => undefined });
  world.startAll();
  return {
    world,
    start: () => undefined,
    stopWork: () => undefined,
    clusterOf: (node) => (node === 'x' ? 'foreign' : 'ours'),
    aliveViews: () => new Map(),
    durableValue: () => 0,
    ...parts,
  };
}

/** The violations that the property reports for the observations, then at the end. */
function violationsOf(property: Property, seen: readonly Observation[], on: WorkloadRun = workloadRun()): string[] {
  const checker = property(on);
  const violations = [...seen.map((one) => checker.observe?.(one)), checker.atEnd?.()];
  return violations.filter((violation) => violation !== undefined);
}

const started: Observation = { kind: 'requestStarted', node: 'n1', request: 1, timeoutMs: -10 };
const ended: Observation = { kind: 'requestEnded', node: 'n1', request: 1, code: 'OK', lateMs: -5 };

it('everyRequestEndsOnce finds a request that does not end, ends twice, late, or after its process', () => {
  assert.deepEqual(violationsOf(everyRequestEndsOnce, [started, ended]), []);
  assert.deepEqual(violationsOf(everyRequestEndsOnce, [started, { kind: 'stopped', node: 'n1' }]), []);
  assert.match(violationsOf(everyRequestEndsOnce, [started]).join(), /request 1 of n1 has not ended/);
  assert.match(violationsOf(everyRequestEndsOnce, [started, ended, ended]).join(), /ended again/);
  assert.match(
    violationsOf(everyRequestEndsOnce, [started, { ...ended, lateMs: 40 }]).join(),
    /40.0 ms after its deadline/,
  );
  const zombie = [started, { kind: 'stopped', node: 'n1' }, ended] as const;
  assert.match(violationsOf(everyRequestEndsOnce, zombie).join(), /ended after its process did/);
});

it('noForeignMessages finds a message of another cluster, of a forged sender, or to another node', () => {
  const received: Observation = { kind: 'messageReceived', node: 'n1', from: 'n2' };
  assert.deepEqual(violationsOf(noForeignMessages, [received]), []);
  assert.deepEqual(violationsOf(noForeignMessages, [{ ...received, claims: { from: 'n2', to: 'n1' } }]), []);
  assert.match(violationsOf(noForeignMessages, [{ ...received, from: 'x' }]).join(), /of another cluster/);
  const [forged, misdirected] = [
    { from: 'x', to: 'n1' },
    { from: 'n2', to: 'n2' },
  ];
  assert.match(violationsOf(noForeignMessages, [{ ...received, claims: forged }]).join(), /names x as its sender/);
  assert.match(violationsOf(noForeignMessages, [{ ...received, claims: misdirected }]).join(), /of n2 to n2/);
});

it('generationsAreUnique finds a generation that does not grow', () => {
  const listening = (node: string, generation: number): Observation => ({ kind: 'listening', node, generation });
  assert.deepEqual(
    violationsOf(generationsAreUnique, [
      listening('n1', 1),
      listening('n2', 1),
      listening('n1', 2),
      listening('n1', 9),
    ]),
    [],
  );
  assert.match(
    violationsOf(generationsAreUnique, [listening('n1', 3), listening('n1', 3)]).join(),
    /n1 starts generation 3 after 3/,
  );
});

it('durableStaysDurable finds an announced value that the disk lost', () => {
  const on = workloadRun({ durableValue: () => 4 });
  const announced = (value: number): Observation => ({ kind: 'announced', node: 'n1', to: 'n2', value });
  const stopped: Observation = { kind: 'stopped', node: 'n1' };
  assert.deepEqual(violationsOf(durableStaysDurable, [announced(4), announced(3), stopped], on), []);
  assert.match(violationsOf(durableStaysDurable, [announced(5), stopped], on)[0] ?? '', /n1 announced 5, .* holds 4/);
  assert.equal(durableStaysDurable(on).observe?.(announced(5)), undefined, 'it may still become durable');
  on.world.crash('n1');
  assert.match(durableStaysDurable(on).observe?.(announced(5)) ?? '', /announced 5/);
});

it('viewsAgree finds a view without a running node, with a foreign node, or empty', () => {
  const view = (...lists: string[][]): WorkloadRun => {
    const names = ['n1', 'n2', 'x'];
    return workloadRun({ aliveViews: () => new Map(lists.map((list, i) => [names[i] as string, list])) });
  };
  assert.deepEqual(violationsOf(viewsAgree, [], view(['n1', 'n2'], ['n2', 'n1'], ['x'])), []);
  assert.match(
    violationsOf(viewsAgree, [], view(['n1'], ['n1', 'n2'], ['x'])).join(),
    /view of n1, n1 is alive, but n1 n2 are up/,
  );
  assert.match(
    violationsOf(viewsAgree, [], view(['n1', 'n2'], ['n1', 'n2', 'x'], ['x'])).join(),
    /view of n2, n1 n2 x is alive/,
  );
  assert.match(
    violationsOf(viewsAgree, [], view(['n1', 'n2'], ['n1', 'n2'], [])).join(),
    /view of x, no node is alive/,
  );
  const down = workloadRun();
  for (const name of down.world.names) down.world.crash(name);
  assert.deepEqual(violationsOf(viewsAgree, [], down), ['no node is up']);
});

it('transfersArriveComplete finds a transfer that is incomplete, ends twice or never', () => {
  const opened: Observation = { kind: 'transferStarted', node: 'n1', transfer: 1 };
  const done: Observation = { kind: 'transferEnded', node: 'n1', transfer: 1, ok: true, confirmed: true };
  assert.deepEqual(violationsOf(transfersArriveComplete, [opened, done]), []);
  assert.deepEqual(violationsOf(transfersArriveComplete, [opened, { ...done, ok: false, confirmed: false }]), []);
  assert.match(violationsOf(transfersArriveComplete, [opened, { ...done, confirmed: false }]).join(), /is incomplete/);
  assert.match(violationsOf(transfersArriveComplete, [opened, done, done]).join(), /ended twice/);
  assert.match(violationsOf(transfersArriveComplete, [opened]).join(), /has not ended/);
});

it('workResumes finds that nothing succeeds after healing', () => {
  assert.deepEqual(violationsOf(workResumes, [{ kind: 'healed' }, started, ended]), []);
  assert.match(violationsOf(workResumes, [started, ended, { kind: 'healed' }]).join(), /nothing has succeeded/);
});

it('deadStaysDead finds a dead member that returns without a higher incarnation or generation', () => {
  const sees = (state: 'alive' | 'suspect' | 'dead', generation: number, incarnation: number): Observation => ({
    ...{ kind: 'memberStateChanged', node: 'n1', about: 'n2', state, generation, incarnation },
  });
  assert.deepEqual(violationsOf(deadStaysDead, [sees('dead', 1, 0), sees('alive', 1, 1)]), []);
  assert.deepEqual(violationsOf(deadStaysDead, [sees('dead', 1, 3), sees('alive', 2, 0)]), []);
  assert.match(violationsOf(deadStaysDead, [sees('dead', 1, 0), sees('alive', 1, 0)]).join(), /declared that dead/);
  assert.match(violationsOf(deadStaysDead, [sees('dead', 2, 0), sees('suspect', 1, 9)]).join(), /declared that dead/);
  const restarted = [sees('dead', 1, 0), { kind: 'stopped', node: 'n1' }, sees('alive', 1, 0)] as const;
  assert.deepEqual(violationsOf(deadStaysDead, restarted), []);
});

it('noFalseDeaths finds a running node that is declared dead', () => {
  const dead = {
    kind: 'memberStateChanged',
    node: 'n1',
    about: 'n2',
    state: 'dead',
    generation: 1,
    incarnation: 0,
  } as const;
  assert.match(violationsOf(noFalseDeaths, [dead]).join(), /but it runs/);
  assert.deepEqual(violationsOf(noFalseDeaths, [{ ...dead, state: 'suspect' }]), []);
  const down = workloadRun();
  down.world.crash('n2');
  assert.deepEqual(violationsOf(noFalseDeaths, [dead], down), []);
});
