import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import type { HttpOptions } from '../definition/http-types.ts';
import { LoadHttpClient } from './load-http-client.ts';
import { latin1 } from './node-sockets.ts';
import type { DialSocket, SocketEvents } from './socket-port.ts';

const limits = {
  connectionsMax: 4,
  waitingMax: 20,
  originsMax: 2,
  connectMs: 300,
  timeoutMs: 1_000,
  bodyBytesMax: 100,
};
const hosts = ['a', 'b', 'c'];

/** Time that passes when it is told to. */
class HandClock implements Pick<Clock, 'nowMs' | 'schedule'> {
  #nowMs = 0;
  readonly #timers = new Set<{ readonly dueMs: number; readonly run: () => void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  schedule(delayMs: number, run: () => void): () => void {
    assert.ok(Number.isFinite(delayMs) && delayMs >= 0);
    const timer = { dueMs: this.#nowMs + delayMs, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  pass(byMs: number): void {
    this.#nowMs += byMs;
    for (const timer of this.#timers) {
      if (timer.dueMs > this.#nowMs || !this.#timers.delete(timer)) continue;
      timer.run();
    }
  }
}

type PretendWire = {
  readonly events: SocketEvents;
  isOpen: boolean;
  isOver: boolean;
  unanswered: number;
  rest: string;
};

const answers = [
  'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
  'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'HTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok',
  'HTTP/1.1 302 Found\r\nlocation: http://b/x\r\ncontent-length: 0\r\n\r\n',
  'HTTP/1.1 500 Sorry\r\ncontent-length: 0\r\n\r\n',
  'HTTP/1.1 200 OK\r\n\r\nuntil the end',
  'HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n',
  'nonsense',
];

/** Whatever servers may do, at any time, one thing after the other. */
class World {
  readonly clock = new HandClock();
  readonly wires: PretendWire[] = [];
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  readonly dial: DialSocket = (_address, events) => {
    const wire: PretendWire = { events, isOpen: false, isOver: false, unanswered: 0, rest: '' };
    this.wires.push(wire);
    return {
      write: () => {
        assert.ok(wire.isOpen && !wire.isOver, 'written to a wire that is not open');
        assert.equal(wire.unanswered, 0, 'a request before the answer to the last');
        wire.unanswered += 1;
      },
      close: () => {
        wire.isOver = true;
      },
    };
  };

  happen(): void {
    const alive = this.wires.filter(({ isOver }) => !isOver);
    const what = this.#random.below(12);
    const wire = alive[this.#random.below(Math.max(1, alive.length))];
    if (wire === undefined || what === 0) this.clock.pass(this.#random.below(200));
    else if (!wire.isOpen) this.#open(wire, what);
    else if (what === 1) this.#close(wire);
    else if (what === 2) this.#say(wire, 'unasked');
    else if (wire.rest !== '') this.#goOn(wire);
    else if (wire.unanswered > 0) this.#answer(wire);
  }

  #open(wire: PretendWire, what: number): void {
    if (what === 1) return this.#close(wire);
    wire.isOpen = true;
    return wire.events.opened();
  }

  #close(wire: PretendWire): void {
    const fault = { code: 'UNREACHABLE', message: 'reset' } as const;
    wire.isOver = true;
    wire.events.closed(this.#random.below(2) === 0 ? fault : undefined);
  }

  #answer(wire: PretendWire): void {
    wire.rest = answers[this.#random.below(answers.length)]!;
    this.#goOn(wire);
  }

  #goOn(wire: PretendWire): void {
    const length = 1 + this.#random.below(wire.rest.length);
    const piece = wire.rest.slice(0, length);
    wire.rest = wire.rest.slice(length);
    // Before the client hears it: it may ask again at once.
    if (wire.rest === '') wire.unanswered = 0;
    this.#say(wire, piece);
  }

  #say({ events }: PretendWire, text: string): void {
    events.read(Buffer.from(text, 'latin1'), text.length);
  }
}

async function live(seed: string): Promise<Map<string, number>> {
  const random = new Random(seed);
  const world = new World(random);
  const client = new LoadHttpClient({ clock: world.clock, dial: world.dial, latin1 }, limits);
  const outcomes = new Map<string, number>();
  let [asked, settled, told] = [0, 0, 0];
  const http = client.clientFor({ httpEnded: () => void (told += 1) });
  const note = (outcome: string): void => {
    settled += 1;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  };
  const ask = (): void => {
    const options: HttpOptions = random.below(3) === 0 ? { timeoutMs: 1 + random.below(500) } : {};
    const url = `http://${hosts[random.below(hosts.length)]}/`;
    asked += 1;
    http.request(url, { ...options, method: random.below(3) === 0 ? 'POST' : 'GET' }).then(
      ({ status }) => note(String(status)),
      (error: unknown) => {
        assert.ok(isRemusterError(error), String(error));
        note(error.code);
      },
    );
  };
  for (let i = 0; i < 400; i++) {
    if (random.below(3) === 0) ask();
    else world.happen();
    assert.ok(client.connections <= limits.connectionsMax);
    assert.equal(client.connections, world.wires.filter(({ isOver }) => !isOver).length);
    if (random.below(4) === 0) await Promise.resolve();
  }
  // Time alone ends all of it.
  for (let i = 0; i < 20; i++) {
    world.clock.pass(300);
    await Promise.resolve();
  }
  assert.equal(settled, asked, 'every request ends');
  assert.equal(told, asked, 'and is told once');
  client.close();
  assert.ok(world.wires.every(({ isOver }) => isOver));
  return outcomes;
}

describe('whatever servers do', () => {
  it('every request ends once, is told once, and no connection is lost', async (t) => {
    const all = new Map<string, number>();
    for (let seed = 0; seed < 300; seed++) {
      for (const [outcome, count] of await live(String(seed))) all.set(outcome, (all.get(outcome) ?? 0) + count);
    }
    const seen = [...all.keys()].toSorted();
    t.diagnostic([...all].map(([outcome, count]) => `${outcome} ${count}`).join(', '));
    const codes = ['CAPACITY', 'CONNECTION_LOST', 'DEADLINE', 'MALFORMED', 'TOO_LARGE', 'UNREACHABLE'];
    assert.deepEqual(seen, ['200', '204', '302', '500', ...codes].toSorted());
  });
});
