/**
 * Answers registry requests on a manager: writes through the log, reads behind a barrier, stale reads and watches from
 * the replica. Redirects when it does not lead.
 */
import { type Done, RemusterError, isRemusterError, success } from '../../base/errors.ts';
import type { Address, Cancel, Clock, Identity } from '../../base/ports.ts';
import type { NodeId } from '../../base/ids.ts';
import type { RegistryTransaction } from '../../base/registry.ts';
import { validateLease, validateLimit, validateRange, validateWatchRevision } from '../../base/registry-validation.ts';
import type { GroupHandle } from '../../consensus/state/state-machine.ts';
import { type Message, encodeMessage } from '../../messages/catalogue.ts';
import type { RegistryMessage } from '../../messages/registry.ts';
import type { LocalWrite } from '../client/leader-request.ts';
import { LeaseKeeper } from './lease-keeper.ts';
import type { RegistryReplica } from '../replica/registry-replica.ts';
import { WatchServer } from './watch-server.ts';
import {
  type RegistryMessageOf,
  type RegistryRefusal,
  type RegistryWriteResult,
  registryRefusalOf,
} from '../registry-messages.ts';

export type RegistryServerParts = {
  readonly clock: Clock;
  readonly group: GroupHandle<RegistryWriteResult>;
  readonly replica: RegistryReplica;
  /** Where a manager is now, if that is known better than by the members of the group. */
  readonly addressOf?: (id: NodeId) => Address | undefined;
  readonly pendingMax?: number;
  readonly watchesMax?: number;
};

type Reply = (message: RegistryMessage) => void;
type Question = RegistryMessageOf<'registryRange'>;
type Write = RegistryMessageOf<'registryTransact' | 'registryGrant' | 'registryRevoke'>;

const remainingMsMax = 60_000;
const leaderlessMs = 2_000;

export class RegistryServer {
  readonly #parts: RegistryServerParts;
  readonly #leases: LeaseKeeper;
  readonly #watches: WatchServer;
  readonly #stop: readonly Cancel[];
  readonly #pendingMax: number;
  #pending = 0;
  /** Reads that wait for the next barrier; they share it. */
  #reads: { readonly question: Question; readonly reply: Reply; readonly remainingMs: number }[] = [];
  #barrierUnderWay = false;

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
      parts.group.leadership.watch({ changed: ({ leader }) => leader === undefined && this.#leaderless() }),
    ];
  }

