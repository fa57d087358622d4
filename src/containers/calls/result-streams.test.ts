/** Result streams over simulated connections: from a local owner, a remote owner, and through another node. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RemusterError, isRemusterError, success } from '../../base/errors.ts';
import type { Identity, Streams } from '../../base/ports.ts';
import { decodeMessage } from '../../messages/catalogue.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import { SimulatedWorld } from '../../simulation/world/simulated-world.ts';
import type { CallOutput, ContainerHosting } from '../contract.ts';
import { CallRouter } from './call-router.ts';
import { FakeAddressTable } from '../../../test/fakes/fake-address-table.ts';
import { idOf, poolOf } from '../../../test/support/containers/call-harness.ts';
import { ResultFrameReader, ResultFrameSender, resultFrameKinds } from './result-frames.ts';
import { readResultStream } from './result-stream-reader.ts';
import { routeToWire } from './call-messages.ts';

type Program = {
  readonly calls: CallRouter;
  readonly streams: Streams;
  readonly identity: Identity;
  readonly log: string[];
};

const pool = poolOf(3);

/** Yields that many numbers, each with some ballast. */
async function* numbers(log: string[], count: number, ballast: number): AsyncGenerator<Uint8Array> {
  try {
    for (let i = 0; i < count; i++) {
      log.push(`made ${i}`);
      if (i === 666 && count === 700) throw new RemusterError('CALL_FAILED', 'the number of the beast');
      yield encodeValue([i, 'x'.repeat(ballast)]);
    }
  } finally {
    log.push('ended');
  }
}

class Cluster {
  readonly world: SimulatedWorld<Program>;

  constructor() {
    this.world = new SimulatedWorld<Program>({
      seed: 'flows',
      names: ['a', 'b', 'c'],
      boot: (ports, { index, name, host, boots, random }) => {
        const identity = {
          id: idOf(index),
          name,
          host,
          port: 7,
          generation: boots,
          roles: ['worker'],
          dc: 'x',
        } as const;
        const { streams } = ports.listen(identity, 'test');
        const table = new FakeAddressTable();
        table.known.set(pool.name, pool);
        for (let container = 0; container < 3; container++) table.addOwnerHint(pool, container, idOf(container), 1);
        const log: string[] = [];
        const calls = new CallRouter(
          {
            self: identity,
            clock: ports.clock,
            random,
            streams,
            table,
            hosting: hostingOf(index, log),
            addressOf: (node) => ({ host: this.world.host(this.world.names[Number(node)] ?? '').address, port: 7 }),
            nodeByName: () => undefined,
            isAlive: () => true,
            modules: { get: () => undefined },
            count: () => {},
          },
          { streamsMax: 2 },
        );
        streams.serve({
          request: (from, body, remainingMs, reply) => void calls.handle(from, decodeMessage(body), remainingMs, reply),
          notify: () => {},
          open: (from, opening, stream) => {
            const message = decodeMessage(opening);
            assert.ok(message.kind === 'openResultStream');
            return calls.openedResultStream(from, message, stream);
          },
        });
        return { calls, streams, identity, log };
      },
    });
    this.world.startAll();
  }

  at(name: string): Program {
    return this.world.program(name) ?? assert.fail(`${name} is down`);
  }

  /** Runs time and promises until the promise is settled. */
  async settled<T>(pending: Promise<T>, withinMs = 120_000): Promise<T> {
    let isSettled = false;
    const watched = pending.finally(() => (isSettled = true));
    watched.catch(() => {});
    const untilMs = this.world.timeline.nowMs + withinMs;
    while (!isSettled && this.world.timeline.nowMs < untilMs) {
      this.world.timeline.step();
      await new Promise(setImmediate);
    }
    assert.ok(isSettled, 'it was not settled in time');
    return await watched;
  }

  async stream(
    at: string,
    container: number,
    args: readonly unknown[],
    timeoutMs = 60_000,
  ): Promise<AsyncIterable<unknown>> {
    const session = this.at(at).calls.session('app');
    const call = { pool: 'visits', method: 'numbers', args, route: { id: container } };
    return (await this.settled(session.call(call, { timeoutMs }))) as AsyncIterable<unknown>;
  }

  async all(stream: AsyncIterable<unknown>): Promise<number[]> {
    const read = async (): Promise<number[]> => {
      const items: number[] = [];
      for await (const item of stream) items.push((item as [number])[0]);
      return items;
    };
    return await this.settled(read());
  }
}

