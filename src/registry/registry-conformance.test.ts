/** The fake registry against the conformance suite of the Registry port, in virtual time. */
import { toPromise } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';
import type { Registry, TransactionResult } from '../base/registry.ts';
import { type RegistryHarness, describeRegistry } from '../../test/simulation/conformance/registry.ts';
import { Timeline } from '../simulation/engine/timeline.ts';
import { fakeRegistry } from '../../test/fakes/fake-registry.ts';

const historyChangesMax = 200;

/** Steps time whenever no promise can settle without it. */
function settling(timeline: Timeline): RegistryHarness['settle'] {
  return async (promise) => {
    const state = { settled: false };
    const end = (): void => {
      state.settled = true;
    };
    promise.then(end, end);
    for (let idle = 0; idle < 100;) {
      await new Promise(setImmediate);
      if (state.settled) return promise;
      idle = timeline.step() ? 0 : idle + 1;
    }
    throw new Error('no timer is left, and the promise has not settled');
  };
}

/** Writes so often that the history before is compacted. */
async function fill(registry: Registry): Promise<void> {
  const then = [{ kind: 'put', key: 'filler', value: new Uint8Array(1) } as const];
  for (let i = 0; i <= historyChangesMax; i++)
    await toPromise<TransactionResult>((done) => registry.transact({ compare: [], then, otherwise: [] }, {}, done));
}

describeRegistry('the fake registry', (t) => {
  const timeline = new Timeline();
  const clock: Clock = {
    nowMs: () => timeline.nowMs,
    wallMs: () => timeline.nowMs,
    schedule: (delayMs, run) => timeline.after(delayMs, run),
  };
  const registry = fakeRegistry({ clock, limits: { historyChangesMax } });
  t.after(() => registry.close());
  return {
    settle: settling(timeline),
    clock,
    registry,
    other: registry.connect(),
    compact: () => fill(registry),
    stopReplying: async (isStopped) => (isStopped ? registry.interrupt() : registry.resume()),
  };
});
