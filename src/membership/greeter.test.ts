/** What the golden traces do not show: bounds, stale answers, and a store that fails. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeIdFrom } from '../base/ids.ts';
import type { Identity, StoreWrite } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import { Greeter } from './greeter.ts';
import { readKnownPeers } from './known-peers.ts';

const config = { seeds: [], helloIntervalMs: 1_000, silentAfterMs: 3_000, deadAfterMs: 10_000, membersMax: 200 };
const greet = { kind: 'expired', timer: { kind: 'greet' } } as const;

function node(number: number): Identity {
  const id = nodeIdFrom(Uint8Array.from({ length: 16 }, (_, i) => (i === 0 ? number : i)));
  return {
    id,
    name: `n${number}`,
    host: '10.0.0.1',
    port: 7_000 + number,
    generation: 1,
    roles: ['worker'],
    dc: 'dc1',
  };
}

function started(changes: Partial<typeof config> = {}): Greeter {
  const greeter = new Greeter(node(1), { ...config, ...changes }, new Random('greeter'));
  greeter.step(0, { kind: 'start', remembered: [] });
  return greeter;
}

function meet(greeter: Greeter, nowMs: number, numbers: readonly number[]): void {
  for (const number of numbers) greeter.step(nowMs, { kind: 'hello', from: node(number), messageId: 1n, known: [] });
}

function greeted(greeter: Greeter, nowMs: number): string[] {
  return greeter
    .step(nowMs, greet)
    .flatMap((effect) => (effect.kind === 'datagram' ? [String(effect.to.port - 7_000)] : []));
}

test('a large cluster is greeted in turns: few at a time, and all in one round', () => {
  const greeter = started();
  const numbers = Array.from({ length: 60 }, (_, i) => i + 2);
  meet(greeter, 0, numbers);
  const seen = new Set<string>();
  for (let tick = 1; tick <= 30; tick++) {
    const now = greeted(greeter, tick * 1_000);
    assert.equal(now.length, 2);
    for (const who of now) seen.add(who);
  }
  assert.equal(seen.size, 60);
});

test('patience grows with the length of a round', () => {
  const greeter = started();
  meet(
    greeter,
    0,
    Array.from({ length: 60 }, (_, i) => i + 2),
  );
  const silent = (nowMs: number): number =>
    greeter.step(nowMs, greet).filter((effect) => effect.kind === 'event').length;
  assert.equal(silent(3_000), 0);
  assert.equal(silent(44_000), 0);
  assert.equal(silent(45_000), 60);
});

test('newcomers are greeted first, a bounded number per interval', () => {
  const greeter = started();
  const known = Array.from({ length: 20 }, (_, i) => node(i + 3));
  greeter.step(0, { kind: 'hello', from: node(2), messageId: 1n, known });
  assert.equal(greeted(greeter, 600).filter((who) => who !== '2').length, 8);
});

test('only the answer to the latest greeting proves life', () => {
  const greeter = started();
  meet(greeter, 0, [2]);
  const ids = [1_000, 2_000].map((nowMs) => {
    const hello = greeter.step(nowMs, greet).find((effect) => effect.kind === 'datagram')?.message;
    assert.ok(hello?.kind === 'hello');
    return hello.messageId;
  });
  const silentMs = (): number | undefined => greeter.views(2_500).at(-1)?.silentMs;
  greeter.step(2_100, { kind: 'helloAck', from: node(2), answers: ids[0] as bigint, known: [] });
  assert.equal(silentMs(), 2_500);
  greeter.step(2_100, { kind: 'helloAck', from: node(2), answers: ids[1] as bigint, known: [] });
  assert.equal(silentMs(), 400);
  greeter.step(2_400, { kind: 'helloAck', from: node(2), answers: ids[1] as bigint, known: [] });
  assert.equal(silentMs(), 400);
});

test('what could not be written is written again with the next tick', () => {
  const greeter = started();
  meet(greeter, 0, [2]);
  const writes = (nowMs: number): readonly StoreWrite[] =>
    greeter.step(nowMs, greet).flatMap((effect) => (effect.kind === 'remember' ? effect.writes : []));
  assert.equal(writes(1_000).length, 1);
  assert.equal(writes(2_000).length, 0, 'one write at a time');
  greeter.step(2_100, { kind: 'remembered', ok: false });
  const again = writes(3_000);
  assert.deepEqual(readKnownPeers(again.map(({ key, value }) => ({ key, value: value ?? new Uint8Array() }))), [
    node(2),
  ]);
  greeter.step(3_100, { kind: 'remembered', ok: true });
  assert.equal(writes(4_000).length, 0);
});

test('stored peers that are damaged or foreign are passed over', () => {
  const texts = ['', '{', 'null', '{"id":"x"}', JSON.stringify({ ...node(2), port: 70_000 }), JSON.stringify(node(3))];
  const entries = texts.map((text, i) => ({ key: `peer/${i}`, value: new TextEncoder().encode(text) }));
  assert.deepEqual(readKnownPeers(entries), [node(3)]);
});

test('a seed is asked with pauses that grow to a bound, for ever', () => {
  const by = { host: '10.9.9.9', port: 1 };
  const greeter = new Greeter(node(1), { ...config, seeds: [by] }, new Random('seeds'));
  greeter.step(0, { kind: 'start', remembered: [] });
  const pauses = Array.from({ length: 50 }, () => {
    const [effect] = greeter.step(0, { kind: 'introductionFailed', by });
    return effect?.kind === 'schedule' ? effect.atMs : Number.NaN;
  });
  assert.ok((pauses[0] as number) <= 500);
  assert.ok(pauses.slice(10).every((pause) => pause >= 10_000 && pause <= 20_000));
  assert.equal(greeter.joined, false);
});

test('a seed that comes to us first does not spare us from joining', () => {
  const by = { host: '10.0.0.1', port: 7_002 };
  const greeter = new Greeter(node(1), { ...config, seeds: [by] }, new Random('seeds'));
  greeter.step(0, { kind: 'start', remembered: [] });
  greeter.step(10, { kind: 'introductionFailed', by });
  meet(greeter, 20, [2]);
  const [request] = greeter.step(500, { kind: 'expired', timer: { kind: 'introduce', to: by } });
  assert.equal(request?.kind, 'request');
  const effects = greeter.step(510, { kind: 'introduced', by, self: node(2), known: [] });
  assert.ok(effects.some((effect) => effect.kind === 'joined'));
});

test('after the stop it says nothing more', () => {
  const greeter = started();
  meet(greeter, 0, [2, 3]);
  const farewell = greeter.step(10, { kind: 'stop', reason: 'done' });
  assert.deepEqual(
    farewell.map((effect) => effect.kind),
    ['remember', 'datagram', 'datagram', 'notify', 'notify'],
  );
  assert.deepEqual(greeter.step(20, { kind: 'hello', from: node(2), messageId: 2n, known: [] }), []);
  assert.deepEqual(greeter.step(30, greet), []);
});