function hostingOf(index: number, log: string[]): ContainerHosting {
  return {
    changed: () => {},
    call: (call, done) => {
      const [count, ballast] = decodeValue(call.args) as [number, number];
      const isOwn = call.container === index;
      const output: CallOutput =
        isOwn && call.method === 'numbers' ? { stream: numbers(log, count, ballast) } : { value: encodeValue([index]) };
      done(success(output));
      return () => void log.push('cancelled');
    },
    callStatus: () => 'running',
    lowestOpen: () => index,
    containers: () => [],
    stop: (done) => done(success(undefined)),
  };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

describe('a result stream', () => {
  test('arrives complete and in order, from a local and a remote owner', async () => {
    const cluster = new Cluster();
    for (const container of [0, 1]) {
      const stream = await cluster.stream('a', container, [50, 10]);
      assert.deepEqual(await cluster.all(stream), upTo(50));
    }
    assert.ok(cluster.at('b').log.includes('ended'));
  });

  test('of large items arrives, and takes no more memory than its credit', async () => {
    const cluster = new Cluster();
    const stream = await cluster.stream('a', 1, [20, 300_000]);
    const iterator = stream[Symbol.asyncIterator]();
    await cluster.settled(iterator.next());
    cluster.world.advance(2_000);
    await new Promise(setImmediate);
    const made = cluster.at('b').log.length;
    assert.ok(made <= 12, `the owner yields ${made} items for a reader that took one`);
    const rest: unknown[] = [];
    for (;;) {
      const { done, value } = await cluster.settled(iterator.next());
      if (done === true) break;
      rest.push(value);
    }
    assert.equal(rest.length, 19);
  });

  test('ends with the error of its method, after the items before it', async () => {
    const cluster = new Cluster();
    const stream = await cluster.stream('a', 1, [700, 0]);
    const seen: unknown[] = [];
    const read = async (): Promise<void> => {
      for await (const item of stream) seen.push(item);
    };
    await assert.rejects(cluster.settled(read()), (error) => isRemusterError(error, 'CALL_FAILED'));
    assert.equal(seen.length, 666);
  });

  test('ends at its owner when its reader stops', async () => {
    const cluster = new Cluster();
    const stream = await cluster.stream('a', 1, [1_000_000, 0]);
    const some = async (): Promise<void> => {
      for await (const item of stream) if ((item as [number])[0] === 20) break;
    };
    await cluster.settled(some());
    cluster.world.advance(1_000);
    for (let i = 0; i < 5; i++) await new Promise(setImmediate);
    assert.ok(cluster.at('b').log.includes('ended'));
    assert.ok(cluster.at('b').log.includes('cancelled'));
  });

  test('ends at its deadline', async () => {
    const cluster = new Cluster();
    const stream = await cluster.stream('a', 1, [1_000_000, 0], 1_999.37);
    const first = stream[Symbol.asyncIterator]();
    await cluster.settled(first.next());
    cluster.world.advance(3_000);
    const rest = async (): Promise<void> => {
      while ((await first.next()).done !== true);
    };
    await assert.rejects(cluster.settled(rest()), (error) => {
      assert.ok(isRemusterError(error, 'DEADLINE'));
      assert.match(error.message, /within 1999 ms/);
      return true;
    });
  });

  test('fails when its owner dies, and is not restarted', async () => {
    const cluster = new Cluster();
    const stream = await cluster.stream('a', 1, [1_000_000, 0]);
    const iterator = stream[Symbol.asyncIterator]();
    await cluster.settled(iterator.next());
    cluster.world.crash('b', 'kept');
    const rest = async (): Promise<void> => {
      while ((await iterator.next()).done !== true);
    };
    await assert.rejects(cluster.settled(rest()), (error) => isRemusterError(error, 'NETWORK_TIMEOUT'));
    assert.equal((await iterator.next()).done, true);
  });

  const open = (cluster: Cluster, container: number, count: number, hops = 0): AsyncIterable<Uint8Array> => {
    const { streams, identity } = cluster.at('a');
    const clock = { nowMs: () => 0, wallMs: () => 0, schedule: () => () => {} };
    const id = { session: 'client', generation: 1, counter: 1, lowestPending: 1 };
    const rest = { retryTimeoutMs: undefined, method: 'numbers', timeoutMs: 60_000, hops };
    const route = routeToWire({ id: container });
    assert.ok(identity.name === 'a');
    const opening = { kind: 'openResultStream', ...id, pool: 'visits', route, ...rest } as const;
    const at = { host: cluster.world.host('b').address, port: 7 };
    return readResultStream({ streams, clock }, at, opening, encodeValue([count, 0]));
  };
  const decoded = async function* (stream: AsyncIterable<Uint8Array>): AsyncGenerator {
    for await (const item of stream) yield decodeValue(item);
  };

  test('reaches a client through any node', async () => {
    const cluster = new Cluster();
    for (const container of [0, 1, 2])
      assert.deepEqual(await cluster.all(decoded(open(cluster, container, 30))), upTo(30));
  });

  test('of a method that is no generator has one item, its result', async () => {
    const cluster = new Cluster();
    // Sent to b as if it were the owner of 2, which it is not: the fake hosting replies with its own number.
    assert.deepEqual(await cluster.all(decoded(open(cluster, 2, 30, 1))), [1]);
  });

  test('beyond the maximum is refused', async () => {
    const cluster = new Cluster();
    const streams = upTo(2).map(() => open(cluster, 1, 1_000_000)[Symbol.asyncIterator]());
    for (const stream of streams) await cluster.settled(stream.next());
    await assert.rejects(cluster.all(open(cluster, 1, 5)), (error) => isRemusterError(error, 'CAPACITY'));
    await streams[0]?.return?.();
    cluster.world.advance(1_000);
    assert.deepEqual(await cluster.all(decoded(open(cluster, 1, 5))), upTo(5));
  });
});

describe('a frame reader', () => {
  test('reassembles frames from chunks of any size, and refuses too large ones', () => {
    const sent: number[] = [];
    const stream = { write: (chunk: Uint8Array) => (sent.push(...chunk), true), end: () => {}, abort: () => {} };
    const sender = new ResultFrameSender(stream, () => {});
    sender.send(resultFrameKinds.item, Uint8Array.of());
    sender.send(
      resultFrameKinds.end,
      Uint8Array.from({ length: 70 }, (_, i) => i),
    );
    for (const size of [1, 2, 3, 7, 1_000]) {
      const seen: (readonly [number, number])[] = [];
      const reader = new ResultFrameReader(70, (kind, bytes) => seen.push([kind, bytes.length]));
      for (let at = 0; at < sent.length; at += size) reader.take(Uint8Array.from(sent.slice(at, at + size)));
      assert.deepEqual(seen, [
        [resultFrameKinds.item, 0],
        [resultFrameKinds.end, 70],
      ]);
    }
    const small = new ResultFrameReader(69, () => {});
    assert.throws(
      () => small.take(Uint8Array.from(sent)),
      (error) => isRemusterError(error, 'TOO_LARGE'),
    );
  });
});
