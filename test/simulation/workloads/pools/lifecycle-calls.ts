/**
 * Calls of one pool lifecycle, sent through the creating node and retried under the same id. Reports a history of this
 * lifecycle only.
 */
import { type CallId, formatCallId } from '../../../../src/base/ids.ts';
import type { Outcome } from '../../../../src/base/errors.ts';
import type { Random } from '../../../../src/base/random.ts';
import type { CallResult } from '../../../../src/containers/contract.ts';
import { encodeValue } from '../../../../src/messages/codec/value.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { NodeClient } from './node-client.ts';
import {
  historyKeysOf,
  targetContainersOf,
  drawCellCall,
  type PoolShape,
  replyTextsOf,
  type PlannedCellCall,
  methodCallOf,
} from './cell-calls.ts';
import type { SimulatedSession } from './client-session.ts';
import { poolNameOfLabel } from './pool-label.ts';

const timeoutsMs = [900, 3_000, 9_000];
const attemptsMax = 3;

export type LifecycleCallsOptions = {
  /** Named by its label. */
  readonly pool: PoolShape;
  /** The node that replied to its creation. */
  readonly creator: NodeClient;
  readonly session: SimulatedSession;
  readonly random: Random;
  readonly observe: WorkloadContext['observe'];
  readonly nextRequest: () => number;
  readonly acknowledged: (call: string, pool: string, containers: readonly number[] | undefined) => void;
};

type Open = { readonly id: CallId; readonly plan: PlannedCellCall; attempts: number };

export class LifecycleCalls {
  readonly #options: LifecycleCallsOptions;
  readonly #idle: () => void;
  #open = 0;
  #isDeleting = false;
  #lastRead = '';

  /** Calls `idle` each time that no call is in flight any more. */
  constructor(options: LifecycleCallsOptions, idle: () => void) {
    this.#options = options;
    this.#idle = idle;
  }

  get isIdle(): boolean {
    return this.#open === 0;
  }

  /** From now on calls may fail with UNKNOWN_POOL. */
  startDeleting(): void {
    this.#isDeleting = true;
  }

  call(): void {
    const { pool, session, random, observe } = this.#options;
    const id = session.begin();
    const plan = drawCellCall(random, pool, formatCallId(id), this.#lastRead);
    for (const { client, key } of historyKeysOf(session.name, plan))
      observe({ kind: 'called', command: { client, number: id.counter, attempt: 1, key, action: plan.action } });
    this.#open += 1;
    this.#send({ id, plan, attempts: 0 });
  }

  #send(open: Open): void {
    const { creator, session, random, nextRequest } = this.#options;
    open.attempts += 1;
    if (!creator.isAlive) return this.#close(open);
    const { id, plan } = open;
    const { method, args } = methodCallOf(plan);
    const timeoutMs = random.pick(timeoutsMs) * random.between(0.5, 1);
    const call = {
      pool: poolNameOfLabel(plan.pool.name),
      method,
      args: encodeValue(args).slice(),
      route: plan.route,
      id,
    };
    const lowestPending = session.lowestOpen;
    creator.request<CallResult>(
      {
        ...{ request: nextRequest(), timeoutMs },
        run: (core, done) => core.containers?.calls.call({ ...call, lowestPending, timeoutMs }, done),
      },
      (outcome) => this.#onOutcome(open, outcome),
    );
  }

  #onOutcome(open: Open, outcome: Outcome<CallResult> | undefined): void {
    const { pool, acknowledged } = this.#options;
    if (outcome?.ok === true) {
      if (open.plan.action.kind !== 'read')
        acknowledged(formatCallId(open.id), pool.name, targetContainersOf(open.plan));
      this.#onReply(open, outcome.value);
    } else if (outcome !== undefined) this.#onError(open, outcome.error);
    const isDone = outcome?.ok === true || open.attempts >= attemptsMax || this.#isDeleting;
    if (isDone) this.#close(open);
    else this.#send(open);
  }

  #onError({ id }: Open, { code, message }: (Outcome<never> & { ok: false })['error']): void {
    const { pool, creator, observe } = this.#options;
    const [call, isDeleting] = [formatCallId(id), this.#isDeleting];
    observe({ kind: 'creatorRefused', pool: pool.name, node: creator.name, call, code, isDeleting });
    if (!isDeleting || code !== 'UNKNOWN_POOL') observe({ kind: 'callFailed', call, code, message });
  }

  #onReply({ id, plan }: Open, result: CallResult): void {
    const { session, observe } = this.#options;
    const texts = replyTextsOf(result);
    for (const [at, { client }] of historyKeysOf(session.name, plan).entries()) {
      const returned = texts[at] ?? 'nothing';
      observe({ kind: 'replied', command: { client, number: id.counter }, returned });
      if (plan.action.kind !== 'put') this.#lastRead = returned;
    }
  }

  #close({ id }: Open): void {
    this.#options.session.close(id);
    this.#open -= 1;
    if (this.#open === 0) this.#idle();
  }
}
