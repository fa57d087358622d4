import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { FakeLeadership } from '../../../test/fakes/fake-leadership.ts';
import { success } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { type FakeRegistry, fakeRegistry } from '../../../test/fakes/fake-registry.ts';
import { ExpiryWorkerHost } from '../../registration/expiry-worker-host.ts';
import { registrationOptions } from '../../registration/registration-options.ts';
import { RegistrationHost } from '../../registration/registration-host.ts';
import { AssignerHost } from '../leader/assigner-host.ts';
import { AssignmentsHeldHost } from './assignments-held-host.ts';
import type { LoadReport } from '../state/load-report.ts';
import { startLoadReporter } from '../balance/load-reporter-host.ts';
import { NodeOperations } from '../operations/node-operations.ts';
import { rebalanceOptions } from '../balance/rebalance-options.ts';
import { noHint } from '../../registry/assignment/record.ts';
import { heldHooks } from './registration-hooks.ts';
import { creation } from '../leader/transactions.ts';

const options = registrationOptions();
const timeline = new Timeline();
const clock: Clock = {
  nowMs: () => timeline.nowMs,
  wallMs: () => timeline.nowMs,
  schedule: (delayMs, run) => timeline.after(delayMs, run),
};

type Node = { readonly id: NodeId; readonly registry: FakeRegistry; readonly leadership: FakeLeadership } & {
  readonly assigner: AssignerHost;
  readonly held: AssignmentsHeldHost;
  readonly registration: RegistrationHost;
  /** What it held whenever it was told that it may serve. */
  readonly heldWhenServing: number[];
};

function halted(error: unknown): void {
  assert.fail(String(error));
}

/** A node as it is wired in real life, on a registry in this process. */
function boot(center: FakeRegistry, number: number): Node {
  const id = nodeIdFrom(new Uint8Array(16).fill(number));
  const registry = center.connect();
  const leadership = new FakeLeadership(id);
  const tell = (): void => {};
  const host = {
    take: (_: unknown, done: (outcome: ReturnType<typeof success<void>>) => void) =>
      void clock.schedule(50, () => done(success(undefined))),
    release: (_: unknown, done: (outcome: ReturnType<typeof success<void>>) => void) =>
      void clock.schedule(50, () => done(success(undefined))),
  };
  const held = new AssignmentsHeldHost(id, { registry, clock, host, tell, onHalt: halted });
  const heldWhenServing: number[] = [];
  const hooks = heldHooks(held);
  const identity = { id, name: `n${number}`, host: 'h', port: 1, generation: 1, roles: ['worker'], dc: 'd' } as const;
  const ports = { registry, clock, random: new Random(`hooks/${number}`), leadership };
  const registration = new RegistrationHost(ports, identity, options, {
    ...hooks,
    servingChanged: (serving, why) => {
      hooks.servingChanged(serving, why);
      if (serving) heldWhenServing.push(held.held().length);
    },
    fenced: halted,
    onHalt: halted,
  });
  const rebalance = rebalanceOptions('balanced');
  const assigner = new AssignerHost({ registry, clock, leadership, emit: tell, onHalt: halted }, { rebalance });
  new ExpiryWorkerHost({ registry, clock, leadership }, options, { event: tell, onHalt: halted }).start();
  const measure = (): LoadReport => ({ serving: held.held().length, cpu: 0, memory: 0, perSecond: 0, capacity: 1 });
  startLoadReporter(id, { registry, clock, measure, lease: () => registration.lease });
  registration.start();
  return { id, registry, leadership, assigner, held, registration, heldWhenServing };
}

function run(durationMs: number): void {
  timeline.runUntil(timeline.nowMs + durationMs);
}

describe('assignments on a real registration', () => {
  const center = fakeRegistry({ clock });
  const [a, b] = [boot(center, 1), boot(center, 2)];

  function counts(): readonly number[] {
    return [a.held.held().length, b.held.held().length];
  }

  test('are taken, and reported as load', () => {
    a.leadership.become(fenceOf(1, 1));
    run(5_000);
    const then = Array.from({ length: 6 }, (_, index) => creation({ pool: 'p', container: String(index) }, noHint));
    center.transact({ compare: [], then, otherwise: [] }, {}, () => {});
    run(10_000);
    assert.deepEqual(counts(), [3, 3]);
    const serving: (number | undefined)[] = [];
    new NodeOperations(center, clock, rebalanceOptions('balanced')).balance((outcome) => {
      assert.ok(outcome.ok);
      serving.push(...outcome.value.nodes.map((node) => node.serving));
    });
    run(10);
    assert.deepEqual(serving, [3, 3]);
  });

  test('are released before the registration is over, and taken again if it was not, before the node serves', () => {
    b.registry.interrupt();
    run(26_000);
    assert.deepEqual(counts(), [3, 0]);
    b.registry.resume();
    run(4_000);
    assert.deepEqual(counts(), [3, 3]);
    assert.equal(b.heldWhenServing.at(-1), 3, 'held when it was told to serve');
  });

  test('of a node that was away too long are with others, and it comes back drained and empty', () => {
    b.registry.interrupt();
    run(2.5 * options.ttlMs);
    assert.deepEqual(counts(), [6, 0]);
    b.registry.resume();
    run(10_000);
    assert.equal(b.registration.state?.mode, 'drained');
    assert.deepEqual(counts(), [6, 0]);
  });
});
