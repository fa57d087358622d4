/** Requests about jobs to the managers, by way of any node, and bundle upload before first use. All are idempotent. */
import { type ErrorCode, type RemusterError, isRemusterError } from '../base/errors.ts';
import type { Message } from '../messages/catalogue.ts';
import type { JobVerb } from '../messages/jobs.ts';
import type { ClusterRequest } from './retrying-request.ts';

type Limits = Pick<ClusterRequest<never>, 'attemptMs' | 'isPermanent' | 'isRetryable'>;

/** Asks the cluster, within the times of the session. */
export type SendRequest = <K extends Message['kind']>(
  question: Message,
  kind: K,
  limits: Limits,
) => Promise<Extract<Message, { readonly kind: K }>>;

/** One node is waited for so long, or half of what one question may take at all. */
const attemptMsMax = 10_000;
const storeMsMax = 30_000;
/** The managers have no room: so often it is tried again. */
const capacityRetriesMax = 5;
/** Of code that is known to be stored. */
const storedMax = 1_000;
/** A change of leaders is over soon. */
const retryable: readonly ErrorCode[] = ['NO_QUORUM', 'NOT_LEADER', 'DEADLINE', 'FENCED'];

export class JobRequests {
  readonly #ask: SendRequest;
  readonly #requestMs: number;
  readonly #stored = new Map<string, Promise<void>>();
  /** Those of them that are stored already: nobody has to wait. */
  readonly #isStored = new Set<string>();

  constructor(ask: SendRequest, requestMs: number) {
    this.#ask = ask;
    this.#requestMs = requestMs;
  }

  /** How long a node may hold a question back until there is news. */
  get longPollMs(): number {
    return Math.min(attemptMsMax, this.#requestMs) / 2;
  }

  /** Arguments and answer are JSON. */
  async send(verb: JobVerb, words: object): Promise<unknown> {
    return await this.#order(verb, JSON.stringify(words), undefined, undefined);
  }

  /** With `waitMs` the reply comes when the job has ended, at the latest after this time. */
  submit(args: string, idempotencyKey: string | undefined, waitMs: number | undefined): Promise<unknown> {
    return this.#order('submit', args, idempotencyKey, waitMs);
  }

  async #order(
    verb: JobVerb,
    args: string,
    idempotencyKey: string | undefined,
    waitMs: number | undefined,
  ): Promise<unknown> {
    const request = { kind: 'jobRequest', verb, args, hops: 0, submitter: '', waitMs, idempotencyKey } as const;
    const attemptMs = Math.min(attemptMsMax, this.#requestMs);
    const { answer } = await this.#ask(request, 'jobReply', {
      attemptMs,
      isRetryable: mayPass,
      isPermanent: isHopeless,
    });
    return JSON.parse(answer) as unknown;
  }

  /** `work` names this code; it is stored first, and once more if the managers do not have it after all. */
  async withBundle<T>(sha256: string, code: Uint8Array, work: () => Promise<T>): Promise<T> {
    if (!this.#isStored.has(sha256)) await this.#store(sha256, code);
    try {
      return await work();
    } catch (error) {
      if (!isRemusterError(error, 'UNKNOWN_BUNDLE')) throw error;
      this.#forget(sha256);
      await this.#store(sha256, code);
      return await work();
    }
  }

  /** Once at a time, and not again within this session. */
  async #store(sha256: string, code: Uint8Array): Promise<void> {
    const known = this.#stored.get(sha256);
    if (known !== undefined) return await known;
    const [oldest] = this.#stored.keys();
    if (this.#stored.size >= storedMax && oldest !== undefined) this.#forget(oldest);
    const attemptMs = Math.max(storeMsMax, this.#requestMs);
    const stored = this.#ask({ kind: 'storeBundle', sha256, code }, 'storeBundleReply', {
      attemptMs,
      isRetryable: mayPass,
      isPermanent: isHopeless,
    });
    const storing = stored.then(() => undefined);
    this.#stored.set(sha256, storing);
    try {
      await storing;
      if (this.#stored.get(sha256) === storing) this.#isStored.add(sha256);
    } catch (error) {
      this.#forget(sha256);
      throw error;
    }
  }

  #forget(sha256: string): void {
    this.#stored.delete(sha256);
    this.#isStored.delete(sha256);
  }
}

function mayPass({ code }: RemusterError): boolean {
  return retryable.includes(code);
}

function isHopeless({ code }: RemusterError, times: number): boolean {
  return code === 'CAPACITY' && times >= capacityRetriesMax;
}
