/**
 * Serves registry requests on a manager: writes through the log, reads behind a read barrier, stale reads and watches
 * from the replica. Redirects to the leader if it does not lead.
 */
import { type Done, RemusterError, isRemusterError, success } from '../../base/errors.ts';
import type { Address, Cancel, Clock, Identity } from '../../base/ports.ts';
import type { NodeId } from '../../base/ids.ts';
import type { RegistryTransaction } from '../../base/registry.ts';
import { validateLease, validateLimit, validateRange, validateWatchStart } from '../../base/registry-validation.ts';
import type { GroupHandle } from '../../consensus/state/state-machine.ts';
import { type Message, encodeMessage } from '../../messages/catalogue.ts';
import type { RegistryMessage } from '../../messages/registry.ts';
import { LeaseKeeper } from './lease-keeper.ts';
import type { RegistryReplica } from '../replica/registry-replica.ts';
import { ByteSlab } from '../keyspace/byte-slab.ts';
import { WatchServer } from './watch-server.ts';
import {
  type LocalWrite,
  type RegistryMessageOf,
  type RegistryRefusal,
  type RegistryWriteResult,
  registryRefusalOf,
} from '../registry-messages.ts';

export type RegistryServerParts = {
  readonly clock: Clock;
  readonly group: GroupHandle<RegistryWriteResult>;
  readonly replica: RegistryReplica;
  /** The current address of a manager, if it is known better than by the group configuration. */
  readonly addressOf?: (id: NodeId) => Address | undefined;
  readonly pendingMax?: number;
  readonly watchesMax?: number;
};

type Reply = (message: RegistryMessage) => void;
type RangeRequest = RegistryMessageOf<'registryRange'>;
type Write = RegistryMessageOf<'registryTransact' | 'registryGrant' | 'registryRevoke'>;

const remainingMsMax = 60_000;
/** After so long without a leader the waiting watches are closed. */
const leaderlessMs = 2_000;

export class RegistryServer {
  readonly #parts: RegistryServerParts;
  readonly #leases: LeaseKeeper;
  readonly #watches: WatchServer;
  readonly #stop: readonly Cancel[];
  readonly #slab = new ByteSlab();
  readonly #pendingMax: number;
  #pending = 0;
  /** Reads that share the next read barrier. */
  #reads: { readonly request: RangeRequest; readonly reply: Reply; readonly remainingMs: number }[] = [];
  #barrierPending = false;

