/**
 * The last events of this node, numbered across restarts: each generation has its own range, so a reader that resumes
 * misses and repeats nothing. A gap in the numbers means that older events were evicted.
 */
import { RemusterError } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';

export type NodeEvent = {
  readonly seq: number;
  readonly time: string;
  /** Name of the node that emitted the event. */
  readonly node: string;
  readonly type: string;
  readonly [field: string]: unknown;
};

export type NodeEventLogOptions = {
  readonly clock: Clock;
  readonly node: string;
  readonly generation: number;
  readonly eventsMax?: number;
  readonly readersMax?: number;
};

export const nodeEventsMax = 10_000;
export const nodeEventReadersMax = 256;
const numbersPerGeneration = 1_000_000_000;

export class NodeEventLog {
  readonly #options: NodeEventLogOptions;
  readonly #eventsMax: number;
  readonly #readersMax: number;
  readonly #readers = new Set<(event: NodeEvent) => void>();
  /** A ring that grows up to `eventsMax`: event n of this generation is at index n modulo `eventsMax`. */
  readonly #ring: NodeEvent[] = [];
  readonly #firstSeq: number;
  #nextSeq: number;

  constructor(options: NodeEventLogOptions) {
    this.#options = options;
    this.#eventsMax = options.eventsMax ?? nodeEventsMax;
    this.#readersMax = options.readersMax ?? nodeEventReadersMax;
    this.#firstSeq = (options.generation - 1) * numbersPerGeneration + 1;
    this.#nextSeq = this.#firstSeq;
  }

  get lastSeq(): number {
    return this.#nextSeq - 1;
  }

  append(type: string, fields: Readonly<Record<string, unknown>> = {}): NodeEvent {
    const time = new Date(this.#options.clock.wallMs()).toISOString();
    const event: NodeEvent = { seq: this.#nextSeq, time, node: this.#options.node, type, ...fields };
    this.#ring[this.#indexOf(event.seq)] = event;
    this.#nextSeq += 1;
    for (const reader of this.#readers) reader(event);
    return event;
  }

  /** Retained events after number `seq`, oldest first. */
  since(seq: number, limit = this.#eventsMax): NodeEvent[] {
    const oldest = Math.max(this.#firstSeq, this.#nextSeq - this.#eventsMax, Math.floor(seq) + 1);
    const events: NodeEvent[] = [];
    for (let n = oldest; n < this.#nextSeq && events.length < limit; n++) {
      events.push(this.#ring[this.#indexOf(n)] as NodeEvent);
    }
    return events;
  }

  /** Throws CAPACITY if the log has its maximum of readers. Call it before a stream is opened. */
  assertFollowerCapacity(): void {
    if (this.#readers.size < this.#readersMax) return;
    throw new RemusterError('CAPACITY', `${this.#readersMax} readers already follow the events: close one of them`);
  }

  /** Calls `reader` for each event from now on, until cancelled. */
  follow(reader: (event: NodeEvent) => void): Cancel {
    this.assertFollowerCapacity();
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  #indexOf(seq: number): number {
    return (seq - this.#firstSeq) % this.#eventsMax;
  }
}
