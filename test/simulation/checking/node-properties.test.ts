/** Each property must be able to fail: it is shown what it is there to find. */
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
  transfersArriveWhole,
  viewsAgree,
  workResumes,
} from './node-properties.ts';
import { SimulatedWorld } from '../../../src/simulation/world/simulated-world.ts';

function stage(parts: Partial<WorkloadRun> = {}): WorkloadRun {
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

/** What the property says to each observation, then at the end; nothing where it is content. */
function judge(property: Property, seen: readonly Observation[], on: WorkloadRun = stage()): string[] {
  const checker = property(on);
  const words = [...seen.map((one) => checker.observe?.(one)), checker.atEnd?.()];
  return words.filter((word) => word !== undefined);
}

const started: Observation = { kind: 'requestStarted', node: 'n1', request: 1, timeoutMs: -10 };
const ended: Observation = { kind: 'requestEnded', node: 'n1', request: 1, code: 'OK', lateMs: -5 };

it('everyRequestEndsOnce', () => {
  assert.deepEqual(judge(everyRequestEndsOnce, [started, ended]), []);
  assert.deepEqual(judge(everyRequestEndsOnce, [started, { kind: 'stopped', node: 'n1' }]), []);
  assert.match(judge(everyRequestEndsOnce, [started]).join(), /request 1 of n1 has not ended/);
  assert.match(judge(everyRequestEndsOnce, [started, ended, ended]).join(), /ended again/);
  assert.match(judge(everyRequestEndsOnce, [started, { ...ended, lateMs: 40 }]).join(), /40.0 ms after its deadline/);
  const zombie = [started, { kind: 'stopped', node: 'n1' }, ended] as const;
  assert.match(judge(everyRequestEndsOnce, zombie).join(), /ended after its process did/);
});

it('nobodyHearsAForeignMessage', () => {
  const heard: Observation = { kind: 'heard', node: 'n1', from: 'n2' };
  assert.deepEqual(judge(noForeignMessages, [heard]), []);
  assert.deepEqual(judge(noForeignMessages, [{ ...heard, claims: { from: 'n2', to: 'n1' } }]), []);
  assert.match(judge(noForeignMessages, [{ ...heard, from: 'x' }]).join(), /of another cluster/);
  const [forged, misled] = [
    { from: 'x', to: 'n1' },
    { from: 'n2', to: 'n2' },
  ];
  assert.match(judge(noForeignMessages, [{ ...heard, claims: forged }]).join(), /says to be x/);
  assert.match(judge(noForeignMessages, [{ ...heard, claims: misled }]).join(), /said to n2/);
});

it('livesDiffer', () => {
  const listens = (node: string, generation: number): Observation => ({ kind: 'listens', node, generation });
  assert.deepEqual(
    judge(generationsAreUnique, [listens('n1', 1), listens('n2', 1), listens('n1', 2), listens('n1', 9)]),
    [],
  );
  assert.match(
    judge(generationsAreUnique, [listens('n1', 3), listens('n1', 3)]).join(),
    /n1 is in generation 3 after 3/,
  );
});

it('durableStaysDurable', () => {
  const on = stage({ durableValue: () => 4 });
  const announced = (value: number): Observation => ({ kind: 'announced', node: 'n1', to: 'n2', value });
  const stopped: Observation = { kind: 'stopped', node: 'n1' };
  assert.deepEqual(judge(durableStaysDurable, [announced(4), announced(3), stopped], on), []);
  assert.match(judge(durableStaysDurable, [announced(5), stopped], on)[0] ?? '', /n1 announced 5, .* holds 4/);
  assert.equal(durableStaysDurable(on).observe?.(announced(5)), undefined, 'it may still become durable');
  on.world.crash('n1');
  assert.match(durableStaysDurable(on).observe?.(announced(5)) ?? '', /announced 5/);
});

it('viewsAgree', () => {
  const view = (...lists: string[][]): WorkloadRun => {
    const names = ['n1', 'n2', 'x'];
    return stage({ aliveViews: () => new Map(lists.map((list, i) => [names[i] as string, list])) });
  };
  assert.deepEqual(judge(viewsAgree, [], view(['n1', 'n2'], ['n2', 'n1'], ['x'])), []);
  assert.match(judge(viewsAgree, [], view(['n1'], ['n1', 'n2'], ['x'])).join(), /n1 believes in n1, but n1 n2 are up/);
  assert.match(judge(viewsAgree, [], view(['n1', 'n2'], ['n1', 'n2', 'x'], ['x'])).join(), /n2 believes in n1 n2 x/);
  assert.match(judge(viewsAgree, [], view(['n1', 'n2'], ['n1', 'n2'], [])).join(), /x believes in nobody/);
  const nobody = stage();
  for (const name of nobody.world.names) nobody.world.crash(name);
  assert.deepEqual(judge(viewsAgree, [], nobody), ['nobody is up']);
});

it('transfersArriveWhole', () => {
  const begun: Observation = { kind: 'transferStarted', node: 'n1', transfer: 1 };
  const done: Observation = { kind: 'transferEnded', node: 'n1', transfer: 1, ok: true, confirmed: true };
  assert.deepEqual(judge(transfersArriveWhole, [begun, done]), []);
  assert.deepEqual(judge(transfersArriveWhole, [begun, { ...done, ok: false, confirmed: false }]), []);
  assert.match(judge(transfersArriveWhole, [begun, { ...done, confirmed: false }]).join(), /not whole/);
  assert.match(judge(transfersArriveWhole, [begun, done, done]).join(), /ended twice/);
  assert.match(judge(transfersArriveWhole, [begun]).join(), /has not ended/);
});

it('workGoesOn', () => {
  assert.deepEqual(judge(workResumes, [{ kind: 'healed' }, started, ended]), []);
  assert.match(judge(workResumes, [started, ended, { kind: 'healed' }]).join(), /nothing has succeeded/);
});

it('theBuriedStayBuried', () => {
  const believes = (state: 'alive' | 'suspect' | 'dead', generation: number, incarnation: number): Observation => ({
    ...{ kind: 'believes', node: 'n1', about: 'n2', state, generation, incarnation },
  });
  assert.deepEqual(judge(deadStaysDead, [believes('dead', 1, 0), believes('alive', 1, 1)]), []);
  assert.deepEqual(judge(deadStaysDead, [believes('dead', 1, 3), believes('alive', 2, 0)]), []);
  assert.match(judge(deadStaysDead, [believes('dead', 1, 0), believes('alive', 1, 0)]).join(), /had buried/);
  assert.match(judge(deadStaysDead, [believes('dead', 2, 0), believes('suspect', 1, 9)]).join(), /had buried/);
  const restarted = [believes('dead', 1, 0), { kind: 'stopped', node: 'n1' }, believes('alive', 1, 0)] as const;
  assert.deepEqual(judge(deadStaysDead, restarted), []);
});

it('nobodyAliveIsBuried', () => {
  const dead = { kind: 'believes', node: 'n1', about: 'n2', state: 'dead', generation: 1, incarnation: 0 } as const;
  assert.match(judge(noFalseDeaths, [dead]).join(), /but it runs/);
  assert.deepEqual(judge(noFalseDeaths, [{ ...dead, state: 'suspect' }]), []);
  const down = stage();
  down.world.crash('n2');
  assert.deepEqual(judge(noFalseDeaths, [dead], down), []);
});
