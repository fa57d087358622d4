/** Transport nodes on free ports, requests and waits with deadlines. */
import { randomBytes } from 'node:crypto';
import { after } from 'node:test';

import { type ErrorCode, type Outcome } from '../../../src/base/errors.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Clock, Identity, Role, StreamService } from '../../../src/base/ports.ts';
import { openTransport, type Transport, type TransportOptions } from '../../../src/io/transport/transport.ts';

export const secret = 'x9K!mPq2$vRt7wLz4#nB';
export const otherSecret = 'j3H@fDs8%yGc1eUo6&kA';
const waitMs = 10_000;
/** The timeout of each test. */
export const testTimeout = { timeout: 30_000 };

export const realClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  schedule(delayMs, run) {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};

export function identity(name: string, more: Partial<Identity> = {}): Identity {
  const roles: readonly Role[] = ['manager', 'worker'];
  return {
    id: nodeIdFrom(randomBytes(16)),
    name,
    generation: 1,
    roles,
    dc: 'dc1',
    host: '127.0.0.1',
    port: 0,
    ...more,
  };
}

export type TransportTestNode = { readonly transport: Transport; readonly self: Identity };

export const echo: StreamService = {
  request: (_from, body, _remainingMs, reply) => reply({ ok: true, value: body }),
  notify: () => undefined,
  open: () => ({ chunk: () => undefined, writable: () => undefined, ended: () => undefined }),
};

const open: Transport[] = [];
after(() => Promise.all(open.map((transport) => transport.close())));

export async function startTransportNode(
  name: string,
  more: Partial<TransportOptions> = {},
): Promise<TransportTestNode> {
  const self = more.self ?? identity(name);
  const transport = await openTransport({
    self,
    cluster: 'test',
    bind: { host: '127.0.0.1', port: 0 },
    secrets: { current: secret, previous: [] },
    admit: () => undefined,
    clock: realClock,
    log: () => undefined,
    ...more,
  });
  open.push(transport);
  transport.streams.serve(echo);
  return { transport, self: { ...self, port: transport.port } };
}

export function sendRequest(
  from: TransportTestNode,
  to: { host: string; port: number },
  body: Uint8Array,
  timeoutMs = waitMs,
): Promise<Outcome<Uint8Array>> {
  return new Promise((resolve) => {
    from.transport.streams.request(to, body, timeoutMs, (outcome) => {
      // The body is only valid during the call.
      resolve(outcome.ok ? { ok: true, value: outcome.value.slice() } : outcome);
    });
  });
}

export function codeOf(outcome: Outcome<unknown>): ErrorCode | 'ok' {
  return outcome.ok ? 'ok' : outcome.error.code;
}

export function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

/** Polls for a condition, because no event of it can be awaited from outside the transport. */
export async function waitUntil(condition: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + waitMs;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`not within ${waitMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export function counterOf(node: TransportTestNode, name: string): number {
  return node.transport.counters()[name] ?? 0;
}
