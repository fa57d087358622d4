/**
 * Named counters that only grow. Every rejection has a counter `rejected.<reason>`, so that an operator can distinguish
 * an attack from a misconfiguration.
 */

export type Rejection =
  | 'malformed'
  | 'unauthenticated'
  | 'wrongCluster'
  | 'wrongRecipient'
  | 'unknownKey'
  | 'version'
  | 'replayed'
  | 'tooOld'
  | 'reflected'
  | 'staleGeneration'
  | 'unproven'
  | 'tooLarge'
  | 'rateLimited'
  | 'role'
  | 'capacity'
  | 'handshakeTimeout'
  | 'handshakeLimit'
  | 'connectionLimit'
  | 'reassembly'
  | 'decompression'
  | 'self';

export class TransportCounters {
  readonly #values = new Map<string, number>();
  /** Plain fields, because they change with each message. */
  readonly traffic = {
    'messages.received': 0,
    'messages.sent': 0,
    'frames.received': 0,
    'frames.sent': 0,
    'bytes.received': 0,
    'bytes.sent': 0,
    'datagrams.received': 0,
    'datagrams.sent': 0,
  };

  add(name: string, amount = 1): void {
    this.#values.set(name, (this.#values.get(name) ?? 0) + amount);
  }

  reject(reason: Rejection): void {
    this.add(`rejected.${reason}`);
  }

  snapshot(): Readonly<Record<string, number>> {
    const all = [...this.#values, ...Object.entries(this.traffic)];
    return Object.fromEntries(all.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}