  constructor(parts: RegistryServerParts) {
    this.#parts = parts;
    this.#pendingMax = parts.pendingMax ?? 16_384;
    this.#leases = new LeaseKeeper(parts);
    const watches = new WatchServer(parts.clock, parts.replica.keyspace, parts.watchesMax ?? 8_192);
    this.#watches = watches;
    this.#stop = [
      parts.replica.observe({
        changed: () => watches.changed(),
        granted: () => {},
        ended: () => {},
        replaced: () => watches.changed(),
      }),
      parts.group.leadership.watch({ changed: ({ leader }) => leader === undefined && this.#onLeaderLost() }),
    ];
  }

  /** Current load, for the status page. */
  get load(): { readonly pending: number; readonly watches: number; readonly leases: number } {
    return { pending: this.#pending, watches: this.#watches.size, leases: this.#leases.size };
  }

  /** `body` is the encoded message, valid only during the call: the log holds a write exactly as it was sent. */
  handle(
    from: Pick<Identity, 'id' | 'generation'>,
    message: RegistryMessage,
    body: Uint8Array,
    remainingMs: number,
    done: Done<Uint8Array>,
  ): void {
    const timeoutMs = Math.min(remainingMs, remainingMsMax);
    if (message.kind === 'registryWatch')
      return this.#watch(message, timeoutMs, (response) => done(encodeReply(response)));
    if (this.#pending >= this.#pendingMax)
      return done(encodeReply(registryRefusalOf('CAPACITY', `this manager has ${this.#pendingMax} pending requests`)));
    this.#pending += 1;
    const reply: Reply = (response) => {
      this.#pending -= 1;
      done(encodeReply(response));
    };
    if (message.kind === 'registryRange') return this.#range(message, timeoutMs, reply);
    if (message.kind === 'registryKeepAlive') return this.#keepAlive(message, timeoutMs, reply);
    if ('client' in message) return this.#write(from, message, body, timeoutMs, reply);
    reply(registryRefusalOf('UNKNOWN_METHOD', `${message.kind} is not a request`));
  }

  /** Like `handle` for a write of this node, which need not be decoded. */
  transactLocal(
    from: Pick<Identity, 'id' | 'generation'>,
    write: LocalWrite,
    body: Uint8Array,
    remainingMs: number,
    done: Done<Uint8Array | Message>,
  ): void {
    if (this.#pending >= this.#pendingMax)
      return done(encodeReply(registryRefusalOf('CAPACITY', `this manager has ${this.#pendingMax} pending requests`)));
    this.#pending += 1;
    const reply: Reply = (response) => {
      this.#pending -= 1;
      done(hasNoEntries(response) ? success(response) : encodeReply(response));
    };
    this.#write(from, write.numbered, body, Math.min(remainingMs, remainingMsMax), reply, write.transaction);
  }

  close(): void {
    for (const stop of this.#stop) stop();
    this.#leases.close();
    this.#watches.close(new RemusterError('DRAINED', 'this manager is stopping', 'no'));
  }

  #write(
    from: Pick<Identity, 'id' | 'generation'>,
    message: Write,
    body: Uint8Array,
    timeoutMs: number,
    reply: Reply,
    transaction?: RegistryTransaction,
  ): void {
    if (message.client !== from.id || message.generation !== from.generation)
      return reply(registryRefusalOf('FORBIDDEN', 'the write carries the client id of another node'));
    const { group, replica } = this.#parts;
    // The body belongs to the transport after this call.
    const command = this.#slab.copy(body);
    replica.expectCommand(command, message, transaction);
    group.propose(command, timeoutMs, (outcome) => {
      replica.forgetExpected(command);
      reply(outcome.ok ? outcome.value.result : this.#refusal(outcome.error));
    });
  }

  #range(request: RangeRequest, remainingMs: number, reply: Reply): void {
    const fault = validateRange(request) ?? validateLimit(request.limit);
    if (fault !== undefined) return reply(this.#refusal(fault));
    if (request.stale) return reply(this.#readRange(request));
    this.#reads.push({ request, reply, remainingMs });
    if (!this.#barrierPending) this.#startBarrier();
  }

  /** One barrier serves all reads that arrived before it started; later reads need the next one. */
  #startBarrier(): void {
    const reads = this.#reads;
    if (reads.length === 0) return;
    this.#reads = [];
    this.#barrierPending = true;
    const timeoutMs = reads.reduce((most, { remainingMs }) => Math.max(most, remainingMs), 0);
    this.#parts.group.readBarrier(timeoutMs, (outcome) => {
      this.#barrierPending = false;
      for (const { request, reply } of reads)
        reply(outcome.ok ? this.#readRange(request) : this.#refusal(outcome.error));
      this.#startBarrier();
    });
  }

  #readRange({ from, to, limit }: RangeRequest): RegistryMessage {
    return { kind: 'registryRangeReply', ...this.#parts.replica.keyspace.range({ from, to }, limit) };
  }

  #keepAlive({ lease }: RegistryMessageOf<'registryKeepAlive'>, timeoutMs: number, reply: Reply): void {
    const fault = validateLease(lease);
    if (fault !== undefined) return reply(this.#refusal(fault));
    this.#leases.keepAlive(lease, timeoutMs, (outcome) => {
      if (outcome.ok) reply({ kind: 'registryLeaseReply', lease, ttlMs: outcome.value.ttlMs });
      else reply(this.#refusal(outcome.error));
    });
  }

  #watch(request: RegistryMessageOf<'registryWatch'>, timeoutMs: number, reply: Reply): void {
    const { from, to, fromRevision: revision, epoch } = request;
    const start = { revision, epoch };
    const range = { from, to };
    const fault = validateRange(range) ?? validateWatchStart(start);
    if (fault !== undefined) return reply(this.#refusal(fault));
    // A manager without a leader may lag behind: another manager serves the watch better.
    if (this.#parts.group.leadership.view().leader === undefined)
      return reply(registryRefusalOf('NO_QUORUM', 'this manager has no leader', 'no'));
    const waitMs = Math.min(request.waitMs, timeoutMs);
    this.#watches.watch({ range, start, waitMs }, (outcome) => {
      reply(outcome.ok ? outcome.value : this.#refusal(outcome.error));
    });
  }

  /** An isolated manager receives no changes: after a while other managers serve its watches. */
  #onLeaderLost(): void {
    this.#parts.clock.schedule(leaderlessMs, () => {
      if (this.#parts.group.leadership.view().leader !== undefined) return;
      this.#watches.close(new RemusterError('NO_QUORUM', 'this manager has no leader', 'no'));
    });
  }

  #refusal(error: RemusterError): RegistryRefusal {
    const refusal = registryRefusalOf(error.code, error.message, error.stateChanged);
    return error.code === 'NOT_LEADER' ? { ...refusal, ...this.#leaderHint() } : refusal;
  }

  #leaderHint(): Partial<RegistryRefusal> {
    const { leader, members, self } = this.#parts.group.view();
    if (leader === undefined || self === 'leader') return {};
    const place = this.#parts.addressOf?.(leader) ?? members.find(({ id }) => id === leader);
    return place === undefined ? {} : { leader, host: place.host, port: place.port };
  }
}

/** A reply with entries must be encoded, because the entries belong to the key space. */
function hasNoEntries(response: RegistryMessage): boolean {
  return response.kind === 'registryTransactReply' && response.results.every(({ entries }) => entries === undefined);
}

function encodeReply(message: RegistryMessage): ReturnType<typeof success<Uint8Array>> {
  try {
    return success(encodeMessage(message));
  } catch (error) {
    if (!isRemusterError(error)) throw error;
    return success(encodeMessage(registryRefusalOf('INTERNAL', `the reply cannot be encoded: ${error.message}`)));
  }
}
