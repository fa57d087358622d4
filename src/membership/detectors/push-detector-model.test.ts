/** The push detector against a naive model: the same deaths at the same times, each once. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import { Random } from '../../base/random.ts';
import { heartbeatTiming } from './heartbeat-timing.ts';
import { type MemberLife, PushDetector } from './push-detector.ts';

const timing = heartbeatTiming(5_000);
const firstLife: MemberLife = { generation: 1, incarnation: 0 };

function idOf(number: number): NodeId {
  const bytes = new Uint8Array(16);
  new DataView(bytes.buffer).setUint32(0, number);
  return nodeIdFrom(bytes);
}

type NaiveWorker = { life: MemberLife; deadlineMs: number };

/** The specification of the detector in its simplest form: checks every worker in every millisecond. */
class NaiveDetector {
  readonly workers = new Map<number, NaiveWorker>();
  readonly dead = new Map<number, MemberLife>();
  readonly deaths: string[] = [];

  ping(nowMs: number, worker: number, life: MemberLife, timeoutMs: number): void {
    const known = this.workers.get(worker);
    if (known !== undefined && order(life) < order(known.life)) return;
    if (known !== undefined && known.life.generation < life.generation) this.#die(nowMs, worker, known);
    const dead = this.dead.get(worker);
    if (!this.workers.has(worker) && dead !== undefined && order(life) <= order(dead)) return;
    this.workers.set(worker, { life, deadlineMs: nowMs + timeoutMs });
  }

  check(nowMs: number): void {
    for (const [worker, known] of this.workers) if (known.deadlineMs <= nowMs) this.#die(nowMs, worker, known);
  }

  #die(nowMs: number, worker: number, known: NaiveWorker): void {
    this.workers.delete(worker);
    this.dead.set(worker, known.life);
    this.deaths.push(deathLine(nowMs, worker, known.life));
  }
}

function order({ generation, incarnation }: MemberLife): number {
  return generation * 1_000 + incarnation;
}

function deathLine(nowMs: number, worker: number, { generation, incarnation }: MemberLife): string {
  return `${nowMs} ${worker} ${generation}.${incarnation}`;
}

describe('the push detector, compared with a naive model,', () => {
  const short = heartbeatTiming(30);

  it('finds the same deaths at the same times, each once, in random histories', () => {
    const worker = fc.nat(5);
    const action = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({
          kind: fc.constant('ping' as const),
          worker,
          generation: fc.nat(2),
          incarnation: fc.nat(3),
        }),
      },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), worker }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('adopt' as const), worker }) },
      { weight: 5, arbitrary: fc.record({ kind: fc.constant('wait' as const), forMs: fc.nat(120) }) },
    );
    let deathsSeen = 0;
    fc.assert(
      fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
        const deaths: string[] = [];
        const naive = new NaiveDetector();
        let nowMs = 0;
        const numbers = new Map(Array.from({ length: 6 }, (_, number) => [idOf(number), number]));
        const detector = new PushDetector(short, 6, {
          isMember: () => true,
          voteDead: () => {},
          onDead: (death) => deaths.push(deathLine(nowMs, numbers.get(death.id) ?? -1, death)),
          log: () => {},
        });
        detector.start(0);
        for (const one of actions) {
          if (one.kind === 'ping') {
            const life = { generation: one.generation, incarnation: one.incarnation };
            detector.ping(nowMs, idOf(one.worker), life);
            naive.ping(nowMs, one.worker, life, short.timeoutMs);
          } else if (one.kind === 'remove') {
            assert.equal(detector.removeWorker(idOf(one.worker)), naive.workers.delete(one.worker));
          } else if (one.kind === 'adopt') {
            const life = { generation: 1, incarnation: 1 };
            detector.adopt(nowMs, [{ id: idOf(one.worker), ...life }]);
            if (!naive.workers.has(one.worker)) naive.ping(nowMs, one.worker, life, short.graceMs);
          } else {
            const untilMs = nowMs + one.forMs;
            for (let checkMs = nowMs; checkMs <= untilMs; checkMs++) naive.check(checkMs);
            for (let nextMs = detector.nextMs; nextMs !== undefined && nextMs <= untilMs; nextMs = detector.nextMs) {
              nowMs = nextMs;
              detector.expire(nowMs);
            }
            nowMs = untilMs;
          }
          assert.equal(detector.monitoredCount, naive.workers.size);
          assert.deepEqual(deaths.toSorted(), naive.deaths.toSorted());
        }
        deathsSeen += deaths.length;
      }),
      { numRuns: 300 },
    );
    assert.ok(deathsSeen > 100, `only ${deathsSeen} deaths were compared`);
  });

  it('finds the same deaths among 10,000 workers as a scan over all of them', (context) => {
    const workersCount = 10_000;
    const tickMs = 100;
    const random = new Random('ten thousand');
    const naive = new NaiveDetector();
    const deaths: string[] = [];
    const numbers = new Map(Array.from({ length: workersCount }, (_, number) => [idOf(number), number]));
    const ids = [...numbers.keys()];
    const silentFromMs = ids.map(() => (random.chance(0.3) ? random.below(400) * tickMs : Infinity));
    let nowMs = 0;
    const detector = new PushDetector(timing, workersCount, {
      isMember: () => true,
      voteDead: () => {},
      onDead: (death) => deaths.push(deathLine(nowMs, numbers.get(death.id) ?? -1, death)),
      log: () => {},
    });
    detector.start(
      0,
      ids.slice(0, 5_000).map((id) => ({ id, generation: 1, incarnation: 0 })),
    );
    for (let worker = 0; worker < 5_000; worker++) naive.ping(0, worker, firstLife, timing.graceMs);
    for (; nowMs <= 60_000; nowMs += tickMs) {
      for (let nextMs = detector.nextMs; nextMs !== undefined && nextMs <= nowMs; nextMs = detector.nextMs) {
        detector.expire(nowMs);
      }
      naive.check(nowMs);
      // Each worker pings every 3 s, at a moment of its own, until it falls silent.
      for (let worker = (nowMs / tickMs) % 30; worker < workersCount; worker += 30) {
        if (nowMs >= (silentFromMs[worker] ?? 0)) continue;
        detector.ping(nowMs, ids[worker] ?? idOf(worker), firstLife);
        naive.ping(nowMs, worker, firstLife, timing.timeoutMs);
      }
    }
    context.diagnostic(`compared ${deaths.length} deaths`);
    assert.ok(deaths.length > 2_000);
    assert.equal(new Set(deaths).size, deaths.length);
    assert.deepEqual(deaths.toSorted(), naive.deaths.toSorted());
    assert.equal(detector.monitoredCount, naive.workers.size);
  });
});
