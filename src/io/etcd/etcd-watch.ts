/**
 * One watch on etcd. A broken stream is reopened at the next endpoint from the first revision that was not delivered.
 * Probes its endpoint, because the connections of a stopped process stay open. Ends only by cancel or compaction.
 */
import type { Cancel } from '../../base/ports.ts';
import type { KeyRange, RegistryChange, RegistryEpoch, WatchEvents, WatchStart } from '../../base/registry.ts';
import type { EtcdClient } from './etcd-client.ts';
import { type EtcdCodec, type EtcdWireEvent, wireNumber, headerOf } from './etcd-codec.ts';
import { etcdErrorIn } from './etcd-outcome.ts';

type WireWatch = {
  readonly header?: unknown;
  readonly created?: boolean;
  readonly canceled?: boolean;
  readonly cancel_reason?: string;
  readonly compact_revision?: string;
  readonly events?: readonly EtcdWireEvent[];
  /** More changes of the last revision follow: etcd splits messages that are too large. */
  readonly fragment?: boolean;
};

type WatchContext = {
  readonly client: EtcdClient;
  readonly codec: EtcdCodec;
  readonly range: KeyRange;
  readonly events: WatchEvents;
  /** For the log. */
  readonly onDisconnect: (reason: string) => void;
  readonly onEnd: () => void;
};

export class EtcdWatch {
  readonly #context: WatchContext;
  readonly #epoch: RegistryEpoch | undefined;
  /** All changes before this revision were delivered. */
  #nextRevision: number;
  /** Changes of one revision, until it is complete. */
  #pending: RegistryChange[] = [];
  #isOpen = true;
  #disconnect: Cancel = () => undefined;

  constructor(context: WatchContext, { revision, epoch }: WatchStart) {
    this.#context = context;
    this.#nextRevision = revision;
    this.#epoch = epoch;
  }

  /** Resolves when the watch has ended. */
  async run(): Promise<void> {
    const { client, onDisconnect, onEnd } = this.#context;
    const { retryDelayMsMin, retryDelayMsMax } = client.limits;
    let delayMs = retryDelayMsMin;
    while (this.#isOpen && client.isOpen) {
      const endpoint = client.endpoint;
      const before = this.#nextRevision;
      const reason = await this.#stream(endpoint);
      this.#pending = [];
      if (!this.#isOpen || !client.isOpen) break;
      onDisconnect(reason);
      client.onEndpointFailed(endpoint);
      delayMs = this.#nextRevision > before ? retryDelayMsMin : Math.min(retryDelayMsMax, delayMs * 2);
      await client.delay(delayMs);
    }
    onEnd();
  }

  cancel(): void {
    this.#isOpen = false;
    this.#disconnect();
  }

  /** Runs one stream; resolves to the reason of its end. */
  #stream(endpoint: number): Promise<string> {
    const { client, codec, range } = this.#context;
    const create = { ...codec.range(range), start_revision: String(this.#nextRevision) };
    const body = { create_request: { ...create, fragment: true, progress_notify: true } };
    return new Promise((resolve) => {
      const connection = { isUp: true };
      const end = (reason: string): void => {
        if (!connection.isUp) return;
        connection.isUp = false;
        stop();
        resolve(reason);
      };
      const line = (wire: unknown): void => {
        const reason = this.#onLine(wire);
        if (reason !== undefined) end(reason);
      };
      const stop = client.stream(endpoint, '/v3/watch', body, { line, ended: end });
      this.#disconnect = () => end('cancelled');
      void this.#probe(endpoint, connection, end);
    });
  }

  /** Probes the endpoint at intervals. The first probe reads the revision before the start of the stream. */
  async #probe(endpoint: number, connection: { readonly isUp: boolean }, end: (reason: string) => void): Promise<void> {
    const { client, codec } = this.#context;
    const startRevision = this.#nextRevision;
    const previous = startRevision > 1 ? { revision: String(startRevision - 1) } : {};
    for (let first = true; connection.isUp; first = false) {
      const body = { key: codec.absentKey, serializable: true, count_only: true, ...(first ? previous : {}) };
      const outcome = await client.attempt(endpoint, '/v3/kv/range', body);
      if (!connection.isUp) return;
      // etcd accepts a watch from exactly the compacted revision, although the deletions of that revision are lost.
      if (outcome.kind === 'refused' && outcome.etcdMessage.includes('compacted')) this.#onCompacted(startRevision + 1);
      if (outcome.kind === 'retryable') end(`the endpoint does not reply to a probe (${outcome.reason})`);
      if (connection.isUp) await client.delay(client.limits.watchCheckMs);
    }
  }

  /** Returns a reason to reconnect, or undefined. */
  #onLine(wire: unknown): string | undefined {
    if (typeof wire !== 'object' || wire === null) return 'the reply of the endpoint is not one of etcd';
    const error = etcdErrorIn(wire);
    if (error !== undefined) return error.text;
    const result = ((wire as { result?: unknown }).result ?? {}) as WireWatch;
    const { epoch } = headerOf({ header: result.header });
    // Another etcd cluster answers at this endpoint: the revisions of the first one mean nothing there.
    if (result.created === true && this.#epoch !== undefined && epoch !== this.#epoch) this.#onCompacted(1);
    else if (wireNumber(result.compact_revision) > 0) this.#onCompacted(wireNumber(result.compact_revision) + 1);
    else if (result.canceled === true) return result.cancel_reason ?? 'etcd cancelled the watch';
    else if (result.events !== undefined) this.#onEvents(result.events, result.fragment === true);
    else if (result.created !== true) this.#onProgress(headerOf({ header: result.header }).revision);
    return undefined;
  }

  /** Delivers complete revisions: the last one of a fragment is not complete. */
  #onEvents(events: readonly EtcdWireEvent[], isFragment: boolean): void {
    for (const event of events) {
      const change = this.#context.codec.change(event);
      if (this.#pending.length > 0 && modRevisionOf(change) !== this.#pendingRevision()) this.#deliver();
      this.#pending.push(change);
    }
    if (!isFragment && this.#pending.length > 0) this.#deliver();
  }

  #pendingRevision(): number {
    return modRevisionOf(this.#pending[0] as RegistryChange);
  }

  #deliver(): void {
    const changes = this.#pending;
    const revision = this.#pendingRevision();
    this.#pending = [];
    if (revision < this.#nextRevision) return;
    this.#nextRevision = revision + 1;
    this.#notify(() => this.#context.events.changed(changes, revision));
  }

  /** etcd has sent all changes up to this revision: a watch without changes does not fall behind a compaction. */
  #onProgress(revision: number): void {
    if (this.#pending.length === 0) this.#nextRevision = Math.max(this.#nextRevision, revision + 1);
  }

  #onCompacted(oldestRevision: number): void {
    if (!this.#isOpen) return;
    this.#notify(() => {
      this.#isOpen = false;
      this.#context.events.compacted(oldestRevision);
      this.#disconnect();
    });
  }

  /** In a microtask, so that an error of the listener is an uncaught exception and does not break the stream. */
  #notify(notify: () => void): void {
    queueMicrotask(() => {
      if (this.#isOpen) notify();
    });
  }
}

function modRevisionOf(change: RegistryChange): number {
  return change.kind === 'put' ? change.entry.modRevision : change.modRevision;
}