  /** What is being answered, for people. */
  get load(): { readonly pending: number; readonly watches: number; readonly leases: number } {
    return { pending: this.#pending, watches: this.#watches.size, leases: this.#leases.size };
  }

  /** `body` is the message as it came, and only valid during the call: a write stands in the log as it was sent. */
  handle(
    from: Pick<Identity, 'id' | 'generation'>,
    message: RegistryMessage,
    body: Uint8Array,
    remainingMs: number,
    done: Done<Uint8Array>,
  ): void {
    const timeoutMs = Math.min(remainingMs, remainingMsMax);
    if (message.kind === 'registryWatch') return this.#watch(message, timeoutMs, (answer) => done(encoded(answer)));
    if (this.#pending >= this.#pendingMax)
      return done(encoded(registryRefusalOf('CAPACITY', 'too many requests wait here')));
    this.#pending += 1;
    const reply: Reply = (answer) => {
      this.#pending -= 1;
      done(encoded(answer));
    };
    if (message.kind === 'registryRange') return this.#range(message, timeoutMs, reply);
    if (message.kind === 'registryKeepAlive') return this.#keepAlive(message, timeoutMs, reply);
    if ('client' in message) return this.#write(from, message, body, timeoutMs, reply);
    reply(registryRefusalOf('UNKNOWN_METHOD', `${message.kind} is not a request`));
  }

  /** The same for a write of this very node: what it was encoded from is here, and need not be read again. */
  transactLocal(
    from: Pick<Identity, 'id' | 'generation'>,
    write: LocalWrite,
    body: Uint8Array,
    remainingMs: number,
    done: Done<Uint8Array | Message>,
  ): void {
    if (this.#pending >= this.#pendingMax)
      return done(encoded(registryRefusalOf('CAPACITY', 'too many requests wait here')));
    this.#pending += 1;
    const reply: Reply = (answer) => {
      this.#pending -= 1;
      done(holdsNothing(answer) ? success(answer) : encoded(answer));
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
      return reply(registryRefusalOf('FORBIDDEN', 'a write carries the number of another node'));
    const { group, replica } = this.#parts;
    // The body belongs to the transport after this call.
    const command = new Uint8Array(body);
    replica.expectCommand(command, message, transaction);
    group.propose(command, timeoutMs, (outcome) => {
      replica.forgetExpected(command);
      reply(outcome.ok ? outcome.value.result : this.#refusal(outcome.error));
    });
  }

  #range(question: Question, remainingMs: number, reply: Reply): void {
    const fault = validateRange(question) ?? validateLimit(question.limit);
    if (fault !== undefined) return reply(this.#refusal(fault));
    if (question.stale) return reply(this.#entries(question));
    this.#reads.push({ question, reply, remainingMs });
    if (!this.#barrierUnderWay) this.#nextBarrier();
  }

  /** One barrier serves all who came before it was set up; who comes meanwhile needs the next one. */
  #nextBarrier(): void {
    const reads = this.#reads;
    if (reads.length === 0) return;
    this.#reads = [];
    this.#barrierUnderWay = true;
    const timeoutMs = reads.reduce((most, { remainingMs }) => Math.max(most, remainingMs), 0);
    this.#parts.group.readBarrier(timeoutMs, (outcome) => {
      this.#barrierUnderWay = false;
      for (const { question, reply } of reads)
        reply(outcome.ok ? this.#entries(question) : this.#refusal(outcome.error));
      this.#nextBarrier();
    });
  }

  #entries({ from, to, limit }: Question): RegistryMessage {
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

  #watch(question: RegistryMessageOf<'registryWatch'>, timeoutMs: number, reply: Reply): void {
    const { from, to, fromRevision } = question;
    const range = { from, to };
    const fault = validateRange(range) ?? validateWatchRevision(fromRevision);
    if (fault !== undefined) return reply(this.#refusal(fault));
    // A manager that follows nobody may have missed everything since: another one knows more.
    if (this.#parts.group.leadership.view().leader === undefined)
      return reply(registryRefusalOf('NO_QUORUM', 'this manager knows of no leader', 'no'));
    const waitMs = Math.min(question.waitMs, timeoutMs);
    this.#watches.watch({ range, fromRevision, waitMs }, (outcome) => {
      reply(outcome.ok ? outcome.value : this.#refusal(outcome.error));
    });
  }

  /** A manager that is cut off learns nothing: after a while its watchers are better served elsewhere. */
  #leaderless(): void {
    this.#parts.clock.schedule(leaderlessMs, () => {
      if (this.#parts.group.leadership.view().leader !== undefined) return;
      this.#watches.close(new RemusterError('NO_QUORUM', 'this manager knows of no leader', 'no'));
    });
  }

  #refusal(error: RemusterError): RegistryRefusal {
    const refusal = registryRefusalOf(error.code, error.message, error.stateChanged);
    return error.code === 'NOT_LEADER' ? { ...refusal, ...this.#leader() } : refusal;
  }

  #leader(): Partial<RegistryRefusal> {
    const { leader, members, self } = this.#parts.group.view();
    if (leader === undefined || self === 'leader') return {};
    const place = this.#parts.addressOf?.(leader) ?? members.find(({ id }) => id === leader);
    return place === undefined ? {} : { leader, host: place.host, port: place.port };
  }
}

/** Entries in an answer are those of the key space itself, which nobody else may hold. */
function holdsNothing(answer: RegistryMessage): boolean {
  return answer.kind === 'registryTransactReply' && answer.results.every(({ entries }) => entries === undefined);
}

function encoded(message: RegistryMessage): ReturnType<typeof success<Uint8Array>> {
  try {
    return success(encodeMessage(message));
  } catch (error) {
    if (!isRemusterError(error)) throw error;
    return success(encodeMessage(registryRefusalOf('INTERNAL', `the answer cannot be sent: ${error.message}`)));
  }
}
