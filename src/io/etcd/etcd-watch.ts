/**
 * One watch on etcd: reopened at the next endpoint from the first revision not seen. Probes its endpoint, because a
 * stopped process keeps its connections open. Ends only by cancel or compaction.
 */
import type { Cancel } from '../../base/ports.ts';
import type { KeyRange, RegistryChange, WatchEvents } from '../../base/registry.ts';
import type { EtcdClient } from './etcd-client.ts';
import { type EtcdCodec, type EtcdWireEvent, wireNumber, headerRevision } from './etcd-codec.ts';
import { etcdErrorIn } from './etcd-outcome.ts';

type WireWatch = {
  readonly header?: unknown;
  readonly created?: boolean;
  readonly canceled?: boolean;
  readonly cancel_reason?: string;
  readonly compact_revision?: string;
  readonly events?: readonly EtcdWireEvent[];
  /** More of the same revisions follows: etcd cuts what is too large for one message. */
  readonly fragment?: boolean;
};

type Setting = {
  readonly client: EtcdClient;
  readonly words: EtcdCodec;
  readonly range: KeyRange;
  readonly events: WatchEvents;
  /** Told why a stream ended, for the log. */
  readonly broke: (reason: string) => void;
  readonly over: () => void;
};

export class EtcdWatch {
  readonly #setting: Setting;
  /** Everything before it was delivered. */
  #nextRevision: number;
  /** Changes of the revision that is not complete yet. */
  #held: RegistryChange[] = [];
  #isOpen = true;
  #disconnect: Cancel = () => undefined;

  constructor(setting: Setting, fromRevision: number) {
    this.#setting = setting;
    this.#nextRevision = fromRevision;
  }

  /** Until the watch is over. */
  async run(): Promise<void> {
    const { client, broke, over } = this.#setting;
    const { pauseMsMin, pauseMsMax } = client.limits;
    let pauseMs = pauseMsMin;
    while (this.#isOpen && client.isOpen) {
      const endpoint = client.endpoint;
      const before = this.#nextRevision;
      const reason = await this.#connection(endpoint);
      this.#held = [];
      if (!this.#isOpen || !client.isOpen) break;
      broke(reason);
      client.failed(endpoint);
      pauseMs = this.#nextRevision > before ? pauseMsMin : Math.min(pauseMsMax, pauseMs * 2);
      await client.delay(pauseMs);
    }
    over();
  }

  cancel(): void {
    this.#isOpen = false;
    this.#disconnect();
  }

  /** One stream, to its end; resolves to why it ended. */
  #connection(endpoint: number): Promise<string> {
    const { client, words, range } = this.#setting;
    const create = { ...words.range(range), start_revision: String(this.#nextRevision) };
    const body = { create_request: { ...create, fragment: true, progress_notify: true } };
    return new Promise((resolve) => {
      const link = { isUp: true };
      const end = (reason: string): void => {
        if (!link.isUp) return;
        link.isUp = false;
        stop();
        resolve(reason);
      };
      const line = (wire: unknown): void => {
        const trouble = this.#line(wire);
        if (trouble !== undefined) end(trouble);
      };
      const stop = client.stream(endpoint, '/v3/watch', body, { line, ended: end });
      this.#disconnect = () => end('cancelled');
      void this.#check(endpoint, link, end);
    });
  }

  /** Asks the endpoint again and again, the first time at once and for the revision that the stream began after. */
  async #check(endpoint: number, link: { readonly isUp: boolean }, end: (reason: string) => void): Promise<void> {
    const { client, words } = this.#setting;
    const begun = this.#nextRevision;
    const seen = begun > 1 ? { revision: String(begun - 1) } : {};
    for (let first = true; link.isUp; first = false) {
      const body = { key: words.nothing, serializable: true, count_only: true, ...(first ? seen : {}) };
      const verdict = await client.attempt(endpoint, '/v3/kv/range', body);
      if (!link.isUp) return;
      // etcd lets a watch begin exactly where it compacted, although a deletion at that revision is gone then.
      if (verdict.kind === 'refused' && verdict.etcdSays.includes('compacted')) this.#compacted(begun + 1);
      if (verdict.kind === 'again') end(`the endpoint is silent (${verdict.reason})`);
      if (link.isUp) await client.delay(client.limits.watchCheckMs);
    }
  }

  /** A reason to connect again, or undefined. */
  #line(wire: unknown): string | undefined {
    if (typeof wire !== 'object' || wire === null) return 'the endpoint does not speak as etcd does';
    const error = etcdErrorIn(wire);
    if (error !== undefined) return error.text;
    const result = ((wire as { result?: unknown }).result ?? {}) as WireWatch;
    if (wireNumber(result.compact_revision) > 0) this.#compacted(wireNumber(result.compact_revision) + 1);
    else if (result.canceled === true) return result.cancel_reason ?? 'etcd cancelled the watch';
    else if (result.events !== undefined) this.#take(result.events, result.fragment === true);
    else if (result.created !== true) this.#progress(headerRevision({ header: result.header }));
    return undefined;
  }

  /** Hands on what is complete: of a message that will go on, all but the last revision. */
  #take(events: readonly EtcdWireEvent[], goesOn: boolean): void {
    for (const event of events) {
      const change = this.#setting.words.change(event);
      if (this.#held.length > 0 && modRevisionOf(change) !== this.#heldRevision()) this.#deliver();
      this.#held.push(change);
    }
    if (!goesOn && this.#held.length > 0) this.#deliver();
  }

  #heldRevision(): number {
    return modRevisionOf(this.#held[0] as RegistryChange);
  }

  #deliver(): void {
    const changes = this.#held;
    const revision = this.#heldRevision();
    this.#held = [];
    if (revision < this.#nextRevision) return;
    this.#nextRevision = revision + 1;
    this.#tell(() => this.#setting.events.changed(changes, revision));
  }

  /** All up to this revision was sent: a watch that nothing happens to does not fall behind. */
  #progress(revision: number): void {
    if (this.#held.length === 0) this.#nextRevision = Math.max(this.#nextRevision, revision + 1);
  }

  #compacted(oldestRevision: number): void {
    if (!this.#isOpen) return;
    this.#tell(() => {
      this.#isOpen = false;
      this.#setting.events.compacted(oldestRevision);
      this.#disconnect();
    });
  }

  /** In a microtask: an error of the listener surfaces and does not disturb the stream. */
  #tell(tell: () => void): void {
    queueMicrotask(() => {
      if (this.#isOpen) tell();
    });
  }
}

function modRevisionOf(change: RegistryChange): number {
  return change.kind === 'put' ? change.entry.modRevision : change.modRevision;
}
