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

/** A clock that the test advances. */
class ManualClock implements Pick<Clock, 'nowMs' | 'schedule'> {
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

  advance(byMs: number): void {
    this.#nowMs += byMs;
    for (const timer of this.#timers) {
      if (timer.dueMs > this.#nowMs || !this.#timers.delete(timer)) continue;
      timer.run();
    }
  }
}

type FakeSocket = {
  readonly events: SocketEvents;
  isOpen: boolean;
  isClosed: boolean;
  pending: number;
  rest: string;
};

const responses = [
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

/** Fake servers that do anything a server can do, at random. */
class FakeServers {
  readonly clock = new ManualClock();
  readonly sockets: FakeSocket[] = [];
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  readonly dial: DialSocket = (_address, events) => {
    const socket: FakeSocket = { events, isOpen: false, isClosed: false, pending: 0, rest: '' };
    this.sockets.push(socket);
    return {
      write: () => {
        assert.ok(socket.isOpen && !socket.isClosed, 'a write to a socket that is not open');
        assert.equal(socket.pending, 0, 'a request before the response to the last one');
        socket.pending += 1;
      },
      close: () => {
        socket.isClosed = true;
      },
    };
  };

  act(): void {
    const open = this.sockets.filter(({ isClosed }) => !isClosed);
    const action = this.#random.below(12);
    const socket = open[this.#random.below(Math.max(1, open.length))];
    if (socket === undefined || action === 0) this.clock.advance(this.#random.below(200));
    else if (!socket.isOpen) this.#open(socket, action);
    else if (action === 1) this.#close(socket);
    else if (action === 2) this.#send(socket, 'without a request');
    else if (socket.rest !== '') this.#sendPiece(socket);
    else if (socket.pending > 0) this.#respond(socket);
  }

  #open(socket: FakeSocket, action: number): void {
    if (action === 1) return this.#close(socket);
    socket.isOpen = true;
    return socket.events.opened();
  }

  #close(socket: FakeSocket): void {
    const error = { code: 'UNREACHABLE', message: 'reset' } as const;
    socket.isClosed = true;
    socket.events.closed(this.#random.below(2) === 0 ? error : undefined);
  }

  #respond(socket: FakeSocket): void {
    socket.rest = responses[this.#random.below(responses.length)]!;
    this.#sendPiece(socket);
  }

  #sendPiece(socket: FakeSocket): void {
    const length = 1 + this.#random.below(socket.rest.length);
    const piece = socket.rest.slice(0, length);
    socket.rest = socket.rest.slice(length);
    // Before the client reads it: it may send the next request at once.
    if (socket.rest === '') socket.pending = 0;
    this.#send(socket, piece);
  }

  #send({ events }: FakeSocket, text: string): void {
    events.read(Buffer.from(text, 'latin1'), text.length);
  }
}

async function runSeed(seed: string): Promise<Map<string, number>> {
  const random = new Random(seed);
  const servers = new FakeServers(random);
  const client = new LoadHttpClient({ clock: servers.clock, dial: servers.dial, latin1 }, limits);
  const outcomes = new Map<string, number>();
  let [requested, settled, recorded] = [0, 0, 0];
  const http = client.clientFor({ recordRequest: () => void (recorded += 1) });
  const settle = (outcome: string): void => {
    settled += 1;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  };
  const request = (): void => {
    const options: HttpOptions = random.below(3) === 0 ? { timeoutMs: 1 + random.below(500) } : {};
    const url = `http://${hosts[random.below(hosts.length)]}/`;
    requested += 1;
    http.request(url, { ...options, method: random.below(3) === 0 ? 'POST' : 'GET' }).then(
      ({ status }) => settle(String(status)),
      (error: unknown) => {
        assert.ok(isRemusterError(error), String(error));
        settle(error.code);
      },
    );
  };
  for (let i = 0; i < 400; i++) {
    if (random.below(3) === 0) request();
    else servers.act();
    assert.ok(client.connections <= limits.connectionsMax);
    assert.equal(client.connections, servers.sockets.filter(({ isClosed }) => !isClosed).length);
    if (random.below(4) === 0) await Promise.resolve();
  }
  // Deadlines end all requests.
  for (let i = 0; i < 20; i++) {
    servers.clock.advance(300);
    await Promise.resolve();
  }
  assert.equal(settled, requested, 'every request ends');
  assert.equal(recorded, requested, 'and is recorded once');
  client.close();
  assert.ok(servers.sockets.every(({ isClosed }) => isClosed));
  return outcomes;
}

describe('the HTTP client against random servers', () => {
  it('ends and records every request once, and leaks no connection', async (t) => {
    const all = new Map<string, number>();
    for (let seed = 0; seed < 300; seed++) {
      for (const [outcome, count] of await runSeed(String(seed))) all.set(outcome, (all.get(outcome) ?? 0) + count);
    }
    const seen = [...all.keys()].toSorted();
    t.diagnostic([...all].map(([outcome, count]) => `${outcome} ${count}`).join(', '));
    const codes = ['CAPACITY', 'CONNECTION_LOST', 'DEADLINE', 'MALFORMED', 'TOO_LARGE', 'UNREACHABLE'];
    assert.deepEqual(seen, ['200', '204', '302', '500', ...codes].toSorted());
  });
});
