/**
 * Job requests to the managers through any node, and the upload of bundles before their first use. All are idempotent.
 */
import { type ErrorCode, type RemusterError, isRemusterError } from '../base/errors.ts';
import type { Message } from '../messages/catalogue.ts';
import type { JobVerb } from '../messages/jobs.ts';
import type { ClusterRequest } from './retrying-request.ts';

type Limits = Pick<ClusterRequest<never>, 'attemptMs' | 'isPermanent' | 'isRetryable'>;

/** Sends a request to the cluster with the timeouts of the session. */
export type SendClusterRequest = <K extends Message['kind']>(
  request: Message,
  replyKind: K,
  limits: Limits,
) => Promise<Extract<Message, { readonly kind: K }>>;

/** Longest attempt at one node. */
const attemptMsMax = 10_000;
const storeMsMax = 30_000;
/** Attempts while the managers reply CAPACITY. */
const capacityRetriesMax = 5;
/** Remembered bundles. */
const storedMax = 1_000;
/** Errors during a change of leader. */
const retryable: readonly ErrorCode[] = ['NO_QUORUM', 'NOT_LEADER', 'DEADLINE', 'FENCED'];

export class JobRequests {
  readonly #sendRequest: SendClusterRequest;
  readonly #requestTimeoutMs: number;
  /** Uploads by hash, under way and done. */
  readonly #uploads = new Map<string, Promise<void>>();
  /** Hashes of the done ones, which need no wait. */
  readonly #stored = new Set<string>();

  constructor(sendRequest: SendClusterRequest, requestTimeoutMs: number) {
    this.#sendRequest = sendRequest;
    this.#requestTimeoutMs = requestTimeoutMs;
  }

  /** How long a node may delay a reply until something has changed. */
  get longPollMs(): number {
    return Math.min(attemptMsMax, this.#requestTimeoutMs) / 2;
  }

  /** Arguments and result travel as JSON. */
  async send(verb: JobVerb, args: object): Promise<unknown> {
    return await this.#send(verb, JSON.stringify(args), undefined, undefined);
  }

  /** With `waitMs` the reply comes when the job has ended, at the latest after this time. */
  submit(args: string, idempotencyKey: string | undefined, waitMs: number | undefined): Promise<unknown> {
    return this.#send('submit', args, idempotencyKey, waitMs);
  }

  async #send(
    verb: JobVerb,
    args: string,
    idempotencyKey: string | undefined,
    waitMs: number | undefined,
  ): Promise<unknown> {
    const request = { kind: 'jobRequest', verb, args, hops: 0, submitter: '', waitMs, idempotencyKey } as const;
    const attemptMs = Math.min(attemptMsMax, this.#requestTimeoutMs);
    const { answer } = await this.#sendRequest(request, 'jobReply', { attemptMs, isRetryable, isPermanent });
    return JSON.parse(answer) as unknown;
  }

  /** Runs a request that names this bundle: uploads it first, and again if the managers have lost it. */
  async withBundle<T>(sha256: string, code: Uint8Array, request: () => Promise<T>): Promise<T> {
    if (!this.#stored.has(sha256)) await this.#upload(sha256, code);
    try {
      return await request();
    } catch (error) {
      if (!isRemusterError(error, 'UNKNOWN_BUNDLE')) throw error;
      this.#forget(sha256);
      await this.#upload(sha256, code);
      return await request();
    }
  }

  /** One upload at a time per bundle, and one per session. */
  async #upload(sha256: string, code: Uint8Array): Promise<void> {
    const known = this.#uploads.get(sha256);
    if (known !== undefined) return await known;
    const [oldest] = this.#uploads.keys();
    if (this.#uploads.size >= storedMax && oldest !== undefined) this.#forget(oldest);
    const attemptMs = Math.max(storeMsMax, this.#requestTimeoutMs);
    const limits = { attemptMs, isRetryable, isPermanent };
    const sent = this.#sendRequest({ kind: 'storeBundle', sha256, code }, 'storeBundleReply', limits);
    const upload = sent.then(() => undefined);
    this.#uploads.set(sha256, upload);
    try {
      await upload;
      if (this.#uploads.get(sha256) === upload) this.#stored.add(sha256);
    } catch (error) {
      this.#forget(sha256);
      throw error;
    }
  }

  #forget(sha256: string): void {
    this.#uploads.delete(sha256);
    this.#stored.delete(sha256);
  }
}

function isRetryable({ code }: RemusterError): boolean {
  return retryable.includes(code);
}

function isPermanent({ code }: RemusterError, failures: number): boolean {
  return code === 'CAPACITY' && failures >= capacityRetriesMax;
}
